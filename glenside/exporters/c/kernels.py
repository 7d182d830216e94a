"""Kernels as C functions, written by TVM's C code generator.

TVM hands a function for the processor over in its own calling convention, which needs its runtime.
A kernel is therefore presented as a function for a *device* that happens to speak C: it is split
off with plain pointers as arguments, and nothing but the C library is needed to build it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import TargetError

_TYPES = {
    "float32": "float",
    "float64": "double",
    "bfloat16": "uint16_t",  # Its bits.
    "bool": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
}


def c_type(dtype: str) -> str:
    """The C type of an element.

    :raises TargetError: C has none.
    """
    if dtype not in _TYPES:
        raise TargetError(f"C source has no type for {dtype}: it has {', '.join(_TYPES)}")
    return _TYPES[dtype]


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel works in: ``size`` elements."""

    dtype: str
    size: int


@dataclass(frozen=True)
class CKernel:
    """A C function. ``arguments`` are positions in the parameters of the TIR function, or scratch
    memory that the caller provides."""

    name: str
    arguments: tuple[int | Scratch, ...]


def c_kernels(functions: Sequence[Any], prefix: str = "kernel") -> tuple[str, list[CKernel]]:
    """The source of all kernels, and how each is called; ``kernel_0`` is the first one.

    :param functions: TIR functions over buffers; loops are run one after the other.
    :param prefix: of the functions' names.
    """
    import tvm
    import tvm_ffi
    from tvm import tirx

    if not functions:
        return "", []
    device = tvm.target.Target({"kind": "c"})
    target = tvm.target.Target({"kind": "c"}, host={"kind": "c"})
    names = [f"{prefix}_{k}" for k in range(len(functions))]
    module = tvm.IRModule(
        {
            name: tirx.PrimFunc(
                list(function.params), tirx.AttrStmt(device, "target", 0, function.body)
            ).with_attr({"global_symbol": name, "tirx.noalias": True})
            for name, function in zip(names, functions, strict=True)
        }
    )
    pipeline, finish, _ = tirx.get_default_tir_pipeline(target)
    with tvm.transform.PassContext(config={"tirx.disable_cse_tir": True}):
        lowered = pipeline(tirx.transform.BindTarget(target)(module))
        found = {variable.name_hint: each for variable, each in lowered.functions.items()}
        split = {name: found[name + _SPLIT] for name in names}
        kernels = {
            name + _SPLIT: each.with_body(_on_cpu(each.body)) for name, each in split.items()
        }
        module = finish()(tvm.IRModule(kernels))
        source = tvm_ffi.get_global_func("target.build.c")(module, device).inspect_source()
    calls = []
    for name, function in zip(names, functions, strict=True):
        scratch = _scratch(found[name], name + _SPLIT)
        positions = {parameter.name: i for i, parameter in enumerate(function.params)}
        used = [parameter.name.removesuffix("_ptr") for parameter in split[name].params]
        arguments = (
            positions[parameter] if own is None else own
            for parameter, own in zip(used, scratch, strict=True)
        )
        calls.append(CKernel(name, tuple(arguments)))
    return _plain(str(source)), calls


_SPLIT = "_kernel"
"""What TVM appends to the name of the part it splits off."""


def _on_cpu(body: Any) -> Any:
    """Says where memory is allocated: on the first CPU (DLPack's device type 1)."""
    from tvm import tirx

    zero, cpu = tirx.const(0, "int32"), tirx.const(1, "int32")
    return tirx.AttrStmt(zero, "device_id", zero, tirx.AttrStmt(zero, "device_type", cpu, body))


def _scratch(host: Any, kernel: str) -> list[Scratch | None]:
    """For each argument of a kernel, what the part that stays on the host allocates for it."""
    import tvm_ffi
    from tvm import ir, tirx

    allocated: list[Any] = []
    calls: list[Any] = []

    def note(call: Any) -> None:
        if isinstance(call.op, ir.GlobalVar) and call.op.name_hint == kernel:
            calls.append(call)

    callbacks = [(tirx.AllocBuffer, lambda each: allocated.append(each.buffer)), (ir.Call, note)]
    tvm_ffi.structural_walk(host.body, callbacks)
    (call,) = calls
    found: list[Scratch | None] = []
    for argument in call.args:
        buffer: Any = next((b for b in allocated if b.same_as(argument.args[0])), None)
        if buffer is None:
            found.append(None)
        else:
            size = math.prod(int(extent) for extent in buffer.shape)
            found.append(Scratch(str(buffer.dtype), size))
    return found


_ALLOCATION = re.compile(
    r"(?P<type>\w+)\* (?P<name>\w+) = [^;]*TVMBackendAllocWorkspace\("
    r"[^;]*\(uint64_t\)(?P<bytes>\d+)ULL[^;]*;\n"
    r"\s*if \((?P=name) == NULL\) \{\n\s*return -1;\n\s*\}\n"
)
_RELEASE = re.compile(r" *if \([^\n]*TVMBackendFreeWorkspace[^\n]*\{\n\s*return -1;\n\s*\}\n")
_WIDTHS = {"float": 4, "double": 8}
_CONSTANTS = {r"\binff\b": "INFINITY", r"\binf\b": "((double)INFINITY)", r"\bnanf?\b(?!\()": "NAN"}
"""How TVM spells what <math.h> spells otherwise."""


def _plain(source: str) -> str:
    """The functions alone: static, under their own names, with arrays for what they allocate, and
    without TVM's headers and macros."""
    text = source[source.index("TVM_DLL") :]
    text = re.sub(r"#ifdef __cplusplus\nextern \"C\"\n#endif\n", "", text)
    text = re.sub(r"^TVM_DLL [^;{]*\);\n", "", text, flags=re.MULTILINE)  # Declarations.
    text = re.sub(rf"TVM_DLL int32_t (\w+){_SPLIT}\(", r"static int32_t \1(", text)
    text = re.sub(r"^(static int32_t \w+)\((.*)\) \{$", _restricted, text, flags=re.MULTILINE)
    text = _RELEASE.sub("", _ALLOCATION.sub(_array, text))
    for spelled, meant in _CONSTANTS.items():
        text = re.sub(spelled, meant, text)
    if "TVM" in text:
        raise AssertionError("the C source still needs TVM's runtime")
    return text.strip() + "\n"


def _array(match: re.Match[str]) -> str:
    kind = match["type"]
    width = _WIDTHS.get(kind) or int(re.sub(r"\D", "", kind)) // 8
    return f"{kind} {match['name']}[{int(match['bytes']) // width}];\n"


def _restricted(match: re.Match[str]) -> str:
    """Parameters do not overlap where one of them is written."""
    return f"{match[1]}({match[2].replace('* ', '* restrict ')}) {{"
