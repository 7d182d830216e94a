"""Why products and reductions over rows are mapped as they are: loops, constraints with their
numbers, other kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from glenside.codegen.gpu.interface import Choose, DeviceLimits
from glenside.codegen.gpu.mapping.choose import (
    InfeasibleMapping,
    best_mapping,
    best_of,
    infeasible,
    searched,
)
from glenside.codegen.gpu.mapping.kind import Kind, Space, Work
from glenside.codegen.gpu.mapping.kinds import KINDS, ROWS, kind_of
from glenside.codegen.gpu.mapping.lift import lifts_constraints
from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.gpu.mapping.solver import Constraints, Stated
from glenside.codegen.gpu.rows.space import RowSpace
from glenside.codegen.gpu.space import LoopAxis, Operand, ProductSpace
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.program.record import Rows
from glenside.language.term import Term

Name = Callable[[Term], str | None]
"""What the user's model calls a value."""


@dataclass(frozen=True)
class LoopTold:
    """A loop of a product, and where in the term it comes from."""

    name: str
    size: int
    comes_from: str


@dataclass(frozen=True)
class KindTold:
    """A kind of mapping: why the product has none of it, or the time of its best in seconds."""

    name: str
    says: str
    predicted: float | None = None


@dataclass(frozen=True)
class ProductExplanation:
    """How one product, or one chain of reductions over rows, is mapped, and why."""

    kernel: str
    computes: str
    loops: Sequence[LoopTold]
    mapping: Mapping[str, Any] | None
    """As JSON has it; None where one thread computes an element."""
    chosen: str
    """By what: measured, or predicted, and by which constants."""
    defined: Mapping[str, str]
    """What the quantities that constraints name are made of."""
    constraints: Sequence[Stated]
    lift: Sequence[Stated]
    """Lift's seven, of mappings to threads."""
    kinds: Sequence[KindTold]

    def to_json(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.kernel}: {self.computes}"]
        lines += [f"  {each.name} ({each.size}): {each.comes_from}" for each in self.loops]
        if self.mapping is None:
            lines.append(f"  one thread an element: {self.chosen}")
        else:
            values = ", ".join(
                f"{k} {_shown(v)}"
                for k, v in self.mapping.items()
                if k not in ("kind", "predicted")
            )
            lines.append(f"  mapped to {self.mapping['kind']}: {values}")
            lines.append(f"  chosen: {self.chosen}")
        lines += [f"  where {name} = {text}" for name, text in self.defined.items()]
        for title, stated in (("", self.constraints), ("Lift ", self.lift)):
            lines += [
                f"  {title}{each.group}: {each.says} ({each.value})"
                f"{'' if each.holds else ' DOES NOT HOLD'}"
                for each in stated
            ]
        for kind in self.kinds:
            took = "" if kind.predicted is None else f", {kind.predicted * 1e6:.2f} us"
            lines.append(f"  {kind.name}: {kind.says}{took}")
        return "\n".join(lines)


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True)
class MappingExplanation:
    """How each product and each reduction over rows of a program is mapped, in the order of its
    kernels."""

    device: str
    products: Sequence[ProductExplanation]

    def to_json(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {"device": self.device, "products": [each.to_json() for each in self.products]}

    def __str__(self) -> str:
        if not self.products:
            return f"{self.device}: no kernel computes a product or reduces rows"
        return "\n\n".join(map(str, self.products))


def explained(
    kernel: str,
    space: ProductSpace,
    limits: DeviceLimits,
    choose: Choose | None = None,
    mapping: ProductMapping | None = None,
    name: Name = lambda term: None,
) -> ProductExplanation:
    """Why a product is mapped as it is.

    :param choose: names measured mappings.
    :param mapping: what its kernels were made by; by default what would be chosen now.
    :param name: what the user's model calls a value.
    """
    measured = choose(space, limits) if choose is not None else None
    try:
        best: ProductMapping | None = best_mapping(space, limits)
        problem = ""
    except InfeasibleMapping as found:
        best, problem = None, str(found)
    mapping = mapping or measured or best
    constraints = Constraints()
    lift: Sequence[Stated] = ()
    if mapping is not None:
        constraints = _stated(space, mapping, limits)
        if isinstance(mapping, ThreadMapping):
            lift = [*lifts_constraints(space, mapping, limits)]
    return ProductExplanation(
        kernel,
        f"{_operand(space.resident, name)} by {_operand(space.streamed, name)}, summed in "
        f"{space.accumulate}, then {' '.join(space.epilogue) or 'stored'} as {space.dtype}",
        [_loop(space, k, axis, name) for k, axis in enumerate(space.axes)],
        None if mapping is None else mapping.to_fields(),
        problem if mapping is None else _why(mapping, measured, best, limits),
        {key: of.text for key, of in constraints.defined.items()},
        constraints.stated,
        lift,
        [_kind(kind, space, limits, mapping) for kind in KINDS],
    )


def explained_rows(
    work: Work[RowSpace], shape: Rows, name: Name = lambda term: None
) -> ProductExplanation:
    """Why reductions over rows are mapped as they are.

    :param shape: their rows.
    :param name: what the user's model calls a value.
    """
    space, limits = work.space, work.limits
    found = best_of(ROWS, space, limits, 1)
    mapping = found[0] if found else None
    constraints = Constraints() if mapping is None else _stated(space, mapping, limits)
    source = _base_of(shape.source, name)
    near = "neighbours in memory" if space.along else "apart in memory"
    loops = [
        LoopTold("row", space.rows, f"rows of {source}"),
        LoopTold("element", space.length, f"reduced; elements of a row of {source}, {near}"),
    ]
    ends = "a result for each element" if space.whole else "one result a row"
    return ProductExplanation(
        work.name,
        f"{', then '.join(space.reductions)} over {space.rows} rows of {space.length}, {ends}",
        loops,
        None if mapping is None else mapping.to_fields(),
        "nothing obeys all constraints"
        if mapping is None
        else _why(mapping, None, mapping, limits),
        {key: of.text for key, of in constraints.defined.items()},
        constraints.stated,
        (),
        [_kind(ROWS, space, limits, mapping)],
    )


def _stated(space: Space, mapping: ProductMapping, limits: DeviceLimits) -> Constraints:
    """The constraints of the problem that a mapping is a solution of, with its numbers."""
    kind = kind_of(mapping)
    if kind.unfit(space, limits):
        return Constraints()
    for problem in kind.problems(space, limits):
        if problem.admits(mapping):
            return problem.stated(mapping)
    return Constraints()


def _why(
    mapping: ProductMapping,
    measured: ProductMapping | None,
    best: ProductMapping | None,
    limits: DeviceLimits,
) -> str:
    same = [each is not None and each.same(mapping) for each in (measured, best)]
    fit = limits.fit if limits.model(mapping.kind) is not None else None
    by = f"by constants fitted on {fit.device}" if fit else "by first principles: none were fitted"
    if same[0]:
        what = "measured to be fastest"
        return f"{what}; predicted to be so as well, {by}" if same[1] else f"{what}, not predicted"
    return f"predicted to be fastest, {by}" if same[1] else "the device refused those before it"


def _kind(
    kind: Kind[Any, Any], space: Space, limits: DeviceLimits, mapping: ProductMapping | None
) -> KindTold:
    why = kind.unfit(space, limits)
    if why:
        return KindTold(kind.name, f"not possible: {why}")
    found = searched(kind, space, limits)
    chosen = mapping is not None and mapping.kind == kind.name
    if found is None:
        return KindTold(kind.name, "chosen" if chosen else "possible; others go first")
    if not found.mappings:
        conflict = infeasible(kind, space, limits).groups
        return KindTold(kind.name, f"not possible: {', '.join(conflict) or 'nothing found'}")
    best = found.mappings[0].predicted
    says = "chosen" if chosen else "possible"
    return KindTold(kind.name, f"{says}; {len(found.mappings)} mappings, the best", best)


_SIDES = {"batch": "shared by both operands", "m": "rows of the resident operand",
          "n": "rows of the streamed operand"}  # fmt: skip


def _loop(space: ProductSpace, k: int, axis: LoopAxis, name: Name) -> LoopTold:
    if axis.role == "k":
        text = f"reduced, item axis {axis.axis} of both operands"
    else:
        text = f"axis {axis.axis} of the result, {_SIDES[axis.role]}"
    if axis.weight > 1:
        text += f", in steps of {axis.weight}"
    moves = []
    for operand in (space.resident, space.streamed):
        along = [f"{operand.steps[k][d]} along axis {d}" for d in operand.dimensions_of(k)]
        if along:
            moves.append(f"moves {' and '.join(along)} of {_base(operand, name)}")
    windows = [space.names[w] for w in space.windows_of(k)] if axis.role == "n" else []
    if windows:
        moves.append(f"its windows are {' and '.join(windows)}")
    return LoopTold(space.names[k], axis.size, "; ".join([text, *moves]))


def _operand(operand: Operand, name: Name) -> str:
    lies = "constant " if operand.constant else ""
    return f"{lies}{_base(operand, name)} {operand.dtype}[{'x'.join(map(str, operand.shape))}]"


def _base(operand: Operand, name: Name) -> str:
    """The value that an operand is a window into."""
    return _base_of(operand.base, name)


def _base_of(term: Term, name: Name) -> str:
    """A value by its name, else by the operator above one that has a name."""
    above: list[str] = []
    while True:
        called = term["name"] if term.op == "tensor" else name(term)
        if called is not None or not term.children:
            return " of ".join([*above, called or term.op])
        if term.op != "access":
            above.append(term.op)
        if len(term.children) > 1 or len(above) > 3:
            return " of ".join(above)
        term = term.children[0]
