"""Compiles a program for an OpenCL or CUDA device: kernels, their text, memory planned once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.compile import check_sizes
from glenside.codegen.device.device import Code, Device, Refused
from glenside.codegen.device.executable import DeviceExecutable, MappedProduct
from glenside.codegen.footprint import Footprint, footprint
from glenside.codegen.plan import KernelCall, PythonCall
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.planning import Planner
from glenside.codegen.program.record import Cut, Kernel, PythonStep, Streamed
from glenside.codegen.storage import Memory
from glenside.interrupt import in_background
from glenside.language.shape import HALVES, AccessType
from glenside.language.term import Term, topological_order

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import (
        Choose,
        DeviceKernel,
        DeviceLimits,
        Dialect,
    )
    from glenside.codegen.gpu.mapping.product import ProductMapping
    from glenside.codegen.gpu.space import ProductSpace
    from glenside.codegen.program.record import Cut

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
    refusals: Refusals | None = None,
) -> DeviceExecutable:
    """Compiles the program whose results are ``outputs``.

    A kernel that the device turns out not to run is computed otherwise: by the product's next
    mapping, and where there is none, or for what is no product, by one thread an element.

    :param inputs: types of the ``tensor`` leaves given at run time, by name.
    :param params: arrays of the other ``tensor`` leaves.
    :param choose: names the mappings of products; the predicted best by default.
    :param staged: False computes products as everything else, one thread an element, without tiles
        in local memory: quick to compile, slow to run.
    :param build: makes machine code of the source; by default the device does at the first run.
    :param device: what the program will run on; the machine's by default.
    :param refusals: what the device is known not to run.
    :raises InputError: a ``tensor`` leaf is in neither.
    :raises TargetError: the device lacks a dtype or does not admit a kernel, or a value has more
        elements than kernels count.
    """
    check_sizes(outputs)
    from glenside.codegen.device.text import print_kernels

    known = refusals or Refusals()
    cut = cut_for_device(outputs, inputs, params, limits, staged and known.streams)
    made = _steps(cut, limits, dialect, choose, staged, progress, known)
    kernels, steps = made.kernels, made.steps
    printed = (lambda done, total: progress("compile", done, total)) if progress else None
    text = print_kernels(kernels, limits, dialect, printed)
    numbered = iter(range(len(kernels)))
    calls: list[KernelCall | PythonCall] = []
    for step in steps:
        if isinstance(step, PythonCall):
            calls.append(step)
            continue
        number = next(numbered)
        # Kernels of a plain program say themselves where in a buffer a value starts.
        assert not any(each.base for each in step.arguments), step.name
        listed = [[each.buffer, each.base, each.extent] for each in step.arguments]
        calls.append(KernelCall(text.names[number], listed))
    planned = made.planner.plan(calls, _ALIGN)
    plan, parameters = planned.plan, planned.parameters
    plan.device, plan.kernels = dialect, text.entries
    code = in_background(build, text.text) if build is not None and text.text else Code(text.text)
    if progress:
        progress("compile", 1, 1)
    executable = DeviceExecutable(plan, parameters, code, _module(kernels), planned.watched, device)

    def otherwise(problem: Refused) -> DeviceExecutable:
        numbers = [n for n, name in enumerate(text.names) if name in problem.kernels]
        return compile_for_device(
            outputs,
            inputs,
            params,
            limits,
            dialect,
            choose=choose,
            staged=staged,
            build=build,
            device=device,
            refusals=known.with_more(made, numbers, problem),
        )

    executable.otherwise = otherwise
    executable.products, executable.start = made.products, cut.start
    executable.footprint = footprint(plan, parameters, made.memory, outputs, params)
    executable.origins = {n: each for n, each in made.memory.origins.items() if n in parameters}
    return executable


def plan_for_device(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None = None,
    progress: Progress | None = None,
) -> DevicePlan:
    """What :func:`compile_for_device` comes to, without code: its memory and kernels.

    :raises: as that does.
    """
    check_sizes(outputs)
    cut = cut_for_device(outputs, inputs, params, limits)
    made = _steps(cut, limits, dialect, choose, True, progress, Refusals())
    calls = [
        step
        if isinstance(step, PythonCall)
        else KernelCall(step.name, [[a.buffer, a.base, a.extent] for a in step.arguments])
        for step in made.steps
    ]
    planned = made.planner.plan(calls, _ALIGN)
    sizes = [slot.size * np.dtype(slot.dtype).itemsize for slot in planned.plan.slots]

    def seconds(kernel: DeviceKernel) -> float:
        if kernel.predicted is not None:
            return kernel.predicted
        moved = sum(sizes[buffer] for buffer in {each.buffer for each in kernel.arguments})
        return limits.launch_seconds + moved / limits.bandwidth

    return DevicePlan(
        footprint(planned.plan, planned.parameters, made.memory, outputs, params),
        {kernel.name: seconds(kernel) for kernel in made.kernels},
        [product.mapping for product in made.products.values()],
    )


@dataclass(frozen=True)
class DevicePlan:
    """A program for a device before there is code of it."""

    footprint: Footprint
    seconds: Mapping[str, float]
    """Of each kernel as predicted, in order; of what is no product, by the bytes it moves."""
    mappings: Sequence[Mapping[str, Any]]
    """Of its products, in order."""


def cut_for_device(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    limits: DeviceLimits,
    streams: bool = True,
) -> Cut:
    """The program cut into steps, as a device with these limits is to compute it.

    :param streams: products may be computed with the rows that they multiply, where that pays.
    :raises InputError: a ``tensor`` leaf is neither an input nor a parameter.
    :raises TargetError: the device lacks a dtype.
    """
    from glenside.codegen.gpu.interface import check_dtypes
    from glenside.codegen.gpu.streamed.problem import problem_of
    from glenside.codegen.gpu.streamed.time import pays

    rows_last = _on_matrix_units(outputs, limits)

    def chosen(product: Streamed) -> bool:
        return streams and pays(problem_of(product), limits)

    cut = cut_program(outputs, inputs, params, plain=True, rows_last=rows_last, streams=chosen)
    check_dtypes(cut, limits)
    return cut


def _on_matrix_units(outputs: Sequence[Term], limits: DeviceLimits) -> bool:
    """Whether products go to matrix units, which are fed along the axis that they reduce."""
    if not limits.has_matrix_units:
        return False
    dtypes = {*HALVES} | ({"float32"} if limits.tf32 else set())
    return any(
        term.op == "compute" and term["function"] == "dot" and term.children[0].dtype in dtypes
        for term in topological_order(outputs)
    )


@dataclass(frozen=True)
class Refusals:
    """What a device does not run: mappings by their product's space, and steps that are therefore
    computed by one thread an element, in the smallest groups."""

    mappings: Mapping[str, frozenset[ProductMapping]] = field(default_factory=dict)
    plain: frozenset[int] = frozenset()
    streams: bool = True
    """Whether products are computed with the rows that they multiply."""

    def with_more(self, made: _Steps, launches: Sequence[int], problem: Refused) -> Refusals:
        """The same and what these launches compute.

        :raises Refused: ``problem``, where no other way is left.
        """
        mappings, plain = dict(self.mappings), set(self.plain)
        if made.streamed & {made.owners[launch] for launch in launches}:
            return Refusals(self.mappings, streams=False)  # Steps have other numbers then.
        for launch in launches:
            step = made.owners[launch]
            if step in made.mapped:
                space, mapping = made.mapped[step]
                mappings[space] = mappings.get(space, frozenset()) | {mapping}
            elif step not in self.plain:
                plain.add(step)
            else:
                raise problem
        if not launches:
            raise problem
        return Refusals(mappings, frozenset(plain), self.streams)


@dataclass
class _Steps:
    """The kernels, all steps in order, and products by launch; the step of every launch, and the
    space and mapping of steps that are products."""

    memory: Memory
    planner: Planner
    kernels: list[DeviceKernel] = field(default_factory=list)
    steps: list[DeviceKernel | PythonCall] = field(default_factory=list)
    products: dict[int, MappedProduct] = field(default_factory=dict)
    owners: list[int] = field(default_factory=list)
    mapped: dict[int, tuple[str, ProductMapping]] = field(default_factory=dict)
    streamed: set[int] = field(default_factory=set)
    """Steps that compute the rows they multiply."""


def _steps(
    cut: Cut,
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None,
    staged: bool,
    progress: Progress | None,
    refusals: Refusals,
) -> _Steps:
    from glenside.codegen.gpu.dispatch import make_kernels, plain_kernel
    from glenside.codegen.gpu.interface import make_builder
    from glenside.codegen.gpu.mapping.choose import chosen_mapping

    builder = make_builder(cut)
    smallest = replace(limits, threads_per_group=limits.warp)
    result = _Steps(builder.memory, Planner(cut, builder.memory))

    def noted(space: ProductSpace, limits: DeviceLimits) -> ProductMapping:
        key = space.key()
        mapping = chosen_mapping(space, limits, choose, refusals.mappings.get(key, ()))
        result.mapped[number] = key, mapping
        result.products[len(result.kernels)] = MappedProduct(key, json.loads(mapping.to_json()))
        return mapping

    for number, step in enumerate(cut.steps):
        if progress:
            progress("lower", number, len(cut.steps))
        if isinstance(step, Kernel):
            if number in refusals.plain:
                made = [plain_kernel(builder, step, number, smallest, dialect)]
            elif staged:
                made = make_kernels(builder, step, number, limits, dialect, noted)
            else:
                made = [plain_kernel(builder, step, number, limits, dialect)]
            if step.anchor in cut.streamed:
                result.streamed.add(number)
            result.kernels += made
            result.owners += [number] * len(made)
            result.steps += made
        else:
            assert isinstance(step, PythonStep)  # A plain program has no margins to fill.
            result.steps.append(result.planner.python_call(step))
        result.planner.note(step, len(result.steps))
    return result


def _module(kernels: Sequence[DeviceKernel]) -> Any:
    import tvm

    return tvm.IRModule(
        {
            kernel.name: kernel.function.with_attr("global_symbol", kernel.name)
            for kernel in kernels
            if kernel.function is not None
        }
    )
