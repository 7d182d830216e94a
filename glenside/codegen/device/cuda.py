"""CUDA devices, through CuPy."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glenside.codegen.device.copies import NAME, copy_kernel
from glenside.codegen.device.device import STAGED, Code, Launch, Memory, Refused, Unsuitable
from glenside.codegen.device.driver import DriverLaunch, Graph
from glenside.codegen.device.streams import Scope
from glenside.codegen.plan import Entry, Place
from glenside.errors import TargetError

Array = np.ndarray[Any, Any]

_STATIC = 48 << 10
"""Bytes of dynamic shared memory up to which a kernel need not be told of it."""
_OVERLAPS = (9, 12030)
"""The compute capability's major number, and the driver's version, from which on a graph's kernels
can be launched while those before them run."""


def cupy() -> Any:
    """The package.

    :raises TargetError: it is not installed.
    """
    try:
        import cupy
    except ImportError as problem:
        raise Unsuitable(
            f"CUDA needs CuPy ({problem}): install the cupy package of the machine's CUDA "
            "release, such as cupy-cuda13x"
        ) from problem
    return cupy


class CudaDevice:
    """The current GPU and one stream on it; programs are replayed as CUDA graphs."""

    def __init__(self) -> None:
        """Opens the device; raises :class:`TargetError` where there is none."""
        self.cupy = self._cp = cupy()
        try:
            self.number = int(self._cp.cuda.runtime.getDevice())
            self._properties = self._cp.cuda.runtime.getDeviceProperties(self.number)
        except self._cp.cuda.runtime.CUDARuntimeError as problem:
            raise Unsuitable(f"no CUDA device was found: {problem}") from problem
        self.stream = self._cp.cuda.Stream(non_blocking=True)
        self._scope = Scope()
        self._kernels: dict[str, Any] = {}
        self._copies: list[Any] = []
        have = self._properties["major"], self._cp.cuda.runtime.driverGetVersion()
        self._overlaps = all(one >= least for one, least in zip(have, _OVERLAPS, strict=True))

    @property
    def name(self) -> str:
        """As the driver calls it."""
        return str(self._properties["name"].decode())

    @property
    def architecture(self) -> str:
        """``sm_90``, say."""
        return f"sm_{self._properties['major']}{self._properties['minor']}"

    def enter(self) -> bool:
        """Lets what the calling thread asks CUDA for be asked of this device; whether it did not
        before, so that it has to be left."""
        return self._scope.enter()

    def leave(self) -> None:
        """Gives the calling thread the device back that it had."""
        self._scope.leave()

    def allocate(self, size: int) -> Memory:
        """So many bytes."""
        try:
            return self._cp.cuda.alloc(max(size, 1))
        except self._cp.cuda.memory.OutOfMemoryError as problem:
            raise TargetError(f"{self.name}: {size} bytes of memory: {problem}") from problem

    def part(self, memory: Memory, offset: int, size: int) -> Memory:
        """A pointer into the same memory."""
        return memory + offset

    def staging(self, size: int) -> Array:
        """Page-locked, up to a size beyond which CUDA's own way with other memory is as fast."""
        if size > STAGED:
            return np.zeros(size, np.uint8)
        return np.frombuffer(self._cp.cuda.alloc_pinned_memory(max(size, 1)), np.uint8, size)

    def send(self, memory: Memory, offset: int, array: Array) -> None:
        """Begins to copy to the device."""
        if array.nbytes:
            (memory + offset).copy_from_host_async(array.ctypes.data, array.nbytes, self.stream)

    def write(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies to the device; the array may be changed afterwards."""
        self.send(memory, offset, array)
        self.stream.synchronize()

    def fetch(self, memory: Memory, offset: int, array: Array) -> None:
        """Begins to copy from the device."""
        if array.nbytes:
            (memory + offset).copy_to_host_async(array.ctypes.data, array.nbytes, self.stream)

    def read(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies from the device."""
        self.fetch(memory, offset, array)
        self.stream.synchronize()

    def build(self, code: Code, kernels: Mapping[str, Entry]) -> None:
        """Loads the machine code if it is this device's; else compiles the source by NVRTC.

        :raises Refused: a kernel cannot have its memory or its threads.
        :raises TargetError: the source does not compile.
        """
        if not kernels:
            return
        try:
            if code.binary is not None and _runs_on(code.architecture, self.architecture):
                with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                    Path(file.name).write_bytes(code.binary)
                    module = self._cp.RawModule(path=file.name)
                    module.compile()
                    self._take(module, kernels)
            else:
                module = self._cp.RawModule(code=code.source, options=("-std=c++17",))
                self._take(module, kernels)
        except TargetError:
            raise
        except Exception as problem:  # CuPy's compilers and loaders raise errors of many kinds.
            lines = str(problem).strip().splitlines() or [type(problem).__name__]
            first = next((line for line in lines if "error" in line), lines[0])
            raise TargetError(f"{self.name} cannot load the kernels: {first}") from problem

    def _take(self, module: Any, kernels: Mapping[str, Entry]) -> None:
        most = self._cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]
        refused = {}
        for name, entry in kernels.items():
            kernel = module.get_function(name)
            needed = kernel.shared_size_bytes + entry.local_bytes
            threads = math.prod(entry.block)
            if needed > most:
                refused[name] = f"{needed} bytes of shared memory, {self.name} allows {most}"
                continue
            if needed > _STATIC and entry.local_bytes:
                kernel.max_dynamic_shared_size_bytes = entry.local_bytes
            if threads > kernel.max_threads_per_block:
                refused[name] = (
                    f"{threads} threads in a block, {self.name} runs it with at most "
                    f"{kernel.max_threads_per_block}"
                )
            self._kernels[name] = kernel
        if refused:
            raise Refused(refused)

    def attempt(self, launches: Sequence[Launch]) -> None:
        """Nothing: the driver tells of every kernel what it can be launched with."""

    def prepare(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """All launches as one CUDA graph, each after the one before it; those that wait themselves
        take their places early.

        Branches are not let overlap: on an H200, SqueezeNet took 197 microseconds with its branches
        on streams of their own and 171 without, ResNet-50 the same either way.
        """
        if not launches:
            return lambda: None
        graph = Graph([self.ready(launch) for launch in launches])
        stream = self.stream.ptr
        graph.upload(stream)
        return lambda: graph(stream)

    def ready(self, launch: Launch) -> DriverLaunch:
        """The launch as the driver has it."""
        entry = launch.entry
        function = self._kernels[launch.kernel].kernel.ptr
        pointers = [each.ptr for each in launch.arguments]
        return DriverLaunch(function, entry, pointers, early=entry.overlapped and self._overlaps)

    def finish(self) -> None:
        """Waits."""
        self.stream.synchronize()

    def time(self, run: Callable[[], None], repeat: int, host: bool = False) -> list[float]:
        """By the stream's events, or the host's clock."""
        run()
        if host:
            self.finish()
            return [self._elapsed(run) for _ in range(repeat)]
        start, end = self._cp.cuda.Event(), self._cp.cuda.Event()
        times = []
        for _ in range(repeat):
            start.record(self.stream)
            run()
            end.record(self.stream)
            end.synchronize()
            times.append(self._cp.cuda.get_elapsed_time(start, end) * 1e-3)
        return times

    def _elapsed(self, run: Callable[[], None]) -> float:
        start = time.perf_counter()
        run()
        self.finish()
        return time.perf_counter() - start

    def seconds(self, launches: Sequence[Launch], repeat: int) -> list[float]:
        """By events around a graph that holds them several times, for the clock is coarse."""
        inside = 10
        run = self.prepare([*launches] * inside)
        return [seconds / inside for seconds in self.time(run, repeat)]

    def copying(
        self, place: Place, itemsize: int, pointers: Sequence[int], back: bool
    ) -> DriverLaunch:
        """The kernel that copies a value row by row to where a program stores it, or back.

        :param pointers: of what it copies from and to.
        :raises TargetError: it cannot be compiled.
        """
        source, entry = copy_kernel(place, itemsize, back)
        try:
            made = self._cp.RawKernel(source, NAME, ("-std=c++17",))
            function = made.kernel.ptr
        except Exception as problem:  # CuPy's compilers raise errors of many kinds.
            raise TargetError(f"{self.name} cannot compile a copy: {problem}") from problem
        self._copies.append(made)
        return DriverLaunch(function, entry, pointers)


def _runs_on(built: str, device: str) -> bool:
    """Machine code runs on its own major version, and the same or a later minor one."""
    have, want = device.removeprefix("sm_"), built.removeprefix("sm_")
    if want.endswith("a"):  # Instructions that no other device has.
        return want[:-1] == have
    return want.isdigit() and want[:-1] == have[:-1] and int(want) <= int(have)
