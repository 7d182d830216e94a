"""OpenCL devices, through pyopencl."""

from __future__ import annotations

import ctypes
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glenside.codegen.device.device import Code, Launch, Memory, Refused, Unsuitable
from glenside.codegen.plan import Entry
from glenside.errors import TargetError

Array = np.ndarray[Any, Any]

_KERNEL = re.compile(r"^(?=__kernel\b[^{;]*?\bvoid (\w+)\()", re.MULTILINE)
"""Where the kernel of a name begins, in a source that else has only what all share, before them."""
_HOLD = """
__kernel void hold(__global uint* value, uint count) {
  uint v = value[0];
  for (uint i = 0; i < count; ++i) v = (v ^ (v >> 3)) * 1664525u + 1013904223u;
  value[0] = v;
}
"""
"""Keeps a device busy for as long as ``count`` says."""
_CALIBRATED = 200_000
_MARGIN = 3e-4
"""Seconds that the device is kept busy beyond the time that launching takes."""
_TOGETHER, _LONG = 20, 2e-3
"""Launches that share a reading of the clock, and seconds after which there are enough of them."""


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
        self._doubtful: set[str] = set()
        self._enqueue = _native_enqueue(self._cl)
        self._holder: tuple[Any, Memory, float] | None = None

    @property
    def name(self) -> str:
        """As the driver calls it."""
        return str(self.device.name).strip()

    def enter(self) -> bool:
        """Nothing: calls name their queue."""
        return False

    def leave(self) -> None:
        """Nothing."""

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

    def staging(self, size: int) -> Array:
        """Memory as any other."""
        return np.zeros(size, np.uint8)

    def send(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies to the device: pyopencl waits for what nobody holds an event of."""
        self.write(memory, offset, array)

    def fetch(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies from the device; likewise."""
        self.read(memory, offset, array)

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

        A kernel that states the size of its groups is built for it, whatever the driver says of
        groups of any size: NVIDIA's (580.159) says 256 of every kernel and launches 448 threads.
        Where what it says is less, :meth:`attempt` has the answer.

        :raises Refused: the device cannot build some kernels, or launch them.
        :raises TargetError: the device lacks an extension, or can build none of several kernels.
        """
        if not kernels:
            return
        supported = str(self.device.extensions).split()
        for extension in re.findall(r"#pragma OPENCL EXTENSION (\w+) : enable", code.source):
            if extension not in supported:
                raise Unsuitable(f"{self.name} has no {extension}, which the program needs")
        programs, refused = self._programs(code.source)
        refused = {name: why for name, why in refused.items() if name in kernels}
        for name in kernels.keys() - refused.keys():
            program = programs.get(name) or programs[""]
            kernel = self._kernels[name] = self._cl.Kernel(program, name)
            block = kernels[name].block
            most, stated = self._group_sizes(kernel)
            if np.prod(block) > most and stated == list(block):
                self._doubtful.add(name)
            elif np.prod(block) > most:
                refused[name] = (
                    f"{np.prod(block)} threads in a group, {self.name} runs it with at most {most}"
                )
        if refused:
            raise Refused(dict(sorted(refused.items())))

    def _programs(self, source: str) -> tuple[dict[str, Any], dict[str, str]]:
        """A source's kernels as the device builds them: all together, as ``""``, or where that
        fails by name, each by itself, with the reasons of those that it cannot build."""
        try:
            return {"": self._built(source)}, {}
        except TargetError:
            shared, *parts = _KERNEL.split(source)
            built: dict[str, Any] = {}
            refused: dict[str, str] = {}
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                try:
                    built[name] = self._built(shared + text)
                except TargetError as problem:
                    refused[name] = str(problem)
            if not parts or (not built and len(refused) > 1):
                raise
            return built, refused

    def _group_sizes(self, kernel: Any) -> tuple[int, list[int]]:
        """The most threads of a group by the driver's account, and the size that the kernel states
        (zeros: none)."""
        info = self._cl.kernel_work_group_info
        most = kernel.get_work_group_info(info.WORK_GROUP_SIZE, self.device)
        stated = kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, self.device)
        return int(most), [int(size) for size in stated]

    def attempt(self, launches: Sequence[Launch]) -> None:
        """Launches the kernels once of which the driver's account is that they do not run.

        :raises Refused: one does not.
        """
        for launch in launches:
            if launch.kernel not in self._doubtful:
                continue
            self._doubtful.discard(launch.kernel)
            self._ready(launch)()
            try:
                self.finish()
            except self._cl.Error as problem:
                raise self._refused(launch, problem) from problem

    def _refused(self, launch: Launch, problem: Exception) -> Refused:
        return Refused({launch.kernel: f"{self.name} does not run it: {_said(problem)}"})

    def _built(self, source: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pyopencl warns of any output of the compiler.
                return self._cl.Program(self._context, source).build(self._options)
        except self._cl.Error as problem:
            raise TargetError(f"{self.name} cannot build the source: {_said(problem)}") from problem

    def prepare(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """Launches one after the other; a launch raises :class:`Refused` where the driver does."""
        ready = [self._ready(launch) for launch in launches]

        def run() -> None:
            for launch in ready:
                launch()
            self._queue.flush()

        return run

    def _ready(self, launch: Launch) -> Callable[[], None]:
        """What launches a kernel without an event, which pyopencl always asks for: on NVIDIA's
        driver each event costs the device about two microseconds between kernels."""
        # A kernel object holds its arguments, so every launch has its own.
        kernel = self._cl.Kernel(self._kernels[launch.kernel].program, launch.kernel)
        kernel.set_args(*launch.arguments)
        block = list(launch.entry.block)
        size = [g * b for g, b in zip(launch.entry.grid, block, strict=True)]
        enqueue, none = self._enqueue, ctypes.c_void_p()
        sizes, blocks = (ctypes.c_size_t * 3)(*size), (ctypes.c_size_t * 3)(*block)
        call = (ctypes.c_void_p(self._queue.int_ptr), ctypes.c_void_p(kernel.int_ptr), 3, none,
                sizes, blocks, 0, none, none)  # fmt: skip

        def with_event() -> None:
            try:
                self._cl.enqueue_nd_range_kernel(self._queue, kernel, size, block)
            except self._cl.Error as problem:
                raise self._refused(launch, problem) from problem

        def without() -> None:
            if enqueue(*call):
                with_event()  # It says what is wrong.

        return with_event if enqueue is None else without

    def finish(self) -> None:
        """Waits."""
        self._queue.finish()

    def time(self, run: Callable[[], None], repeat: int, host: bool = False) -> list[float]:
        """By the host's clock, of a queue that was filled while the device was busy.

        What keeps it busy is timed alone and subtracted. So gaps that the device makes between
        kernels count, and what launching costs the host does not, as with a CUDA graph. Events of a
        profiling queue would not tell: they make the gaps longer.
        """
        run()
        self.finish()
        start = time.perf_counter()
        run()
        launching = time.perf_counter() - start
        self.finish()
        if host:
            return [self._elapsed(run) for _ in range(repeat)]
        hold = self._hold(2 * launching + _MARGIN)
        pairs = [(self._elapsed(hold), self._elapsed(hold, run)) for _ in range(repeat)]
        # The least: on a busy machine one that took longer would make what follows it look faster.
        alone = min(each for each, _ in pairs)
        return [max(both - alone, 1e-9) for _, both in pairs]

    def _elapsed(self, *parts: Callable[[], None]) -> float:
        start = time.perf_counter()
        for part in parts:
            part()
        self.finish()
        return time.perf_counter() - start

    def _hold(self, seconds: float) -> Callable[[], None]:
        """What keeps the device busy for at least so long."""
        if self._holder is None:
            kernel = self._cl.Kernel(self._built(_HOLD), "hold")
            memory = self.allocate(4)
            self._elapsed(self._holding(kernel, memory, _CALIBRATED))
            taken = self._elapsed(self._holding(kernel, memory, _CALIBRATED))
            self._holder = kernel, memory, _CALIBRATED / taken
        kernel, memory, rate = self._holder
        return self._holding(kernel, memory, min(int(rate * seconds) + 1, 2**32 - 1))

    def _holding(self, kernel: Any, memory: Memory, count: int) -> Callable[[], None]:
        def run() -> None:
            kernel.set_args(memory, np.uint32(count))
            self._cl.enqueue_nd_range_kernel(self._queue, kernel, [1], [1])
            self._queue.flush()

        return run

    def seconds(self, launches: Sequence[Launch], repeat: int) -> list[float]:
        """As :meth:`time`, of short launches several times in a row."""
        once = self.prepare(launches)
        self._elapsed(once)
        inside = min(max(int(_LONG / self._elapsed(once)), 1), _TOGETHER)
        run = self.prepare([*launches] * inside)
        return [seconds / inside for seconds in self.time(run, repeat)]


def _native_enqueue(cl: Any) -> Any:
    """``clEnqueueNDRangeKernel`` of the loader that pyopencl is bound to; None where the system
    does not find it from there."""
    try:
        return ctypes.CDLL(cl._cl.__file__).clEnqueueNDRangeKernel  # noqa: SLF001 (its loader)
    except (OSError, AttributeError):
        return None


def _said(problem: Exception) -> str:
    """A driver's complaint in one line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|warning)\b", line)]
    return (errors or lines or [type(problem).__name__])[0]
