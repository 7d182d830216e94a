"""Runs a program on a device: memory planned once, parameters uploaded once, few launches.

Steps between host operators form a segment that the device launches as a whole (on CUDA as one
graph). Host operators read and write the planned memory through copies.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.device.device import Code, Device, Launch, Memory, Refused, Unsuitable
from glenside.codegen.launch import host_session, python_function
from glenside.codegen.plan import (
    PLAN,
    HostCall,
    KernelCall,
    Place,
    Plan,
    PythonCall,
    file_hash,
    is_constant,
    write_parameters,
)
from glenside.errors import InputError, TargetError
from glenside.language.term import Term

if TYPE_CHECKING:
    from glenside.codegen.device.cuda import CudaDevice
    from glenside.codegen.footprint import Footprint
    from glenside.codegen.program.record import Cut
    from glenside.codegen.storage import Origin

Array = np.ndarray[Any, Any]
Span = tuple[int, Array, Array]
"""First byte of a place, a host copy of its bytes, and a view of that with one axis an atom."""

Addresses = tuple[tuple[int, int], ...]
"""Buffers whose values lie elsewhere than planned, and where."""

SOURCES = {"opencl": "kernels-{}.cl", "cuda": "kernels-{}.cu"}
BINARY = "kernels-{}.{}.cubin"
_GRAPHS = 4
"""Input addresses for which a captured graph is kept."""
_ALIGNED = 16
"""Bytes at which an input must start for kernels to read it where it lies."""


def open_device(kind: str) -> Device:
    """The machine's device.

    :raises TargetError: there is none, or the package that drives it is not installed.
    """
    if kind == "opencl":
        from glenside.codegen.device.opencl import OpenCLDevice

        return OpenCLDevice()
    from glenside.codegen.device.cuda import CudaDevice

    return CudaDevice()


@dataclass(frozen=True)
class MappedProduct:
    """The key of a product's space and the mapping of its kernels, as JSON has it."""

    space: str
    mapping: Mapping[str, Any]


