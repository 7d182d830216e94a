"""Targets made of accelerators beside a CPU, which runs what is left.

``find_target("flexasr+hlscnn")`` has the units of both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from glenside.errors import TargetError
from glenside.hw_targets.declare.template import OperandType
from glenside.hw_targets.target import (
    Executable,
    Progress,
    Target,
    find_target,
    register_target,
    targets,
)
from glenside.language import AccessType, Term
from glenside.language.shape import FLOATS, Shape
from glenside.language.units import is_unit

if TYPE_CHECKING:
    from glenside.codegen.footprint import Footprint
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import Rule, RuleSet

Array = np.ndarray[Any, Any]

JOINED = "+"
"""Between the names of targets that are used together."""


@dataclass(frozen=True)
class OffloadTarget:
    """Units beside a CPU.

    :param units: names of the units.
    :param make_rules: the rewrites that find them and those that bring programs to their forms.
    :param parameters: with which all calls begin, where that is what tells the hardware (the size
        of an array).
    :param several_sizes: whether there are units of one kind that differ in size, so that cycles
        decide between them.
    """

    name: str
    units: tuple[str, ...]
    make_rules: Callable[[], Sequence[RuleSet]] = field(repr=False)
    parameters: Shape | None = None
    several_sizes: bool = False

    def rules(self) -> Sequence[RuleSet]:
        """The rewrites that are explored."""
        return self.make_rules()

    def cost_model(self) -> CostModel:
        """Least work left on the host, then fewest calls, then fewest cycles if sizes differ."""
        from glenside.extraction import FewestCycles, MaximiseOffload

        if self.several_sizes:
            from glenside.hw_targets.timing import call_cycles

            return FewestCycles(units=frozenset(self.units), cycles=call_cycles)
        return MaximiseOffload(units=frozenset(self.units))

    def footprint(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        progress: Progress | None = None,
    ) -> Footprint:
        """The memory that the compiled program will hold."""
        from glenside.codegen.compile import planned_footprint

        return planned_footprint(outputs, inputs, params, progress)

    def compile(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        progress: Progress | None = None,
    ) -> Executable:
        """Calls run through their simulators, the rest as compiled for the CPU."""
        from glenside.codegen.compile import compile_terms

        return compile_terms(outputs, inputs, params, progress=progress)


class Operation(Protocol):
    """One operation of an accelerator, as it is declared."""

    @property
    def name(self) -> str:
        """Of its unit."""

    @property
    def target(self) -> str:
        """The target that has it, with options."""

    @property
    def summary(self) -> str:
        """What is said of the target."""

    @property
    def numerics(self) -> str:
        """The number format of its simulator, if that rounds."""

    @property
    def functions(self) -> frozenset[str]:
        """What it computes: the rule families that bring programs to its form follow from it."""

    @property
    def operands(self) -> Mapping[str, str]:
        """What each operand has to be, by name."""

    @property
    def area(self) -> float | None:
        """Of its hardware, where known."""

    def sizes(self, parameters: Shape, operands: Sequence[AccessType]) -> dict[str, int]:
        """The sizes of one call by name; raises :class:`ShapeError`."""

    def cycles_of(self, parameters: Shape, operands: Sequence[AccessType]) -> float | None:
        """Cycles of one call, where known."""

    def description(self) -> list[str]:
        """The declaration in lines of text."""

    def rule(self) -> Rule:
        """The rewrite that finds it."""


_TARGETS: dict[str, dict[str, Operation]] = {}
"""The accelerators of each target, by name."""
_OF_UNIT: dict[str, str] = {}


def add_to_target(accelerator: Operation, own_name: bool = False) -> None:
    """Adds a unit to its target, which is registered with the first one.

    Done before the unit itself is registered, so that nothing is when it is refused.

    :param own_name: whether the target is called like the unit because nobody named one; such a
        unit does not join others.

    :raises TargetError: there can be no such target, or the name of the unit or of the target is
        that of something else.
    """
    unit, target = accelerator.name, accelerator.target
    name, _ = _divide(target)
    if re.fullmatch(r"[A-Za-z][\w.-]*(:[\w.,-]+)?", target) is None:
        raise TargetError(
            f"accelerator {unit}: {target!r} is no name of a target: letters, digits, '-', '_' and "
            "'.', with numerics behind a colon"
        )
    members = _TARGETS.get(target, {})
    if own_name and members and unit not in members:
        raise TargetError(
            f"accelerator {unit}: there is a target of that name, which has {', '.join(members)}: "
            f"give it another name, or target={target!r} to add the unit to that target"
        )
    families = {_divide(each)[0] for each in _TARGETS}
    if name not in families and name in {kind.name for kind in targets()}:
        raise TargetError(f"accelerator {unit}: {name} is another target, which takes no units")
    known = accelerator_of(unit)
    if unit in _OF_UNIT or is_unit(unit):
        owner = _OF_UNIT.get(unit, unit) if known is None else known.target
        if known is None or owner != target:
            raise TargetError(f"accelerator {unit}: the target {owner} has a unit of that name")
    _TARGETS.setdefault(target, {})[unit] = accelerator
    _OF_UNIT[unit] = name
    family = [each for each in _TARGETS if _divide(each)[0] == name]
    summaries = (a.summary for each in family for a in _TARGETS[each].values() if a.summary)
    register_target(name, lambda given: _target(name, given), next(summaries, unit))


def name_target(unit: str, target: str) -> None:
    """Counts the calls of a unit that is not declared under a target."""
    _OF_UNIT[unit] = target


def _divide(target: str) -> tuple[str, str]:
    name, _, options = target.partition(":")
    return name, options


def _target(name: str, options: str) -> OffloadTarget:
    full = f"{name}:{options}" if options else name
    members = _TARGETS.get(full)
    if members is None:
        others = ", ".join(each for each in sorted(_TARGETS) if _divide(each)[0] == name)
        has = f"has no numerics {options!r}" if options else "is written with its numerics"
        raise TargetError(f"{name} {has}: there is {others}")
    accelerators = tuple(members.values())
    return OffloadTarget(full, tuple(members), lambda: rules_for(accelerators))


def target_of(unit: str) -> str:
    """The name of the target that has a unit, without options: under it reports count calls."""
    return _OF_UNIT.get(unit, unit)


def accelerator_of(unit: str) -> Operation | None:
    """The declaration of a unit, if it was declared."""
    for members in _TARGETS.values():
        if unit in members:
            return members[unit]
    return None


def rules_for(accelerators: Sequence[Operation]) -> list[RuleSet]:
    """The units' own rules, and those that bring programs to the forms these look for."""
    from glenside.rewrites.rules.attention import ATTENTION
    from glenside.rewrites.rules.channels import CHANNELS
    from glenside.rewrites.rules.elementwise import reshape_out_of
    from glenside.rewrites.rules.im2col import IM2COL
    from glenside.rewrites.rules.layout import LAYOUT
    from glenside.rewrites.rules.linear import LINEAR
    from glenside.rewrites.rules.matrices import MATRICES
    from glenside.rewrites.rules.pooling import MEANS, POOLING
    from glenside.rewrites.rules.rows import rows_of
    from glenside.rewrites.rules.steps import STEPS
    from glenside.rewrites.rules.sums import SUMS
    from glenside.rewrites.ruleset import RuleSet

    used = set[str]().union(*(a.functions for a in accelerators))
    families = {
        "dot": [IM2COL, MATRICES, CHANNELS],
        "add": [LINEAR],
        "max": [POOLING],
        "mean": [MEANS],
        "softmax": [ATTENTION],
        "sigmoid": [SUMS, STEPS],
    }
    chosen = [LAYOUT, *(each for f, sets in families.items() if f in used for each in sets)]
    rows = sorted(set[str]().union(*(getattr(a, "rows_of", ()) for a in accelerators)))
    chosen += [RuleSet(f"rows-of-{function}", (rows_of(function),)) for function in rows]
    behind = sorted(set[str]().union(*(getattr(a, "behind_product", ()) for a in accelerators)))
    chosen += [RuleSet(f"reshape-out-of-{name}", (reshape_out_of(name),)) for name in behind]
    if "dot" in used:
        chosen += _quantised(accelerators)
    return [*chosen, *(RuleSet(a.name, (a.rule(),), mapping=True) for a in accelerators)]


