"""Tensors of other packages (PyTorch, CuPy, JAX) that lie on a CUDA device: told apart, held
against what a program takes, asked for their addresses, and made for its results.

A package says on which stream its caller works. What is asked of a tensor in every call is no more
than it takes to see that it is what it was; all else (copies, other packages' tensors, errors)
comes after that.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glenside.codegen.arguments import (
    mismatch,
    mismatched_result,
    shared_results,
    shared_with_input,
)
from glenside.errors import InputError
from glenside.language.shape import AccessType

if TYPE_CHECKING:
    from glenside.codegen.device.cuda import CudaDevice

_CUDA = 2
"""DLPack's number of CUDA devices."""
ALIGNED = 16
"""Bytes at a multiple of which a tensor must start for kernels to read it where it lies."""
_LEGACY = 1
"""How DLPack and the driver call the default stream, which PyTorch and CuPy call 0."""


def on_cuda(value: object) -> bool:
    """Whether a value is a tensor in a CUDA device's memory."""
    if type(value) is np.ndarray:
        return False
    place = getattr(value, "__dlpack_device__", None)
    try:
        return place is not None and int(place()[0]) == _CUDA
    except Exception:  # Tensors that lie nowhere, such as PyTorch's of the device meta.
        return False


def dtype_of(value: Any) -> str:
    """``float32``, as every package calls it."""
    dtype = value.dtype
    name = _NAMES.get(dtype)
    if name is None:
        name = _NAMES[dtype] = str(dtype).rpartition(".")[2]
    return name


_NAMES: dict[Any, str] = {}
"""Of packages' dtypes that were met."""


def check(name: str, value: Any, wanted: AccessType) -> None:
    """:raises InputError: the tensor has not the shape and dtype of the input."""
    shape, dtype = tuple(value.shape), dtype_of(value)
    if shape != wanted.shape or dtype != wanted.dtype:
        raise mismatch(name, wanted, shape, dtype)


def check_out(name: str, value: Any, wanted: AccessType) -> tuple[int, int]:
    """A tensor that an output is to be written to: the first byte of it, and the one behind it.

    :raises InputError: it is of another shape or dtype, or cannot be written to as it lies.
    """
    if value.shape != wanted.shape or dtype_of(value) != wanted.dtype:
        raise mismatched_result(name, wanted, tuple(value.shape), dtype_of(value))
    if _is_torch(value):
        plain, start = value.is_contiguous() and not value.is_neg(), value.data_ptr()
    elif _is_cupy(value):
        plain, start = value.flags.c_contiguous, value.data.ptr
    else:
        raise InputError(
            f"output {name!r}: out= takes PyTorch's and CuPy's tensors, which are written to, got "
            f"{type(value).__name__}"
        )
    if not plain or start % ALIGNED:
        raise InputError(
            f"output {name!r}: out= must be contiguous and start at a multiple of {ALIGNED} bytes"
        )
    return start, start + value.nbytes


def bytes_of(value: Any) -> tuple[int, int]:
    """Bounds of a tensor's memory: its first byte, and the one behind it; nothing of a tensor that
    cannot be written to."""
    if _is_torch(value):
        start, item = value.data_ptr(), value.element_size()
        if value.is_contiguous():
            return start, start + value.nbytes
        steps = [item * step for step in value.stride()]
    elif _is_cupy(value):
        start, item, steps = value.data.ptr, value.itemsize, list(value.strides)
    else:
        return 0, 0
    spans = [(n - 1) * step for n, step in zip(value.shape, steps, strict=True)]
    low, high = sum(min(each, 0) for each in spans), sum(max(each, 0) for each in spans)
    return start + low, start + low if 0 in value.shape else start + high + item


def check_apart(
    results: Sequence[tuple[str, tuple[int, int]]], given: Sequence[tuple[str, tuple[int, int]]]
) -> None:
    """Holds bounds of the memory of results against those of inputs and of each other.

    :raises InputError: some of it is the same.
    """
    for number, (name, (low, high)) in enumerate(results):
        for other, (first, last) in given:
            if low < last and first < high:
                raise shared_with_input(name, other)
        for other, (first, last) in results[:number]:
            if low < last and first < high:
                raise shared_results(other, name)


