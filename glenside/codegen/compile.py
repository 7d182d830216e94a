"""Compiles a program for the processor at hand: kernels by TVM and LLVM, memory planned once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen import launch
from glenside.codegen.footprint import Footprint, footprint
from glenside.codegen.plan import KernelCall, Plan, PythonCall
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.planning import Planner, Watched
from glenside.codegen.program.record import Cut, Fill, Kernel, PythonStep
from glenside.codegen.storage import Memory
from glenside.errors import TargetError
from glenside.interrupt import in_background
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

    def __init__(self, lowered: Lowered, library: Any, module: Any) -> None:
        super().__init__(lowered.plan, lowered.parameters, library)
        self._module, self._watched = module, lowered.watched
        self.footprint, self.start = lowered.footprint, lowered.start

    @property
    def module(self) -> Any:
        """All kernels as one TVM IRModule."""
        return self._module

    @property
    def source(self) -> str:
        """The kernels as LLVM IR."""
        if not self._module.functions:
            return ""
        pieces = [self.library.mod, *self.library.mod.imports]
        return _without_addresses("\n".join(str(each.inspect_source()) for each in pieces))

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
    count = threads or launch.available_threads()
    launch.load_runtime()
    from glenside.codegen.cpu import schedule

    machine = schedule.host()
    lowered = lower_terms(outputs, inputs, params, machine, progress)
    if lowered.largest is not None:
        # Before it is compiled, which may take a while. Results are copied for the caller.
        results = sum(term.type.nbytes for term in outputs)
        of = f"{lowered.largest.op}: with a value of {lowered.largest.type}"
        require(lowered.plan.arena + results, f"{of}, the memory of all that is computed")
    module, compiled = _compile(lowered.functions, machine, progress)
    lowered.plan.threads = count
    if progress:
        progress("compile", len(lowered.functions), len(lowered.functions))
    return Executable(lowered, compiled, module)


def planned_footprint(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    progress: Progress | None = None,
) -> Footprint:
    """The memory that what :func:`compile_terms` makes will hold; raises as that does."""
    launch.load_runtime()
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


def _without_addresses(source: str) -> str:
    """TVM names alias classes by the addresses of buffers, which differ from run to run."""
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        return f'"buffer{numbers.setdefault(match[1], len(numbers))}'

    return re.sub(r'"(0x[0-9a-f]+)', numbered, source)


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


_PIECE = 8
"""Kernels that are compiled at a time; Ctrl-C and limits are looked at in between."""


def _compile(
    functions: Sequence[Any], machine: schedule.Machine, progress: Progress | None = None
) -> tuple[Any, Any]:
    """The IRModule and the compiled library."""
    import tvm

    named = {
        f"kernel_{k}": function.with_attr("global_symbol", f"kernel_{k}")
        for k, function in enumerate(functions)
    }
    module = tvm.IRModule(named)
    if not named:
        return module, {}
    target = tvm.target.Target({"kind": "llvm", "mcpu": machine.cpu})

    def piece(names: Sequence[str]) -> Any:
        part = tvm.IRModule({name: named[name] for name in names})
        # TVM's own pass can use a common subexpression before it defines it ("cse_v1 has been used
        # before definition"); LLVM shares them anyway.
        with tvm.transform.PassContext(config={"tirx.disable_cse_tir": True}):
            made = tvm.compile(part, target=target)
        made[names[0]]  # LLVM makes machine code, of all of them, when it is asked for one.
        return made

    library: Any = None
    for first in range(0, len(named), _PIECE):
        if progress:
            progress("compile", first, len(named))
        made = in_background(piece, [*named][first : first + _PIECE])
        if library is None:
            library = made
        else:
            library.mod.import_module(made.mod)
    return module, library


__all__ = ["Executable", "Lowered", "compile_terms", "lower_terms"]
