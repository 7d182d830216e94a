"""Pass: the parts of a ``concat`` are computed in place, into slices of the joined buffer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from glenside.codegen.program.record import Cut, Part
from glenside.codegen.views import compose_inverse, replay, row_major
from glenside.language.operators import BIJECTIONS
from glenside.language.term import Term


def place(cut: Cut) -> Cut:
    """Decides which parts have their place in the whole, and which have to be copied there."""
    parts: dict[Term, Part] = {}
    copies: dict[Term, tuple[tuple[Term, int], ...]] = {}
    for whole in reversed(cut.order):
        if whole.op != "concat" or whole not in cut.kept or not whole.type.size:
            continue
        at, axis = 0, whole["axis"]
        for part in whole.children:
            if part.type.size:
                leaf, chain = cut.leaves.descend(part, BIJECTIONS)
                if leaf is not whole and _placeable(cut, parts, leaf, chain, part):
                    parts[leaf] = Part(whole, at, tuple(chain))
                else:
                    copies[whole] = (*copies.get(whole, ()), (part, at))
            at += part.shape[axis]
    return replace(cut, parts=parts, copies=copies)


def _placeable(
    cut: Cut, parts: Mapping[Term, Part], leaf: Term, chain: Sequence[Term], part: Term
) -> bool:
    """Whether a step computes the value, which has no place yet, and can write it as moved."""
    if leaf not in cut.kept or leaf.op == "tensor" or leaf in parts:
        return False
    over = replay(chain, row_major(leaf.shape))
    return over is not None and (
        compose_inverse(over, leaf.shape, row_major(part.shape)) is not None
    )