class Wanted:
    """An input or output of a program, as packages look at it."""

    def __init__(self, name: str, type_: AccessType) -> None:
        self.name, self.type, self.shape = name, type_, type_.shape
        self.dtype = np.dtype(type_.dtype)
        self.bytes = math.prod(self.shape) * self.dtype.itemsize


class Package(Protocol):
    """A package's tensors on one device."""

    lends: bool
    """Whether a tensor's memory may be used otherwise as soon as nobody holds it, although kernels
    that were launched before still read it."""

    def stream(self) -> int:
        """The caller's stream on the device, as the driver calls it."""

    def address(self, value: Any, number: int, stream: int, kept: list[Any]) -> int | None:
        """Where the values of input ``number`` lie, plain and aligned; None: on the host. What they
        lie in, if that is not the caller's tensor, is added to ``kept``.

        :raises InputError: the tensor is not what the input must be.
        """

    def empty(self, number: int) -> Any:
        """A new tensor for output ``number``."""

    def pointer(self, tensor: Any) -> int:
        """The address of what :meth:`empty` gave, or of a caller's tensor."""

    def handed_over(self, tensor: Any) -> Any:
        """What :meth:`empty` gave and the caller's stream has written, as the caller's tensor."""


def package_of(value: Any) -> str | None:
    """Which package's tensor on a CUDA device this is: ``torch``, ``cupy``, ``jax``, or ``dlpack``
    for any other; None for what is none."""
    if type(value) is np.ndarray:
        return None
    if _is_torch(value):
        return "torch" if value.is_cuda else None
    if _is_cupy(value):
        return "cupy"
    if not on_cuda(value):
        return None
    return "jax" if type(value).__module__.partition(".")[0] in ("jax", "jaxlib") else "dlpack"


def open_package(
    kind: str, device: CudaDevice, inputs: Sequence[Wanted], outputs: Sequence[Wanted]
) -> Package:
    """The package of that name, for what a program takes and gives.

    :raises InputError: it has no tensors of an output's dtype.
    """
    if kind == "torch":
        return _Torch(device.number, inputs, outputs)
    if kind == "cupy":
        return _CuPy(device, inputs, outputs)
    return _Jax(device, inputs, outputs) if kind == "jax" else _DLPack(device, inputs, outputs)


