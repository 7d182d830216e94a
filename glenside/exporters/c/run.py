"""Builds a folder of C and runs it from Python, the units through their Python simulators."""

from __future__ import annotations

import ctypes
import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glenside.errors import GlensideError, InputError, TargetError
from glenside.exporters.c.project import MANIFEST
from glenside.language.shape import AccessType
from glenside.language.units import find_unit

Array = np.ndarray[Any, Any]

_HOOK = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)

_TURN = threading.Lock()


class CProgram:
    """A program that :func:`~glenside.exporters.c.to_c` wrote, built by ``make`` and loaded.

    :param simulate: run units that have a simulator in Python through it; else, and those that
        have none always, by their term as compiled to C.
    :raises GlensideError: there is no such program, or it does not build.
    """

    def __init__(self, directory: str | Path, *, simulate: bool = True) -> None:
        folder = Path(directory).resolve()
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise InputError(f"{folder} holds no program in C: {problem}") from problem
        self.name: str = manifest["name"]
        self.inputs: dict[str, AccessType] = _types(manifest["inputs"])
        self.outputs: dict[str, AccessType] = _types(manifest["outputs"])
        _make(folder)
        self._problems: list[Exception] = []
        self._hooks: list[Any] = []
        if manifest["units"]:
            self._simulators = ctypes.CDLL(str(folder / f"lib{manifest['driver']}.so"))
            for function in manifest["units"]:
                wanted = simulate and find_unit(function["unit"]).simulate is not None
                self._hooks.append(_HOOK(_simulator(function, self._problems)) if wanted else None)
        self._function = ctypes.CDLL(str(folder / f"lib{self.name}.so"))[self.name]
        self._parameters = _aligned((folder / f"{self.name}.bin").read_bytes())
        header = (folder / f"{self.name}.h").read_text(encoding="utf-8")
        size = int(header.partition("_WORKSPACE_BYTES ")[2].split()[0])
        self._workspace = _aligned(bytes(size))

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs for these inputs.

        :raises InputError: an input is missing or of another type.
        :raises Exception: a simulator raised it.
        """
        given = []
        for name, wanted in self.inputs.items():
            if name not in inputs:
                raise InputError(f"no value was given for input {name!r}")
            array = np.asarray(inputs[name], order="C")
            if array.shape != wanted.shape or array.dtype.name != wanted.dtype:
                raise InputError(
                    f"input {name!r} must be {wanted.dtype} of shape {wanted.shape}, "
                    f"got {array.dtype.name} of shape {array.shape}"
                )
            given.append(array)
        results = [np.empty(t.shape, t.dtype) for t in self.outputs.values()]
        memory = (self._parameters, self._workspace, *given, *results)
        with _TURN:  # Equal programs share one library of simulators.
            for number, hook in enumerate(self._hooks):
                self._simulators.glenside_simulate(number, hook)
            self._function(*(ctypes.c_void_p(a.ctypes.data) for a in memory))
        if self._problems:  # C cannot hand them on; what was computed after the first is void.
            problem = self._problems[0]
            self._problems.clear()
            raise problem
        return results


def _types(given: Mapping[str, Any]) -> dict[str, AccessType]:
    return {n: AccessType(tuple(t["shape"]), (), t["dtype"]) for n, t in given.items()}


def _make(folder: Path) -> None:
    try:
        done = subprocess.run(["make", "-C", str(folder)], capture_output=True, text=True)
    except OSError as problem:
        raise TargetError(f"building C needs make and a C compiler: {problem}") from problem
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise GlensideError(f"make failed in {folder}: {lines[0] if lines else 'no reason given'}")


def _simulator(function: Mapping[str, Any], problems: list[Exception]) -> Any:
    """The hook for one driver function: finds the invocation by its sizes."""
    unit = find_unit(function["unit"])
    count = len(function["sizes"])
    known = {tuple(each["sizes"]): each for each in function["invocations"]}

    def simulate(sizes: Any, operands: Any, result: Any) -> None:
        try:
            run(sizes, operands, result)
        except Exception as problem:  # C cannot hand it on: it is raised once the call returns.
            problems.append(problem)

    def run(sizes: Any, operands: Any, result: Any) -> None:
        each = known[tuple(sizes[i] for i in range(count))]
        types = [AccessType(tuple(o), tuple(i), d) for o, i, d in each["operands"]]
        arrays = [_view(operands[i], t.shape, t.dtype) for i, t in enumerate(types)]
        parameters = tuple(each["parameters"])
        value = unit.run(parameters, types, [array.copy() for array in arrays])
        made = unit.infer(parameters, types)
        _view(result, made.shape, made.dtype)[...] = np.asarray(value, made.dtype)

    return simulate


def _view(pointer: int, shape: tuple[int, ...], dtype: str) -> Array:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    memory = (ctypes.c_char * max(size, 1)).from_address(pointer)
    return np.frombuffer(memory, np.uint8)[:size].view(dtype).reshape(shape)


def _aligned(content: bytes) -> Array:
    raw = np.empty(len(content) + 64, np.uint8)
    start = -raw.ctypes.data % 64
    block = raw[start : start + len(content)]
    block[:] = np.frombuffer(content, np.uint8)
    return block
