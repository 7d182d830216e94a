"""The text of a program's kernels, in OpenCL C or CUDA C++."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect
from glenside.codegen.gpu.launching import PACKED
from glenside.codegen.text import dialects
from glenside.codegen.text.dialects import AFTER_EARLIER, DIALECTS
from glenside.codegen.text.kernels import Printed, preamble, print_kernel
from glenside.codegen.text.lowering import lowered
from glenside.errors import TargetError
from glenside.interrupt import in_background


@dataclass(frozen=True)
class Program:
    """The text of several kernels."""

    text: str
    dynamic_bytes: Mapping[str, int]
    """By kernel: the local memory that is asked for at the launch."""
    accesses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By kernel, in checked text: what the numbers of accesses mean."""


Progress = Callable[[int, int], None]
"""Called with (kernels done, kernels in all)."""

_PIECE = 8
"""Kernels that are lowered at a time; Ctrl-C and limits are looked at in between."""


def emit(
    kernels: Sequence[DeviceKernel],
    dialect: Dialect,
    limits: DeviceLimits,
    progress: Progress | None = None,
    *,
    checked: bool = False,
) -> Program:
    """The text of kernels, whose names differ.

    :param progress: called in between; what it raises ends the work.
    :param checked: every access is looked at (:func:`~glenside.codegen.text.dialects.checked`);
        only kernels of TIR can be.
    :raises TargetError: a kernel goes beyond the device's limits.
    """
    for kernel in kernels:
        limits.check(kernel)
    language = DIALECTS[dialect]
    language = dialects.checked(language) if checked else language
    made = [kernel for kernel in kernels if kernel.function is not None]
    written = [kernel for kernel in kernels if kernel.source is not None]
    printed: dict[str, Printed] = {}
    for first in range(0, len(made), _PIECE):
        if progress:
            progress(first, len(made))
        printed |= in_background(_printed, made[first : first + _PIECE], language, limits)
    needs = {need for each in printed.values() for need in each.needs}
    if any(AFTER_EARLIER in kernel.text for kernel in written):
        needs.add(AFTER_EARLIER)
    library = dict.fromkeys(part for kernel in written for part in kernel.library)
    parts = [
        *library,
        preamble(needs, language),
        *(each.text for each in printed.values()),
        *(kernel.text for kernel in written),
    ]
    return Program(
        "\n".join(part.strip("\n") + "\n" for part in parts if part),
        {
            kernel.name: kernel.local_bytes
            for kernel in kernels
            if kernel.local_bytes > limits.static_local_bytes or kernel.source is not None
        },
        {name: each.accesses for name, each in printed.items()},
    )


def _printed(
    kernels: Sequence[DeviceKernel], dialect: dialects.Dialect, limits: DeviceLimits
) -> dict[str, Printed]:
    options: dict[str, Any] = {
        "max_num_threads": limits.threads_per_group,
        "max_shared_memory_per_block": limits.local_bytes,
    }
    if dialect.passes == "cuda":
        options |= {"arch": limits.architecture or "sm_90", "thread_warp_size": limits.warp}
    functions = lowered({kernel.name: kernel.function for kernel in kernels}, dialect, options)
    result = {}
    for kernel in kernels:
        if functions.get(kernel.name) is None:
            raise TargetError(f"kernel {kernel.name} has no part that runs on the device")
        result[kernel.name] = print_kernel(
            kernel.name,
            functions[kernel.name],
            dialect,
            kernel.block,
            lambda parameter: parameter.startswith(PACKED),
        )
    return result
