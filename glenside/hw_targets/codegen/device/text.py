"""A program's kernels as one readable text: each distinct kernel once, pragmas first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glenside.hw_targets.codegen.launch import Entry

if TYPE_CHECKING:
    from glenside.hw_targets.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect

_PRAGMA = "#pragma OPENCL EXTENSION {} : enable\n"
_EXTENSIONS = (("half", "cl_khr_fp16"), ("double", "cl_khr_fp64"))
_GUARD = re.compile(r"^#ifdef cl_khr_fp\d\d\n.*?^#endif *\n", re.DOTALL | re.MULTILINE)
_DECLARATION = re.compile(r'^(?:extern "C" __global__|__kernel) void [^{}\n]*\);\n', re.MULTILINE)
_ENTRY = re.compile(r"^(__kernel void [^{}]*\) \{\n)(.*?^\}\n)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^// Function: .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Text:
    """The text, its entry points, and which arguments of a launch stand where in their parameters.

    ``names`` and ``orders`` are by launch, ``entries`` by name.
    """

    text: str
    entries: dict[str, Entry]
    names: list[str]
    orders: list[tuple[int, ...]]


def distinct(kernels: Sequence[DeviceKernel]) -> tuple[list[DeviceKernel], list[int]]:
    """The kernels that differ by more than their name, and for each of all which of them it is."""
    import tvm_ffi

    found: list[DeviceKernel] = []
    numbers: list[int] = []
    by_key: dict[Any, list[int]] = {}
    for kernel in kernels:
        bare: Any
        if kernel.function is not None:
            bare = kernel.function.without_attr("global_symbol")
            key: Any = (tvm_ffi.structural_hash(bare), kernel.local_bytes)
        else:
            bare = re.sub(rf"\b{kernel.name}\b", "", kernel.source or "")
            key = (bare, kernel.grid, kernel.block, kernel.local_bytes, kernel.maps)
        same = None
        for number in by_key.setdefault(key, []):
            other = found[number].function
            if other is None or tvm_ffi.structural_equal(other.without_attr("global_symbol"), bare):
                same = number
                break
        if same is None:
            same = len(found)
            found.append(kernel)
            by_key[key].append(same)
        numbers.append(same)
    return found, numbers


def print_kernels(kernels: Sequence[DeviceKernel], limits: DeviceLimits, dialect: Dialect) -> Text:
    """One source text for all launches.

    :raises TargetError: a kernel goes beyond the device's limits, or has no code for devices.
    """
    from glenside.hw_targets.codegen.gpu.emit import emit

    found, numbers = distinct(kernels)
    program = emit(found, dialect, limits)
    entries = {
        entry.name: Entry(
            list(kernel.grid), list(kernel.block), entry.dynamic_bytes, list(kernel.maps)
        )
        for kernel, entry in zip(found, program.entries, strict=True)
    }
    return Text(
        tidied(program.text, dialect),
        entries,
        [program.entries[number].name for number in numbers],
        [tuple(program.entries[number].order) for number in numbers],
    )


def tidied(text: str, dialect: Dialect) -> str:
    """The text without forward declarations; in OpenCL C, extensions are enabled first of all."""
    text = _DECLARATION.sub("", _COMMENT.sub("", text))
    pragmas = ""
    if dialect == "opencl":
        text = _with_named_ids(_GUARD.sub("", text))
        for word, extension in _EXTENSIONS:
            if re.search(rf"\b{word}\d*\b", text):
                pragmas += _PRAGMA.format(extension)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n")
    return f"{pragmas}\n{text}\n".lstrip("\n") if text else ""


def _with_named_ids(text: str) -> str:
    """Group and thread numbers are read once, as integers, and then called by name."""

    def entry(match: re.Match[str]) -> str:
        head, body = match[1], match[2]
        declared = ""
        for kind in ("group", "local"):
            for number, axis in enumerate("xyz"):
                call, name = f"(convert_int(get_{kind}_id({number})))", f"{kind}_{axis}"
                if call in body:
                    declared += f"  const int {name} = (int)get_{kind}_id({number});\n"
                    body = body.replace(call, name)
        return f"{head}{declared}{body}"

    return _ENTRY.sub(entry, text)
