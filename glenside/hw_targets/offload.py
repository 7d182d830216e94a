"""Targets made of accelerators beside a CPU, which runs what is left.

``find_target("flexasr+hlscnn")`` has the units of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import TargetError
from glenside.hw_targets.declare.template import OperandType
from glenside.hw_targets.operation import Operation, accelerator_of
from glenside.hw_targets.target import Executable, Progress, Target
from glenside.language import AccessType, Term, find_unit
from glenside.language.shape import FLOATS, Shape

if TYPE_CHECKING:
    from glenside.codegen.footprint import Footprint
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import RuleSet

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

    @property
    def area(self) -> float | None:
        """Multipliers of its hardware: of the operation that needs most, since all are one piece of
        it; None where no declaration says."""
        says = [find_unit(unit).area for unit in self.units]
        areas = [area(self.parameters or ()) for area in says if area is not None]
        return max((area for area in areas if area is not None), default=None)

    def cost_model(self) -> CostModel:
        """Least work left on the host, then fewest calls, then fewest cycles if sizes differ."""
        from glenside.extraction import FewestCycles, MaximiseOffload

        if self.several_sizes:
            return FewestCycles(units=frozenset(self.units))
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


def joined(parts: Sequence[Target]) -> OffloadTarget:
    """The target that has the units of all of them.

    :raises TargetError: one of them is no accelerator.
    """
    name = JOINED.join(part.name for part in parts)
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

    return OffloadTarget(name, tuple(units), make_rules, several_sizes=several)
