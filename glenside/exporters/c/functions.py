"""A lowered program as one C function over flat memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.codegen.compile import Lowered
from glenside.codegen.plan import KernelCall, Place, PythonCall, Slot
from glenside.codegen.text.kernels import Scratch
from glenside.errors import TargetError
from glenside.exporters.c.driver import UnitFunction, UnitFunctions
from glenside.exporters.c.kernels import CKernel, c_kernels, c_type
from glenside.exporters.c.naming import distinct, identifier
from glenside.language.shape import AccessType
from glenside.language.units import find_unit, without_batch

Array = np.ndarray[Any, Any]

_ALIGN = 64

PREAMBLE = """\
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
"""

COPY = """\
/* Copies between consecutive elements and elements at strides (both in bytes). */
static void copy_strided(char *packed, char *strided, size_t element, int rank,
                         const int64_t *sizes, const int64_t *strides, int pack) {
  int64_t at[16] = {0};
  for (int k = 0; k < rank; ++k)
    if (sizes[k] == 0) return;
  for (;;) {
    if (pack)
      memcpy(packed, strided, element);
    else
      memcpy(strided, packed, element);
    packed += element;
    int k = rank - 1;
    for (; k >= 0; --k) {
      strided += strides[k];
      if (++at[k] < sizes[k]) break;
      strided -= sizes[k] * strides[k];
      at[k] = 0;
    }
    if (k < 0) return;
  }
}
"""


@dataclass
class CFunction:
    """C source of one program: ``int NAME(parameters, workspace, inputs..., outputs...)``."""

    name: str
    source: str
    workspace: int
    """Bytes that the caller provides, on a boundary of 64 bytes."""
    signature: str
    parameters: dict[int, tuple[int, Array]] = field(default_factory=dict)
    """Where each array belongs in the block of parameters: (byte offset, array)."""
    parameter_bytes: int = 0


def c_function(
    name: str,
    lowered: Lowered,
    outputs: Sequence[str],
    units: UnitFunctions | None = None,
    *,
    static: bool = False,
) -> CFunction:
    """The program ``lowered`` as C.

    :param outputs: names of its results.
    :param units: gathers the driver functions that it calls; None where it must not call any.
    :param static: the function is for its own file only.
    :raises TargetError: it has host operators, or an element type that C lacks.
    """
    return _Writer(name, lowered, outputs, units).write("static " if static else "")


class _Writer:
    def __init__(
        self, name: str, lowered: Lowered, outputs: Sequence[str], units: UnitFunctions | None
    ) -> None:
        self.name, self.plan, self.lowered = name, lowered.plan, lowered
        self.units = units
        self.lines: list[str] = []
        self.first: list[str] = []
        """What is done before everything else: constants that fill their buffers."""
        self.room = self.plan.arena
        """Bytes of the workspace that are given away."""
        self.parameters: dict[int, tuple[int, Array]] = {}
        self.parameter_bytes = 0
        # All inputs in the caller's order; the plan has those that are used.
        given = self.plan.input_types
        self.input_types = {name: dtype for name, (_, _, dtype) in given.items()}
        arguments = distinct([identifier(f"in_{name}") for name in given])
        self.input_names = dict(zip(given, arguments, strict=True))
        self.output_names = distinct([identifier(f"out_{name}") for name in outputs])
        self.addresses = [self._address(k, slot) for k, slot in enumerate(self.plan.slots)]

    def write(self, linkage: str) -> CFunction:
        source, kernels = c_kernels(self.lowered.functions, f"{self.name}_kernel")
        scratch = max((self._scratch_bytes(each) for each in kernels), default=0)
        self.scratch = self._take(scratch)
        for name, place in self.plan.inputs.items():
            self._copy(f"(char *)(uintptr_t){self.input_names[name]}", place, pack=False)
        for step in self.plan.steps:
            if isinstance(step, KernelCall):
                self._launch(step, kernels[int(step.function.rpartition("_")[2])])
            elif isinstance(step, PythonCall):
                self._call(step)
            else:
                names = ", ".join(dict.fromkeys(node.operator for node in step.nodes))
                raise TargetError(f"C source cannot hold host operators ({names})")
        for given, place in zip(self.output_names, self.plan.outputs, strict=True):
            self._copy(f"(char *){given}", place, pack=True)
        head = linkage + self._signature()
        unused = ", ".join(
            f"(void){name}" for name in ("parameters", "workspace", *self.input_names.values())
        )
        body = "".join(f"  {line}\n" for line in (*self.first, *self.lines))
        text = f"{source}\n{head} {{\n  {unused};\n{body}  return 0;\n}}\n"
        return CFunction(self.name, text, self.room, head, self.parameters, self.parameter_bytes)

    def _signature(self) -> str:
        given = [
            f"const {c_type(self.input_types[name])} *{argument}"
            for name, argument in self.input_names.items()
        ]
        results = [
            f"{c_type(place.dtype)} *{name}"
            for name, place in zip(self.output_names, self.plan.outputs, strict=True)
        ]
        arguments = ["const void *parameters", "void *workspace", *given, *results]
        return f"int {self.name}({', '.join(arguments)})"

    # --- memory -----------------------------------------------------------------------------------

    def _take(self, size: int) -> int:
        at = self.room
        self.room += -(-size // _ALIGN) * _ALIGN
        return at

    def _address(self, number: int, slot: Slot) -> str:
        if slot.offset is not None:
            return f"((char *)workspace + {slot.offset})"
        if slot.fill is None:
            array = self.lowered.parameters[number]
            at = self.parameter_bytes
            self.parameters[number] = (at, array)
            self.parameter_bytes += -(-array.nbytes // _ALIGN) * _ALIGN
            return f"((char *)(uintptr_t)parameters + {at})"
        element = np.asarray(slot.fill, slot.dtype)
        at = self._take(slot.size * element.itemsize)
        address = f"((char *)workspace + {at})"
        bits = ", ".join(str(byte) for byte in element.tobytes())
        self.first.append(
            f"for (int64_t i = 0; i < {slot.size}; ++i) memcpy({address} + i * {element.itemsize}, "
            f"(unsigned char[]){{{bits}}}, {element.itemsize});"
        )
        return address

    def _scratch_bytes(self, kernel: CKernel) -> int:
        return sum(-(-_bytes(a) // _ALIGN) * _ALIGN for a in kernel.arguments if _is_scratch(a))

    # --- steps ------------------------------------------------------------------------------------

    def _launch(self, step: KernelCall, kernel: CKernel) -> None:
        scratch, arguments = self.scratch, []
        for argument in kernel.arguments:
            if isinstance(argument, Scratch):
                where = f"((char *)workspace + {scratch})"
                scratch += -(-_bytes(argument) // _ALIGN) * _ALIGN
                arguments.append(f"({c_type(argument.dtype)} *){where}")
            else:
                buffer, first, _ = step.arguments[argument]
                kind = self.plan.slots[buffer].dtype
                arguments.append(f"({c_type(kind)} *){self.addresses[buffer]} + {first}")
        self.lines.append(f"{kernel.name}({', '.join(arguments)});")

    def _copy(self, packed: str, place: Place, pack: bool) -> None:
        """Between consecutive elements and where a value lies."""
        item = np.dtype(place.dtype).itemsize
        atoms = [atom for axis in place.axes for atom in axis if atom[0] != 1]
        sizes = ", ".join(str(size) for size, _ in atoms) or "1"
        strides = ", ".join(str(stride * item) for _, stride in atoms) or "0"
        if 0 in place.shape:
            return
        if len(atoms) > 16:
            raise TargetError("C source: a value lies in memory along more than 16 strides")
        where = f"{self.addresses[place.buffer]} + {place.offset * item}"
        self.lines.append(
            f"copy_strided({packed}, {where}, {item}, {max(len(atoms), 1)}, "
            f"(int64_t[]){{{sizes}}}, (int64_t[]){{{strides}}}, {int(pack)});"
        )

    def _call(self, step: PythonCall) -> None:
        if self.units is None:
            unit = step.attributes["unit"]
            raise TargetError(f"C source cannot hold a call of {unit}: nothing runs it there")
        types = [AccessType(tuple(o), tuple(i), d) for o, i, d in step.types]
        packed = [self._packed(place) for place in step.operands]
        result = self._place_of(step.result)
        if step.operator == "call":
            self._batch(step, types, packed, result)
        else:
            self._blocked(step, types, packed, result)
        self._copy(result, step.result, pack=False)

    def _batch(
        self, step: PythonCall, types: Sequence[AccessType], packed: Sequence[str], result: str
    ) -> None:
        """One invocation for each position on the shared axes: see ``language.units.run_batch``."""
        assert self.units is not None
        batch = step.attributes["batch"]
        count = math.prod(types[0].outer[:batch])
        parameters = tuple(step.attributes["parameters"])
        each = [without_batch(of, batch) for of in types]
        function = self.units.call(step.attributes["unit"], parameters, each)
        if not batch:
            self._invoke(function, packed, result)
            return
        places = [*zip(packed, step.operands, strict=True), (result, step.result)]
        *operands, value = (
            f"{where} + g * {math.prod(of.shape[batch:]) * np.dtype(of.dtype).itemsize}"
            for where, of in places
        )
        self.lines.append(f"for (int64_t g = 0; g < {count}; ++g)")
        self._invoke(function, operands, value)
        self.lines[-1] = "  " + self.lines[-1]

    def _invoke(self, function: UnitFunction, operands: Sequence[str], result: str) -> None:
        arguments = [str(size) for size in function.sizes.values()]
        arguments += [
            f"(const {c_type(kind)} *)({each})"
            for kind, each in zip(function.operands, operands, strict=True)
        ]
        arguments.append(f"({c_type(function.result)} *)({result})")
        self.lines.append(f"{function.name}({', '.join(arguments)});")

    def _packed(self, place: Place) -> str:
        where = self._place_of(place)
        self._copy(where, place, pack=True)
        return where

    def _place_of(self, place: Place) -> str:
        """Room for a value in consecutive elements."""
        size = int(np.prod(place.shape, dtype=np.int64)) * np.dtype(place.dtype).itemsize
        return f"((char *)workspace + {self._take(size)})"

    def _blocked(
        self, step: PythonCall, types: Sequence[AccessType], packed: Sequence[str], result: str
    ) -> None:
        """A product of any size in passes over one array: see ``language.units.run_blocked``."""
        assert self.units is not None
        attributes, (a, b) = step.attributes, types
        kind = attributes["accumulate"] or a.dtype
        parameters = tuple(attributes["parameters"])
        unit = find_unit(attributes["unit"])
        assert unit.array is not None
        rows, columns = unit.array(parameters)
        shared, depth = a.outer[: attributes["batch"]], a.item[-1]
        groups = int(np.prod(shared, dtype=np.int64))
        m = int(np.prod(a.outer[len(shared) :], dtype=np.int64))
        n = int(np.prod(b.outer[len(shared) :], dtype=np.int64))
        if not groups * m * n:
            return
        function = self.units.call(
            attributes["unit"],
            parameters,
            [AccessType((m,), (rows,), kind), AccessType((), (rows, columns), kind)],
        )
        item = np.dtype(kind).itemsize
        stream, tile, done = (
            f"((char *)workspace + {self._take(size * item)})"
            for size in (m * rows, rows * columns, m * columns)
        )
        t, ta, tb = c_type(kind), c_type(a.dtype), c_type(b.dtype)
        self.lines += [
            f"memset({result}, 0, {groups * m * n * item});",
            f"for (int64_t g = 0; g < {groups}; ++g)",
            f"  for (int64_t k = 0; k < {depth}; k += {rows}) {{",
            f"    const {ta} *a = (const {ta} *)({packed[0]}) + g * {m * depth};",
            f"    const {tb} *b = (const {tb} *)({packed[1]}) + g * {n * depth};",
            f"    {t} *s = ({t} *)({stream}), *w = ({t} *)({tile}), *d = ({t} *)({done});",
            f"    for (int64_t i = 0; i < {m}; ++i)",
            f"      for (int64_t r = 0; r < {rows}; ++r)",
            f"        s[i * {rows} + r] = k + r < {depth} ? a[i * {depth} + k + r] : 0;",
            f"    for (int64_t j = 0; j < {n}; j += {columns}) {{",
            f"      for (int64_t r = 0; r < {rows}; ++r)",
            f"        for (int64_t c = 0; c < {columns}; ++c)",
            f"          w[r * {columns} + c] = k + r < {depth} && j + c < {n}"
            f" ? b[(j + c) * {depth} + k + r] : 0;",
        ]
        self._invoke(function, ["(char *)s", "(char *)w"], "(char *)d")
        self.lines[-1] = "      " + self.lines[-1]
        self.lines += [
            f"      {t} *y = ({t} *)({result}) + g * {m * n};",
            f"      for (int64_t i = 0; i < {m}; ++i)",
            f"        for (int64_t c = 0; c < {columns} && j + c < {n}; ++c)",
            f"          y[i * {n} + j + c] += d[i * {columns} + c];",
            "    }",
            "  }",
        ]


def _is_scratch(argument: int | Scratch) -> bool:
    return isinstance(argument, Scratch)


def _bytes(argument: int | Scratch) -> int:
    assert isinstance(argument, Scratch)
    return argument.size * np.dtype(argument.dtype).itemsize
