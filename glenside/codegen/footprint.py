"""The memory that a compiled program holds, counted from its plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.codegen.plan import KernelCall, Place, Plan, Slot
from glenside.language.memory import spelled
from glenside.language.term import Term, topological_order

if TYPE_CHECKING:
    from glenside.codegen.storage import Memory

Array = np.ndarray[Any, Any]

_LARGEST = 3


@dataclass(frozen=True)
class Footprint:
    """Bytes that a program holds while it runs, on the processor or the device it runs on.

    ``held`` is what it takes beside its operands and results. What onnxruntime and the units of
    accelerators hold by themselves is not counted, nor is the code.
    """

    inputs: int
    """Of the inputs as the program keeps them."""
    results: int
    weights: int
    """Of the model's own parameters, as the model has them."""
    intermediates: int
    """Of the arena beyond inputs and results: values on the way and scratch, which share memory
    where they are not needed at the same time."""
    derived: int
    """What parameters take beyond ``weights``: packed, padded, or made of them by rewriting."""
    scratch: Mapping[str, int] = field(default_factory=dict)
    """What kernels need for themselves within ``intermediates``, by their names: partial sums of
    split reductions, operands packed on the way."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """The largest values on the way, as what computes them and their type."""

    @property
    def held(self) -> int:
        """Bytes beside operands and results."""
        return self.intermediates + self.derived

    def to_json(self) -> dict[str, Any]:
        """The fields and ``held`` as JSON has them."""
        return {"held": self.held, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Footprint:
        """What :meth:`to_json` wrote."""
        return cls(**{name: value for name, value in data.items() if name != "held"})

    def __str__(self) -> str:
        parts = [f"intermediate values {spelled(self.intermediates)}"]
        if self.scratch:
            kernels = "a kernel" if len(self.scratch) == 1 else f"{len(self.scratch)} kernels"
            parts.append(f"scratch of {kernels} up to {spelled(max(self.scratch.values()))}")
        parts.append(f"parameters beyond the model's own {spelled(self.derived)}")
        own = f"inputs {spelled(self.inputs)}, results {spelled(self.results)}"
        own += f", parameters {spelled(self.weights)}"
        return f"{spelled(self.held)} held ({', '.join(parts)}); beside {own}"


def footprint(
    plan: Plan,
    parameters: Mapping[int, Array],
    memory: Memory,
    outputs: Sequence[Term],
    params: Mapping[str, Array],
) -> Footprint:
    """Counts what a planned program holds.

    :param parameters: its parameters' arrays by buffer.
    :param memory: what it was planned from, scratch buffers included.
    :param outputs: the program, whose ``tensor`` leaves among ``params`` are the model's own
        parameters.
    """
    inputs, results = _of(plan, plan.inputs.values()), _of(plan, plan.outputs)
    operands = {place.buffer for place in plan.inputs.values()}
    own = sum(_size(plan.slots[k]) for k in {*operands, *(place.buffer for place in plan.outputs)})
    leaves = {t["name"] for t in topological_order(outputs) if t.op == "tensor"}
    weights = sum(array.nbytes for name, array in params.items() if name in leaves)
    # One element is left of what is bound and then folded into something else.
    filled = sum(_size(slot) for slot in plan.slots if slot.fill is not None and slot.size > 1)
    kept = filled + sum(array.nbytes for array in parameters.values())
    valued = {stored.buffer for stored in memory.stored.values()} | memory.arrays.keys()
    return Footprint(
        inputs=inputs,
        results=results,
        weights=weights,
        intermediates=max(plan.arena - own, 0),
        derived=max(kept - weights, 0),
        scratch=_scratch(plan, valued),
        largest=_largest(memory, {*operands, *memory.arrays, *(p.buffer for p in plan.outputs)}),
    )


def _of(plan: Plan, places: Collection[Place]) -> int:
    return sum(_size(plan.slots[buffer]) for buffer in {place.buffer for place in places})


def _size(slot: Slot) -> int:
    return slot.size * np.dtype(slot.dtype).itemsize


def _scratch(plan: Plan, valued: Collection[int]) -> dict[str, int]:
    """Bytes of the buffers that hold no value, by the first kernel that uses them."""
    found: dict[str, int] = {}
    seen: set[int] = set()
    for step in plan.steps:
        if isinstance(step, KernelCall):
            own = {buffer for buffer, _, _ in step.arguments} - seen - {*valued}
            seen |= own
            size = sum(_size(plan.slots[buffer]) for buffer in own)
            if size:
                found[step.function] = max(size, found.get(step.function, 0))
    return found


def _largest(memory: Memory, apart: Collection[int]) -> dict[str, int]:
    """The largest values that are no operands, constants or results, a buffer once."""
    sizes: dict[int, tuple[int, str]] = {}
    for term, stored in memory.stored.items():
        if stored.buffer not in apart and term.type.nbytes:
            what = term["function"] if term.op == "compute" else term.op
            told = term.type.nbytes, f"{what} {term.type}"
            sizes[stored.buffer] = max(sizes.get(stored.buffer, told), told)
    ordered = sorted(sizes.values(), key=lambda each: (-each[0], each[1]))
    return {told: size for size, told in ordered[:_LARGEST]}
