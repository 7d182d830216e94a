"""Pass: how every value lies in memory, and the steps that compute them, in order.

A product of weights and windows stores its result with the weights' axes innermost (for a
convolution: channels last), whatever order the program names them in, and what follows keeps the
order of what it reads. What a strided view cannot express where one is needed is copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from glenside.codegen.program.kinds import is_reduction
from glenside.codegen.program.leaves import Leaves
from glenside.codegen.program.ordering import (
    order_like,
    order_of_product,
    order_with_last,
    order_with_rows_last,
    reduced_next,
)
from glenside.codegen.program.record import (
    Cut,
    Fill,
    Home,
    Kernel,
    Product,
    PythonStep,
    Room,
    Rows,
    Step,
)
from glenside.codegen.storage import (
    Stored,
    arrange,
    inner_stride,
    occupied,
    ranking,
    repeating,
    slice_of,
    without_repetitions,
)
from glenside.codegen.views import View, compose_inverse, move_view, replay, row_major
from glenside.language.operators import APART, VIEWS
from glenside.language.term import Term

_LONG = 16
"""Elements along an axis from which on it matters how far apart they lie."""
_VECTOR = 4
"""Elements of a vector, as devices load them."""


def lay_out(cut: Cut) -> Cut:
    """Gives every value that is kept its place, each where what it reads lies already."""
    layout = _Layout(cut)
    for term in cut.order:
        if term in cut.kept and term not in cut.inside:
            layout.lay_out(term)
    for term in cut.outputs:
        layout.make_viewable(term)
    return replace(
        cut,
        kept=frozenset(layout.kept),
        steps=tuple(layout.steps),
        stored=layout.stored,
        since=layout.since,
        homes=tuple(layout.homes),
    )


class _Layout:
    """What is laid out so far."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.kept = set(cut.kept)
        self.leaves = Leaves(cut.weights, self.kept)
        self.steps: list[Step] = []
        self.stored: dict[Term, Stored] = {}
        self.since: dict[Term, int] = {}
        self.homes: list[Home] = []
        self.reduced_next = reduced_next(cut) if cut.rows_last else {}

    # --- steps ----------------------------------------------------------------------------------

    def lay_out(self, term: Term) -> None:
        """Gives the value its place, and adds the steps that compute it there."""
        as_named = list(range(term.type.rank))
        if term.op == "tensor":
            self._store(term, as_named)
            return
        self._limit_reindexing(term)
        if term.op in APART:
            for child in term.children:
                self.make_viewable(child)
            self._store(term, as_named)
            self.steps.append(PythonStep(term))
            return
        if term.op == "concat":
            self._store(term, as_named)
            for part, at in self.cut.copies.get(term, ()):
                into = slice_of(self.stored[term], term["axis"], at, part.shape)
                over = row_major(part.shape)
                self.steps.append(Kernel(part, None, over, into=self._based(into)))
            return
        fused = self.cut.fused.get(term)
        anchor = fused.anchor if fused is not None else term if is_reduction(term) else None
        over = fused.over if fused is not None else row_major(term.shape)
        product = None if anchor is None else self.cut.products.get(anchor)
        rows = self.cut.rows.get(term)
        if rows is not None:
            order = self._order_of_rows(term, rows)
            anchor, over = None, row_major(term.shape)
        else:
            order = self._order(term, anchor, product, over)
        self._store(term, order, over, term.shape if anchor is None else anchor.shape)
        if term.type.size:
            self.steps.append(Kernel(term, anchor, over, product, rows=rows))

    def _order(
        self, term: Term, anchor: Term | None, product: Product | None, over: View
    ) -> list[int]:
        """The order of the axes of the kernel's loop space (its anchor's, else its own)."""
        if anchor is None:
            return self._order_like(term)
        if anchor in self.cut.streamed:
            return _order_of_heads(anchor, term in self.cut.outputs)
        if product is not None:
            self._make_view(product.pixels)
            self._bring_depth_inside(product.pixels)
            return order_of_product(self.cut, anchor, product, self._known_view(product.pixels))
        operand = anchor.children[0]
        if self.cut.rows_last and anchor["function"] == "dot" and operand.op == "cart_prod":
            order = order_with_rows_last(self.cut, anchor)
            if not any(each in self.cut.weights for each in operand.children):
                last = self.reduced_next.get(term, ())
                return order_with_last(order, over, anchor.shape, last)
            return order
        return self._order_like(anchor, operand)

    def _order_of_rows(self, term: Term, rows: Rows) -> list[int]:
        """The axes in the order in which the source of the rows lies, or is made."""
        order = self._order_like(rows.source, None)
        if rows.source in self.stored:
            axes = self.stored[rows.source].view.axes
            order = sorted(order, key=lambda axis: -inner_stride(axes[axis]))
        place = {
            digit: (order.index(axis), k)
            for axis, digits in enumerate(rows.positions[rows.source])
            for k, digit in enumerate(digits)
        }
        keys = [place[digits[-1]] if digits else (-1, 0) for digits in rows.positions[term]]
        return sorted(range(len(keys)), key=lambda axis: keys[axis])

    def _order_like(self, term: Term, operand: Term | None = None) -> list[int]:
        return order_like(term, operand, self.leaves, self.kept, self.stored)

    def _copy(self, term: Term, order: list[int] | None = None) -> None:
        """A kernel that materialises a lazy term, with its axes in the order given."""
        self._limit_reindexing(term)
        if order is None:
            order = self._order_like(term)
        self.kept.add(term)
        self._store(term, order)
        if term.type.size:
            self.steps.append(Kernel(term, None, row_major(term.shape)))

    # --- what has to be copied ------------------------------------------------------------------

    def _limit_reindexing(self, top: Term) -> None:
        """Copies what would be reshaped twice by division and remainder on the way into a kernel.

        A reshape that no strided view expresses repeats the whole index once an axis, so a chain
        of them would grow the index exponentially.
        """
        fused = self.cut.fused.get(top)
        anchor = None if fused is None else fused.anchor
        rows = self.cut.rows.get(top)
        above: set[Term] = set() if anchor is None else {anchor}
        above |= set() if rows is None else {*rows.chain}
        streamed = self.cut.streamed.get(top if anchor is None else anchor)
        if streamed is not None:
            above.add(streamed.scores)
        views: dict[Term, View | None] = {}
        divided: dict[Term, int] = {}
        for each in self.leaves.region(top):
            if each is top or each in above:
                continue
            if any(child in above for child in each.children):
                above.add(each)  # Its index only leads to the accumulator.
                continue
            if each in self.leaves:
                stored = self.stored.get(each)
                views[each] = row_major(each.shape) if stored is None else stored.view
                continue
            divided[each] = max((divided.get(child, 0) for child in each.children), default=0)
            view = views.get(each.children[0]) if each.op in VIEWS else None
            views[each] = None if view is None else move_view(each, view)
            if each.op in ("reshape", "flatten") and views[each] is None:
                divided[each] += 1
                if divided[each] > 1:
                    self._copy(each)
                    views[each], divided[each] = self.stored[each].view, 0

    def _make_view(self, term: Term) -> None:
        """Makes ``term`` readable through a strided view, copying what cannot be one."""
        if self._view_of(term) is not None:
            return
        below, chain = self.leaves.descend(term, VIEWS)
        # The first term upward that has no view is copied, before windows multiply it.
        for each in [below, *chain]:
            if self._view_of(each) is None:
                self._copy(each)

    def _bring_depth_inside(self, pixels: Term) -> None:
        """Copies a streamed operand whose long reduced axis is not the innermost in memory.

        A product walks along that axis; channels-first input of many channels would touch another
        page at every step. What is copied is the value before windows multiply it.
        """
        view = self._known_view(pixels)
        item = [atom for axis in view.axes[pixels.type.split :] for atom in axis]
        longest = max(item, default=(1, 1))
        if longest[0] < _LONG or longest[1] == 1 or min(s for _, s in item) == 0:
            return
        leaf, chain = self.leaves.descend(pixels, VIEWS)
        source = leaf
        for term in chain:
            if term.op in ("windows", "broadcast"):
                break
            source = term
        if source is leaf:
            return
        inner = self._known_view(source)
        # The axis that holds the long one, innermost; the others as they lie.
        last = [k for k, axis in enumerate(inner.axes) if any(s == longest[1] for _, s in axis)]
        if len(last) != 1 or source.type.size < _LONG * _LONG:
            return
        rest = [k for k in range(len(inner.axes)) if k not in last]
        rest.sort(key=lambda k: -inner_stride(inner.axes[k]))
        self._copy(source, [*rest, *last])

    def make_viewable(self, term: Term) -> None:
        """Makes ``term`` something that NumPy can view: stored, or a view of what is stored."""
        if self._view_of(term) is None:
            self._copy(term)
        view = self._known_view(term)
        leaf, _ = self.leaves.descend(term, VIEWS)
        if term not in self.stored:
            base = self.stored[leaf]
            self._put(term, Stored(base.buffer, base.base, view))

    def _view_of(self, term: Term) -> View | None:
        leaf, chain = self.leaves.descend(term, VIEWS)
        if leaf in self.cut.weights and leaf not in self.stored:
            array = self.cut.weights[leaf]
            number = self._home(leaf, without_repetitions(array).size)
            self.stored[leaf] = Stored(number, 0, repeating(array))
        return replay(chain, self.stored[leaf].view) if leaf in self.stored else None

    def _known_view(self, term: Term) -> View:
        view = self._view_of(term)
        assert view is not None
        return view

    # --- places ---------------------------------------------------------------------------------

    def _store(
        self,
        term: Term,
        order: Sequence[int],
        over: View | None = None,
        space: tuple[int, ...] = (),
    ) -> None:
        """Gives ``term`` its place. ``order`` sorts the axes of ``space``, outermost first."""
        if term in self.stored:
            return  # A part of a concat fixed the layout before.
        if over is None:
            over, space = row_major(term.shape), term.shape
        if term in self.cut.parts:
            self._store_wholes(term, over, space, order)
            self._store_part(term)
            return
        room = 0
        if self.cut.plain and not self.cut.rows_last:
            view = row_major(term.shape)
            if term in self.cut.relaid and term not in self.cut.outputs:
                view, room = _spaced(term.shape)
        else:
            wanted = self.cut.rooms.get(term, Room(0, {}))
            skewed = not self.cut.plain
            view = arrange(term.shape, over, space, order, wanted.margins, wanted.fill, skewed)
        number = self._home(term, max(occupied(view), room))
        self._put(term, Stored(number, 0, view))
        if any(view.margins):
            self.steps.append(Fill(number, view))

    def _store_part(self, term: Term) -> None:
        """Gives a part of a concat its place in the whole, which has one."""
        part = self.cut.parts[term]
        moved = replay(part.chain, row_major(term.shape))
        assert moved is not None
        into = slice_of(self.stored[part.whole], part.whole["axis"], part.at, moved.shape)
        view = compose_inverse(moved, term.shape, into.view)
        assert view is not None
        self._put(term, Stored(into.buffer, into.base, view))

    def _store_wholes(
        self, term: Term, over: View, space: tuple[int, ...], order: Sequence[int]
    ) -> None:
        """Gives the concats that ``term`` is computed into their place, the outermost first."""
        wholes: list[tuple[Term, list[int]]] = []
        while term in self.cut.parts and self.cut.parts[term].whole not in self.stored:
            part = self.cut.parts[term]
            moved = replay(part.chain, over)
            axes = list(range(part.whole.type.rank))
            if moved is not None:
                rank = ranking(moved, space, order)
                axes.sort(key=lambda axis: rank[axis])
            wholes.append((part.whole, axes))
            term, space, order = part.whole, part.whole.shape, axes
            over = row_major(space)
        for whole, axes in reversed(wholes):
            self._store(whole, axes)

    def _put(self, term: Term, stored: Stored) -> None:
        self.stored[term] = self._based(stored)
        self.since[term] = len(self.steps)

    def _based(self, stored: Stored) -> Stored:
        """The same place, for a plain program said from the start of its buffer."""
        if not self.cut.plain or not stored.base:
            return stored
        view = stored.view.with_axes(stored.view.axes, stored.view.margins, stored.base)
        return Stored(stored.buffer, 0, view)

    def _home(self, term: Term, size: int) -> int:
        self.homes.append(Home(term, max(size, 1)))
        return len(self.homes) - 1


def _order_of_heads(anchor: Term, named: bool) -> list[int]:
    """The axes of a product of softmaxed rows: as they are ``named``, or with those of the last
    axis that is shared, the heads, side by side in a row, as what follows reads them."""
    pairs = anchor.children[0]
    shared, rows = pairs["batch"], len(pairs.children[0].outer)
    if named or not shared:
        return list(range(anchor.type.rank))
    return [*range(shared - 1), *range(shared, rows), shared - 1, *range(rows, anchor.type.rank)]


def _spaced(shape: tuple[int, ...]) -> tuple[View, int]:
    """Row-major with rows that begin where vectors do, and how many elements that takes."""
    padded = (*shape[:-1], -(-shape[-1] // _VECTOR) * _VECTOR)
    view = row_major(padded)
    axes = [*view.axes[:-1], row_major(shape[-1:]).axes[0]]
    return view.with_axes(axes), math.prod(padded)
