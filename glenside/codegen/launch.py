"""Runs compiled programs: memory, launches and the saved form.

A program is a *plan* (plain data: buffers, steps, where inputs and outputs lie), the parameters'
arrays and a library of kernels. This module needs NumPy, ``apache-tvm-ffi`` and the small TVM
runtime library; the TVM compiler, egglog and onnx are never loaded from here.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from glenside.errors import GlensideError, InputError, TargetError
from glenside.language.host import HostNode, HostSession
from glenside.language.memory import require
from glenside.language.operators import OPERATORS
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


class Executable:
    """A compiled program. Its memory is planned once, so threads that share it take turns."""

    def __init__(self, plan: Plan, parameters: Mapping[int, Array], library: Any) -> None:
        self.plan = plan
        self.library = library
        self._parameters = parameters
        self._configure = runtime()
        self._turn = threading.Lock()
        require(plan.arena, "the memory for the program's values")
        self._arena = _aligned(plan.arena)
        self._arrays = [self._bind(number, slot) for number, slot in enumerate(plan.slots)]
        self._inputs = {name: self._window(place) for name, place in plan.inputs.items()}
        self._outputs = [self._window(place) for place in plan.outputs]
        self._actions = [self._action(step) for step in plan.steps]

    # --- memory -------------------------------------------------------------------------------

    def _bind(self, number: int, slot: Slot) -> Array:
        dtype = np.dtype(slot.dtype)
        if slot.offset is not None:
            end = slot.offset + slot.size * dtype.itemsize
            return self._arena[slot.offset : end].view(dtype)
        if slot.fill is not None:
            array = _aligned(slot.size * dtype.itemsize).view(dtype)
            array.fill(slot.fill)
            return array
        return self._parameters[number]

    def _window(self, place: Place) -> Array:
        """A NumPy view with one axis an atom; reshaping to ``place.shape`` gives the value."""
        base = self._arrays[place.buffer]
        atoms = [atom for axis in place.axes for atom in axis]
        sizes = [size for size, _ in atoms]
        strides = [stride * base.itemsize for _, stride in atoms]
        if 0 in place.shape:
            return np.empty(place.shape, place.dtype)
        return np.lib.stride_tricks.as_strided(
            base[place.offset :].view(place.dtype), sizes, strides
        )

    def _action(self, step: KernelCall | PythonCall | HostCall) -> Callable[[], object]:
        if isinstance(step, KernelCall):
            import tvm_ffi

            function = self.library[step.function]
            tensors = [
                tvm_ffi.from_dlpack(_as_stored(self._arrays[buffer])[first : first + count])
                for buffer, first, count in step.arguments
            ]
            return lambda: function(*tensors)
        if isinstance(step, HostCall):
            return self._host_action(step)
        return self._python_action(step)

    def _host_action(self, step: HostCall) -> Callable[[], object]:
        session = host_session(step, self.plan, self._value)
        operands = {
            name: (self._window(place), tuple(place.shape))
            for name, place in step.operands.items()
            if not is_constant(place, self.plan)
        }
        results = [self._window(place) for place in step.results.values()]

        def run() -> None:
            given = {name: view.reshape(shape) for name, (view, shape) in operands.items()}
            for view, value in zip(results, session.run(given), strict=True):
                view[...] = value.reshape(view.shape)

        return run

    def _value(self, place: Place) -> Array:
        return self._window(place).reshape(place.shape)

    def _python_action(self, step: PythonCall) -> Callable[[], object]:
        evaluate = python_function(step)
        operands = [(self._window(place), tuple(place.shape)) for place in step.operands]
        result = self._window(step.result)

        def run() -> None:
            value = evaluate([view.reshape(shape) for view, shape in operands])
            result[...] = value.reshape(result.shape)

        return run

    # --- running ------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs for these inputs; the arrays returned are the caller's own."""
        with self._turn:
            self._start(inputs)
            for action in self._actions:
                action()
            # What the arena takes is taken by now.
            require(sum(view.nbytes for view in self._outputs), "a copy of the results")
            return [
                np.array(view, order="C").reshape(place.shape)
                for view, place in zip(self._outputs, self.plan.outputs, strict=True)
            ]

    def _start(self, inputs: Mapping[str, Array]) -> None:
        self._configure(self.plan.threads)
        for name, window in self._inputs.items():
            if name not in inputs:
                raise InputError(f"no value was given for input {name!r}")
            array, place = np.asarray(inputs[name]), self.plan.inputs[name]
            if list(array.shape) != place.shape or array.dtype != place.dtype:
                raise InputError(
                    f"input {name!r} is {place.dtype} of shape {tuple(place.shape)}, "
                    f"got {array.dtype} of shape {array.shape}"
                )
            window[...] = array.reshape(window.shape)

    def values(
        self, inputs: Mapping[str, Array], watched: Mapping[int, Sequence[Place]]
    ) -> Iterator[tuple[Place, Array]]:
        """Runs, giving copies of the places ``watched`` after the step with that number."""
        with self._turn:
            self._start(inputs)
            for number, action in enumerate([lambda: None, *self._actions], -1):
                action()
                for place in watched.get(number, ()):
                    yield place, np.array(self._window(place), order="C").reshape(place.shape)

    # --- the saved form -----------------------------------------------------------------------

    def save(self, directory: str | Path) -> None:
        """Writes library, plan and parameters; :func:`load` reads them.

        Programs loaded from the directory keep running: the files that they map are not written
        to but unlinked. The loader knows libraries by their path, hence the hash in the name.
        """
        target = Path(directory)
        target.mkdir(parents=True, exist_ok=True)
        for old in (target / PLAN, target / PARAMETERS, *target.glob(LIBRARY.format("*"))):
            old.unlink(missing_ok=True)
        write_parameters(self.plan, self._parameters, target)
        plan = replace(self.plan, library=self._save_library(target))
        (target / PLAN).write_text(plan.to_json())

    def _save_library(self, target: Path) -> str | None:
        """Writes the library, if there are kernels; returns its hash."""
        if not any(isinstance(step, KernelCall) for step in self.plan.steps):
            return None
        if not hasattr(self.library, "export_library"):
            raise TargetError("a program that was itself loaded is saved by copying its directory")
        from glenside.codegen.linking import link_library

        path = target / LIBRARY.format("new")
        link_library(self.library, path)
        found = file_hash(path)
        path.rename(target / LIBRARY.format(found))
        return found


