"""From thread-bound TIR to OpenCL C and CUDA C, as text that people can read.

TVM's pipeline makes the device's half of each function and its code generators print it; what they
print is put in order here: pragmas first, one entry point a kernel under the kernel's own name, no
forward declarations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from glenside.errors import TargetError

if TYPE_CHECKING:
    from glenside.hw_targets.codegen.gpu.interface import DeviceKernel, DeviceLimits, Dialect

_PRAGMA = "#pragma OPENCL EXTENSION {} : enable\n"
_GUARD = re.compile(r"#ifdef cl_khr_fp\d\d\n.*?#endif\n", re.DOTALL)
_DECLARATION = re.compile(r'^(?:extern "C" __global__|__kernel) void [^{}\n]*\);\n', re.MULTILINE)
_COMMENT = re.compile(r"^// Function: .*\n", re.MULTILINE)
_SUFFIX = "_kernel"
"""What TVM appends to the name of a function's first kernel."""


@dataclass
class Text:
    """Source of a program's kernels."""

    dialect: Dialect
    text: str = ""
    order: dict[str, list[int]] = field(default_factory=dict)
    """For each kernel, which of its arguments stands where in its parameter list."""
    local_bytes: dict[str, int] = field(default_factory=dict)
    """For each kernel, bytes of dynamic local memory that its launch asks for."""


def print_kernels(
    kernels: Sequence[DeviceKernel],
    limits: DeviceLimits,
    dialect: Dialect,
    shifted: dict[str, list[int]] | None = None,
) -> Text:
    """One source text with all kernels, which have distinct names.

    :param shifted: for OpenCL, the arguments of each kernel (by number) whose pointer is moved on
        by a number of elements, given as further parameters in the same order.
    :raises TargetError: TIR that has no device code, or more local memory than there is.
    """
    result = Text(dialect)
    devices = []
    for kernel in kernels:
        if kernel.function is None:
            result.order[kernel.name] = list(range(len(kernel.arguments)))
            above = kernel.local_bytes > limits.static_local_bytes
            result.local_bytes[kernel.name] = kernel.local_bytes if above else 0
            continue
        device, order, dynamic = _lower(kernel, limits, dialect)
        devices.append(device)
        result.order[kernel.name] = order
        result.local_bytes[kernel.name] = dynamic
    text = _generate(devices, dialect) if devices else ""
    for kernel in kernels:
        text = re.sub(rf"\b{kernel.name}{_SUFFIX}\b", kernel.name, text)
    written = [kernel.source.strip() + "\n" for kernel in kernels if kernel.source is not None]
    text = "\n".join([text, *written]) if written else text
    if dialect == "opencl":
        for name, numbers in (shifted or {}).items():
            if numbers:
                places = [result.order[name].index(number) for number in numbers]
                text = _with_shifts(text, name, places)
        text = _with_pragmas(text)
    result.text = text.strip("\n") + "\n" if text.strip() else ""
    return result


def tvm_target(limits: DeviceLimits, dialect: Dialect) -> Any:
    """The device as TVM describes it."""
    import tvm

    options: dict[str, Any] = {
        "kind": dialect,
        "max_num_threads": limits.threads_per_group,
        "max_shared_memory_per_block": limits.local_bytes,
        "thread_warp_size": limits.warp,
    }
    if dialect == "cuda":
        options |= {"arch": limits.architecture or "sm_90"}
        options |= {"max_threads_per_block": limits.threads_per_group}
    return tvm.target.Target(options)


def _lower(
    kernel: DeviceKernel, limits: DeviceLimits, dialect: Dialect
) -> tuple[Any, list[int], int]:
    """The device's half of a kernel, its parameters' order and its dynamic local memory."""
    import tvm
    from tvm import tirx
    from tvm.tirx.build import split_host_device_mods

    target = tvm.target.Target(tvm_target(limits, dialect)).with_host("llvm")
    function = kernel.function.with_attr("global_symbol", kernel.name)
    module = tirx.transform.BindTarget(target)(tvm.IRModule({kernel.name: function}))
    pipeline, _, finalize = tirx.get_default_tir_pipeline(target)
    options = {
        # The same subexpressions are found again by the device's compiler; TVM's own pass leaves
        # variables that nothing reads.
        "tirx.disable_cse_tir": True,
        # Loops keep their form in the text, with a pragma: written out, a kernel has megabytes.
        "tirx.UnrollLoop": {"explicit_unroll": False, "auto_max_step": 0},
        "tirx.use_async_copy": True,
    }
    launches = _launches()
    try:
        with tvm.transform.PassContext(opt_level=3, config=options, instruments=[launches]):
            module = pipeline(module)
        _, devices = split_host_device_mods(module)
        if len(devices) != 1:
            raise TargetError(f"kernel {kernel.name}: TIR without threads, no device would run it")
        device = finalize()(next(iter(devices.values())))
    except TargetError:
        raise
    except Exception as problem:  # TVM's passes raise errors of many kinds.
        first = str(problem).strip().splitlines()
        raise TargetError(
            f"kernel {kernel.name} cannot be lowered for {limits.name}: "
            f"{first[-1] if first else type(problem).__name__}"
        ) from problem
    (made,) = launches.found or [None]
    if made is None or len(device.functions) != 1:
        raise TargetError(f"kernel {kernel.name}: one launch was expected of its TIR")
    names, grid, block, dynamic = made
    if (grid, block) != (tuple(kernel.grid), tuple(kernel.block)):
        raise TargetError(
            f"kernel {kernel.name}: its TIR binds {grid} groups of {block} threads, "
            f"{kernel.grid} of {kernel.block} were said"
        )
    parameters = [str(each.name) for each in kernel.function.params]
    order = [parameters.index(name.removesuffix("_ptr")) for name in names]
    return device, order, dynamic


