"""Calls with tensors on a CUDA device: on the caller's stream, without waiting, without copies.

A program's kernels are one graph, captured once. Where an input or an output lies as kernels have
it, they are pointed to the caller's tensor: the graph's nodes that name it are renewed, which costs
the host about 1.5 microseconds each, and the device nothing. A value that many kernels name is
copied where that is cheaper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.arguments import as_input
from glenside.codegen.device.device import Launch
from glenside.codegen.device.driver import Graph
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

    home: int
    """Its own address."""
    uses: list[tuple[int, int]]
    """Launches, and the arguments of them, that name it."""
    bytes: int
    pointer: int = field(init=False)
    """Where kernels look for it now."""
    moves: int = 0
    """How often they were to be pointed elsewhere."""
    stays: bool = field(init=False)
    """Whether copying is cheaper than pointing all that name it elsewhere."""

    def __post_init__(self) -> None:
        self.pointer = self.home
        copying = _COPYING + self.bytes / _BANDWIDTH
        self.stays = copying < _RENEWING * len(self.uses)


@dataclass
class _Value:
    """An input or an output."""

    wanted: Wanted
    place: Place
    buffer: Buffer
    direct: bool
    """Whether kernels can read or write it in a tensor."""


@dataclass
class _Moves:
    """What a call does beside launching kernels."""

    uploads: list[tuple[_Value, Any]] = field(default_factory=list)
    """Inputs that lie on the host."""
    copies: list[tuple[_Value, int]] = field(default_factory=list)
    """Inputs that are copied, and from where."""
    results: list[Any] = field(default_factory=list)
    late: list[tuple[_Value, int]] = field(default_factory=list)
    """Outputs that are copied, and to where."""
    kept: list[Any] = field(default_factory=list)
    """What holds values until kernels have read them."""


class TensorCalls:
    """What a program for CUDA is called by, where what it is given lies on the device."""

    def __init__(
        self,
        plan: Plan,
        memory: Sequence[int],
        launches: Sequence[Launch],
        device: CudaDevice,
        whole: Callable[[], None] | None = None,
        order: StreamOrder | None = None,
    ) -> None:
        """Opens nothing yet but a graph.

        :param memory: the address of each buffer.
        :param launches: all of the program, in order.
        :param whole: runs a program that has host operators, and waits for it.
        :param order: of all that uses the program's memory.
        """
        self._plan, self._device, self._whole = plan, device, whole
        self._memory, self._given_launches = memory, launches
        self._launches = [] if whole else [device.ready(each) for each in launches]
        self._graph = Graph(self._launches) if self._launches else None
        if self._graph is not None:
            self._graph.upload(device.stream.ptr)
        self._buffers = self._named()
        types = plan.taken()
        self._inputs = [
            self._value(Wanted(name, types[name]), place) for name, place in plan.inputs.items()
        ]
        self._outputs = self._written()
        self._changed: set[int] = set()
        self._order, self._loans = order or StreamOrder(), Loans()
        self._packages: dict[str, Package] = {}

    # --- what lies where --------------------------------------------------------------------------

    def _named(self) -> list[Buffer]:
        uses: dict[int, list[tuple[int, int]]] = {}
        calls = [step for step in self._plan.steps if isinstance(step, KernelCall)]
        for launch, step in enumerate(calls):
            for argument, (buffer, _, _) in enumerate(step.arguments):
                uses.setdefault(buffer, []).append((launch, argument))
        return [
            Buffer(home, uses.get(n, []), slot.size * np.dtype(slot.dtype).itemsize)
            for n, (home, slot) in enumerate(zip(self._memory, self._plan.slots, strict=True))
        ]

    def _value(self, wanted: Wanted, place: Place) -> _Value:
        slot = self._plan.slots[place.buffer]
        atoms = [(size, stride) for axis in place.axes for size, stride in axis if size > 1]
        sizes = [size for size, _ in atoms]
        plain = [int(np.prod(sizes[k + 1 :], dtype=np.int64)) for k in range(len(sizes))]
        direct = (
            self._whole is None
            and place.offset == 0
            and [stride for _, stride in atoms] == plain
            and slot.size == int(np.prod(wanted.shape, dtype=np.int64))
        )
        return _Value(wanted, place, self._buffers[place.buffer], direct)

    def _written(self) -> list[_Value]:
        """The outputs; those that are no buffer's only value, or an input's, are copied."""
        taken = {place.buffer for place in self._plan.inputs.values()}
        values = []
        for number, place in enumerate(self._plan.outputs):
            wanted = Wanted(str(number), AccessType(tuple(place.shape), (), place.dtype))
            value = self._value(wanted, place)
            if place.buffer in taken or is_constant(place, self._plan):
                value.direct = False
            taken.add(place.buffer)
            values.append(value)
        return values

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
        own = TensorCalls(
            self._plan,
            self._memory,
            self._given_launches,
            self._device,
            self._whole,
            self._order,
        )
        package = own._open(kind)
        moves = own._prepare(package, values, out, package.stream())
        if moves.kept and not package.lends:
            raise InputError(
                "bind keeps tensors as they are: they must be contiguous and start at a multiple "
                f"of {ALIGNED} bytes"
            )
        return lambda: own._do(moves, package.stream())

    def wait(self) -> None:
        """Until no call is under way."""
        self._order.wait()

    def _open(self, kind: str) -> Package:
        inputs = [each.wanted for each in self._inputs]
        outputs = [each.wanted for each in self._outputs]
        self._packages[kind] = package = open_package(kind, self._device, inputs, outputs)
        return package

    def _prepare(
        self, package: Package, values: Sequence[Any], out: Sequence[Any] | None, stream: int
    ) -> _Moves:
        """Points kernels to where values lie; what is left to be done."""
        moves = _Moves()
        for number, value in enumerate(values):
            taken = self._inputs[number]
            pointer = None
            if type(value) is not np.ndarray:
                pointer = package.address(value, number, stream, moves.kept)
            if pointer is None:
                self._point(taken.buffer, taken.buffer.home)
                moves.uploads.append((taken, value))
            elif not (taken.direct and self._reached(taken.buffer, pointer)):
                moves.copies.append((taken, pointer))
        for number, value in enumerate(self._outputs):
            given = None if out is None else out[number]
            tensor = package.empty(number) if given is None else given
            moves.results.append(tensor)
            pointer = package.pointer(tensor)
            if not (value.direct and self._reached(value.buffer, pointer)):
                moves.late.append((value, pointer))
        return moves

    def _reached(self, buffer: Buffer, pointer: int) -> bool:
        """Whether kernels are pointed there, which they are unless copying is cheaper."""
        if pointer == buffer.pointer:
            return True
        buffer.moves += 1
        if buffer.moves > 1 and buffer.stays:
            self._point(buffer, buffer.home)
            return False
        self._point(buffer, pointer)
        return True

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
            self._upload(taken, value, stream)
        for taken, pointer in moves.copies:
            self._copy(taken, pointer, stream, back=False)
        self._launch(stream, captured)
        for value, pointer in moves.late:
            self._copy(value, pointer, stream, back=True)
        if not captured:
            self._order.after(stream)

    def _launch(self, stream: int, captured: bool) -> None:
        if captured:  # A graph is not launched into another.
            if self._whole is not None:
                raise TargetError("a program with host operators cannot be captured in a graph")
            for launch in self._launches:
                launch(stream)
            return
        if self._whole is not None:
            wait(stream)
            self._whole()
        elif self._graph is not None:
            if self._changed:
                for number in self._changed:
                    self._graph.renew(number)
                self._changed.clear()
            self._graph(stream)

    # --- what is copied ---------------------------------------------------------------------------

    def _upload(self, taken: _Value, given: Any, stream: int) -> None:
        array = as_input(taken.wanted.name, given, taken.wanted.type)
        if not array.size:
            return
        if taken.direct:
            copy_to_device(taken.buffer.home, np.ascontiguousarray(array), stream)
            return
        array = np.ascontiguousarray(array)
        held = self._device.allocate(array.nbytes)
        copy_to_device(held.ptr, array, stream)
        self._copy(taken, held.ptr, stream, back=False)
        wait(stream)

    def _copy(self, value: _Value, pointer: int, stream: int, back: bool) -> None:
        """Copies plain values at an address to their buffer, or back."""
        wanted, place, home = value.wanted, value.place, value.buffer.pointer
        if not wanted.bytes:
            return
        if value.direct:
            pair = (pointer, home) if back else (home, pointer)
            copy_on_device(*pair, wanted.bytes, stream)
            return
        atoms = [(size, stride) for axis in place.axes for size, stride in axis]
        item = wanted.dtype.itemsize
        sizes = [size for size, _ in atoms]
        plain = [item * math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
        strides = [stride * item for _, stride in atoms]
        there = self._device.view(home + place.offset * item, sizes, strides, item)
        here = self._device.view(pointer, sizes, plain, item)
        self._device.copy(*((here, there) if back else (there, here)), stream)
