"""Compiles a program for the processor at hand: kernels by TVM and LLVM, memory planned once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen import launch
from glenside.codegen.cpu.kernels import Kernels
from glenside.codegen.cpu.threads import Threads, available_threads
from glenside.codegen.cpu.tvm_loading import load_tvm, write_threads
from glenside.codegen.footprint import Footprint, footprint
from glenside.codegen.plan import LIBRARY, KernelCall, Plan, PythonCall, file_hash
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.planning import Planner, Watched
from glenside.codegen.program.record import Cut, Fill, Kernel, PythonStep
from glenside.codegen.storage import Memory
from glenside.errors import TargetError
from glenside.language.memory import require
from glenside.language.shape import AccessType
from glenside.language.term import Term, topological_order

if TYPE_CHECKING:
    from glenside.codegen.cpu import schedule
    from glenside.codegen.cpu.nest import LoopBuilder
    from glenside.codegen.kernel.builder import Launch

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]
"""Called with (phase, steps done, steps in all)."""

_MOST_ELEMENTS = 2**31 - 1
"""Kernels index with 32 bits."""


class Executable(launch.Executable):
    """A program compiled in this process: it can also be inspected."""

    def __init__(
        self, lowered: Lowered, kernels: Kernels | None, module: Any, threads: Threads
    ) -> None:
        super().__init__(lowered.plan, lowered.parameters, kernels, threads)
        self._kernels = kernels
        self._module, self._watched = module, lowered.watched
        self.footprint, self.start = lowered.footprint, lowered.start

    @property
    def module(self) -> Any:
        """All kernels as one TVM IRModule."""
        return self._module

    @property
    def source(self) -> str:
        """The kernels as LLVM IR."""
        return "" if self._kernels is None else self._kernels.source

    def save_library(self, folder: Path) -> str | None:
        """Writes the library, and what shares its loops among threads: no kernel is compiled."""
        if self._kernels is None:
            return None
        path = folder / LIBRARY.format("new")
        self._kernels.save(path)
        found = file_hash(path)
        path.rename(folder / LIBRARY.format(found))
        if b"TVMBackendParallelLaunch" in (folder / LIBRARY.format(found)).read_bytes():
            write_threads(folder)
        return found

    def trace(self, inputs: Mapping[str, Array]) -> dict[Term, Array]:
        """The value of every term that is materialised, by the terms given to the compiler."""
        terms = {id(place): term for each in self._watched.values() for term, place in each}
        places = {step: [place for _, place in each] for step, each in self._watched.items()}
        return {terms[id(place)]: value for place, value in self.values(inputs, places)}


def compile_terms(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Executable:
    """Compiles the program whose results are ``outputs``.

    :param inputs: types of the ``tensor`` leaves given at run time, by name.
    :param params: arrays of the other ``tensor`` leaves; they are bound, folded and packed now.
    :param threads: worker threads of a run; all available processors by default.
    :raises InputError: a ``tensor`` leaf is in neither.
    :raises TargetError: a value has more elements than kernels count.
    """
    # Before TVM is loaded: it reads its thread settings once.
    count = threads or available_threads()
    threads_of_tvm = load_tvm()
    from glenside.codegen.cpu import schedule

    machine = schedule.host()
    lowered = lower_terms(outputs, inputs, params, machine, progress)
    if lowered.largest is not None:
        # Before it is compiled, which may take a while. Results are copied for the caller.
        results = sum(term.type.nbytes for term in outputs)
        of = f"{lowered.largest.op}: with a value of {lowered.largest.type}"
        require(lowered.plan.arena + results, f"{of}, the memory of all that is computed")
    module = _named(lowered.functions)
    kernels = None
    if lowered.functions:
        kernels = Kernels(module, machine.cpu, threads_of_tvm, progress)
    lowered.plan.threads = count
    if progress:
        progress("compile", len(lowered.functions), len(lowered.functions))
    return Executable(lowered, kernels, module, threads_of_tvm)


def planned_footprint(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    progress: Progress | None = None,
) -> Footprint:
    """The memory that what :func:`compile_terms` makes will hold; raises as that does."""
    load_tvm()
    from glenside.codegen.cpu import schedule

    return lower_terms(outputs, inputs, params, schedule.host(), progress).footprint


@dataclass
class Lowered:
    """A program as loop nests: its plan, the TIR functions ``kernel_0``, ... of it, and the arrays
    of its parameters by buffer."""

    plan: Plan
    functions: list[Any]
    parameters: dict[int, Array]
    watched: Watched
    footprint: Footprint
    """The memory that it holds."""
    start: Cut
    """What the passes were given that cut the program."""
    largest: Term | None = None
    """The largest value of all that is computed."""


def lower_terms(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    machine: schedule.Machine,
    progress: Progress | None = None,
) -> Lowered:
    """Likewise, but for any machine and not compiled yet."""
    check_sizes(outputs)
    from glenside.codegen.cpu.nest import LoopBuilder

    cut = cut_program(outputs, inputs, params)
    builder = LoopBuilder(cut, machine)
    planner = Planner(cut, builder.memory)
    library = _Library()
    calls: list[KernelCall | PythonCall] = []
    for done, step in enumerate(cut.steps):
        if progress:
            progress("lower", done, len(cut.steps))
        if isinstance(step, PythonStep):
            calls.append(planner.python_call(step))
        else:
            for each in _launches(builder, step, done):
                arguments = [[a.buffer, a.base, a.extent] for a in each.arguments]
                calls.append(KernelCall(library.add(each.function), arguments))
        planner.note(step, len(calls))
    planned = planner.plan(calls)
    held = footprint(planned.plan, planned.parameters, builder.memory, outputs, params)
    largest = _largest(builder.memory, cut.outputs)
    return Lowered(
        planned.plan,
        library.functions,
        planned.parameters,
        planned.watched,
        held,
        cut.start,
        largest,
    )


def _launches(builder: LoopBuilder, step: Kernel | Fill, number: int) -> list[Launch]:
    """What computes the program's step of that number, in order."""
    from glenside.codegen.cpu.nest import LoopNest
    from glenside.codegen.cpu.products import ProductNest

    if isinstance(step, Fill):
        return [builder.fill(step)]
    builder.at_step(number)
    if step.anchor is not None and step.product is not None:
        return ProductNest(builder, step, step.anchor, step.product).launches()
    nest = LoopNest(builder, step)
    return [nest.finish(nest.body())]