def python_function(step: PythonCall) -> Callable[[Sequence[Array]], Array]:
    """What a step in Python computes: its result for its operands."""
    operator = OPERATORS[step.operator]
    attributes = {name: tuples(value) for name, value in step.attributes.items()}
    types = tuple(AccessType(tuple(o), tuple(i), d) for o, i, d in step.types)

    def evaluate(operands: Sequence[Array]) -> Array:
        # Not ascontiguousarray, which makes a scalar a vector.
        arrays = [np.asarray(each, order="C") for each in operands]
        return np.asarray(operator.evaluate(arrays, types, attributes))

    return evaluate


def is_constant(place: Place, plan: Plan) -> bool:
    """Whether a value is a parameter: the same in every run."""
    return plan.slots[place.buffer].offset is None


def host_session(step: HostCall, plan: Plan, value: Callable[[Place], Array]) -> HostSession:
    """The session of a run of host operators.

    :param value: gives the arrays of parameters.
    :raises TargetError: onnxruntime is missing or refuses the operators.
    """

    def types(places: Mapping[str, Place]) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {name: (place.dtype, tuple(place.shape)) for name, place in places.items()}

    constants = {n: value(p) for n, p in step.operands.items() if is_constant(p, plan)}
    given = {name: place for name, place in step.operands.items() if name not in constants}
    try:
        return HostSession(
            step.nodes, types(given), types(step.results), constants, available_threads()
        )
    except GlensideError as problem:
        raise TargetError(str(problem)) from problem
    except Exception as problem:  # onnxruntime's errors share no base class.
        names = ", ".join(dict.fromkeys(node.operator for node in step.nodes))
        told = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise TargetError(f"onnxruntime refuses the host operators {names}: {told}") from problem


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


# --- the TVM runtime --------------------------------------------------------------------------

_state: dict[str, Any] = {}


def runtime() -> Callable[[int], None]:
    """Loads the TVM runtime library once; the result sets the number of worker threads."""
    if "configure" not in _state:
        # Threads stay where the system puts them: pinning would also bind the caller's thread.
        os.environ.setdefault("TVM_BIND_THREADS", "0")
        os.environ.setdefault("TVM_NUM_THREADS", str(available_threads()))
        import tvm_ffi

        name = "runtime.config_threadpool"
        if tvm_ffi.get_global_func(name, allow_missing=True) is None:
            found = importlib.util.find_spec("tvm")
            where = list(found.submodule_search_locations or []) if found else []
            paths = [Path(each) / "lib" / "libtvm_runtime.so" for each in where]
            path = next((each for each in paths if each.is_file()), None)
            if path is None:
                raise TargetError("the TVM runtime library was not found: pip install apache-tvm")
            _state["library"] = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
        function = tvm_ffi.get_global_func(name)

        def configure(threads: int) -> None:
            if _state.get("threads") != threads:
                function(1, threads)
                _state["threads"] = threads

        _state["configure"] = configure
    configure_threads: Callable[[int], None] = _state["configure"]
    return configure_threads


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _aligned(size: int) -> Array:
    """Uninitialised bytes that start on a cache line."""
    raw = np.empty(size + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + size]


def stored_dtype(dtype: str) -> str:
    """What a kernel is given of a dtype: bools as bytes, bfloat16 as its bits."""
    return {"bool": "uint8", "bfloat16": "uint16"}.get(dtype, dtype)


def _as_stored(array: Array) -> Array:
    return array.view(stored_dtype(array.dtype.name))


def tuples(value: Any) -> Any:
    """Lists, as JSON has them, as the tuples that attributes hold."""
    return tuple(tuples(each) for each in value) if isinstance(value, list) else value
