"""The model's own parameters in a saved program, by name, as the interpreter takes them.

``arrays.json`` says where each lies: in ``parameters.bin`` where the kernels read the very same
bytes, else in ``arrays.bin``. Axes along which an array is the same throughout are written once.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glenside.codegen.plan import PARAMETERS, PLAN, Plan, read_parameters
from glenside.codegen.storage import repeated
from glenside.language.shape import MAX_RANK, check_dtype

Array = np.ndarray[Any, Any]

INDEX, OTHERS = "arrays.json", "arrays.bin"
_ALIGN = 64


def write(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Writes arrays to a folder that holds a program's plan and its kernels' parameters."""
    packed = _packed(folder)
    index: dict[str, dict[str, Any]] = {}
    with open(folder / OTHERS, "wb") as file:
        for name, array in arrays.items():
            still = repeated(array)
            kept = tuple(slice(0, 1) if k in still else slice(None) for k in range(array.ndim))
            data = np.ascontiguousarray(array[kept]).reshape(-1).view(np.uint8)
            where, offset = PARAMETERS, packed.get(data.nbytes, {}).get(_digest(data))
            if offset is None:
                file.write(b"\0" * (-file.tell() % _ALIGN))
                where, offset = OTHERS, file.tell()
                file.write(memoryview(data))
            index[name] = {
                "file": where,
                "offset": offset,
                "dtype": array.dtype.name,
                "shape": array.shape,
                "repeated": still,
            }
        file.write(b"\0" * _ALIGN)  # An empty file cannot be mapped.
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _packed(folder: Path) -> dict[int, dict[bytes, int]]:
    """Where in the kernels' parameters which bytes lie, by their number and digest."""
    found: dict[int, dict[bytes, int]] = {}
    plan = Plan.from_json((folder / PLAN).read_text(encoding="utf-8"))
    for number, array in read_parameters(plan, folder).items():
        offset = plan.slots[number].parameter
        assert offset is not None
        found.setdefault(array.nbytes, {}).setdefault(_digest(array.view(np.uint8)), offset)
    return found


def _digest(data: Array) -> bytes:
    return hashlib.sha256(memoryview(data)).digest()


def read(folder: Path) -> dict[str, Array]:
    """The arrays by name, mapped from their files.

    :raises Exception: of any kind: the files are damaged.
    """
    maps = {name: np.memmap(folder / name, np.uint8, "c") for name in (OTHERS, PARAMETERS)}
    arrays = {}
    for name, said in json.loads((folder / INDEX).read_text(encoding="utf-8")).items():
        shape, still, offset = tuple(said["shape"]), said["repeated"], said["offset"]
        dtype = np.dtype(check_dtype(said["dtype"]))
        if not all(type(n) is int and n >= 0 for n in (*shape, *still, offset)):
            raise ValueError(f"{name!r} has shape {shape} at {offset}")
        if len(shape) > MAX_RANK:
            raise ValueError(f"{name!r} has {len(shape)} axes")
        small = tuple(1 if k in still else n for k, n in enumerate(shape))
        end = offset + math.prod(small) * dtype.itemsize
        if end > maps[said["file"]].size:
            raise ValueError(f"{name!r} ends {end} bytes into {said['file']}, which is shorter")
        array = maps[said["file"]][offset:end].view(dtype).reshape(small)
        array.setflags(write=False)
        arrays[name] = np.broadcast_to(array, shape)
    return arrays
