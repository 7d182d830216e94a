"""What a kernel consists of: the terms between its result and what it reads."""

from __future__ import annotations

from collections.abc import Container, Mapping

from glenside.codegen.program.kinds import is_tuple_only
from glenside.codegen.views import View, move_view
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import BIJECTIONS, VIEWS
from glenside.language.term import Term


class Leaves:
    """The terms that kernels read and do not compute: those in any of the given sets."""

    def __init__(self, *sets: Container[Term]) -> None:
        self._sets = sets

    def __contains__(self, term: Term) -> bool:
        return any(term in each for each in self._sets)

    def region(self, term: Term) -> list[Term]:
        """The terms of ``term``'s kernel, leaves included, children first."""
        order: list[Term] = []
        seen: set[Term] = set()
        stack: list[tuple[Term, bool]] = [(term, False)]
        while stack:
            top, done = stack.pop()
            if done:
                order.append(top)
                continue
            if top in seen:
                continue
            seen.add(top)
            stack.append((top, True))
            if top is term or top not in self:
                stack.extend((c, False) for c in top.children if c not in seen)
        return order

    def descend(self, term: Term, through: frozenset[str]) -> tuple[Term, list[Term]]:
        """The leaf below a chain of such moves, and the chain from the leaf upward."""
        chain: list[Term] = []
        while term not in self and term.op in through:
            chain.append(term)
            term = term.children[0]
        return term, chain[::-1]

    def trace(self, term: Term, source: Term, start: View, exact: bool) -> View | None:
        """The axes of ``term`` as seen from ``source``, whose own axes are ``start``.

        Element by element: the value of ``term`` at an index reads ``source`` at the address the
        view gives. None where there is no such view, or where two paths disagree; with ``exact``
        false, pads and the like are looked through and the first path decides.
        """
        views: dict[Term, View | None] = {}
        broken: set[Term] = set()
        for each in self.region(term):
            views[each] = None
            if each is source:
                views[each] = start
                continue
            if each is not term and each in self:
                continue
            if any(c in broken for c in each.children):
                broken.add(each)
                continue
            given = [view for c in each.children if (view := views.get(c)) is not None]
            if not given:
                continue
            view = None
            if not exact or all(other.axes == given[0].axes for other in given):
                view = _through(each, given[0], views, exact)
            if view is None:
                broken.add(each)
            views[each] = view
        return views[term]


def _through(
    term: Term, first: View, views: Mapping[Term, View | None], exact: bool
) -> View | None:
    """The axes of a term, given those of its first operand that has any."""
    if term.op in VIEWS:
        return _moved(term, first, exact)
    if term.op == "pair":
        split = term.type.split
        longer = first.unsqueeze(split)
        return longer.broadcast((*longer.shape[:split], 2, *longer.shape[split + 1 :]))
    if term.op == "cart_prod" and not exact:
        left, right = (views.get(c) for c in term.children)
        return _product_view(term, left, right)
    if term.op in ("cast", "where"):
        return first
    if term.op == "concat" and not exact:
        return _lengthened(term, first)
    if term.op == "compute":
        return _computed(term, first, exact)
    return None


def _moved(term: Term, first: View, exact: bool) -> View | None:
    if exact and term.op == "slice" and not term["low"] and term["step"] == 1:
        return first  # What is cut off at the end is not stored.
    if exact and term.op not in BIJECTIONS:
        return None
    if term.op in ("flatten", "reshape") and first.shape != term.children[0].shape:
        return None
    view = move_view(term, first)
    if view is None and term.op == "pad" and not exact:
        return _lengthened(term, first)
    return view


def _lengthened(term: Term, first: View) -> View:
    """The axes of a pad or concat, the joined axis going on at the same stride."""
    axes = list(first.axes)
    old = axes[term["axis"]]
    axes[term["axis"]] = ((term.shape[term["axis"]], old[-1][1] if old else 0),)
    return first.with_axes(axes)


def _computed(term: Term, first: View, exact: bool) -> View | None:
    function, child = FUNCTIONS[term["function"]], term.children[0]
    if function.kind == "map" or (function.kind == "vector" and not exact):
        return first
    split = child.type.split
    if function.kind == "fold" or is_tuple_only(term):
        axis = first.axes[split]
        if exact and axis not in ((), ((child.item[0], 0),)):
            return None
        kept = (*first.axes[:split], *first.axes[split + 1 :])
        margins = (*first.margins[:split], *first.margins[split + 1 :])
        return first.with_axes(kept, margins)
    return None if exact else first.with_axes(first.axes[:split])


def _product_view(term: Term, left: View | None, right: View | None) -> View:
    """Strides along a cart_prod as the larger operand has them, zero along the other's axes."""
    batch, split = term["batch"], term.type.split
    a, b = term.children
    if left is not None and (right is None or a.type.size >= b.type.size):
        outer = (*left.axes[: a.type.split], *[((n, 0),) for n in b.outer[batch:]])
        return left.with_axes((*outer, ((2, 0),), *left.axes[a.type.split :]))
    assert right is not None
    outer = (
        *right.axes[:batch],
        *[((n, 0),) for n in a.outer[batch:]],
        *right.axes[batch : b.type.split],
    )
    assert len(outer) == split
    return right.with_axes((*outer, ((2, 0),), *right.axes[b.type.split :]))
