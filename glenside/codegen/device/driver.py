"""The CUDA driver, for what CuPy's bindings cannot say or take long to: kernels with tensor maps,
early launches, and graphs whose kernels are pointed to other memory.

Programmatic stream serialization (CUDA C++ programming guide, "Programmatic Dependent Launch") lets
the groups of a kernel take their places while the kernel before it still runs, and wait there by
themselves. In a graph it is the kind of the edge between them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

from glenside.codegen.plan import Entry, TensorMap
from glenside.errors import TargetError

_SERIALIZATION = 6
"""The driver's number of the attribute."""
_PROGRAMMATIC = 1
"""Its number of the kind of edge, and of the port that such an edge leaves a kernel by."""
_ATTRIBUTE_WORDS = 8
"""Of 8 bytes each, for the value of any attribute."""
_BYTES = 128
"""Of a tensor map, which lies at a multiple of 64."""
_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}
_SWAPPED = {32: 1, 64: 2, 128: 3}
_PROMOTED = 3
"""To 256 bytes: how much the shared cache fetches at a time."""

Handle = ctypes.c_void_p
"""What the driver calls a stream, a graph, an event or a context."""


class _Attribute(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_uint),
        ("unused", ctypes.c_uint),
        ("value", ctypes.c_int * (2 * _ATTRIBUTE_WORDS)),
    ]


