"""What there is to reduce over rows, and what of it is worth keeping."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from glenside.codegen.program.leaves import Leaves
from glenside.codegen.program.record import Kernel, Rows
from glenside.language.operators import BIJECTIONS
from glenside.language.term import Term


@dataclass(frozen=True)
class RowSpace:
    """Reductions over the same rows, as far as their mapping depends on them."""

    rows: int
    length: int
    reductions: tuple[str, ...]
    """Their functions, in order."""
    whole: bool
    """Whether there is a result for each element of a row, not one for the row."""
    read_bytes: int
    """Of what is read for each element of a row,"""
    written_bytes: int
    """and of all results."""
    held: tuple[str, ...]
    """The dtypes of what is worth keeping of each element, since several passes read it."""
    along: bool
    """Whether neighbours in memory are of one row."""
    total: str
    """The widest dtype of totals."""
    shuffles: bool
    """Whether the kernel's language hands values from thread to thread."""

    @property
    def passes(self) -> int:
        """How often a row is gone through."""
        return sum(2 if each == "softmax" else 1 for each in self.reductions) + self.whole

    def key(self) -> str:
        """Text that tells spaces apart whose mappings may differ."""
        what = "+".join(self.reductions)
        lies = "along" if self.along else "across"
        ends = "all" if self.whole else "one"
        held = ",".join(self.held)
        return (
            f"{self.rows}x{self.length} {what}->{ends} {lies} {self.read_bytes}/"
            f"{self.written_bytes} [{held}] {self.total}{' shuffles' if self.shuffles else ''}"
        )


def rows_of(step: Kernel) -> Rows:
    """The rows of a chain, or of a single reduction: of that, what it reads is the space."""
    if step.rows is not None:
        return step.rows
    anchor = step.anchor
    assert anchor is not None
    (child,) = anchor.children
    digits = tuple(range(len(child.shape)))
    item = frozenset(digits[child.type.split :])
    position = tuple((digit,) for digit in digits)
    outer = position if anchor["function"] == "softmax" else position[: child.type.split]
    positions = {child: position, anchor: outer}
    return Rows(child, child.shape, item, (anchor,), frozenset(), positions)


def worth_holding(step: Kernel, rows: Rows, leaves: Leaves) -> list[Term]:
    """Values for each element of a row that several passes read and no reduction of them is part
    of; the largest such."""
    result = step.anchor or step.tail
    varying = _varying(step.tail, rows.chain, leaves)
    read: dict[Term, set[int]] = {}
    ends = [(k, each.children[0]) for k, each in enumerate(rows.chain)]
    if result not in rows.chain:
        ends.append((len(ends), result))
    for number, end in ends:
        stack, seen = [end], set[Term]()
        while stack:
            term = stack.pop()
            if term in seen:
                continue
            seen.add(term)
            if term not in varying:
                stripped = _stripped(term, rows, leaves)
                read.setdefault(stripped, set()).add(number)
            elif term not in rows.chain or term["function"] == "softmax":
                stack.extend(term.children)
    for each in rows.chain:
        if each["function"] == "softmax":
            child = _stripped(each.children[0], rows, leaves)
            if child in read:
                read[child].add(len(ends))  # The second pass of its own.
    whole = sorted(range(len(rows.digits)))
    return [
        term
        for term, passes in read.items()
        if len(passes) > 1
        and term.dtype != "bool"
        and sorted(d for axis in rows.positions.get(term, ()) for d in axis) == whole
        and term.type.size == math.prod(rows.digits)
    ]


def _varying(tail: Term, chain: Collection[Term], leaves: Leaves) -> set[Term]:
    """What depends on a reduction of the chain, and those."""
    varying: set[Term] = set()
    for term in leaves.region(tail):
        if term is not tail and term in leaves and term not in chain:
            continue
        if term in chain or any(child in varying for child in term.children):
            varying.add(term)
    return varying


def _stripped(term: Term, rows: Rows, leaves: Leaves) -> Term:
    """What a value is before it is moved, as far as its place is known."""
    while term.op in BIJECTIONS and term not in leaves and term.children[0] in rows.positions:
        term = term.children[0]
    return term
