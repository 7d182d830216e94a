"""A program's kernels as one readable text: each distinct kernel once, pragmas first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glenside.codegen.gpu.launching import (
    AFTER_EARLIER,
    COPIES_BEGUN,
    COPIES_DONE,
    COPY,
    PACKED,
)
from glenside.codegen.plan import Entry

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect

_PRAGMA = "#pragma OPENCL EXTENSION {} : enable\n"
_EXTENSIONS = (("half", "cl_khr_fp16"), ("double", "cl_khr_fp64"))
_GUARD = re.compile(r"^#ifdef cl_khr_fp\d\d\n.*?^#endif *\n", re.DOTALL | re.MULTILINE)
_DECLARATION = re.compile(r'^(?:extern "C" __global__|__kernel) [^{}\n]*\);\n', re.MULTILINE)
_ENTRY = re.compile(r"^(__kernel [^{}]*\) \{\n)(.*?^\}\n)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"^// Function: .*\n", re.MULTILINE)
_CUDA_ENTRY = re.compile(r'^extern "C" __global__ void [^{}]*\{\n', re.MULTILINE)
_POINTER = re.compile(r"(const )?\w+\* __restrict__ (\w+)")
_CALL = f"{AFTER_EARLIER}();"
_WAIT = f"""
// A launch may begin while the one before it ends: before it touches what others wrote, it waits.
static __device__ __forceinline__ int {AFTER_EARLIER}() {{
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  return 0;
}}

"""
_COPY = """
// Copies to shared memory in the background; zeros where there is nothing to copy.
static __device__ __forceinline__ int {copy}(void* to, const void* from, int there) {{
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.{kind}.shared.global [%0], [%1], {width}, %2;" ::
               "r"(place), "l"(from), "r"(there ? {width} : 0) : "memory");
  return 0;
}}

"""
_BEGUN = f"""
static __device__ __forceinline__ int {COPIES_BEGUN}() {{
  asm volatile("cp.async.commit_group;" ::: "memory");
  return 0;
}}

"""
_DONE = """
static __device__ __forceinline__ int {done}() {{
  asm volatile("cp.async.wait_group {count};" ::: "memory");
  return 0;
}}

"""


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


def print_kernels(
    kernels: Sequence[DeviceKernel],
    limits: DeviceLimits,
    dialect: Dialect,
    progress: Callable[[int, int], None] | None = None,
) -> Text:
    """One source text for all launches.

    :param progress: called with (kernels done, kernels in all); what it raises ends the work.
    :raises TargetError: a kernel goes beyond the device's limits, or has no code for devices.
    """
    from glenside.codegen.gpu.emit import emit

    found, numbers = distinct(kernels)
    program = emit(found, dialect, limits, progress)
    entries = {
        entry.name: Entry(
            list(kernel.grid),
            list(kernel.block),
            entry.dynamic_bytes,
            overlapped=dialect == "cuda",
            maps=list(kernel.maps),
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
    """The text without forward declarations; in OpenCL C, extensions are enabled first of all; in
    CUDA C++, kernels wait themselves for those before them."""
    text = _DECLARATION.sub("", _COMMENT.sub("", text))
    pragmas = ""
    if dialect == "opencl":
        text = _with_named_ids(_GUARD.sub("", text))
        for word, extension in _EXTENSIONS:
            if re.search(rf"\b{word}\d*\b", text):
                pragmas += _PRAGMA.format(extension)
    else:
        text = _waiting(text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip("\n")
    return f"{pragmas}\n{text}\n".lstrip("\n") if text else ""


def _waiting(text: str) -> str:
    """Every kernel waits for those launched before it: where it says so itself, else first of all.

    That is what lets them be launched early (:attr:`Entry.overlapped`): whoever waits for a kernel
    then also waits for all before it. They take their places as groups of the one before end. Let
    in sooner, beside groups that are still at work, they are spread unevenly over the compute
    units: on an H200 most kernels then took longer.
    """
    starts = list(_CUDA_ENTRY.finditer(text))
    if not starts:
        return text
    parts = [text[: starts[0].start()], _WAIT, *_functions(text)]
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        body = text[start.end() : following.start() if following else len(text)]
        parts.append(_parameters(start[0], body))
        parts += [body] if _CALL in body else [f"  {_CALL}\n", body]
    return "".join(parts)


def _functions(text: str) -> list[str]:
    """The functions that kernels call, of those that there are."""
    made = []
    for width in (4, 8, 16):
        copy = COPY.format(width)
        if f"{copy}(" in text:
            made.append(_COPY.format(copy=copy, width=width, kind="cg" if width == 16 else "ca"))
    if f"{COPIES_BEGUN}(" in text:
        made.append(_BEGUN)
    for count in range(3):
        done = COPIES_DONE.format(count)
        if f"{done}(" in text:
            made.append(_DONE.format(done=done, count=count))
    return made


def _parameters(head: str, body: str) -> str:
    """A kernel's head; a pointer is said to be no other's memory only where nothing is read through
    it, or what is constant. Of any other the compiler could conclude that it does not change while
    the kernel waits, and read it before."""
    told = "const " in head

    def pointer(found: re.Match[str]) -> str:
        name = found[2]
        if told:
            kept = not found[1]
        else:
            at_start = rf"^ *(?:\*\(\w+\*\)\()?{name}\b"
            writes = len(re.findall(at_start, body, re.MULTILINE))
            kept = len(re.findall(rf"\b{name}\b", body)) == writes or name.startswith(PACKED)
        return found[0] if kept else found[0].replace(" __restrict__", "")

    return _POINTER.sub(pointer, head)


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