def _largest(memory: Memory, outputs: Sequence[Term]) -> Term | None:
    computed = [
        term for term, stored in memory.stored.items() if stored.buffer not in memory.arrays
    ]
    return max([*computed, *outputs], key=lambda term: term.type.nbytes, default=None)


def check_sizes(outputs: Sequence[Term]) -> None:
    """Refuses values that kernels cannot index; raises :class:`TargetError`."""
    products: set[Term] = set()  # Their dot is computed, they themselves are not.
    for term in topological_order(outputs):
        if term.op == "cart_prod" or (term.op == "reshape" and term.children[0] in products):
            products.add(term)
        elif term.type.size > _MOST_ELEMENTS:
            raise TargetError(
                f"{term.op}: a value of {term.type} has more than the {_MOST_ELEMENTS} elements "
                "that compiled code can address"
            )


class _Library:
    """The distinct functions of a program; equal ones are compiled once."""

    def __init__(self) -> None:
        self.functions: list[Any] = []
        self._by_hash: dict[int, list[int]] = {}

    def add(self, function: Any) -> str:
        """The name under which the function, or one equal to it, will be found."""
        import tvm_ffi

        key = tvm_ffi.structural_hash(function)
        for number in self._by_hash.setdefault(key, []):
            if tvm_ffi.structural_equal(self.functions[number], function):
                return f"kernel_{number}"
        self._by_hash[key].append(len(self.functions))
        self.functions.append(function)
        return f"kernel_{len(self.functions) - 1}"


def _named(functions: Sequence[Any]) -> Any:
    """The functions as one IRModule."""
    import tvm

    return tvm.IRModule(
        {
            f"kernel_{k}": function.with_attr("global_symbol", f"kernel_{k}")
            for k, function in enumerate(functions)
        }
    )


__all__ = ["Executable", "Lowered", "compile_terms", "lower_terms"]
