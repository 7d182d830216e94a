"""Runs a program on a device: memory planned once, parameters uploaded once, few launches.

Steps between host operators form a segment that the device launches as a whole (on CUDA as one
graph). Host operators read and write the planned memory through copies.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.arguments import as_input
from glenside.codegen.device.device import (
    STAGED,
    Code,
    Device,
    Launch,
    Memory,
    Refused,
    Unsuitable,
)
from glenside.codegen.device.tensors import package_of
from glenside.codegen.launch import host_session, in_order, python_function
from glenside.codegen.plan import (
    PLAN,
    HostCall,
    KernelCall,
    Place,
    Plan,
    PythonCall,
    file_hash,
    is_constant,
    row_by_row,
    write_parameters,
)
from glenside.errors import InputError, TargetError
from glenside.language.shape import AccessType
from glenside.language.term import Term

if TYPE_CHECKING:
    from glenside.codegen.device.cuda import CudaDevice
    from glenside.codegen.device.tensor_calls import TensorCalls
    from glenside.codegen.footprint import Footprint
    from glenside.codegen.program.record import Cut
    from glenside.codegen.storage import Origin

Array = np.ndarray[Any, Any]
Span = tuple[int, Array, Array]
"""First byte of a place, a host copy of its bytes, and a view of that with one axis an atom."""

SOURCES = {"opencl": "kernels-{}.cl", "cuda": "kernels-{}.cu"}
BINARY = "kernels-{}.{}.cubin"


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
                    opened = self._open()
                    entered = opened.device.enter()
                    try:
                        return use(opened)
                    finally:
                        if entered:
                            opened.device.leave()
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

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs in the order of :meth:`call`."""
        return tuple(self.plan.inputs)

    def run(self, inputs: Mapping[str, Any]) -> list[Any]:
        """As :meth:`call`, with inputs by name."""
        return self.call(in_order(inputs, self.plan))

    def call(self, values: Sequence[Any], out: Sequence[Any] | None = None) -> list[Any]:
        """The outputs for inputs in order, in arrays of their own or in those of ``out``.

        NumPy arrays in, NumPy arrays out. Where something given is a tensor on a CUDA device, all
        outputs are tensors of its package there: the program is launched on the caller's stream and
        not waited for.

        :raises InputError: an input is of another shape or dtype, or lies on another device.
        """
        kind = self._package(values, out)
        if kind is None:
            return self._on_device(lambda opened: opened.call(values, out))
        return self._on_device(lambda opened: opened.tensor_calls().call(kind, values, out))

    def bind(self, values: Sequence[Any], out: Sequence[Any]) -> Callable[[], object]:
        """What reads these inputs and writes these outputs whenever it is called.

        :raises InputError: as :meth:`call`; or kernels cannot read a tensor where it lies.
        """
        kind = self._package(values, out)
        if kind is None:
            return lambda: self.call(values, out)
        run = self._on_device(lambda opened: opened.tensor_calls().bind(kind, values, out))
        return lambda: self._on_device(lambda _: run())

    def _package(self, values: Sequence[Any], out: Sequence[Any] | None) -> str | None:
        """Which package's tensors results are; None for NumPy's arrays.

        :raises InputError: results are to be written to the host, and inputs lie on the device.
        """
        if self.plan.device != "cuda":
            return None
        kind = None
        for value in values:
            if type(value) is not np.ndarray and (kind := package_of(value)) is not None:
                break
        for value in out or ():
            if value is None:
                continue
            found = package_of(value)
            if found is None and kind is not None:
                raise InputError("out= must lie on the device, as what else is given does")
            kind = kind or found
        return kind

    def trace(self, inputs: Mapping[str, Array]) -> dict[Term, Array]:
        """The value of every term that is materialised, by the terms given to the compiler."""

        def values(opened: _Opened) -> dict[Term, Array]:
            return {
                term: opened.download(place)
                for number in opened.steps(in_order(inputs, self.plan))
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
        self._plain = all(isinstance(step, KernelCall) for step in plan.steps)
        self._sessions = {
            id(step): host_session(step, plan, self.download)
            for step in plan.steps
            if isinstance(step, HostCall)
        }
        self._actions = self._segments()
        self._tensor_calls: TensorCalls | None = None

    # --- places -----------------------------------------------------------------------------------

    def span(self, place: Place) -> Span:
        """A place's bytes, and host memory for them."""
        dtype = np.dtype(self.plan.slots[place.buffer].dtype)
        atoms = [(size, stride) for axis in place.axes for size, stride in axis]
        if 0 in place.shape:
            return 0, np.empty(0, np.uint8), np.empty(place.shape, place.dtype)
        low = sum(min((size - 1) * stride, 0) for size, stride in atoms)
        high = sum(max((size - 1) * stride, 0) for size, stride in atoms)
        held = self.device.staging((high - low + 1) * dtype.itemsize).view(dtype)
        held[...] = 0
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

    def download(self, place: Place) -> Array:
        """A copy of a value on the host."""
        first, held, view = self.span(place)
        self.device.read(self.memory[place.buffer], first, held)
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

    def _segments(self) -> list[Callable[[], None]]:
        actions: list[Callable[[], None]] = []
        waiting: list[KernelCall] = []
        for step in [*self.plan.steps, None]:
            if isinstance(step, KernelCall):
                waiting.append(step)
                continue
            if waiting:
                actions.append(self.device.prepare(self._launches(waiting, self.memory)))
                waiting = []
            if step is not None:
                actions.append(self._host(step))
        return actions

    def _host(self, step: PythonCall | HostCall) -> Callable[[], None]:
        if isinstance(step, PythonCall):
            evaluate = python_function(step)
            operands, results = step.operands, [step.result]

            def compute() -> list[Array]:
                return [evaluate([self.download(place) for place in operands])]

        else:
            session = self._sessions[id(step)]
            given = {n: p for n, p in step.operands.items() if not is_constant(p, self.plan)}
            results = list(step.results.values())

            def compute() -> list[Array]:
                return session.run({n: self.download(p) for n, p in given.items()})

        spans = [self.span(place) for place in results]

        def run() -> None:
            for place, span, value in zip(results, spans, compute(), strict=True):
                self.upload(place, span, value)

        return run

    def call(self, values: Sequence[Any], out: Sequence[Array | None] | None) -> list[Array]:
        """Arrays in, arrays out."""
        calls = self._array_calls
        self._start(calls.taken, values)
        calls.run()
        results = [
            given.fetch(None if out is None else out[number])
            for number, given in enumerate(calls.given)
        ]
        self.device.finish()
        return [result() for result in results]

    def _start(self, taken: Sequence[_Taken], values: Sequence[Any]) -> None:
        self._settle()
        for each, value in zip(taken, values, strict=True):
            each.send(value)

    @functools.cached_property
    def _planned_inputs(self) -> list[_Taken]:
        """Inputs where the plan has them."""
        types = self.plan.taken()
        return [
            _Taken(self, place, self.memory[place.buffer], name, types[name])
            for name, place in self.plan.inputs.items()
        ]

    @functools.cached_property
    def _array_calls(self) -> _ArrayCalls:
        """CUDA lays out row by row on the device what the plan has otherwise."""
        if not (self._plain and self.plan.device == "cuda"):
            given = [_Given(self, p, self.memory[p.buffer]) for p in self.plan.outputs]
            return _ArrayCalls(self._planned_inputs, given, _in_order(self._actions))
        calls, types = self.tensor_calls(), self.plan.taken()
        device: CudaDevice = self.device  # type: ignore[assignment]
        taken = [
            _Taken(self, row_by_row(place), value.buffer.home, name, types[name])
            for (name, place), value in zip(self.plan.inputs.items(), calls.inputs, strict=True)
        ]
        given = [
            _Given(self, row_by_row(place), value.buffer.home)
            for place, value in zip(self.plan.outputs, calls.outputs, strict=True)
        ]
        return _ArrayCalls(taken, given, lambda: calls.at_home(device.stream.ptr))

    def tensor_calls(self) -> TensorCalls:
        """What the program is called by with tensors on a CUDA device."""
        if self._tensor_calls is None:
            from glenside.codegen.device.tensor_calls import TensorCalls

            device: CudaDevice = self.device  # type: ignore[assignment]
            whole = None if self._plain else _in_order([*self._actions, device.finish])
            launches = self.launches()
            self._tensor_calls = TensorCalls(self.plan, self.memory, launches, device, whole)
        return self._tensor_calls

    def __del__(self) -> None:
        # It may not have been opened whole, and the process may end.
        with contextlib.suppress(TargetError, AttributeError):
            self._settle()

    def _settle(self) -> None:
        """Until nothing is under way on callers' streams, which use the same memory."""
        if self._tensor_calls is not None:
            self._tensor_calls.wait()

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
                first, held, view = self.span(place)
                view[...] = given[name].reshape(view.shape)
                self.device.write(memory[place.buffer], first, held)
            sets.append(memory)
        calls = [step for step in self.plan.steps if isinstance(step, KernelCall)]
        launches = [
            each for k in range(inside) for each in self._launches(calls, sets[k % len(sets)])
        ]
        self._settle()
        times = self.device.time(self.device.prepare(launches), repeat, host)
        return [seconds / inside for seconds in times]

    def steps(self, values: Sequence[Any]) -> Iterator[int]:
        """Runs step by step: yields -1 once the inputs are there, then each step's number."""
        self._start(self._planned_inputs, values)
        yield -1
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, KernelCall):
                self.device.prepare(self._launches([step], self.memory))()
            else:
                self._host(step)()
            yield number


