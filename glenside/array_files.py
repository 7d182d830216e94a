"""Files of arrays: ``.npy``, ``.npz`` and ONNX's ``.pb``, read and written with our own errors."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from glenside.errors import InputError, NotEnoughMemory
from glenside.files import replacing
from glenside.language.memory import require
from glenside.language.shape import BFLOAT16

Array = np.ndarray[Any, Any]


def read_array(path: Path) -> Array:
    """The array in an ``.npy`` or ``.pb``.

    :raises InputError: the file cannot be read, or holds something else.
    """
    array: Array | dict[str, Array]
    if path.suffix == ".pb":
        array = _read(path, "holds no ONNX tensor", _read_tensor)
    else:
        array = _read(path, "holds no array (.npy, .npz or .pb)", _load_numpy)
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} holds several arrays: call it .npz")
    return array


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays in an ``.npz`` by name.

    :raises InputError: the file cannot be read, or holds something else.
    """
    arrays = _read(path, "is not an .npz archive of arrays", _load_numpy)
    if not isinstance(arrays, dict):
        raise InputError(f"{path} holds one array without a name; an .npz of arrays is needed")
    return arrays


def _read[T](path: Path, otherwise: str, reader: Callable[[Path], T]) -> T:
    try:
        return reader(path)
    except OSError as problem:
        if problem.strerror:
            raise InputError(f"cannot read {path}: {problem.strerror}") from problem
        raise InputError(f"{path} {otherwise}") from problem
    except NotEnoughMemory:
        raise
    except Exception as problem:  # Readers raise whatever their parsers raise.
        raise InputError(f"{path} {otherwise}") from problem


def _read_tensor(path: Path) -> Array:
    import onnx

    return np.asarray(onnx.numpy_helper.to_array(onnx.load_tensor(str(path))))


def _load_numpy(path: Path) -> Array | dict[str, Array]:
    if not zipfile.is_zipfile(path):
        with open(path, "rb") as file:
            size = _declared(file, os.fstat(file.fileno()).st_size)
        require(size, str(path))
        return _named(np.load(path, allow_pickle=False))
    with zipfile.ZipFile(path) as archive:
        total = 0
        for member in archive.infolist():
            with archive.open(member) as file:
                total += _declared(file, member.file_size)
        require(total, f"{path}: what it holds")  # A few bytes may stand for many.
    with np.load(path, allow_pickle=False) as arrays:
        return {name: _named(arrays[name]) for name in arrays.files}


def _declared(file: IO[bytes], there: int) -> int:
    """Bytes of the array that the header of an ``.npy`` announces.

    :raises ValueError: it is none, or there are not as many.
    """
    version = np.lib.format.read_magic(file)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = reader(file)
    size = math.prod(shape) * dtype.itemsize
    if size > there:
        raise ValueError(f"an array of {size} bytes in {there}")
    return size


def _named(array: Array) -> Array:
    """bfloat16 where the file says two bytes: the format has no name for that dtype."""
    return array.view(BFLOAT16) if array.dtype == "V2" else array


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """As ``np.savez`` does, which cannot take every name.

    :raises InputError: the file cannot be written.
    """
    try:
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    except OSError as problem:
        raise InputError(f"cannot write {path}: {problem.strerror}") from problem