def _launches() -> Any:
    """An instrument that notes ``found``: parameters, groups, threads, bytes of each launch."""
    import tvm
    import tvm_ffi

    @tvm.ir.instrument.pass_instrument
    class Launches:
        def __init__(self) -> None:
            self.found: list[tuple[list[str], Any, Any, int]] = []

        def run_after_pass(self, module: Any, info: Any) -> None:
            if info.name.endswith("SplitHostDevice"):
                self._read(module)

        def _read(self, module: Any) -> None:
            kernels = {
                str(function.attrs["global_symbol"]): function
                for function in module.functions.values()
                if function.attrs and "tirx.kernel_launch_params" in function.attrs.keys()
            }

            def visit(call: Any) -> None:
                if getattr(call.op, "name", "") != "tirx.call_ffi_kernel":
                    return
                first = call.args[0]
                function = kernels.get(str(getattr(first, "value", first)))
                if function is None:
                    return
                tags = [str(tag) for tag in call.attrs.launch_params]
                values = [int(v) for v in call.args[1 + len(function.params) :]]
                sizes = dict(zip(tags, values, strict=True))
                grid = tuple(sizes.get(f"blockIdx.{axis}", 1) for axis in "xyz")
                block = tuple(sizes.get(f"threadIdx.{axis}", 1) for axis in "xyz")
                dynamic = sizes.get("tirx.use_dyn_shared_memory", 0)
                names = [str(each.name) for each in function.params]
                self.found.append((names, grid, block, dynamic))

            for function in module.functions.values():
                if str(function.attrs["global_symbol"]) not in kernels:
                    tvm_ffi.structural_walk(function.body, [(tvm.ir.Call, visit)])

    return Launches()


def _generate(devices: Sequence[Any], dialect: Dialect) -> str:
    """What TVM's code generator prints for all functions together."""
    import tvm

    functions = {}
    for module in devices:
        functions |= {str(f.attrs["global_symbol"]): f for f in module.functions.values()}
    target = next(iter(functions.values())).attrs["target"]
    module = tvm.IRModule(functions)
    printed = tvm.get_global_func(f"target.build.{dialect}")(module, target)
    text = str(printed.inspect_source())
    return re.sub(r"\n{3,}", "\n\n", _DECLARATION.sub("", _COMMENT.sub("", text)))


def _with_pragmas(text: str) -> str:
    """Extensions are enabled before the first line that needs them."""
    text = _GUARD.sub("", text).lstrip("\n")
    pragmas = ""
    if re.search(r"\bhalf\d*\b", text):
        pragmas += _PRAGMA.format("cl_khr_fp16")
    if re.search(r"\bdouble\d*\b", text):
        pragmas += _PRAGMA.format("cl_khr_fp64")
    return pragmas + ("\n" if pragmas else "") + text


def _with_shifts(text: str, name: str, places: Sequence[int]) -> str:
    """Adds ``int X_at`` for the parameters at ``places``, by which their pointers are moved on.

    OpenCL's memory objects can only be divided at coarse boundaries.
    """
    found = re.search(rf"void {name}\(([^()]*)\) {{\n", text)
    if found is None:
        raise TargetError(f"kernel {name} is missing in its source")
    parameters = found[1].split(", ")
    variables = [parameters[place].split()[-1].lstrip("*") for place in places]
    declared = "".join(f", const int {variable}_at" for variable in variables)
    moves = "".join(f"  {variable} += {variable}_at;\n" for variable in variables)
    return f"{text[: found.end(1)]}{declared}{text[found.end(1) : found.end()]}{moves}{text[found.end() :]}"
