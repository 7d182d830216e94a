"""Files of arrays: ``.npy``, ``.npz`` and ONNX's ``.pb``, read and written with our own errors."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glenside.errors import InputError
from glenside.files import replacing
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
    except Exception as problem:  # Readers raise whatever their parsers raise.
        raise InputError(f"{path} {otherwise}") from problem


def _read_tensor(path: Path) -> Array:
    import onnx

    return np.asarray(onnx.numpy_helper.to_array(onnx.load_tensor(str(path))))


def _load_numpy(path: Path) -> Array | dict[str, Array]:
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return _named(loaded)
    with loaded as archive:
        return {name: _named(archive[name]) for name in archive.files}


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
