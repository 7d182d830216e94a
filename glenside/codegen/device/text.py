"""A program's kernels as one readable text: each distinct kernel once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glenside.codegen.gpu.launching import PACKED
from glenside.codegen.plan import Entry

if TYPE_CHECKING:
    from glenside.codegen.gpu.emit import Program
    from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect


@dataclass(frozen=True)
class Text:
    """The text, its entry points by name, and which of them each launch is of."""

    text: str
    entries: dict[str, Entry]
    names: list[str]


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
            # What is read of constants may be read sooner than what a kernel before has written.
            constant = tuple(str(each.name).startswith(PACKED) for each in bare.params)
            key: Any = (tvm_ffi.structural_hash(bare), kernel.local_bytes, constant)
        else:
            bare = None
            key = (kernel.source, kernel.grid, kernel.block, kernel.local_bytes, kernel.maps)
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
    entries = {kernel.name: entry_of(kernel, program, dialect) for kernel in found}
    return Text(program.text, entries, [found[number].name for number in numbers])


def entry_of(kernel: DeviceKernel, program: Program, dialect: Dialect) -> Entry:
    """How a kernel of a text is launched."""
    return Entry(
        list(kernel.grid),
        list(kernel.block),
        program.dynamic_bytes.get(kernel.name, 0),
        overlapped=dialect == "cuda",
        maps=list(kernel.maps),
    )
