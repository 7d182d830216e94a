"""The order in which a kernel's axes lie in memory."""

from __future__ import annotations

from collections.abc import Container, Mapping

from glenside.codegen.program.leaves import Leaves
from glenside.codegen.program.record import Cut, Product
from glenside.codegen.storage import Stored, inner_stride
from glenside.codegen.views import View
from glenside.language.term import Term

_FIRST = -(1 << 30)
"""The key of axes along which what is read repeats."""


def order_of_product(cut: Cut, anchor: Term, product: Product, pixels: View) -> list[int]:
    """The vector side's axes innermost; those of the streamed side as ``pixels`` lies."""
    batch, count = product.batch, len(anchor.shape)
    streamed = len(product.pixels.outer) - batch
    resident = count - batch - streamed
    if product.vector_first:
        mine = list(range(batch, batch + resident))
        theirs = list(range(batch + resident, count))
    else:
        theirs = list(range(batch, batch + streamed))
        mine = list(range(batch + streamed, count))
    strides = [inner_stride(pixels.axes[batch + k]) for k in range(streamed)]
    theirs = [axis for _, axis in sorted(zip(strides, theirs, strict=True), key=lambda p: -p[0])]
    shared = list(range(batch))
    if product.vector in cut.weights:
        return [*theirs, *shared, *mine]
    return [*shared, *theirs, *mine]


def order_with_rows_last(cut: Cut, anchor: Term) -> list[int]:
    """The axes of a product's result, those of its resident operand innermost."""
    pairs = anchor.children[0]
    a, b = pairs.children
    batch, count = pairs["batch"], len(anchor.shape)
    shared = list(range(batch))
    middle = len(a.outer)
    first, second = list(range(batch, middle)), list(range(middle, count))
    if b in cut.weights and a not in cut.weights:
        first, second = second, first
    if a in cut.weights or b in cut.weights:
        return [*second, *shared, *first]
    return [*shared, *second, *first]


def order_like(
    term: Term,
    operand: Term | None,
    leaves: Leaves,
    kept: Container[Term],
    stored: Mapping[Term, Stored],
) -> list[int]:
    """Axes of ``term`` in the order of the largest kept value that its operand is or reads.

    :param operand: that of a reduction; None: ``term`` is elementwise.
    """
    top = term if operand is None else operand
    if top is operand and top in stored:
        read = [top]
    else:
        read = [
            each
            for each in leaves.region(top)
            if each is not term and each in kept and each in stored
        ]
    for leaf in sorted(read, key=lambda leaf: -leaf.type.size):
        view: View | None = stored[leaf].view
        if leaf is not top:
            view = leaves.trace(top, leaf, stored[leaf].view, exact=False)
        if view is not None:
            strides = [inner_stride(axis) for axis in view.axes[: term.type.rank]]
            return sorted(range(len(strides)), key=lambda axis: -strides[axis] or _FIRST)
    return list(range(term.type.rank))
