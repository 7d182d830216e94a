"""Runs compiled programs on the processor: memory and launches.

A program is a *plan* (plain data: buffers, steps, where inputs and outputs lie), the parameters'
arrays and a library of kernels. This module needs NumPy, ``apache-tvm-ffi`` and the small TVM
runtime library; the TVM compiler, egglog and onnx are never loaded from here.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glenside.codegen.arguments import as_input
from glenside.codegen.plan import (
    ALIGN,
    LIBRARY,
    PARAMETERS,
    PLAN,
    HostCall,
    KernelCall,
    Place,
    Plan,
    PythonCall,
    Slot,
    file_hash,
    is_constant,
    stored_dtype,
    tuples,
    write_parameters,
)
from glenside.errors import GlensideError, InputError, TargetError
from glenside.language.host import HostSession
from glenside.language.memory import require
from glenside.language.operators import OPERATORS
from glenside.language.shape import AccessType

Array = np.ndarray[Any, Any]


class Executable:
    """A compiled program. Its memory is planned once, so threads that share it take turns."""

    def __init__(self, plan: Plan, parameters: Mapping[int, Array], library: Any) -> None:
        self.plan = plan
        self.library = library
        self._parameters = parameters
        self._configure = load_runtime()
        self._turn = threading.Lock()
        require(plan.arena, "the memory for the program's values")
        self._arena = _aligned(plan.arena)
        self._arrays = [self._bind(number, slot) for number, slot in enumerate(plan.slots)]
        types = plan.taken()
        self._inputs = [
            _Taken(name, types[name], self._window(place)) for name, place in plan.inputs.items()
        ]
        self._outputs = [
            _in_shape(self._window(place), tuple(place.shape)) for place in plan.outputs
        ]
        self._result_bytes = sum(view.nbytes for view, _ in self._outputs)
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
        return self.call(in_order(inputs, self.plan))

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs in the order of :meth:`call`."""
        return tuple(self.plan.inputs)

    def call(self, values: Sequence[Any], out: Sequence[Array | None] | None = None) -> list[Array]:
        """The outputs for inputs in order, in arrays of their own or in those of ``out``.

        :raises InputError: an input is of another shape or dtype.
        """
        with self._turn:
            self._start(values)
            for action in self._actions:
                action()
            if out is None:
                # What the arena takes is taken by now.
                require(self._result_bytes, "a copy of the results")
                return [
                    view.copy() if shape is None else view.copy().reshape(shape)
                    for view, shape in self._outputs
                ]
            return [
                _copied(view, shape, given)
                for (view, shape), given in zip(self._outputs, out, strict=True)
            ]

    def _start(self, values: Sequence[Any]) -> None:
        self._configure(self.plan.threads)
        for taken, value in zip(self._inputs, values, strict=True):
            if not (
                type(value) is np.ndarray
                and value.dtype is taken.dtype
                and value.shape == taken.shape
            ):
                value = as_input(taken.name, value, taken.wanted)
            taken.view[...] = value if taken.plain else value.reshape(taken.view.shape)

    def values(
        self, inputs: Mapping[str, Array], watched: Mapping[int, Sequence[Place]]
    ) -> Iterator[tuple[Place, Array]]:
        """Runs, giving copies of the places ``watched`` after the step with that number."""
        with self._turn:
            self._start(in_order(inputs, self.plan))
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


class _Taken:
    """An input and where its values go."""

    def __init__(self, name: str, wanted: AccessType, window: Array) -> None:
        self.name, self.wanted = name, wanted
        self.shape, self.dtype = wanted.shape, np.dtype(wanted.dtype)
        self.view, shape = _in_shape(window, self.shape)
        self.plain = shape is None


def _in_shape(window: Array, shape: tuple[int, ...]) -> tuple[Array, tuple[int, ...] | None]:
    """The window as a view of that shape; where memory has none, itself and the shape."""
    view = window.reshape(shape)
    same = view.size == 0 or np.may_share_memory(view, window)
    return (view, None) if same else (window, shape)


def _copied(view: Array, shape: tuple[int, ...] | None, out: Array | None) -> Array:
    """A result in its shape: a copy, or in ``out``."""
    value = view if shape is None else view.reshape(shape)
    if out is None:
        return np.array(value, order="C")
    out[...] = value
    return out


def in_order(inputs: Mapping[str, Any], plan: Plan) -> list[Any]:
    """Values by name in the order of a plan's inputs.

    :raises InputError: one is missing.
    """
    missing = next((name for name in plan.inputs if name not in inputs), None)
    if missing is not None:
        raise InputError(f"no value was given for input {missing!r}")
    return [inputs[name] for name in plan.inputs]


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


# --- the TVM runtime --------------------------------------------------------------------------

_state: dict[str, Any] = {}


def load_runtime() -> Callable[[int], None]:
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


def _as_stored(array: Array) -> Array:
    return array.view(stored_dtype(array.dtype.name))
