"""What a program costs: cost models price one e-node at a time.

A cost is a tuple of floats, compared lexicographically and added component by component; the cost
of a program is the sum over its distinct terms. Prices are local: a model sees an operator, its
attributes and the types of its result and operands, never what stands around it. Costs only grow:
no price has a negative component, and ours all have a positive one (the last counts nodes), so a
term that only leads back to itself never pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from glenside.language.functions import FUNCTIONS
from glenside.language.operators import CALLS, OPERATORS, RENUMBERING, TRANSFORMERS, Moves
from glenside.language.shape import AccessType
from glenside.language.term import Term, topological_order
from glenside.language.units import known_unit

Cost = tuple[float, ...]

_SOFTMAX_OPERATIONS = 5
"""Per element: maximum, difference, exponential, sum, quotient."""

_UNMOVED = RENUMBERING | {name for name, o in OPERATORS.items() if o.may(Moves.PAIRS)}
"""Transformers that leave elements where they are: they only renumber axes, or name the two
operands that the function above reads where they lie (a contracted ``cart_prod`` is never built).
"""


class CostModel(Protocol):
    """Prices e-nodes. All prices of one model have the same number of components."""

    @property
    def name(self) -> str:
        """How reports call the model."""
        ...

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        """The price of one node without its operands, no component negative.

        None means that the node must not be chosen, for example a call to a unit that the target
        does not have.
        """
        ...


def scalar_operations(
    op: str, attributes: Mapping[str, Any], result: AccessType, operands: Sequence[AccessType]
) -> int:
    """How many scalar operations a node performs on the host; 0 for data movement and calls.

    A ``dot`` of n pairs counts 2 n (multiply, add), any other reduction one per element of its
    operand, a fold of t slices t - 1 per element of the result, every other function one per
    element however dear it is, softmax five. A host operator is opaque: it counts one per element
    that it reads or writes, which is a lower bound.
    """
    match op:
        case "compute":
            (operand,) = operands
            kind = FUNCTIONS[attributes["function"]].kind
            if kind == "fold":
                return operand.size - result.size
            return operand.size * (_SOFTMAX_OPERATIONS if kind == "vector" else 1)
        case "cast" | "where":
            return result.size
        case "host_op":
            return result.size + sum(operand.size for operand in operands)
        case _:
            return 0


def call_cycles(
    op: str, attributes: Mapping[str, Any], operands: Sequence[AccessType]
) -> float | None:
    """Cycles that the unit of a ``call`` or ``blocked`` works; None where nothing says it."""
    unit = known_unit(attributes["unit"])
    if unit is None or unit.cycles is None:
        return None
    return unit.cycles(op, attributes["parameters"], attributes.get("batch", 0), operands)


def moved_bytes(op: str, result: AccessType, operands: Sequence[AccessType]) -> int:
    """Bytes that data movement writes, and that calls take in and give back.

    What only renumbers axes moves nothing. A transformer that a kernel will read through (a view)
    counts as if it were built: this orders programs, it does not predict traffic.
    """
    if op in CALLS:
        return result.nbytes + sum(operand.nbytes for operand in operands)
    return result.nbytes if op in TRANSFORMERS and op not in _UNMOVED else 0


@dataclass(frozen=True)
class MaximiseOffload:
    """As much as possible on the accelerator: (host work, calls, bytes moved, nodes).

    * host work: :func:`scalar_operations` of everything that is not a call;
    * calls: invocations of units; a ``blocked`` product is one, whatever its size;
    * bytes moved: :func:`moved_bytes`, so that of two offloads the one with fewer transposes wins;
    * nodes: the number of terms.

    :param units: names of the units the target has; a call to another must not be chosen. None
        allows all.
    """

    units: Collection[str] | None = None
    name: ClassVar[str] = "maximise-offload"
    components: ClassVar[tuple[str, ...]] = ("host operations", "calls", "bytes moved", "nodes")

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        """The price of one node; None for a unit that the target lacks."""
        called = op in CALLS
        if called and self.units is not None and attributes["unit"] not in self.units:
            return None
        return (
            float(scalar_operations(op, attributes, result, operands)),
            float(called),
            float(moved_bytes(op, result, operands)),
            1.0,
        )


@dataclass(frozen=True)
class FewestCycles(MaximiseOffload):
    """Likewise, cycles before bytes: (host work, calls, cycles, bytes moved, nodes).

    Cycles are those of calls, by :func:`call_cycles`.
    """

    name: ClassVar[str] = "fewest-cycles"
    components: ClassVar[tuple[str, ...]] = (
        "host operations",
        "calls",
        "cycles",
        "bytes moved",
        "nodes",
    )

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        """The price of one node; None for a unit that the target lacks."""
        price = super().node_cost(op, attributes, result, operands)
        if price is None:
            return None
        called = op in CALLS
        cycles = call_cycles(op, attributes, operands) if called else None
        return (*price[:2], cycles or 0.0, *price[2:])


@dataclass(frozen=True)
class Roofline:
    """Time on one processor by the roofline model: (seconds, bytes moved, nodes).

    A node that computes takes ``max(operations / peak_flops, bytes / bandwidth) + launch_seconds``
    (Williams, Waterman, Patterson: "Roofline: an insightful visual performance model for multicore
    architectures", CACM 52(4), 2009). Operations are :func:`scalar_operations`, bytes are
    :func:`read_bytes` plus the result, and every such node is a kernel of its own: fusing is the
    code generator's work and saves the same on equal programs. Transformers are views, which take
    no time; among programs of equal time the fewest bytes moved and then the fewest nodes win.
    Calls of accelerators are not work of this processor and are never chosen.

    :param peak_flops: scalar operations per second.
    :param bandwidth: bytes per second to and from memory.
    :param launch_seconds: what starting one kernel takes.
    """

    peak_flops: float
    bandwidth: float
    launch_seconds: float
    name: ClassVar[str] = "roofline"
    components: ClassVar[tuple[str, ...]] = ("seconds", "bytes moved", "nodes")

    def __post_init__(self) -> None:
        if min(self.peak_flops, self.bandwidth) <= 0 or self.launch_seconds < 0:
            raise ValueError(f"rates must be positive and times not negative: {self}")

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        """The price of one node; None for calls of accelerators."""
        if op in CALLS:
            return None
        seconds = 0.0
        if op in ("compute", "cast", "where", "host_op"):
            operations = scalar_operations(op, attributes, result, operands)
            traffic = result.nbytes + read_bytes(op, attributes, operands)
            seconds = max(operations / self.peak_flops, traffic / self.bandwidth)
            seconds += self.launch_seconds
        return seconds, float(moved_bytes(op, result, operands)), 1.0

    def folded(
        self,
        price: Cost,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost:
        """The price of a node that compiling evaluates: no time."""
        return (0.0, *price[1:])


def is_known(
    op: str,
    values: Sequence[Any],
    children: Sequence[Any],
    known: Container[Any],
    constants: Collection[str],
) -> bool:
    """Whether a node depends on constants alone, so that it is evaluated when the program is
    compiled.

    :param values: its attribute values, as its operator declares them.
    :param known: what of its operands is known.
    :param constants: names of the tensors whose values are known then.
    """
    if op == "tensor":
        return values[OPERATORS[op].positions["name"]] in constants
    return op not in CALLS and op != "host_op" and all(child in known for child in children)


def at_compile_time(
    price: Cost,
    cost_model: CostModel,
    op: str,
    attributes: Mapping[str, Any],
    result: AccessType,
    operands: Sequence[AccessType],
) -> Cost:
    """What a node costs that is evaluated when the program is compiled: a model says so by a method
    ``folded``, which takes the price and what that is of, else it costs the same."""
    folded: Callable[..., Cost] | None = getattr(cost_model, "folded", None)
    return price if folded is None else folded(price, op, attributes, result, operands)


def read_bytes(op: str, attributes: Mapping[str, Any], operands: Sequence[AccessType]) -> float:
    """Bytes that a node which computes reads at least, from the types of its operands alone.

    Operands are read once, at the size of the view: overlapping windows or a broadcast make this
    too much by their overlap. The operand of a ``dot`` is the product of t accesses and is not
    built. How its n outer positions divide among the factors is not in its type, but t factors with
    n combinations and items of k elements have together at least ``t k n**(1/t)`` elements (the
    arithmetic mean is no less than the geometric one), which is what counts here.
    """
    total = sum(operand.nbytes for operand in operands)
    if op == "compute" and attributes["function"] == "dot" and total:
        (operand,) = operands
        count = operand.item[0]
        combinations = math.prod(operand.outer)
        return total / combinations * combinations ** (1 / count)
    return float(total)


def cpu_roofline(cores: int = 1) -> Roofline:
    """A present-day x86 core times ``cores``, on one memory channel.

    Peak: 3 GHz with two 8-lane float32 fused multiply-adds per cycle (AVX2), 96 GFLOP/s a core.
    Bandwidth: one channel of DDR4-3200, 25.6 GB/s. Launch: 1 microsecond, the order of a
    parallel-for on a warm thread pool. Nominal figures, the same on every machine so that the
    choice of program is reproducible.
    """
    return Roofline(peak_flops=96e9 * cores, bandwidth=25.6e9, launch_seconds=1e-6)


def dag_cost(terms: Iterable[Term], cost_model: CostModel, constants: Collection[str] = ()) -> Cost:
    """The cost of a program: every distinct term below ``terms`` counts once.

    ``constants`` names the tensors whose values are known when the program is compiled.
    Sums are rounded once, at the end, so they do not depend on the order of the terms. A program
    with a node that the model does not allow costs infinity.
    """
    prices: list[Cost] = []
    known: set[Term] = set()
    allowed = True
    for term in topological_order(terms):
        operands = [child.type for child in term.children]
        price = cost_model.node_cost(term.op, term.attributes, term.type, operands)
        if is_known(term.op, term.values, term.children, known, constants):
            known.add(term)
            if price is not None:
                node = term.op, term.attributes, term.type, operands
                price = at_compile_time(price, cost_model, *node)
        if price is None:
            allowed = False
        else:
            prices.append(price)
    if not allowed:
        return (math.inf,) * max(len(prices[0]) if prices else 0, 1)
    return tuple(map(math.fsum, zip(*prices, strict=True)))