class _Configuration(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("local_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    ]


class _Node(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("local_bytes", ctypes.c_uint),
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class _Edge(ctypes.Structure):
    _fields_ = [
        ("from_port", ctypes.c_ubyte),
        ("to_port", ctypes.c_ubyte),
        ("kind", ctypes.c_ubyte),
        ("unused", ctypes.c_ubyte * 5),
    ]


@functools.cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        raise TargetError(f"there is no CUDA driver: {problem}") from problem


def function(name: str) -> Callable[..., int]:
    """The driver's function.

    :raises TargetError: there is no driver, or it is too old to have one.
    """
    try:
        found: Callable[..., int] = getattr(_driver(), name)
    except AttributeError as problem:
        raise TargetError(f"the CUDA driver has no {name}: {problem}") from problem
    return found


def call(name: str, *values: Any) -> None:
    """:raises TargetError: the driver has no such function, or it fails."""
    code = function(name)(*values)
    if code:
        raise TargetError(f"the CUDA driver refuses {name}: error {code}")


class DriverLaunch:
    """One kernel with its pointers and the maps of tensors behind them; calling launches it."""

    def __init__(
        self, kernel: int, entry: Entry, pointers: Sequence[int], *, early: bool = False
    ) -> None:
        """Writes the maps, which hold the tensors' addresses.

        :param kernel: the driver's handle.
        :param early: while the kernel before it runs, for which it waits by itself.
        :raises TargetError: the driver refuses a map.
        """
        self.early = early
        self._pointers = [ctypes.c_uint64(each) for each in pointers]
        self._maps = [(each, _encoded(each, pointers[each.argument])) for each in entry.maps]
        places = [ctypes.addressof(each) for each in self._pointers]
        places += [ctypes.addressof(made) for _, made in self._maps]
        self._kernel = Handle(kernel)
        self._parameters = (ctypes.c_void_p * max(len(places), 1))(*places)
        self._attribute = _Attribute(_SERIALIZATION)
        self._attribute.value[0] = 1
        grid, block = (ctypes.c_uint * 3)(*entry.grid), (ctypes.c_uint * 3)(*entry.block)
        self._configuration = _Configuration(
            grid, block, entry.local_bytes, 0, ctypes.pointer(self._attribute), int(early)
        )
        where = ctypes.addressof(self._parameters)
        self.node = _Node(kernel, grid, block, entry.local_bytes, where)
        """The same as a graph's node has it."""
        self._launch = function("cuLaunchKernelEx")
        self._arguments = (ctypes.byref(self._configuration), self._kernel, self._parameters)

    def __call__(self, stream: int) -> None:
        """Launches; :raises TargetError: the driver does not."""
        self._configuration.stream = stream
        code = self._launch(*self._arguments, None)
        if code:
            raise TargetError(f"the CUDA driver does not launch a kernel: error {code}")

    def point(self, argument: int, pointer: int) -> None:
        """Lets an argument be elsewhere from the next launch on."""
        self._pointers[argument].value = pointer
        for described, made in self._maps:
            if described.argument == argument:
                where = Handle(pointer + described.offset)
                call("cuTensorMapReplaceAddress", ctypes.byref(made), where)


class Graph:
    """Kernels in a row, launched as one."""

    def __init__(self, launches: Sequence[DriverLaunch]) -> None:
        """Those that run early take their places while the one before them runs."""
        self._graph, self._ready = Handle(), Handle()
        self._nodes: list[Handle] = []
        call("cuGraphCreate", ctypes.byref(self._graph), ctypes.c_uint(0))
        before: Handle | None = None
        for each in launches:
            node = Handle()
            plain = before is not None and not each.early
            call(
                "cuGraphAddKernelNode_v2",
                ctypes.byref(node),
                self._graph,
                ctypes.byref(before) if before is not None and plain else None,
                ctypes.c_size_t(int(plain)),
                ctypes.byref(each.node),
            )
            if before is not None and not plain:
                self._follow(before, node)
            self._nodes.append(node)
            before = node
        call(
            "cuGraphInstantiateWithFlags",
            ctypes.byref(self._ready),
            self._graph,
            ctypes.c_ulonglong(0),
        )
        self._launches = list(launches)
        self._launch = function("cuGraphLaunch")
        self._update = function("cuGraphExecKernelNodeSetParams_v2")
        self._updates = [
            (self._ready, node, ctypes.byref(each.node))
            for node, each in zip(self._nodes, launches, strict=True)
        ]

    def _follow(self, before: Handle, node: Handle) -> None:
        edge = _Edge(_PROGRAMMATIC, 0, _PROGRAMMATIC)
        call(
            "cuGraphAddDependencies_v2",
            self._graph,
            ctypes.byref(before),
            ctypes.byref(node),
            ctypes.byref(edge),
            ctypes.c_size_t(1),
        )

    def upload(self, stream: int) -> None:
        """Lets the device know it before it is launched."""
        call("cuGraphUpload", self._ready, Handle(stream))

    def __call__(self, stream: int) -> None:
        """Launches; :raises TargetError: the driver does not."""
        code = self._launch(self._ready, Handle(stream))
        if code:
            raise TargetError(f"the CUDA driver does not launch a graph: error {code}")

    def renew(self, number: int) -> None:
        """Takes over what :meth:`DriverLaunch.point` changed of a kernel; launches under way keep
        what they have."""
        code = self._update(*self._updates[number])
        if code:
            raise TargetError(f"the CUDA driver does not change a graph: error {code}")

    def __del__(self) -> None:
        try:
            if self._ready:
                function("cuGraphExecDestroy")(self._ready)
            if self._graph:
                function("cuGraphDestroy")(self._graph)
        except (TargetError, AttributeError, TypeError):  # The interpreter ends.
            pass


def _encoded(described: TensorMap, pointer: int) -> Any:
    raw = (ctypes.c_uint8 * (_BYTES + 64))()
    shift = -ctypes.addressof(raw) % 64
    made = (ctypes.c_uint8 * _BYTES).from_buffer(raw, shift)
    rank = len(described.sizes)
    code = function("cuTensorMapEncodeTiled")(
        ctypes.c_void_p(ctypes.addressof(made)),
        _TYPES[described.dtype],
        ctypes.c_uint32(rank),
        ctypes.c_void_p(pointer + described.offset),
        (ctypes.c_uint64 * rank)(*described.sizes),
        (ctypes.c_uint64 * max(rank - 1, 1))(*described.strides),
        (ctypes.c_uint32 * rank)(*described.box),
        (ctypes.c_uint32 * rank)(*described.steps),
        0,
        _SWAPPED[described.line],
        _PROMOTED,
        0,
    )
    if code:
        raise TargetError(f"the CUDA driver refuses a map of a tensor, error {code}: {described}")
    return made
