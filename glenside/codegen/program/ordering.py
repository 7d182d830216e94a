"""The order in which a kernel's axes lie in memory."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from glenside.codegen.program.leaves import Leaves
from glenside.codegen.program.record import Cut, Product
from glenside.codegen.storage import Stored, inner_stride
from glenside.codegen.views import View, replay, row_major, strides_of
from glenside.language.operators import VIEWS
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


def order_with_last(
    order: Sequence[int], over: View, space: tuple[int, ...], last: Collection[int]
) -> list[int]:
    """The order of the axes of ``space``, those last that these axes of ``over`` move along."""
    bounds = strides_of(space)
    moved = {
        k
        for axis in last
        for size, stride in over.axes[axis]
        for k, low in enumerate(bounds)
        if low < stride * size and stride < low * space[k]
    }
    return sorted(order, key=lambda axis: axis in moved)


def reduced_next(cut: Cut) -> dict[Term, set[int]]:
    """The axes of values that reductions over rows, or products, move along next: there, neighbours
    are best read together."""
    found: dict[Term, set[int]] = {}
    for rows in cut.rows.values():
        digits = enumerate(rows.positions[rows.source])
        found[rows.source] = {axis for axis, each in digits if not rows.item.isdisjoint(each)}
    for term in cut.order:
        if term.op != "cart_prod":
            continue
        for operand in term.children:
            leaf, chain = cut.leaves.descend(operand, VIEWS)
            view = replay(chain, row_major(leaf.shape)) if leaf in cut.kept else None
            if view is None:
                continue
            item = [atom for axis in view.axes[operand.type.split :] for atom in axis]
            found[leaf] = {
                k
                for k, low in enumerate(strides_of(leaf.shape))
                for size, stride in item
                if low < stride * size and stride < low * leaf.shape[k]
            }
    return found


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
