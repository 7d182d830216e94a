"""The plan of a program whose kernels are made: its calls, and where values lie while they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glenside.codegen.host_runs import gather
from glenside.codegen.plan import ALIGN, KernelCall, Place, Plan, PythonCall
from glenside.codegen.program.memory import plan_memory
from glenside.codegen.program.record import Cut, Fill, Kernel, PythonStep, Step
from glenside.codegen.storage import Array, Memory
from glenside.language.term import Term

Watched = dict[int, list[tuple[Term, Place]]]
"""What is materialised, by the call after which it is there; -1 before the first. Terms are the
caller's."""


@dataclass(frozen=True)
class Planned:
    """A plan, and the arrays of its parameters by buffer."""

    plan: Plan
    parameters: dict[int, Array]
    watched: Watched


class Planner:
    """Notes what the calls of a program compute as they are made, and plans them.

    :param memory: what kernels need included.
    """

    def __init__(self, cut: Cut, memory: Memory) -> None:
        self._cut, self._memory = cut, memory
        self._watched: Watched = {-1: [self._seen(term) for term in cut.inputs.values()]}

    def place(self, term: Term) -> Place:
        """Where a value lies."""
        stored = self._memory.stored[term]
        axes = [[list(atom) for atom in axis] for axis in stored.view.axes]
        offset = stored.base + stored.view.offset
        return Place(stored.buffer, offset, axes, list(term.shape), term.dtype)

    def python_call(self, step: PythonStep) -> PythonCall:
        """The call by which Python executes a step."""
        term = step.term
        return PythonCall(
            operator=term.op,
            attributes=term.attributes,
            types=[[list(c.outer), list(c.item), c.dtype] for c in term.children],
            operands=[self.place(child) for child in term.children],
            result=self.place(term),
        )

    def note(self, step: Step, calls: int) -> None:
        """What the step computes is there after so many calls."""
        if isinstance(step, Fill) or (isinstance(step, Kernel) and step.into is not None):
            return
        written = step.tail if isinstance(step, Kernel) else step.term
        self._watched.setdefault(calls - 1, []).append(self._seen(written))

    def plan(self, calls: Sequence[KernelCall | PythonCall], align: int = ALIGN) -> Planned:
        """The plan of all calls, in order; buffers are ``align`` bytes apart."""
        cut = self._cut
        settled = {self._memory.stored[term].buffer for term in cut.inputs.values()}
        steps, homes = gather(calls, settled | self._memory.arrays.keys())
        plan = Plan(arena=0, steps=steps)
        plan.inputs = {name: self.place(term) for name, term in cut.inputs.items()}
        plan.input_types = {n: [list(t.outer), list(t.item), t.dtype] for n, t in cut.types.items()}
        plan.outputs = [self.place(term) for term in cut.outputs]
        parameters = plan_memory(plan, self._memory, align)
        watched: Watched = {}
        for number, seen in self._watched.items():
            watched.setdefault(homes[number] if number >= 0 else number, []).extend(seen)
        return Planned(plan, parameters, watched)

    def _seen(self, term: Term) -> tuple[Term, Place]:
        return self._cut.known_as(term), self.place(term)