def float_products(target: Target, terms: Iterable[Term]) -> str:
    """A sentence where units that multiply nothing but integers of 8 bits are left with floats.

    Nothing is quantised unless that is asked for.
    """
    units = map(accelerator_of, target.units if isinstance(target, OffloadTarget) else ())
    known = [each for each in units if each is not None]
    if not known or not all(_takes(each) <= BYTES for each in known):
        return ""
    left = Counter(
        term.dtype
        for term in terms
        if term.op == "compute" and term["function"] == "dot" and term.dtype in FLOATS
    )
    if not left:
        return ""
    found = ", ".join(f"{count} products of {dtype}" for dtype, count in left.items())
    return (
        f"{target.name} multiplies {' and '.join(sorted(set().union(*map(_takes, known))))} only, "
        f"and {found} stayed on the host: quantise the model with quantize=samples "
        "(--quantize SAMPLES.npz)"
    )


BYTES = frozenset({"int8", "uint8"})


def _takes(operation: Operation) -> frozenset[str]:
    """The dtypes of operands that have one of their own; None for others."""
    return frozenset(str(OperandType.parse(each).dtype) for each in operation.operands.values())


def _quantised(accelerators: Sequence[Operation]) -> list[RuleSet]:
    """What brings quantised products to units that multiply integers of 8 bits."""
    taken = frozenset[str]().union(*map(_takes, accelerators))
    if not taken & BYTES:
        return []
    from glenside.rewrites.rules.quantised import BYTE_PRODUCTS, SIGNED_PRODUCTS

    return [BYTE_PRODUCTS if "uint8" in taken else SIGNED_PRODUCTS]


def joined(name: str) -> OffloadTarget:
    """The target that has the units of all those named, with ``+`` between them.

    :raises TargetError: one of them is no accelerator, or missing.
    """
    names = [each.strip() for each in name.split(JOINED)]
    if not all(names):
        raise TargetError(f"{name!r} lacks a target beside a {JOINED}")
    parts = [find_target(each) for each in names]
    units: dict[str, None] = {}
    several = False
    for part in parts:
        if not isinstance(part, OffloadTarget):
            raise TargetError(f"{part.name} in {name!r} is no accelerator: it cannot be joined")
        # Two that have a unit in common have it in different sizes.
        several = several or part.several_sizes or not units.keys().isdisjoint(part.units)
        units |= dict.fromkeys(part.units)

    def make_rules() -> list[RuleSet]:
        # A family that several ask for is one object, as are the rules in it.
        return list({id(each): each for part in parts for each in part.rules()}.values())

    name = JOINED.join(part.name for part in parts)
    return OffloadTarget(name, tuple(units), make_rules, several_sizes=several)
