"""Compiles a program for an OpenCL or CUDA device: kernels, their text, memory planned once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.hw_targets.codegen.compile import (
    check_sizes,
    place_of,
    plan_memory,
    python_call,
)
from glenside.hw_targets.codegen.device.device import Code, Device
from glenside.hw_targets.codegen.device.executable import DeviceExecutable
from glenside.hw_targets.codegen.launch import KernelCall, Place, Plan, PythonCall
from glenside.language.shape import HALVES, AccessType
from glenside.language.term import Term, topological_order

if TYPE_CHECKING:
    from glenside.hw_targets.codegen.gpu.interface import (
        Choose,
        DeviceKernel,
        DeviceLimits,
        Dialect,
    )
    from glenside.hw_targets.codegen.partition import Partition

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]

_ALIGN = 512
"""Bytes: the coarsest boundary at which OpenCL devices divide memory, NVIDIA's."""


def compile_for_device(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    limits: DeviceLimits,
    dialect: Dialect,
    *,
    choose: Choose | None = None,
    staged: bool = True,
    build: Callable[[str], Code] | None = None,
    device: Device | None = None,
    progress: Progress | None = None,
) -> DeviceExecutable:
    """Compiles the program whose results are ``outputs``.

    :param inputs: types of the ``tensor`` leaves given at run time, by name.
    :param params: arrays of the other ``tensor`` leaves.
    :param choose: names the mappings of products; the predicted best by default.
    :param staged: False computes products as everything else, one thread an element, without tiles
        in local memory: quick to compile, slow to run.
    :param build: makes machine code of the source; by default the device does at the first run.
    :param device: what the program will run on; the machine's by default.
    :raises InputError: a ``tensor`` leaf is in neither.
    :raises TargetError: the device lacks a dtype or does not admit a kernel, or a value has more
        elements than kernels count.
    """
    check_sizes(outputs)
    from glenside.hw_targets.codegen.device.text import print_kernels
    from glenside.hw_targets.codegen.gpu.interface import check_dtypes
    from glenside.hw_targets.codegen.partition import partition

    cut = partition(
        outputs, inputs, params, plain=True, rows_last=_on_matrix_units(outputs, limits)
    )
    check_dtypes(cut, limits)
    kernels, steps, watched = _steps(cut, limits, dialect, choose, staged, progress)
    if progress:
        progress("compile", 0, 1)
    text = print_kernels(kernels, limits, dialect)
    numbered = iter(range(len(kernels)))
    calls: list[KernelCall | PythonCall] = []
    for step in steps:
        if isinstance(step, PythonCall):
            calls.append(step)
            continue
        number = next(numbered)
        arguments = [step.arguments[k] for k in text.orders[number]]
        # Kernels of a plain partition say themselves where in a buffer a value starts.
        assert not any(each.base for each in arguments), step.name
        listed = [[each.buffer, each.base, each.extent] for each in arguments]
        calls.append(KernelCall(text.names[number], listed))
    plan = Plan(arena=0, steps=calls, device=dialect, kernels=text.entries)
    plan.inputs = {name: place_of(cut.stored[term], term) for name, term in cut.inputs.items()}
    plan.input_types = {name: [list(t.outer), list(t.item), t.dtype] for name, t in inputs.items()}
    plan.outputs = [place_of(cut.stored[term], term) for term in cut.outputs]
    parameters = plan_memory(plan, cut, _ALIGN)
    code = build(text.text) if build is not None and text.text else Code(text.text)
    if progress:
        progress("compile", 1, 1)
    return DeviceExecutable(plan, parameters, code, _module(kernels), watched, device)


def _on_matrix_units(outputs: Sequence[Term], limits: DeviceLimits) -> bool:
    """Whether products go to matrix units, which are fed along the axis that they reduce."""
    if not limits.has_matrix_units:
        return False
    dtypes = {*HALVES} | ({"float32"} if limits.tf32 else set())
    return any(
        term.op == "compute" and term["function"] == "dot" and term.children[0].dtype in dtypes
        for term in topological_order(outputs)
    )


def _steps(
    cut: Partition,
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None,
    staged: bool,
    progress: Progress | None,
) -> tuple[
    list[DeviceKernel],
    list[DeviceKernel | PythonCall],
    dict[int, list[tuple[Term, Place]]],
]:
    """The kernels, all steps in order, and what is complete after which."""
    from glenside.hw_targets.codegen.gpu.fallback import element_kernel
    from glenside.hw_targets.codegen.gpu.interface import make_builder, make_kernels
    from glenside.hw_targets.codegen.partition import Kernel, PythonStep

    builder = make_builder(cut)
    kernels: list[DeviceKernel] = []
    steps: list[DeviceKernel | PythonCall] = []
    watched: dict[int, list[tuple[Term, Place]]] = {-1: []}
    for term in cut.inputs.values():
        watched[-1].append((cut.origin.get(term, term), place_of(cut.stored[term], term)))
    for number, step in enumerate(cut.steps):
        if progress:
            progress("lower", number, len(cut.steps))
        written: Term | None
        if isinstance(step, Kernel):
            if staged:
                made = make_kernels(builder, step, number, limits, dialect, choose)
            else:
                made = [element_kernel(builder, step, number, limits)]
            kernels += made
            steps += made
            written = step.tail if step.into is None else None
        else:
            assert isinstance(step, PythonStep)  # A plain partition has no margins to fill.
            steps.append(python_call(step.term, cut.stored))
            written = step.term
        if written is not None:
            place = place_of(cut.stored[written], written)
            watched.setdefault(len(steps) - 1, []).append((cut.origin.get(written, written), place))
    return kernels, steps, watched


def _module(kernels: Sequence[DeviceKernel]) -> Any:
    import tvm

    return tvm.IRModule(
        {
            kernel.name: kernel.function.with_attr("global_symbol", kernel.name)
            for kernel in kernels
            if kernel.function is not None
        }
    )
