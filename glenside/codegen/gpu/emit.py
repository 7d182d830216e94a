"""Text of device kernels, in OpenCL C or CUDA C++, from their TIR functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.codegen.gpu import opencl_c
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect
from glenside.errors import TargetError
from glenside.interrupt import in_background

_DISABLED = ["tirx.NarrowDataType", "s_tir.CompactBufferAllocation"]
"""Positions have 32 bits from the start, and the first pass also narrows casts of data; buffers
have their sizes, which the second one changes to what it thinks is touched, larger ones too."""
_CONFIG = {
    # Loops that are to be written out stay loops with a pragma: the device's compiler unrolls them
    # faster than TVM does, and the text stays readable.
    "tirx.UnrollLoop": {"explicit_unroll": False, "auto_max_step": 0},
    "tirx.disable_cse_tir": True,
}


@dataclass(frozen=True)
class Entry:
    """One function of a program's text.

    ``order[k]`` is the position, among the kernel's arguments, of the function's parameter ``k``.
    ``dynamic_bytes`` of local memory are asked for at the launch.
    """

    name: str
    order: tuple[int, ...]
    dynamic_bytes: int


@dataclass(frozen=True)
class Program:
    """The text of several kernels and, in their order, the functions they became."""

    text: str
    entries: tuple[Entry, ...]


Progress = Callable[[int, int], None]
"""Called with (kernels done, kernels in all)."""

_PIECE = 8
"""Kernels that are lowered at a time; Ctrl-C and limits are looked at in between."""


def emit(
    kernels: Sequence[DeviceKernel],
    dialect: Dialect,
    limits: DeviceLimits,
    progress: Progress | None = None,
) -> Program:
    """The text of kernels, whose names differ.

    :param progress: called in between; what it raises ends the work.
    :raises TargetError: a kernel goes beyond the device's limits.
    """
    for kernel in kernels:
        limits.check(kernel)
    made = [kernel for kernel in kernels if kernel.function is not None]
    text, orders = _generate(made, dialect, limits, progress) if made else ("", {})
    written = [kernel for kernel in kernels if kernel.source is not None]
    library = dict.fromkeys(part for kernel in written for part in kernel.library)
    parts = [text, *library, *(kernel.source or "" for kernel in written)]
    entries = [
        Entry(
            kernel.name,
            orders.get(kernel.name, tuple(range(len(kernel.arguments)))),
            kernel.local_bytes
            if kernel.local_bytes > limits.static_local_bytes or kernel.source is not None
            else 0,
        )
        for kernel in kernels
    ]
    return Program("\n".join(part.rstrip() + "\n" for part in parts if part), tuple(entries))


def _generate(
    kernels: Sequence[DeviceKernel],
    dialect: Dialect,
    limits: DeviceLimits,
    progress: Progress | None,
) -> tuple[str, dict[str, tuple[int, ...]]]:
    """TVM's text, and the order of each function's parameters, which is not the kernel's."""
    import tvm
    from tvm import tirx
    from tvm.s_tir.pipeline import finalize_device_passes
    from tvm.target import Target
    from tvm.tirx.build import split_host_device_mods

    options: dict[str, Any] = {
        "kind": dialect,
        "max_num_threads": limits.threads_per_group,
        "max_shared_memory_per_block": limits.local_bytes,
    }
    if dialect == "cuda":
        options |= {"arch": limits.architecture or "sm_90", "thread_warp_size": limits.warp}
    target = Target(options).with_host("llvm")
    functions = {
        kernel.name: kernel.function.with_attr("global_symbol", kernel.name) for kernel in kernels
    }
    pipeline = tirx.get_default_tir_pipeline(target)
    lower = pipeline[0] if isinstance(pipeline, tuple) else pipeline

    def lowered(names: Sequence[str]) -> Any:
        part = tvm.IRModule({name: functions[name] for name in names})
        with tvm.transform.PassContext(opt_level=3, config=_CONFIG, disabled_pass=_DISABLED):
            return lower(tirx.transform.BindTarget(target)(part)).functions

    made: dict[Any, Any] = {}
    for first in range(0, len(functions), _PIECE):
        if progress:
            progress(first, len(functions))
        made.update(in_background(lowered, [*functions][first : first + _PIECE]))
    module = tvm.IRModule(made)
    _, devices = split_host_device_mods(module)
    if len(devices) != 1:
        raise TargetError(f"kernel {kernels[0].name} has no part that runs on the device")
    ((found, device),) = devices.items()
    device = finalize_device_passes()(device)
    orders = {}
    present = {str(f.attrs["global_symbol"]): f for f in device.functions.values()}
    for kernel in kernels:
        function = present.get(f"{kernel.name}_kernel")
        if function is None:
            raise TargetError(f"kernel {kernel.name} has no part that runs on the device")
        names = [str(parameter.name) for parameter in kernel.function.params]
        orders[kernel.name] = tuple(
            names.index(str(parameter.name).removesuffix("_ptr")) for parameter in function.params
        )
    build = tvm.get_global_func(f"target.build.{dialect}")
    text = str(in_background(build, device, found).inspect_source())
    text = re.sub(r"\b(\w+)_kernel\b", lambda m: m[1] if m[1] in orders else m[0], text)
    text = _BITS.sub(lambda match: _bits(match[1], match[2], dialect), text)
    if dialect == "opencl":
        text = opencl_c.repaired(text, {kernel.name: kernel.block for kernel in kernels})
    return text, orders


_BITS = re.compile(
    r"\(\*\((\w+) \*\)\(&\(((?:\(\w+\))?-?(?:\d[\w.+-]*|INFINITY|NAN|CUDART_\w+)(?:/\*[^*]*\*/)?)"
    r"\)\)\)"
)
"""How TVM prints the bits of a literal, which has no address in C."""


def _bits(kind: str, literal: str, dialect: Dialect) -> str:
    """The bits of a literal as another type of its size."""
    if dialect == "opencl":
        return f"as_{kind}({literal})"
    wide = kind not in ("int", "uint", "float")
    if kind in ("float", "double"):
        return f"__{'longlong' if wide else 'int'}_as_{kind}({literal})"
    if wide:
        return f"({kind})__double_as_longlong({literal})"
    return f"__float_as_{kind}({literal})"
