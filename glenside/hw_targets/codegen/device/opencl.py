"""OpenCL devices, through pyopencl."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glenside.errors import TargetError
from glenside.hw_targets.codegen.device.device import Code, Launch, Memory, Unsuitable
from glenside.hw_targets.codegen.launch import Entry

Array = np.ndarray[Any, Any]


def pyopencl() -> Any:
    """The package.

    :raises TargetError: it is not installed.
    """
    try:
        import pyopencl
    except ImportError as problem:
        raise Unsuitable(
            f"OpenCL needs pyopencl ({problem}): pip install 'glenside[opencl]'"
        ) from problem
    return pyopencl


def find_device() -> Any:
    """The machine's OpenCL device: a GPU where there is one, else the first of any kind.

    :raises TargetError: there is none, or no pyopencl.
    """
    cl = pyopencl()
    try:
        devices = [device for each in cl.get_platforms() for device in each.get_devices()]
    except cl.Error as problem:
        raise Unsuitable(
            f"no OpenCL device was found ({_said(problem)}): install the driver of one, or PoCL "
            "for the processor: pip install 'glenside[pocl]'"
        ) from problem
    if not devices:
        raise Unsuitable("no OpenCL device was found: its platforms have none")
    gpus = [device for device in devices if device.type & cl.device_type.GPU]
    return (gpus or devices)[0]


class OpenCLDevice:
    """A context and a queue on one device."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """Opens :func:`find_device`; ``options`` are given to its compiler."""
        self._cl = pyopencl()
        self.device = find_device()
        self._options = list(options)
        try:
            self._context = self._cl.Context([self.device])
            self._queue = self._cl.CommandQueue(self._context)
        except self._cl.Error as problem:
            raise TargetError(f"{self.name} cannot be opened: {_said(problem)}") from problem
        self._kernels: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """As the driver calls it."""
        return str(self.device.name).strip()

    def allocate(self, size: int) -> Memory:
        """So many bytes."""
        most = self.device.max_mem_alloc_size
        if size > most:
            raise TargetError(f"{self.name} allocates {most} bytes at once, {size} are needed")
        try:
            return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, max(size, 1))
        except self._cl.Error as problem:
            raise TargetError(f"{self.name}: {size} bytes of memory: {_said(problem)}") from problem

    def part(self, memory: Memory, offset: int, size: int) -> Memory:
        """A memory object within another."""
        return memory.get_sub_region(offset, max(size, 1))

    def write(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies to the device."""
        if array.nbytes:
            self._cl.enqueue_copy(self._queue, memory, array, dst_offset=offset, is_blocking=True)

    def read(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies from the device."""
        if array.nbytes:
            self._cl.enqueue_copy(self._queue, array, memory, src_offset=offset, is_blocking=True)

    def build(self, code: Code, kernels: Mapping[str, Entry]) -> None:
        """Compiles the source.

        :raises TargetError: the device lacks an extension, or refuses the source or a launch.
        """
        if not kernels:
            return
        supported = str(self.device.extensions).split()
        for extension in re.findall(r"#pragma OPENCL EXTENSION (\w+) : enable", code.source):
            if extension not in supported:
                raise Unsuitable(f"{self.name} has no {extension}, which the program needs")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pyopencl warns of any output of the compiler.
                program = self._cl.Program(self._context, code.source).build(self._options)
        except self._cl.Error as problem:
            raise TargetError(f"{self.name} cannot build the source: {_said(problem)}") from problem
        for name, entry in kernels.items():
            kernel = self._cl.Kernel(program, name)
            most = kernel.get_work_group_info(
                self._cl.kernel_work_group_info.WORK_GROUP_SIZE, self.device
            )
            threads = int(np.prod(entry.block))
            if threads > most:
                raise TargetError(
                    f"kernel {name}: {threads} threads in a group, {self.name} runs it with at "
                    f"most {most}"
                )
            self._kernels[name] = kernel

    def prepare(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """Launches one after the other."""
        ready = [self._ready(launch) for launch in launches]

        def run() -> None:
            for launch in ready:
                launch()
            self._queue.flush()

        return run

    def _ready(self, launch: Launch, queue: Any = None) -> Callable[[], Any]:
        # A kernel object holds its arguments, so every launch has its own.
        kernel = self._cl.Kernel(self._kernels[launch.kernel].program, launch.kernel)
        kernel.set_args(*launch.arguments)
        size = [g * b for g, b in zip(launch.entry.grid, launch.entry.block, strict=True)]
        block = list(launch.entry.block)
        into = queue or self._queue
        return lambda: self._cl.enqueue_nd_range_kernel(into, kernel, size, block)

    def finish(self) -> None:
        """Waits."""
        self._queue.finish()

    def time(self, run: Callable[[], None], repeat: int) -> list[float]:
        """By the host's clock: profiling events are for single kernels."""
        run()
        self.finish()
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            run()
            self.finish()
            times.append(time.perf_counter() - start)
        return times

    def seconds(self, launches: Sequence[Launch], repeat: int) -> list[float]:
        """By the events of the queue; the gaps between kernels do not count."""
        # A queue of its own, since on some drivers every launch of a profiled queue costs more.
        profiled = self._cl.command_queue_properties.PROFILING_ENABLE
        queue = self._cl.CommandQueue(self._context, properties=profiled)
        ready = [self._ready(launch, queue) for launch in launches]
        self.finish()
        times = []
        for _ in range(repeat):
            events = [launch() for launch in ready]
            queue.finish()
            times.append(sum(e.profile.end - e.profile.start for e in events) * 1e-9)
        return times


def _said(problem: Exception) -> str:
    """A driver's complaint in one line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|warning)\b", line)]
    return (errors or lines or [type(problem).__name__])[0]
