"""What a program needs of a device: memory, transfers and launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from glenside.codegen.plan import Entry
from glenside.errors import TargetError

Array = np.ndarray[Any, Any]


STAGED = 1 << 20
"""Bytes up to which an array goes through :meth:`Device.staging`: on an H200's machine 196 KB took
20 microseconds that way and 28 straight, 4.7 MB 510 and 360."""


class Unsuitable(TargetError):
    """There is no device, or it cannot run what is asked for: not the program's fault."""


class Refused(TargetError):
    """The device does not run some kernels of a program, which may be computed otherwise."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        """``reasons`` are by the kernels' names."""
        super().__init__("; ".join(f"kernel {name}: {why}" for name, why in reasons.items()))
        self.kernels = tuple(reasons)


Memory = Any
"""Bytes on the device, as its package holds them."""


@dataclass(frozen=True)
class Code:
    """A program's kernels: source and, where it was built, machine code for ``architecture``."""

    source: str
    binary: bytes | None = None
    architecture: str = ""


@dataclass(frozen=True)
class Launch:
    """One kernel and the memory that its parameters point to."""

    kernel: str
    entry: Entry
    arguments: Sequence[Memory]


class Device(Protocol):
    """A device with one queue: what is asked for happens in order."""

    @property
    def name(self) -> str:
        """As the driver calls it."""

    def enter(self) -> bool:
        """Lets what the calling thread asks for be asked of this device; whether it was another's
        before, so that this one has to be left."""

    def leave(self) -> None:
        """Gives the calling thread back what it had before :meth:`enter` said so."""

    def allocate(self, size: int) -> Memory:
        """So many bytes, aligned for any kernel."""

    def part(self, memory: Memory, offset: int, size: int) -> Memory:
        """Bytes of ``memory`` from ``offset`` on, a multiple of the plan's alignment."""

    def staging(self, size: int) -> Array:
        """So many bytes on the host, from and to which transfers are quick."""

    def send(self, memory: Memory, offset: int, array: Array) -> None:
        """As :meth:`write`, but the array stays as it is until :meth:`finish` was called."""

    def write(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies a contiguous array to bytes of ``memory`` from ``offset`` on."""

    def fetch(self, memory: Memory, offset: int, array: Array) -> None:
        """As :meth:`read`, but the bytes are there once :meth:`finish` was called."""

    def read(self, memory: Memory, offset: int, array: Array) -> None:
        """Copies bytes of ``memory`` from ``offset`` on into a contiguous array, and waits."""

    def build(self, code: Code, kernels: Mapping[str, Entry]) -> None:
        """Makes the kernels ready to be launched.

        :raises Refused: the device cannot have some of them.
        :raises TargetError: it cannot have any of this source.
        """

    def attempt(self, launches: Sequence[Launch]) -> None:
        """Launches once what may turn out not to run; all memory has to be there.

        :raises Refused: it does not.
        """

    def prepare(self, launches: Sequence[Launch]) -> Callable[[], None]:
        """A function that launches all of these in order, as cheaply as the device can."""

    def finish(self) -> None:
        """Waits for everything asked for."""

    def time(self, run: Callable[[], None], repeat: int, host: bool = False) -> list[float]:
        """Seconds of ``repeat`` calls of what :meth:`prepare` gave, warm: the device's from the
        first kernel to the last, gaps between them included; of ``host``, from the call until
        everything is done."""

    def seconds(self, launches: Sequence[Launch], repeat: int) -> list[float]:
        """How long these took one after the other, ``repeat`` times, by the device's own clock."""