def _in_order(actions: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def run() -> None:
        for action in actions:
            action()

    return run


class _Transfer:
    """A place on the device, and how it is reached from the host."""

    def __init__(self, opened: _Opened, place: Place, memory: Memory) -> None:
        self.device, self.memory = opened.device, memory
        self.first, self.held, self.view = opened.span(place)
        self.shape, self.dtype = tuple(place.shape), self.view.dtype
        plain = self.held.nbytes == self.view.nbytes and self.view.flags.c_contiguous
        self.straight = plain and self.held.nbytes > STAGED
        """Whether an array goes there without a copy on the host."""


class _Taken(_Transfer):
    """An input."""

    def __init__(
        self, opened: _Opened, place: Place, memory: Memory, name: str, wanted: AccessType
    ) -> None:
        super().__init__(opened, place, memory)
        self.name, self.wanted = name, wanted

    def send(self, value: Any) -> None:
        """Begins to copy a value to the device; it may be changed once that has finished.

        :raises InputError: it is of another shape or dtype.
        """
        if not (
            type(value) is np.ndarray and value.dtype is self.dtype and value.shape == self.shape
        ):
            value = as_input(self.name, value, self.wanted)
        if self.straight and value.flags.c_contiguous:
            self.device.send(self.memory, self.first, value)
            return
        self.view[...] = value.reshape(self.view.shape)
        self.device.send(self.memory, self.first, self.held)


class _Given(_Transfer):
    """An output."""

    def fetch(self, out: Array | None) -> Callable[[], Array]:
        """Begins to copy from the device, to ``out`` where that is given; what gives the array once
        that has finished."""
        if self.straight and (out is None or out.flags.c_contiguous):
            made = np.empty(self.shape, self.dtype) if out is None else out
            self.device.fetch(self.memory, self.first, made)
            return lambda: made
        self.device.fetch(self.memory, self.first, self.held)

        def result() -> Array:
            value = self.view.reshape(self.shape)
            if out is None:
                return np.array(value, order="C")
            out[...] = value
            return out

        return result


@dataclass(frozen=True)
class _ArrayCalls:
    """What a call with arrays goes by."""

    taken: Sequence[_Taken]
    given: Sequence[_Given]
    run: Callable[[], None]
    """Launches what lies between."""
