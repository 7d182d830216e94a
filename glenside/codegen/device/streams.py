"""CUDA's streams: which device a thread asks, and what comes after what.

A program is launched on its caller's stream. Its memory is one, so that calls on several streams
follow each other.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

from glenside.codegen.device.driver import Handle, call, function
from glenside.errors import TargetError

DEFAULT_STREAMS = (0, 1)
"""Two names of the stream that is always there."""
_UNTIMED = 2
"""Of an event: it keeps no time, which makes it cheaper."""


class Scope:
    """The context that was current where this was made."""

    def __init__(self) -> None:
        """:raises TargetError: none is."""
        self._there, self._before = Handle(), Handle()
        self._get = function("cuCtxGetCurrent")
        call("cuCtxGetCurrent", ctypes.byref(self._there))

    def enter(self) -> bool:
        """Makes it the calling thread's; whether it was not, so that it has to be left."""
        now = Handle()
        self._get(ctypes.byref(now))
        if now.value == self._there.value:
            return False
        call("cuCtxPushCurrent_v2", self._there)
        return True

    def leave(self) -> None:
        """Makes the one before it the calling thread's again."""
        call("cuCtxPopCurrent_v2", ctypes.byref(Handle()))


class StreamOrder:
    """Lets what uses the same memory on one stream follow what used it on another."""

    def __init__(self) -> None:
        self._event = Handle()
        call("cuEventCreate", ctypes.byref(self._event), ctypes.c_uint(_UNTIMED))
        self._last: int | None = None
        self._record = function("cuEventRecord")
        self._capturing = function("cuStreamIsCapturing")
        self._answer = ctypes.c_int()

    def captured(self, stream: int) -> bool:
        """Whether what is asked of the stream is written into a graph of the caller's instead."""
        if stream in DEFAULT_STREAMS:
            return False
        self._capturing(Handle(stream), ctypes.byref(self._answer))
        return self._answer.value == 1

    def before(self, stream: int) -> None:
        """Lets the stream wait for what was launched last, if that was on another."""
        if self._last is None or stream == self._last:
            return
        if self._last in DEFAULT_STREAMS:
            call("cuEventRecord", self._event, Handle(self._last))
        call("cuStreamWaitEvent", Handle(stream), self._event, ctypes.c_uint(0))

    def after(self, stream: int) -> None:
        """Notes that something was launched on the stream, which its owner may do away with."""
        self._last = stream
        if stream not in DEFAULT_STREAMS:
            code = self._record(self._event, Handle(stream))
            if code:
                raise TargetError(f"the CUDA driver does not record an event: error {code}")

    def wait(self) -> None:
        """Waits on the host for all of it."""
        if self._last is not None and self._last in DEFAULT_STREAMS:
            wait(self._last)
        elif self._last is not None:
            call("cuEventSynchronize", self._event)
        self._last = None

    def __del__(self) -> None:
        try:
            self.wait()
            function("cuEventDestroy_v2")(self._event)
        except (TargetError, AttributeError, TypeError):  # The interpreter ends.
            pass


class Loans:
    """Keeps what kernels under way read."""

    def __init__(self) -> None:
        self._held: deque[tuple[Handle, list[Any]]] = deque()

    def keep(self, values: list[Any], stream: int) -> None:
        """Until all that was launched on the stream by now is done."""
        event = Handle()
        while self._held and function("cuEventQuery")(self._held[0][0]) == 0:
            done, _ = self._held.popleft()
            if event:
                function("cuEventDestroy_v2")(done)
            else:
                event = done
        if not event:
            call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(_UNTIMED))
        call("cuEventRecord", event, Handle(stream))
        self._held.append((event, values))


def copy_on_device(target: int, source: int, count: int, stream: int) -> None:
    """Begins to copy bytes within the device's memory."""
    call(
        "cuMemcpyDtoDAsync_v2",
        ctypes.c_uint64(target),
        ctypes.c_uint64(source),
        ctypes.c_size_t(count),
        Handle(stream),
    )


def copy_to_device(target: int, array: Any, stream: int) -> None:
    """Copies an array of the host's to an address on the device."""
    where = ctypes.c_void_p(array.ctypes.data)
    count = ctypes.c_size_t(array.nbytes)
    call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(target), where, count, Handle(stream))
    wait(stream)


def wait(stream: int) -> None:
    """Until all that was asked of the stream is done."""
    call("cuStreamSynchronize", Handle(stream))
