"""Calls with tensors on a CUDA device: on the caller's stream, without waiting, without copies.

A program's kernels are one graph, made once, together with kernels that lay out row by row what the
program stores otherwise. They are pointed to the caller's tensors: the graph's nodes that name one
are renewed, which costs the host about 1.5 microseconds each, and the device nothing. A value that
many kernels name is copied where that is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.arguments import as_input
from glenside.codegen.device.device import Launch, Memory
from glenside.codegen.device.driver import DriverLaunch, Graph
from glenside.codegen.device.streams import (
    Loans,
    StreamOrder,
    copy_on_device,
    copy_to_device,
    wait,
)
from glenside.codegen.device.tensors import ALIGNED, Package, Wanted, open_package
from glenside.codegen.plan import KernelCall, Place, Plan, is_constant
from glenside.errors import InputError, TargetError
from glenside.language.shape import AccessType

if TYPE_CHECKING:
    from glenside.codegen.device.cuda import CudaDevice

_RENEWING = 2e-6
"""Seconds that pointing a kernel to other memory takes on the host."""
_COPYING, _BANDWIDTH = 7e-6, 2e12
"""Seconds that a copy takes at least, and bytes that are copied in one."""


@dataclass
class Buffer:
    """Memory that kernels name, and where they look for it."""

    home: Memory
    """Its own."""
    uses: list[tuple[int, int]]
    """Launches, and the arguments of them, that name it."""
    bytes: int
    pointer: int = field(init=False)
    """Where kernels look for it now."""
    moves: int = 0
    """How often they were to be pointed elsewhere."""

    def __post_init__(self) -> None:
        self.pointer = self.home.ptr

    def stays(self) -> bool:
        """Whether copying is cheaper than pointing all that name it elsewhere."""
        return _COPYING + self.bytes / _BANDWIDTH < _RENEWING * len(self.uses)


@dataclass
class Value:
    """An input or an output, row by row in a buffer: one of the program's, or one from or to which
    a kernel copies what the program stores otherwise."""

    wanted: Wanted
    buffer: Buffer


@dataclass(slots=True)
class _Moves:
    """What a call does beside launching kernels."""

    uploads: list[tuple[Value, Any]] = field(default_factory=list)
    """Inputs that lie on the host."""
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    """Inputs that are copied: to where, from where, and how many bytes."""
    results: list[Any] = field(default_factory=list)
    late: list[tuple[int, int, int]] = field(default_factory=list)
    """Outputs that are copied afterwards, likewise."""
    kept: list[Any] = field(default_factory=list)
    """What holds values until kernels have read them."""


class TensorCalls:
    """What a program for CUDA is called by."""

    def __init__(
        self,
        plan: Plan,
        memory: Sequence[Memory],
        launches: Sequence[Launch],
        device: CudaDevice,
        whole: Callable[[], None] | None = None,
        order: StreamOrder | None = None,
    ) -> None:
        """
        :param memory: of each buffer.
        :param launches: all of the program, in order.
        :param whole: runs a program that has host operators, and waits for it.
        :param order: of all that uses the program's memory.
        """
        self._plan, self._device, self._whole = plan, device, whole
        self._memory, self._kernels = memory, launches
        self._launches: list[DriverLaunch] = []
        self._named: dict[int, Buffer] = {}
        self.inputs = self._taken()
        self._begun = len(self._launches)
        if whole is None:
            self._add(launches)
        self.outputs = self._written()
        self._graph = Graph(self._launches) if self._launches and whole is None else None
        if self._graph is not None:
            self._graph.upload(device.stream.ptr)
        self._changed: set[int] = set()
        self._order, self._loans = order or StreamOrder(), Loans()
        self._packages: dict[str, Package] = {}

    # --- what lies where --------------------------------------------------------------------------

    def _buffer(self, slot: int) -> Buffer:
        """One of the program's."""
        if slot not in self._named:
            told = self._plan.slots[slot]
            count = told.size * np.dtype(told.dtype).itemsize
            self._named[slot] = Buffer(self._memory[slot], [], count)
        return self._named[slot]

    def _add(self, launches: Sequence[Launch]) -> None:
        steps = [step for step in self._plan.steps if isinstance(step, KernelCall)]
        for launch, step in zip(launches, steps, strict=True):
            for argument, (slot, _, _) in enumerate(step.arguments):
                self._buffer(slot).uses.append((len(self._launches), argument))
            self._launches.append(self._device.ready(launch))

    def _taken(self) -> list[Value]:
        types = self._plan.taken()
        return [
            Value(wanted, self._buffer(place.buffer))
            if self._whole is None and self._row_by_row(place)
            else self._copied(wanted, place, back=False)
            for wanted, place in (
                (Wanted(name, types[name]), place) for name, place in self._plan.inputs.items()
            )
        ]

    def _written(self) -> list[Value]:
        """What is no buffer's only value, or an input's, is copied."""
        taken = {place.buffer for place in self._plan.inputs.values()}
        values = []
        for number, place in enumerate(self._plan.outputs):
            wanted = Wanted(str(number), AccessType(tuple(place.shape), (), place.dtype))
            there = self._whole is None and self._row_by_row(place)
            if there and place.buffer not in taken and not is_constant(place, self._plan):
                values.append(Value(wanted, self._buffer(place.buffer)))
            else:
                values.append(self._copied(wanted, place, back=True))
            taken.add(place.buffer)
        return values

    def _row_by_row(self, place: Place) -> bool:
        """Whether a value fills its buffer as a plain array does."""
        atoms = [(size, stride) for axis in place.axes for size, stride in axis if size > 1]
        sizes = [size for size, _ in atoms]
        plain = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        filled = self._plan.slots[place.buffer].size == math.prod(place.shape)
        return filled and place.offset == 0 and [stride for _, stride in atoms] == plain

    def _copied(self, wanted: Wanted, place: Place, back: bool) -> Value:
        """A value that a kernel copies, from a buffer or (``back``) to one that is row by row."""
        number, there = len(self._launches), self._buffer(place.buffer)
        here = Buffer(self._device.allocate(wanted.bytes), [(number, int(back))], wanted.bytes)
        there.uses.append((number, int(not back)))
        pair = (there, here) if back else (here, there)
        pointers = [each.home.ptr for each in pair]
        itemsize = wanted.dtype.itemsize
        self._launches.append(self._device.copying(place, itemsize, pointers, back))
        return Value(wanted, here)

    # --- calls ------------------------------------------------------------------------------------

    def call(self, kind: str, values: Sequence[Any], out: Sequence[Any] | None) -> list[Any]:
        """The outputs for these inputs, as tensors of the package ``kind``.

        :param out: tensors that outputs are written to; None for new ones.
        :raises InputError: an input is of another shape or dtype, or lies on another device.
        """
        package = self._packages.get(kind) or self._open(kind)
        stream = package.stream()
        moves = self._prepare(package, values, out, stream)
        self._do(moves, stream)
        if package.lends:
            self._loans.keep(moves.kept, stream)
        if out is None:
            return [package.handed_over(each) for each in moves.results]
        return [
            package.handed_over(each) if given is None else given
            for each, given in zip(moves.results, out, strict=True)
        ]

    def bind(self, kind: str, values: Sequence[Any], out: Sequence[Any]) -> Callable[[], None]:
        """What reads these inputs and writes these outputs whenever it is called.

        :raises InputError: as :meth:`call`; or kernels cannot read a tensor where it lies.
        """
        memory, kernels, device = self._memory, self._kernels, self._device
        own = TensorCalls(self._plan, memory, kernels, device, self._whole, self._order)
        package = own._open(kind)
        moves = own._prepare(package, values, out, package.stream())
        if moves.kept and not package.lends:
            raise InputError(
                "bind keeps tensors as they are: they must be contiguous and start at a multiple "
                f"of {ALIGNED} bytes"
            )
        return lambda: own._do(moves, package.stream())

    def at_home(self, stream: int) -> None:
        """Runs with all values in the homes of their buffers."""
        for value in (*self.inputs, *self.outputs):
            self._point(value.buffer, value.buffer.home.ptr)
        self._launch(stream, captured=False)

    def wait(self) -> None:
        """Until no call is under way."""
        self._order.wait()

    def _open(self, kind: str) -> Package:
        inputs = [each.wanted for each in self.inputs]
        outputs = [each.wanted for each in self.outputs]
        self._packages[kind] = package = open_package(kind, self._device, inputs, outputs)
        return package

    def _prepare(
        self, package: Package, values: Sequence[Any], out: Sequence[Any] | None, stream: int
    ) -> _Moves:
        """Points kernels to where values lie; what is left to be done."""
        moves = _Moves()
        for number, value in enumerate(values):
            taken = self.inputs[number]
            buffer, pointer = taken.buffer, None
            if type(value) is not np.ndarray:
                pointer = package.address(value, number, stream, moves.kept)
            if pointer is None:
                self._point(buffer, buffer.home.ptr)
                moves.uploads.append((taken, value))
            elif pointer != buffer.pointer and not self._reached(buffer, pointer):
                moves.copies.append((buffer.pointer, pointer, taken.wanted.bytes))
        for number, made in enumerate(self.outputs):
            given = None if out is None else out[number]
            tensor = package.empty(number) if given is None else given
            moves.results.append(tensor)
            buffer, pointer = made.buffer, package.pointer(tensor)
            if pointer != buffer.pointer and not self._reached(buffer, pointer):
                moves.late.append((pointer, buffer.pointer, made.wanted.bytes))
        return moves

    def _reached(self, buffer: Buffer, pointer: int) -> bool:
        """Whether kernels are pointed there, which they are unless copying is cheaper: what moves
        more than once is copied to and from its home then."""
        buffer.moves += 1
        stays = buffer.moves > 1 and buffer.stays()
        self._point(buffer, buffer.home.ptr if stays else pointer)
        return not stays

    def _point(self, buffer: Buffer, pointer: int) -> None:
        if pointer == buffer.pointer:
            return
        for launch, argument in buffer.uses:
            self._launches[launch].point(argument, pointer)
            self._changed.add(launch)
        buffer.pointer = pointer

    def _do(self, moves: _Moves, stream: int) -> None:
        captured = self._order.captured(stream)
        if not captured:
            self._order.before(stream)
        for taken, value in moves.uploads:
            wanted = taken.wanted
            array = np.ascontiguousarray(as_input(wanted.name, value, wanted.type))
            if array.size:
                copy_to_device(taken.buffer.home.ptr, array, stream)
        for target, source, count in moves.copies:
            copy_on_device(target, source, count, stream)
        self._launch(stream, captured)
        for target, source, count in moves.late:
            copy_on_device(target, source, count, stream)
        if not captured:
            self._order.after(stream)

    def _launch(self, stream: int, captured: bool) -> None:
        if self._whole is not None:
            if captured:
                raise TargetError("a program with host operators cannot be captured in a graph")
            self._each(self._launches[: self._begun], stream)
            wait(stream)
            self._whole()
            self._each(self._launches[self._begun :], stream)
        elif captured:  # A graph is not launched into another.
            self._each(self._launches, stream)
        elif self._graph is not None:
            if self._changed:
                for number in self._changed:
                    self._graph.renew(number)
                self._changed.clear()
            self._graph(stream)

    @staticmethod
    def _each(launches: Sequence[DriverLaunch], stream: int) -> None:
        for launch in launches:
            launch(stream)