class DeviceExecutable:
    """A program compiled for a device, which is opened at the first run.

    Its memory is planned once, so threads that share it take turns.
    """

    def __init__(
        self,
        plan: Plan,
        parameters: Mapping[int, Array],
        code: Code,
        module: Any = None,
        watched: Mapping[int, Sequence[tuple[Term, Place]]] | None = None,
        device: Device | None = None,
    ) -> None:
        assert plan.device is not None
        self.plan, self.code = plan, code
        self._parameters, self._module = parameters, module
        self._watched = watched or {}
        self._device = device
        self._opened: _Opened | None = None
        self._turn = threading.Lock()
        self.products: dict[int, MappedProduct] = {}
        """By the number of the (first) launch that computes it; empty in a loaded program."""
        self.footprint: Footprint | None = None
        """What it holds; likewise None."""
        self.origins: dict[int, Origin] = {}
        """What parameters are made of, by their slot; likewise."""
        self.start: Cut | None = None
        """What the passes were given that cut the program; likewise None."""
        self.otherwise: Callable[[Refused], DeviceExecutable] | None = None
        """Compiles the program without kernels that the device turned out not to run; None where
        there is no compiler: in a loaded program."""

    @property
    def module(self) -> Any:
        """All kernels as one TVM IRModule, threads bound."""
        return self._module

    @property
    def source(self) -> str:
        """OpenCL C or CUDA C."""
        return self.code.source

    @property
    def takes_tensors(self) -> bool:
        """Whether inputs may lie on the device."""
        return self.plan.device == "cuda"

    def unavailable(self) -> str | None:
        """Why this machine cannot run the program; None where it can.

        :raises TargetError: its device refuses kernels and all other ways to compute the same,
            which is no fault of the machine.
        """
        try:
            self._on_device(lambda opened: None)
        except Unsuitable as problem:
            return str(problem)
        return None

    def _open(self) -> _Opened:
        if self._opened is None:
            device = self._device or open_device(self.plan.device or "")
            self._opened = _Opened(self.plan, self._parameters, self.code, device)
        return self._opened

    def _on_device[T](self, use: Callable[[_Opened], T]) -> T:
        """What ``use`` gives, of the program compiled anew as long as the device refuses kernels.

        :raises TargetError: it does, and there is no other way to compute them.
        """
        with self._turn:
            while True:
                try:
                    return use(self._open())
                except Refused as problem:
                    self._take(self._next(problem))

    def _next(self, problem: Refused) -> DeviceExecutable:
        if self.otherwise is None:
            kind = self.plan.device
            raise TargetError(
                f"{problem}: optimise the model on this machine (target {kind!r}), where kernels "
                "that its device refuses are replaced, and save it again"
            ) from problem
        return self.otherwise(problem)

    def _take(self, other: DeviceExecutable) -> None:
        """Becomes the same program compiled otherwise."""
        self.plan, self.code, self.otherwise = other.plan, other.code, other.otherwise
        self._parameters, self._module = other._parameters, other._module
        self._watched, self._opened = other._watched, None
        self.products, self.origins = other.products, other.origins

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs for these inputs; what is returned is the caller's own.

        NumPy arrays in, NumPy arrays out. Where an input is a tensor on a CUDA device, all outputs
        are tensors of its package on the device.
        """
        foreign = [value for value in inputs.values() if not isinstance(value, np.ndarray)]
        if not foreign:
            return self._on_device(lambda opened: opened.run(inputs))
        return self._on_device(lambda opened: opened.run_tensors(inputs, foreign[0]))

    def trace(self, inputs: Mapping[str, Array]) -> dict[Term, Array]:
        """The value of every term that is materialised, by the terms given to the compiler."""

        def values(opened: _Opened) -> dict[Term, Array]:
            return {
                term: opened.download(place)
                for number in opened.steps(inputs)
                for term, place in self._watched.get(number, ())
            }

        return self._on_device(values)

    def kernel_seconds(self, repeat: int = 7) -> list[tuple[str, float]]:
        """Each launch's kernel and the median of its times by the device's clock."""
        return self._on_device(
            lambda opened: [
                (launch.kernel, float(np.median(opened.device.seconds([launch], repeat))))
                for launch in opened.launches()
            ]
        )

    def run_seconds(
        self,
        inputs: Sequence[Mapping[str, Array]],
        repeat: int = 20,
        inside: int = 1,
        host: bool = False,
    ) -> list[float]:
        """Seconds that the program's launches take, without transfers, ``repeat`` times.

        :param inputs: input sets that runs take in turn, each in memory of its own.
        :param inside: runs that are launched together and share one reading of the clock.
        :param host: whether what launching costs the host counts, or the device's time alone.
        :raises TargetError: the program has host operators.
        """
        if not all(isinstance(step, KernelCall) for step in self.plan.steps):
            raise TargetError("a program with host operators has no time on the device alone")
        return self._on_device(lambda opened: opened.run_seconds(inputs, repeat, inside, host))

    def save(self, directory: str | Path) -> None:
        """Writes source, machine code, plan and parameters; ``launch.load`` reads them."""
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        write_parameters(self.plan, self._parameters, target)
        kind = self.plan.device or ""
        path = target / "kernels"
        path.write_text(self.code.source, encoding="utf-8")
        found = file_hash(path)
        path.rename(target / SOURCES[kind].format(found))
        if self.code.binary is not None:
            name = BINARY.format(found, self.code.architecture)
            (target / name).write_bytes(self.code.binary)
        plan = replace(self.plan, library=found)
        (target / PLAN).write_text(plan.to_json())


def load_device_program(
    plan: Plan, parameters: Mapping[int, Array], source: Path
) -> DeviceExecutable:
    """The program whose plan and parameters were read from the folder ``source``.

    :raises ValueError: the folder's source is not what was written.
    """
    path = source / SOURCES[plan.device or ""].format(plan.library)
    text = path.read_text(encoding="utf-8")
    if file_hash(path) != plan.library:
        raise ValueError(f"{path.name} is not the file that was written")
    code = Code(text)
    for binary in sorted(source.glob(BINARY.format(plan.library, "*"))):
        code = Code(text, binary.read_bytes(), binary.name.split(".")[1])
    return DeviceExecutable(plan, parameters, code)


class _Opened:
    """A program on its device: its memory and what is launched."""

    def __init__(
        self, plan: Plan, parameters: Mapping[int, Array], code: Code, device: Device
    ) -> None:
        self.plan, self.device = plan, device
        device.build(code, plan.kernels)
        self.arena = device.allocate(plan.arena)
        self.memory: list[Memory] = []
        for number, slot in enumerate(plan.slots):
            size = slot.size * np.dtype(slot.dtype).itemsize
            if slot.offset is not None:
                self.memory.append(device.part(self.arena, slot.offset, size))
                continue
            held = device.allocate(size)
            if slot.fill is not None:
                array = np.full(slot.size, slot.fill, slot.dtype)
            else:
                array = np.ascontiguousarray(parameters[number])
            device.write(held, 0, array.view(np.uint8))
            self.memory.append(held)
        device.attempt(self.launches())
        self._staging = {name: self._span(place) for name, place in plan.inputs.items()}
        self._sessions = {
            id(step): host_session(step, plan, self.download)
            for step in plan.steps
            if isinstance(step, HostCall)
        }
        self._actions = self._segments(self.memory)
        self._direct: OrderedDict[Addresses, list[Callable[[], None]]] = OrderedDict()

    # --- places -----------------------------------------------------------------------------------

    def _span(self, place: Place) -> Span:
        dtype = np.dtype(self.plan.slots[place.buffer].dtype)
        atoms = [(size, stride) for axis in place.axes for size, stride in axis]
        if 0 in place.shape:
            return 0, np.empty(0, np.uint8), np.empty(place.shape, place.dtype)
        low = sum(min((size - 1) * stride, 0) for size, stride in atoms)
        high = sum(max((size - 1) * stride, 0) for size, stride in atoms)
        held = np.zeros(high - low + 1, dtype)
        view = np.lib.stride_tricks.as_strided(
            held[-low:].view(place.dtype),
            [size for size, _ in atoms],
            [stride * dtype.itemsize for _, stride in atoms],
        )
        return (place.offset + low) * dtype.itemsize, held.view(np.uint8), view

    def upload(self, place: Place, span: Span, value: Array) -> None:
        """Puts a value in its place."""
        first, held, view = span
        view[...] = value.reshape(view.shape)
        self.device.write(self.memory[place.buffer], first, held)

    def download(self, place: Place, memory: Sequence[Memory] | None = None) -> Array:
        """A copy of a value on the host."""
        first, held, view = self._span(place)
        self.device.read((memory or self.memory)[place.buffer], first, held)
        return np.array(view, order="C").reshape(place.shape)

    # --- running ----------------------------------------------------------------------------------

    def launches(self) -> list[Launch]:
        """All kernels, in order."""
        calls = [step for step in self.plan.steps if isinstance(step, KernelCall)]
        return self._launches(calls, self.memory)

    def _launches(self, calls: Sequence[KernelCall], memory: Sequence[Memory]) -> list[Launch]:
        return [
            Launch(
                call.function,
                self.plan.kernels[call.function],
                # Where a value starts in its buffer is said by the kernel itself.
                [memory[buffer] for buffer, _, _ in call.arguments],
            )
            for call in calls
        ]

    def _segments(self, memory: Sequence[Memory]) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = []
        waiting: list[KernelCall] = []
        for step in [*self.plan.steps, None]:
            if isinstance(step, KernelCall):
                waiting.append(step)
                continue
            if waiting:
                actions.append(self.device.prepare(self._launches(waiting, memory)))
                waiting = []
            if step is not None:
                actions.append(self._host(step, memory))
        return actions

    def _host(self, step: PythonCall | HostCall, memory: Sequence[Memory]) -> Callable[[], None]:
        if isinstance(step, PythonCall):
            evaluate = python_function(step)
            operands, results = step.operands, [step.result]

            def compute() -> list[Array]:
                return [evaluate([self.download(place, memory) for place in operands])]

        else:
            session = self._sessions[id(step)]
            given = {n: p for n, p in step.operands.items() if not is_constant(p, self.plan)}
            results = list(step.results.values())

            def compute() -> list[Array]:
                return session.run({n: self.download(p, memory) for n, p in given.items()})

        spans = [self._span(place) for place in results]

        def run() -> None:
            for place, span, value in zip(results, spans, compute(), strict=True):
                self.upload(place, span, value)

        return run

    def _start(self, inputs: Mapping[str, Array]) -> None:
        for name, place in self.plan.inputs.items():
            if name not in inputs:
                raise InputError(f"no value was given for input {name!r}")
            array = np.asarray(inputs[name])
            if list(array.shape) != place.shape or array.dtype != place.dtype:
                raise InputError(
                    f"input {name!r} is {place.dtype} of shape {tuple(place.shape)}, "
                    f"got {array.dtype} of shape {array.shape}"
                )
            self.upload(place, self._staging[name], array)

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        self._start(inputs)
        for action in self._actions:
            action()
        return [self.download(place) for place in self.plan.outputs]

    def run_seconds(
        self, inputs: Sequence[Mapping[str, Array]], repeat: int, inside: int, host: bool
    ) -> list[float]:
        sets = []
        for given in inputs:
            memory = list(self.memory)
            for name, place in self.plan.inputs.items():
                slot = self.plan.slots[place.buffer]
                size = slot.size * np.dtype(slot.dtype).itemsize
                memory[place.buffer] = self.device.allocate(size)
                first, held, view = self._staging[name]
                view[...] = given[name].reshape(view.shape)
                self.device.write(memory[place.buffer], first, held)
            sets.append(memory)
        calls = [step for step in self.plan.steps if isinstance(step, KernelCall)]
        launches = [
            each for k in range(inside) for each in self._launches(calls, sets[k % len(sets)])
        ]
        times = self.device.time(self.device.prepare(launches), repeat, host)
        return [seconds / inside for seconds in times]

    def steps(self, inputs: Mapping[str, Array]) -> Iterator[int]:
        """Runs step by step: yields -1 once the inputs are there, then each step's number."""
        self._start(inputs)
        yield -1
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, KernelCall):
                self.device.prepare(self._launches([step], self.memory))()
            else:
                self._host(step, self.memory)()
            yield number

    def run_tensors(self, inputs: Mapping[str, Any], like: Any) -> list[Any]:
        """As :meth:`run`, for tensors on a CUDA device; waits for them and is waited for.

        An input that lies as the kernels read it is read where it is; the launches are captured
        once for each set of addresses.

        :raises InputError: a tensor that goes in or out is of bfloat16.
        """
        from glenside.codegen.device import tensors

        places = [p for n, p in self.plan.inputs.items() if not isinstance(inputs[n], np.ndarray)]
        if any(place.dtype == "bfloat16" for place in [*places, *self.plan.outputs]):
            raise InputError("CuPy has no tensors of bfloat16: give NumPy arrays, or cast before")
        device: CudaDevice = self.device  # type: ignore[assignment]
        memory = list(self.memory)
        moved: list[tuple[int, int]] = []
        for name, place in self.plan.inputs.items():
            value = inputs[name]
            if isinstance(value, np.ndarray):
                self.upload(place, self._staging[name], value)
                continue
            array = device.take(value)
            if self._readable(place, array):
                memory[place.buffer] = array.data
                moved.append((place.buffer, array.data.ptr))
            elif array.size:
                device.copy(self._window(place), array.reshape(self._window(place).shape))
        actions = self._actions if not moved else self._captured(tuple(moved), memory)
        for action in actions:
            action()
        results = []
        for place in self.plan.outputs:
            copy = device.fresh(self._window(place, memory))
            results.append(copy.reshape(tuple(place.shape)))
        return tensors.handed_over(results, like, device)

    def _readable(self, place: Place, array: Any) -> bool:
        slot = self.plan.slots[place.buffer]
        strides = [stride for axis in place.axes for size, stride in axis if size > 1]
        sizes = [size for axis in place.axes for size, _ in axis if size > 1]
        plain = [int(np.prod(sizes[k + 1 :], dtype=np.int64)) for k in range(len(sizes))]
        return bool(
            place.offset == 0
            and strides == plain
            and slot.size == array.size
            and array.flags.c_contiguous
            and array.data.ptr % _ALIGNED == 0
        )

    def _captured(self, key: Addresses, memory: list[Memory]) -> list[Callable[[], None]]:
        found = self._direct.pop(key, None)
        if found is None:
            found = self._segments(memory)
        self._direct[key] = found
        if len(self._direct) > _GRAPHS:
            self._direct.popitem(last=False)
        return found

    def _window(self, place: Place, memory: Sequence[Memory] | None = None) -> Any:
        """A place as an array on the device, one axis an atom."""
        device: CudaDevice = self.device  # type: ignore[assignment]
        held = (memory or self.memory)[place.buffer]
        itemsize = np.dtype(self.plan.slots[place.buffer].dtype).itemsize
        atoms = [(size, stride) for axis in place.axes for size, stride in axis]
        return device.view(
            held,
            place.offset * itemsize,
            [size for size, _ in atoms],
            [stride * itemsize for _, stride in atoms],
            place.dtype,
        )
