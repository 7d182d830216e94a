"""What a declaration claims about the unit's own sizes, proved for all sizes.

:mod:`~glenside.hw_targets.declare.cutting` argues on the structure of the term, and cheaply. Here
the term's own meaning decides: it is evaluated over lengths that are symbols, whole and in two
parts, padded and not, and the elements are shown to be equal, as both sides of a rewrite rule are.

A cut in two is enough. What holds of p + q elements for all p and q holds, part by part, of any
number of parts: later parts of a sum are again such sums, with operands that are zero. So does
padding one size after the other. Nothing is taken from constraints that speak of a size that is cut
or padded, since parts need not satisfy them.

That defaults, neutral elements left out, terms of ``also`` and batches all are the unit's call is
what the unit's rule says, and is proved as a rule.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.hw_targets.declare.checked import CheckedDeclaration, Declared
from glenside.hw_targets.declare.claimed import Claim, claims
from glenside.hw_targets.declare.denotation import denoted, holds
from glenside.hw_targets.declare.sizes import Size
from glenside.language.denotation import (
    Apply,
    Constant,
    Denotation,
    Element,
    Index,
    Leaf,
    Length,
    Read,
    floor_divide,
)
from glenside.language.operators import OPERATORS
from glenside.rewrites.soundness.proofs.axes import Axes, Undetermined
from glenside.rewrites.soundness.proofs.comparison import Comparison
from glenside.rewrites.soundness.proofs.facts import (
    Differs,
    Facts,
    Open,
    code,
    fresh,
    within,
)
from glenside.rewrites.soundness.proofs.limits import Budget, Spent
from glenside.rewrites.soundness.proofs.logic import NoMatch, Symbolic
from glenside.rewrites.soundness.proofs.verdicts import Proved, Sampled, Verdict

QUESTIONS = 2_000
"""For one claim; those of the units that ship take a tenth."""

_COMBINED = {"sum": "add", "max": "maximum"}


def prove_claims(accelerator: Declared) -> list[Verdict]:
    """A verdict of each claim, in words where verdicts of rules have a name.

    What is not proved counts as sampled: :mod:`~glenside.hw_targets.declare.tiling` has argued and
    tried it. Needs Z3 (:func:`~glenside.rewrites.soundness.proofs.require_solver`).
    """
    return [prove_claim(each, accelerator.checked) for each in claims(accelerator)]


def prove_claim(claim: Claim, checked: CheckedDeclaration) -> Verdict:
    """The verdict of one."""
    start = time.process_time()
    facts = Facts(Budget(QUESTIONS))
    case = _Case(facts, Symbolic(facts, Axes(facts, {}, 0)), claim, checked)
    problem: Exception | None = None
    try:
        (case.cut if claim.what == "cut" else case.pad)()
    except (Differs, Open, NoMatch, Undetermined, Spent) as found:
        problem = found
    spent = time.process_time() - start
    if problem is not None:
        return Sampled(str(claim), " ".join(str(problem).split()), 1, spent)
    return Proved(str(claim), None, tuple(sorted(facts.steps)), 1, spent)


@dataclass(frozen=True)
class _Case:
    facts: Facts
    logic: Symbolic
    claim: Claim
    checked: CheckedDeclaration

    def cut(self) -> None:
        """Two parts make the whole."""
        name, first, second = self.claim.size, fresh("first"), fresh("second")
        sizes, operands, dtype = self._given({name: first + second}, first >= 1, second >= 1)
        whole = self._term(sizes, operands, dtype)

        def part(low: Length, length: Length, later: bool) -> Denotation:
            own = {n: self._part(n, x, low, low + length, later) for n, x in operands.items()}
            return self._term({**sizes, name: length}, own, dtype)

        with self.logic.to_prove():
            parts = [part(0, first, False), part(first, second, True)]
            if self.claim.how == "outer":
                self._same(whole, self._operator("concat", parts, axis=self.claim.axis))
                return
            for each in parts:
                self._same_type(whole, each)
            function = (_COMBINED[self.claim.how],)

            def at(i: Index) -> Element:
                return Apply(function, [each.at(i) for each in parts])

            self._same(whole, whole.moved(whole.lengths, whole.split, at))

    def pad(self) -> None:
        """What padded operands give begins with what the operands give."""
        name, length, more = self.claim.size, fresh("length"), fresh("more")
        sizes, operands, dtype = self._given({name: length}, length >= 0, more >= 0)
        whole = self._term(sizes, operands, dtype)
        longer = {**sizes, name: length + more}
        with self.logic.to_prove():
            own = {n: self._padded(n, x, longer) for n, x in operands.items()}
            larger = self._term(longer, own, dtype)
            for k, (n, m) in enumerate(zip(whole.lengths, larger.lengths, strict=True)):
                if self.facts.equal(n, m) is not True:
                    larger = self._operator("slice", [larger], axis=k, low=0, high=n, step=1)
            self._same(whole, larger)

    # --- operands ---------------------------------------------------------------------------------

    def _given(
        self, own: Mapping[str, Any], *conditions: Any
    ) -> tuple[dict[str, Any], dict[str, Denotation], Any]:
        """Sizes, operands of these sizes, and the dtype of those without one of their own."""
        checked, facts = self.checked, self.facts
        sizes = {name: own[name] if name in own else fresh(name) for name in checked.names}
        changing = {*checked.tiling.tile, *checked.tiling.lanes}
        for condition in conditions:
            facts.assume(condition)
        for each in checked.conditions:
            if not changing.intersection(each.names):
                facts.assume(holds(each, sizes))
        dtype = fresh("dtype")
        facts.assume(self.logic.among(dtype, checked.dtypes))
        operands = {}
        for name, declared in checked.operands.items():
            outer, item = (
                [size.of(sizes, floor_divide) for size in part]
                for part in (declared.outer, declared.item)
            )
            for each in (*outer, *item):
                if not isinstance(each, int):
                    facts.assume(each >= 0)
            leaf = Leaf(name, outer, item, dtype if not declared.dtype else code(declared.dtype))
            operands[name] = Denotation(self.logic, outer, item, leaf.dtype, _reading(leaf))
        return sizes, operands, dtype

    def _part(self, name: str, x: Denotation, low: Length, high: Length, later: bool) -> Denotation:
        """That of an operand; in later parts of a sum one without such an axis is zero."""
        axes = [k for k, size in enumerate(self._axes(name)) if size.text == self.claim.size]
        if not axes and later and self.claim.how == "sum":
            return x.moved(x.lengths, x.split, lambda _: Constant(code("zero"), x.dtype))
        for k in axes:
            x = self._operator("slice", [x], axis=k, low=low, high=high, step=1)
        return x

    def _padded(self, name: str, x: Denotation, longer: Mapping[str, Any]) -> Denotation:
        widths = {"before": 0, "interior": 0, "value": code(self.claim.how)}
        for k, size in enumerate(self._axes(name)):
            if self.claim.size in size.names:
                missing = size.of(longer, floor_divide) - x.lengths[k]
                x = self._operator("pad", [x], axis=k, after=missing, **widths)
        return x

    def _axes(self, operand: str) -> Sequence[Size]:
        return self.checked.operands[operand].axes

    # --- terms ------------------------------------------------------------------------------------

    def _term(
        self, sizes: Mapping[str, Any], operands: Mapping[str, Denotation], dtype: Any
    ) -> Denotation:
        return denoted(self.logic, self.checked.template, sizes, operands, dtype)

    def _operator(self, name: str, operands: list[Denotation], **attributes: Any) -> Denotation:
        denote = OPERATORS[name].denote
        assert denote is not None
        found: Denotation = denote(self.logic, operands, attributes)
        return found

    def _same_type(self, a: Denotation, b: Denotation) -> None:
        self.logic.alike(a.outer, b.outer, "types")
        self.logic.alike(a.item, b.item, "types")
        self.facts.must(a.dtype, b.dtype, "types: dtype")

    def _same(self, a: Denotation, b: Denotation) -> None:
        self._same_type(a, b)
        if not self.facts.satisfied():
            raise Open("no sizes are known to satisfy the constraints")  # Else anything follows.
        index = [fresh("o") for _ in a.lengths]
        with self.facts.scope(*within(index, a.lengths)):
            if self.facts.feasible():
                Comparison(self.facts).equal(a.at(index), b.at(index))


def _reading(leaf: Leaf) -> Callable[[Index], Element]:
    return lambda index: Read(leaf, list(index))
