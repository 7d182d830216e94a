"""The driver of accelerator units in C: one function for each unit and element type.

The header is what a driver has to provide. ``glenside_simulators.c`` provides it by simulation:
where a unit computes exactly its term, that term is compiled for the sizes that a program uses;
a unit with numbers of its own is simulated in Python, through a hook.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from glenside.exporters.c.kernels import c_type
from glenside.exporters.c.naming import distinct, identifier
from glenside.hw_targets.operation import Operation, accelerator_of
from glenside.language.shape import AccessType, Shape
from glenside.language.units import find_unit

HEADER = "glenside_units.h"
SIMULATORS = "glenside_simulators.c"


@dataclass(frozen=True)
class UnitFunction:
    """A driver function, and the sizes of one invocation."""

    name: str
    unit: str
    sizes: Mapping[str, int]
    operands: tuple[str, ...]
    """Element types of the operands."""
    result: str
    """Element type of the result."""


@dataclass(frozen=True)
class Invocation:
    """Sizes for which a driver function is called."""

    parameters: Shape
    operands: tuple[AccessType, ...]
    result: AccessType
    sizes: tuple[int, ...]


@dataclass
class UnitFunctions:
    """The driver functions that a program calls, by name, with all their invocations.

    ``taken`` are names that functions must not have.
    """

    taken: tuple[str, ...] = ()
    functions: dict[str, UnitFunction] = field(default_factory=dict)
    invocations: dict[str, list[Invocation]] = field(default_factory=dict)

    def call(self, unit: str, parameters: Shape, operands: Sequence[AccessType]) -> UnitFunction:
        """The function for an invocation of a unit, which is noted.

        :raises ShapeError: the unit does not take such operands.
        """
        result = find_unit(unit).infer(parameters, list(operands))
        declared = accelerator_of(unit)
        sizes = (
            _plain_sizes(parameters, operands)
            if declared is None
            else declared.sizes(parameters, operands)
        )
        dtypes = tuple(each.dtype for each in operands)
        name = self._name(unit, dtypes)
        function = UnitFunction(name, unit, dict(sizes), dtypes, result.dtype)
        self.functions.setdefault(name, function)
        noted = Invocation(tuple(parameters), tuple(operands), result, tuple(sizes.values()))
        known = self.invocations.setdefault(name, [])
        if noted not in known:
            known.append(noted)
        return function

    def _name(self, unit: str, dtypes: tuple[str, ...]) -> str:
        for name, known in self.functions.items():
            if (known.unit, known.operands) == (unit, dtypes):
                return name
        kinds = dtypes if len(set(dtypes)) > 1 else dtypes[:1]
        name = identifier("_".join([unit, *kinds]), "unit")
        return distinct([name], {*self.taken, *self.functions})[0]

    def header(self) -> str:
        """C declarations of all functions, each with what the unit's declaration says."""
        parts = [
            "/* What a driver of these accelerators provides. Arrays are row-major: the axes of\n"
            "   an operand are its outer axes and then its item axes. */",
            "#ifndef GLENSIDE_UNITS_H\n#define GLENSIDE_UNITS_H\n\n#include <stdbool.h>\n"
            '#include <stdint.h>\n\n#ifdef __cplusplus\nextern "C" {\n#endif',
        ]
        for function in self.functions.values():
            comment = _comment(function, accelerator_of(function.unit), self._example(function))
            parts.append(f"{comment}\n{signature(function)};")
        parts.append("#ifdef __cplusplus\n}\n#endif\n#endif")
        return "\n\n".join(parts) + "\n"

    def _example(self, function: UnitFunction) -> Invocation:
        return self.invocations[function.name][0]


def signature(function: UnitFunction) -> str:
    """``void NAME(sizes..., operands..., result)``."""
    arguments = [f"int64_t {name}" for name in size_names(function)]
    arguments += [
        f"const {c_type(kind)} *{name}"
        for kind, name in zip(function.operands, operand_names(function), strict=True)
    ]
    arguments.append(f"{c_type(function.result)} *result")
    return f"void {function.name}({', '.join(arguments)})"


def size_names(function: UnitFunction) -> list[str]:
    """What the sizes are called in C."""
    return _argument_names(function)[: len(function.sizes)]


def operand_names(function: UnitFunction) -> list[str]:
    """What the operands are called in C: as the declaration does where that is possible."""
    return _argument_names(function)[len(function.sizes) :]


def _argument_names(function: UnitFunction) -> list[str]:
    declared = accelerator_of(function.unit)
    plain = [f"operand{i}" for i in range(len(function.operands))]
    names = [*function.sizes, *(plain if declared is None else declared.operands)]
    return distinct([identifier(name, "argument") for name in names], (function.name,))


def _plain_sizes(parameters: Shape, operands: Sequence[AccessType]) -> dict[str, int]:
    """The sizes of a unit that no declaration names: its parameters, then the operands' axes."""
    sizes = {f"parameter{i}": value for i, value in enumerate(parameters)}
    for i, operand in enumerate(operands):
        sizes |= {f"operand{i}_axis{j}": length for j, length in enumerate(operand.shape)}
    return sizes


def _comment(function: UnitFunction, declared: Operation | None, example: Invocation) -> str:
    if declared is None:
        text = f"{function.unit}, for example {', '.join(map(str, example.operands))}"
        text += f" -> {example.result}"
        return f"/* {text} */"
    lines = declared.description()
    wrapped = [part for line in lines for part in textwrap.wrap(line, 92, subsequent_indent="  ")]
    return "/* " + "\n   ".join(wrapped) + " */"
