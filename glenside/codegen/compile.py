"""Compiles a program for the processor at hand: kernels by TVM and LLVM, memory planned once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen import launch
from glenside.codegen.footprint import Footprint, footprint
from glenside.codegen.host_runs import gather
from glenside.codegen.launch import HostCall, KernelCall, Place, Plan, PythonCall, Slot
from glenside.codegen.layout import View
from glenside.errors import TargetError
from glenside.interrupt import in_background
from glenside.language.memory import require
from glenside.language.shape import AccessType
from glenside.language.term import Term, topological_order

if TYPE_CHECKING:
    from glenside.codegen import schedule
    from glenside.codegen.partition import Partition

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int, int], None]
"""Called with (phase, steps done, steps in all)."""

_ALIGN = 64
_MOST_ELEMENTS = 2**31 - 1
"""Kernels index with 32 bits."""


class Executable(launch.Executable):
    """A program compiled in this process: it can also be inspected."""

    def __init__(
        self,
        plan: Plan,
        parameters: Mapping[int, Array],
        library: Any,
        module: Any,
        watched: Mapping[int, Sequence[tuple[Term, Place]]],
        held: Footprint,
    ) -> None:
        super().__init__(plan, parameters, library)
        self._module = module
        self._watched = watched
        self.footprint = held
        """The memory that it holds."""

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
    launch.runtime()
    from glenside.codegen import schedule

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
    return Executable(
        lowered.plan, lowered.parameters, compiled, module, lowered.watched, lowered.footprint
    )


def planned_footprint(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    progress: Progress | None = None,
) -> Footprint:
    """The memory that what :func:`compile_terms` makes will hold; raises as that does."""
    launch.runtime()
    from glenside.codegen import schedule

    return lower_terms(outputs, inputs, params, schedule.host(), progress).footprint


@dataclass
class Lowered:
    """A program as loop nests: its plan, the TIR functions ``kernel_0``, ... of it, and the arrays
    of its parameters by buffer."""

    plan: Plan
    functions: list[Any]
    parameters: dict[int, Array]
    watched: dict[int, list[tuple[Term, Place]]]
    """What is materialised, by the step after which it is there; -1 before the first."""
    footprint: Footprint
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
    from glenside.codegen import kernels
    from glenside.codegen.partition import Fill, Kernel, partition

    cut = partition(outputs, inputs, params)
    builder = kernels.KernelBuilder(cut, machine)
    library = _Library()
    steps: list[KernelCall | PythonCall] = []
    watched: dict[int, list[tuple[Term, Place]]] = {-1: []}
    for term in cut.inputs.values():
        watched[-1].append((cut.origin.get(term, term), place_of(cut.stored[term], term)))
    for done, step in enumerate(cut.steps):
        if progress:
            progress("lower", done, len(cut.steps))
        if isinstance(step, Kernel | Fill):
            launches = (
                builder.build(step, done) if isinstance(step, Kernel) else [builder.fill(step)]
            )
            for each in launches:
                arguments = [[a.buffer, a.base, a.extent] for a in each.arguments]
                steps.append(KernelCall(library.add(each.function), arguments))
            written = step.tail if isinstance(step, Kernel) and step.into is None else None
        else:
            steps.append(python_call(step.term, cut.stored))
            written = step.term
        if written is not None:
            place = place_of(cut.stored[written], written)
            watched.setdefault(len(steps) - 1, []).append((cut.origin.get(written, written), place))
    settled = {*cut.arrays, *(cut.stored[term].buffer for term in cut.inputs.values())}
    calls, homes = gather(steps, settled)
    plan = Plan(arena=0, steps=calls)
    plan.inputs = {name: place_of(cut.stored[term], term) for name, term in cut.inputs.items()}
    plan.input_types = {name: [list(t.outer), list(t.item), t.dtype] for name, t in inputs.items()}
    plan.outputs = [place_of(cut.stored[term], term) for term in cut.outputs]
    parameters = plan_memory(plan, cut)
    watched = renumbered(watched, homes)
    held = footprint(plan, parameters, cut, outputs, params)
    return Lowered(plan, library.functions, parameters, watched, held, _largest(cut))


def _largest(cut: Partition) -> Term | None:
    computed = [term for term, stored in cut.stored.items() if stored.buffer not in cut.arrays]
    return max([*computed, *cut.outputs], key=lambda term: term.type.nbytes, default=None)


def renumbered(
    watched: Mapping[int, list[tuple[Term, Place]]], homes: Sequence[int]
) -> dict[int, list[tuple[Term, Place]]]:
    """What is there after which step, once steps were gathered."""
    result: dict[int, list[tuple[Term, Place]]] = {}
    for number, places in watched.items():
        result.setdefault(homes[number] if number >= 0 else number, []).extend(places)
    return result


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


def place_of(stored: Any, term: Term) -> Place:
    """The place of a term, given where the partition stored it."""
    view: View = stored.view
    axes = [[list(atom) for atom in axis] for axis in view.axes]
    return Place(stored.buffer, stored.base + view.offset, axes, list(term.shape), term.dtype)


def python_call(term: Term, stored: Mapping[Term, Any]) -> PythonCall:
    """The step by which Python executes a call, a blocked product or a host operator."""
    return PythonCall(
        operator=term.op,
        attributes=term.attributes,
        types=[[list(c.outer), list(c.item), c.dtype] for c in term.children],
        operands=[place_of(stored[c], c) for c in term.children],
        result=place_of(stored[term], term),
    )


def plan_memory(plan: Plan, cut: Any, align: int = _ALIGN) -> dict[int, Array]:
    """Gives every buffer its slot, ``align`` bytes apart; returns the parameters' arrays by buffer.

    Buffers whose lifetimes do not meet share memory. A lifetime runs from the first step that
    touches a buffer to the last one; inputs live from the start, outputs to the end.
    """
    last_step = len(plan.steps)
    life: dict[int, list[int]] = {}

    def touch(buffer: int, step: int) -> None:
        span = life.setdefault(buffer, [step, step])
        span[0], span[1] = min(span[0], step), max(span[1], step)

    for place in plan.inputs.values():
        touch(place.buffer, -1)
    for number, step in enumerate(plan.steps):
        if isinstance(step, KernelCall):
            for buffer, _, _ in step.arguments:
                touch(buffer, number)
        elif isinstance(step, HostCall):
            for place in (*step.operands.values(), *step.results.values()):
                touch(place.buffer, number)
        else:
            for place in (*step.operands, step.result):
                touch(place.buffer, number)
    for place in plan.outputs:
        touch(place.buffer, last_step)

    parameters: dict[int, Array] = {}
    plan.slots = [Slot(buffer.dtype, buffer.size) for buffer in cut.buffers]
    for number, array in cut.arrays.items():
        slot = plan.slots[number]
        flat = array
        if flat.size and flat.ndim == 1 and (flat.strides == (0,) or flat.size == 1):
            slot.fill = flat[0].item()
        elif not flat.size:
            slot.fill = 0
        elif number in life:
            parameters[number] = _writable(np.ascontiguousarray(flat).reshape(-1))
        else:
            slot.fill, slot.size = 0, 1  # Bound, then folded into something else.
    wanted = []
    for number, slot in enumerate(plan.slots):
        if number in cut.arrays:
            continue
        size = slot.size * np.dtype(slot.dtype).itemsize
        wanted.append((number, -(-size // align) * align, life.get(number, [-1, -1])))
    plan.arena = _assign(plan, wanted)
    return parameters


def _assign(plan: Plan, wanted: Sequence[tuple[int, int, Sequence[int]]]) -> int:
    """Offsets in one arena, largest buffers first, each in the lowest gap; returns its size."""
    taken: list[tuple[int, int, Sequence[int]]] = []  # offset, size, lifetime
    total = 0
    for number, size, life in sorted(wanted, key=lambda each: -each[1]):
        busy = sorted(
            (offset, length)
            for offset, length, other in taken
            if life[0] <= other[1] and other[0] <= life[1]
        )
        at = 0
        for offset, length in busy:
            if at + size <= offset:
                break
            at = max(at, offset + length)
        taken.append((at, size, life))
        plan.slots[number].offset = at
        total = max(total, at + size)
    return total


def _writable(array: Array) -> Array:
    """The array itself, or a copy where DLPack would not take it (it wants writable memory)."""
    aligned = array.ctypes.data % array.dtype.itemsize == 0
    return array if array.flags.writeable and aligned else array.copy()


__all__ = ["Executable", "Lowered", "compile_terms", "lower_terms"]
