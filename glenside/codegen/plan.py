"""A compiled program as plain data: its buffers, its steps, where inputs and outputs lie; and the
files of a saved one."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glenside.errors import TargetError
from glenside.language.host import HostNode
from glenside.language.shape import AccessType

Array = np.ndarray[Any, Any]

PLAN, PARAMETERS, LIBRARY = "plan.json", "parameters.bin", "kernels-{}.so"
ALIGN = 64
"""Bytes at which scratch and parameters start."""
_VERSION = 6


@dataclass
class Slot:
    """A buffer: in the arena at ``offset`` bytes, or a parameter (``array`` or ``fill``)."""

    dtype: str
    size: int
    offset: int | None = None
    parameter: int | None = None
    """Byte offset in the parameter file."""
    fill: float | int | None = None


@dataclass
class Place:
    """Where a value lies: element ``offset`` of a buffer, atoms ``[size, stride]`` of each axis."""

    buffer: int
    offset: int
    axes: list[list[list[int]]]
    shape: list[int]
    dtype: str


@dataclass
class KernelCall:
    """One launch: a function of the library and ``[buffer, first element, elements]`` each."""

    function: str
    arguments: list[list[int]]


@dataclass(frozen=True)
class TensorMap:
    """A tensor as a GPU's copy engine is told of it, the innermost dimension first.

    It starts ``offset`` bytes into what the kernel's argument number ``argument`` points to;
    ``strides`` (bytes) are those of all dimensions but the innermost one. A copy takes ``box``
    elements along each dimension, every ``steps``-th of them, to lines of ``line`` bytes whose
    units of 16 bytes are swapped by the line's address.
    """

    argument: int
    offset: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    line: int

    @staticmethod
    def from_json(given: Mapping[str, Any]) -> TensorMap:
        """What ``asdict`` and JSON made of one."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
        }
        return TensorMap(**values)


@dataclass
class Entry:
    """A device's kernel: groups and threads along x, y, z, bytes of local memory to ask for, and
    the tensor maps that it takes behind its pointers."""

    grid: list[int]
    block: list[int]
    local_bytes: int = 0
    overlapped: bool = False
    """Whether it waits itself for all kernels before it, so that it may be launched while they run
    (CUDA only)."""
    maps: list[TensorMap] = field(default_factory=list)

    @staticmethod
    def from_json(given: Mapping[str, Any]) -> Entry:
        """What ``asdict`` and JSON made of one."""
        maps = [TensorMap.from_json(each) for each in given.get("maps", [])]
        return Entry(**{**given, "maps": maps})


@dataclass
class PythonCall:
    """One operator that Python executes, by the language's own definition."""

    operator: str
    attributes: dict[str, Any]
    types: list[list[Any]]
    operands: list[Place]
    result: Place


@dataclass
class HostCall:
    """ONNX operators that onnxruntime executes in one session; values by their names in it."""

    nodes: list[HostNode]
    operands: dict[str, Place]
    results: dict[str, Place]

    @staticmethod
    def from_json(given: Mapping[str, Any]) -> HostCall:
        """What ``asdict`` and JSON made of one."""
        nodes = [
            HostNode(**{**each, "inputs": tuple(each["inputs"]), "outputs": tuple(each["outputs"])})
            for each in given["nodes"]
        ]
        places = ({n: Place(**p) for n, p in given[key].items()} for key in ("operands", "results"))
        return HostCall(nodes, *places)


