"""Runs device kernels on the OpenCL device at hand (PoCL on a processor, in CI)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.dispatch import make_kernels, space_of
from glenside.codegen.gpu.emit import emit
from glenside.codegen.gpu.interface import (
    DeviceKernel,
    DeviceLimits,
    make_builder,
)
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Cut, Kernel
from glenside.language import Term, topological_order
from glenside.language.shape import is_float

_GUARD = 4096
"""Bytes around every buffer; none of them may change."""
POCL = device_profile("opencl:cpu")


def device_kernels(
    outputs: Sequence[Term],
    inputs: Mapping[str, Any],
    params: Mapping[str, np.ndarray],
    limits: DeviceLimits = POCL,
    choose: Any = None,
    streams: Any = None,
) -> tuple[Cut, list[DeviceKernel]]:
    """The cut program and its launches in order, each by a name of its own."""
    cut = cut_program(outputs, inputs, params, plain=True, streams=streams)
    builder = make_builder(cut)
    made: list[DeviceKernel] = []
    for number, step in enumerate(cut.steps):
        assert isinstance(step, Kernel), step
        made += make_kernels(builder, step, number, limits, "opencl", choose)
    names = [kernel.name for kernel in made]
    assert len(set(names)) == len(names)
    return replace(cut, memory=builder.memory), made


def run_on_opencl(
    outputs: Sequence[Term],
    arrays: Mapping[str, np.ndarray],
    params: Mapping[str, np.ndarray] | None = None,
    limits: DeviceLimits = POCL,
    choose: Any = None,
    streams: Any = None,
) -> list[np.ndarray]:
    """The outputs' values. All memory is poisoned first, and guard zones are checked after."""
    params = params or {}
    leaves = [term for term in topological_order(outputs) if term.op == "tensor"]
    inputs = {term["name"]: term.type for term in leaves if term["name"] not in params}
    cut, kernels = device_kernels(outputs, inputs, params, limits, choose, streams)
    return Device(cut, kernels, limits).run(arrays)


class Device:
    """The buffers and kernels of one program on the first OpenCL device."""

    def __init__(
        self,
        cut: Cut,
        kernels: Sequence[DeviceKernel],
        limits: DeviceLimits,
        *,
        checked: bool = False,
    ) -> None:
        """With ``checked``, accesses out of a buffer's bounds are found: see :attr:`outside`."""
        self.cl = pytest.importorskip("pyopencl")
        self.cut, self.kernels, self.context = cut, kernels, _context(self.cl)
        self.program = emit(kernels, "opencl", limits, checked=checked)
        self.checked = checked
        self.outside: dict[str, str] = {}
        """Of the last run, an access that was out of bounds, by kernel; where that is checked."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if kernels:
                made = self.cl.Program(self.context, self.program.text)
                self.built = made.build(options=["-Werror"])

    def run(self, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        cl, cut = self.cl, self.cut
        self.outside = {}
        queue = cl.CommandQueue(self.context)
        memory = []
        for number, buffer in enumerate(cut.memory.buffers):
            host = _poisoned(buffer.size, buffer.dtype)
            if number in cut.memory.arrays:
                array = np.ascontiguousarray(cut.memory.arrays[number]).reshape(-1)
                _inner(host)[: array.nbytes] = array.view(np.uint8)
            memory.append(host)
        for name, term in cut.inputs.items():
            window = self._window(memory, term)
            window[...] = arrays[name].reshape(window.shape)
        before = [host.copy() for host in memory]
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        whole = [cl.Buffer(self.context, flags, hostbuf=host) for host in memory]
        parts = [
            buffer.get_sub_region(_GUARD, host.nbytes - 2 * _GUARD)
            for buffer, host in zip(whole, memory, strict=True)
        ]
        for kernel in self.kernels:
            assert not any(argument.base for argument in kernel.arguments)
            function = cl.Kernel(self.built, kernel.name)
            told = [cl.Buffer(self.context, flags, hostbuf=np.zeros(1, "int32"))] * self.checked
            function.set_args(*(parts[argument.buffer] for argument in kernel.arguments), *told)
            size = [g * b for g, b in zip(kernel.grid, kernel.block, strict=True)]
            cl.enqueue_nd_range_kernel(queue, function, size, kernel.block)
            for buffer in told:
                number = np.empty(1, "int32")
                cl.enqueue_copy(queue, number, buffer)
                if number[0]:
                    self.outside[kernel.name] = self.program.accesses[kernel.name][number[0] - 1]
        for host, device in zip(memory, whole, strict=True):
            cl.enqueue_copy(queue, host, device)
        queue.finish()
        for number, (old, new) in enumerate(zip(before, memory, strict=True)):
            for zone in (slice(None, _GUARD), slice(-_GUARD, None)):
                assert old[zone].tobytes() == new[zone].tobytes(), f"buffer {number} overrun"
        return [np.array(self._window(memory, each)).reshape(each.shape) for each in cut.outputs]

    def _window(self, memory: Sequence[np.ndarray], term: Term) -> np.ndarray:
        """A value's elements in a buffer, one axis an atom."""
        place = self.cut.memory.stored[term]
        dtype = np.dtype(term.dtype)
        atoms = [atom for axis in place.view.axes for atom in axis]
        if not term.type.size:
            return np.empty([size for size, _ in atoms], dtype)
        data = _inner(memory[place.buffer]).view(dtype)[place.base + place.view.offset :]
        return np.lib.stride_tricks.as_strided(
            data, [size for size, _ in atoms], [stride * dtype.itemsize for _, stride in atoms]
        )


@functools.cache
def _context(cl: Any) -> Any:
    platforms = cl.get_platforms()
    if not platforms:
        pytest.skip("there is no OpenCL device")
    return cl.Context([platforms[0].get_devices()[0]])


def _poisoned(size: int, dtype: str) -> np.ndarray:
    """Bytes of ``size`` elements and of guard zones around them: NaN, or a number that stands out.

    What a kernel forgets to write shows, and so does a sum that reads beyond an operand's end.
    """
    count = size * np.dtype(dtype).itemsize
    host = np.empty(count + 2 * _GUARD, np.uint8)
    host[:] = 0xFF if is_float(np.dtype(dtype)) else 0x5B
    return host


def _inner(host: np.ndarray) -> np.ndarray:
    return host[_GUARD : host.size - _GUARD]


def space_and_step(
    term: Term, params: Mapping[str, np.ndarray] | None = None, limits: DeviceLimits = POCL
) -> tuple[Any, tuple[Any, Kernel]]:
    """The product space of a term's only reduction, with what builds its kernels."""
    params = params or {}
    leaves = [each for each in topological_order([term]) if each.op == "tensor"]
    inputs = {each["name"]: each.type for each in leaves if each["name"] not in params}
    cut = cut_program([term], inputs, params, plain=True)
    builder = make_builder(cut)
    for number, step in enumerate(cut.steps):
        assert isinstance(step, Kernel)
        if step.anchor is not None:
            builder.at_step(number)
            space = space_of(builder, step, limits)
            assert space is not None
            return space, (builder, step)
    raise AssertionError("no reduction")