def _is_torch(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_cupy(value: object) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def _elsewhere(name: str, number: object, device: int) -> InputError:
    return InputError(
        f"input {name!r} lies on CUDA device {number}, the program's memory on {device}"
    )


class _Torch:
    """PyTorch's."""

    lends = False

    def __init__(self, number: int, inputs: Sequence[Wanted], outputs: Sequence[Wanted]) -> None:
        import torch

        self._torch, self._number = torch, number
        self._inputs = [(each, getattr(torch, each.type.dtype), each.shape) for each in inputs]
        self._kinds = (torch.Tensor, torch.nn.Parameter)
        self._current = torch._C._cuda_getCurrentRawStream  # noqa: SLF001 (torch's own kernels')
        device = torch.device("cuda", number)
        with torch.inference_mode(False):
            self._models = [
                torch.empty(each.shape, dtype=getattr(torch, each.type.dtype), device=device)
                for each in outputs
            ]
        for model in self._models:  # Only their shape and dtype are looked at.
            model.untyped_storage().resize_(0)
        self._like = torch.empty_like

    def stream(self) -> int:
        return int(self._current(self._number))

    def address(self, value: Any, number: int, stream: int, kept: list[Any]) -> int | None:
        wanted, dtype, shape = self._inputs[number]
        if (
            type(value) in self._kinds
            and value.dtype is dtype
            and value.shape == shape
            and value.get_device() == self._number
            and value.is_contiguous()
            and not value.is_neg()
        ):
            pointer: int = value.data_ptr()
            if not pointer % ALIGNED:
                return pointer
        if package_of(value) is None:
            return None
        made = self._plain(value, wanted)
        kept.append(made)
        return int(made.data_ptr())

    def _plain(self, value: Any, wanted: Wanted) -> Any:
        """The same values, contiguous and aligned."""
        torch = self._torch
        if not isinstance(value, torch.Tensor):
            value = torch.from_dlpack(value)
        if value.layout is not torch.strided:
            raise InputError(f"input {wanted.name!r} is no dense tensor: {value.layout}")
        check(wanted.name, value, wanted.type)
        if value.get_device() != self._number:
            raise _elsewhere(wanted.name, value.get_device(), self._number)
        made = value.detach().resolve_neg().contiguous()
        return made.clone() if made.data_ptr() % ALIGNED else made

    def empty(self, number: int) -> Any:
        return self._like(self._models[number])

    def pointer(self, tensor: Any) -> int:
        return int(tensor.data_ptr())

    def handed_over(self, tensor: Any) -> Any:
        return tensor


class _CuPy:
    """CuPy's."""

    lends = False

    def __init__(
        self, device: CudaDevice, inputs: Sequence[Wanted], outputs: Sequence[Wanted]
    ) -> None:
        self._cupy, self._number = device.cupy, device.number
        self._inputs, self._outputs = inputs, outputs
        for each in outputs:
            if each.type.dtype == "bfloat16":
                raise InputError(
                    f"output {each.name!r}: CuPy has no tensors of bfloat16: give PyTorch's or "
                    "NumPy's"
                )
        self._current = self._cupy.cuda.get_current_stream

    def stream(self) -> int:
        return int(self._current().ptr)

    def address(self, value: Any, number: int, stream: int, kept: list[Any]) -> int | None:
        wanted = self._inputs[number]
        if not isinstance(value, self._cupy.ndarray):
            if package_of(value) is None:
                return None
            value = self._cupy.from_dlpack(value.detach() if _is_torch(value) else value)
            kept.append(value)
        if value.dtype != wanted.dtype or value.shape != wanted.shape:
            check(wanted.name, value, wanted.type)
        data = value.data
        if data.device_id != self._number:
            raise _elsewhere(wanted.name, data.device_id, self._number)
        pointer: int = data.ptr
        if value.flags.c_contiguous and not pointer % ALIGNED:
            return pointer
        made = value.copy(order="C")
        kept.append(made)
        return int(made.data.ptr)

    def empty(self, number: int) -> Any:
        wanted = self._outputs[number]
        return self._cupy.ndarray(wanted.shape, wanted.dtype)

    def pointer(self, tensor: Any) -> int:
        return int(tensor.data.ptr)

    def handed_over(self, tensor: Any) -> Any:
        return tensor


class _DLPack(_CuPy):
    """Any other package's, borrowed by DLPack on CuPy's current stream; results are CuPy's."""

    lends = True

    def address(self, value: Any, number: int, stream: int, kept: list[Any]) -> int | None:
        if _is_cupy(value) or _is_torch(value):
            return super().address(value, number, stream, kept)
        wanted = self._inputs[number]
        try:
            borrowed = _Borrowed(value, stream or _LEGACY)
        except Exception as problem:  # Packages' own, such as of a value that is no tensor.
            if not on_cuda(value):
                return None
            told = next(iter(str(problem).splitlines()), type(problem).__name__)
            raise InputError(f"input {wanted.name!r} is not lent by DLPack: {told}") from None
        if borrowed.kind != _CUDA:
            return None
        if value.shape != wanted.shape or value.dtype != wanted.dtype:
            check(wanted.name, value, wanted.type)
        if borrowed.device != self._number:
            raise _elsewhere(wanted.name, borrowed.device, self._number)
        if not borrowed.plain() or borrowed.start % ALIGNED:
            return super().address(value, number, stream, kept)
        kept.append(borrowed)
        return borrowed.start


class _Jax(_DLPack):
    """JAX's: as any other's, but results are JAX's as well."""

    def handed_over(self, tensor: Any) -> Any:
        from jax import dlpack

        return dlpack.from_dlpack(tensor)


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Borrowed:
    """A tensor by DLPack, whose memory stays its own for as long as this is kept."""

    def __init__(self, value: Any, stream: int) -> None:
        """``stream`` waits for what computes the tensor."""
        self._capsule = value.__dlpack__(stream=stream)
        self._tensor = _Tensor.from_address(_pointer_of(self._capsule, b"dltensor"))
        self.start: int = (self._tensor.data or 0) + self._tensor.offset
        self.kind: int = self._tensor.device.kind
        self.device: int = self._tensor.device.number

    def plain(self) -> bool:
        """Whether it lies row by row without gaps."""
        if not self._tensor.strides:
            return True
        rank = self._tensor.rank
        sizes = [self._tensor.shape[k] for k in range(rank)]
        return 0 in sizes or all(
            sizes[k] == 1 or self._tensor.strides[k] == math.prod(sizes[k + 1 :])
            for k in range(rank)
        )