@dataclass
class Plan:
    """Everything about a program but its parameters and code."""

    arena: int
    slots: list[Slot] = field(default_factory=list)
    steps: list[KernelCall | PythonCall | HostCall] = field(default_factory=list)
    inputs: dict[str, Place] = field(default_factory=dict)
    input_types: dict[str, list[Any]] = field(default_factory=dict)
    outputs: list[Place] = field(default_factory=list)
    threads: int = 1
    library: str | None = None
    """Hash of the library's file when saved, also in its name; None without kernels."""
    device: str | None = None
    """``opencl`` or ``cuda``, whose kernels are listed below; None: the processor."""
    kernels: dict[str, Entry] = field(default_factory=dict)
    signatures: dict[str, list[list[Any]]] = field(default_factory=dict)
    """The stored dtype and the elements of each buffer that a kernel takes; known when saved."""

    def to_json(self) -> str:
        data = {"version": _VERSION, **asdict(self), "signatures": self._signatures()}
        return json.dumps(data, separators=(",", ":"))

    def taken(self) -> dict[str, AccessType]:
        """Types of the inputs by name."""
        return {
            name: AccessType(tuple(outer), tuple(item), dtype)
            for name, (outer, item, dtype) in self.input_types.items()
        }

    def _signatures(self) -> dict[str, list[list[Any]]]:
        """Of the launches as they were made: one kernel's are all alike."""
        return {
            step.function: [
                [stored_dtype(self.slots[buffer].dtype), extent]
                for buffer, _, extent in step.arguments
            ]
            for step in self.steps
            if isinstance(step, KernelCall)
        }

    @staticmethod
    def from_json(text: str) -> Plan:
        data = json.loads(text)
        if data.pop("version", None) != _VERSION:
            raise TargetError("the saved program was written by another version of Glenside")
        steps: list[KernelCall | PythonCall | HostCall] = []
        for step in data["steps"]:
            if "function" in step:
                steps.append(KernelCall(**step))
            elif "nodes" in step:
                steps.append(HostCall.from_json(step))
            else:
                step["operands"] = [Place(**each) for each in step["operands"]]
                step["result"] = Place(**step["result"])
                steps.append(PythonCall(**step))
        return Plan(
            arena=data["arena"],
            slots=[Slot(**slot) for slot in data["slots"]],
            steps=steps,
            inputs={name: Place(**each) for name, each in data["inputs"].items()},
            input_types=data["input_types"],
            outputs=[Place(**each) for each in data["outputs"]],
            threads=data["threads"],
            library=data["library"],
            device=data["device"],
            kernels={name: Entry.from_json(each) for name, each in data["kernels"].items()},
            signatures=data["signatures"],
        )


def is_constant(place: Place, plan: Plan) -> bool:
    """Whether a value is a parameter: the same in every run."""
    return plan.slots[place.buffer].offset is None


def row_by_row(place: Place) -> Place:
    """Of the same value, where it lies row by row from the start of a buffer on."""
    axes = [[[size, math.prod(place.shape[axis + 1 :])]] for axis, size in enumerate(place.shape)]
    return Place(place.buffer, 0, axes, place.shape, place.dtype)


def stored_dtype(dtype: str) -> str:
    """What a kernel is given of a dtype: bools as bytes, bfloat16 as its bits."""
    return {"bool": "uint8", "bfloat16": "uint16"}.get(dtype, dtype)


def tuples(value: Any) -> Any:
    """Lists, as JSON has them, as the tuples that attributes hold."""
    return tuple(tuples(each) for each in value) if isinstance(value, list) else value


# --- files --------------------------------------------------------------------------------------


def write_parameters(plan: Plan, parameters: Mapping[int, Array], target: Path) -> None:
    """Writes the parameters' file and notes in the plan where each slot's array lies in it."""
    with open(target / PARAMETERS, "wb") as file:
        for number, slot in enumerate(plan.slots):
            if slot.offset is None and slot.fill is None:
                file.write(b"\0" * (-file.tell() % ALIGN))
                slot.parameter = file.tell()
                file.write(memoryview(np.ascontiguousarray(parameters[number]).view(np.uint8)))
        file.write(b"\0" * ALIGN)


def read_parameters(plan: Plan, source: Path) -> dict[int, Array]:
    """The parameters' arrays by slot, mapped from the file.

    :raises ValueError: the file is of another size than the plan says.
    """
    # Copy on write: the file stays as it is whatever a kernel does.
    raw = np.memmap(source / PARAMETERS, np.uint8, "c")
    parameters, end = {}, 0
    for number, slot in enumerate(plan.slots):
        if slot.parameter is not None:
            end = slot.parameter + slot.size * np.dtype(slot.dtype).itemsize
            parameters[number] = raw[slot.parameter : end]
    if raw.size != end + ALIGN:
        raise ValueError(f"{PARAMETERS} has {raw.size} bytes instead of {end + ALIGN}")
    return {n: array.view(plan.slots[n].dtype) for n, array in parameters.items()}


def file_hash(path: Path) -> str:
    """A short hash of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
