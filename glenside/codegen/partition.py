"""Cuts a program into kernels and decides where every value lies.

A kernel is one reduction (``dot``, ``sum``, ``max``, softmax, ...) with the transformers that feed
it, as index functions, and the elementwise work that follows it; elementwise work with no reduction
to follow is a kernel of its own. What is only data movement is not computed at all where a strided
view can express it.

Layouts are chosen here. A product of weights and windows stores its result with the weights' axes
innermost (for a convolution: channels last), whatever order the program names them in, and what
follows keeps the order of what it reads. The parts of a ``concat`` are computed in place, into
slices of the joined buffer; a ``pad`` becomes a margin around its operand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.codegen.folding import Folding
from glenside.codegen.layout import (
    View,
    compose_inverse,
    row_major,
)
from glenside.codegen.lower import is_tuple_only, move_view
from glenside.codegen.small_maps import small_map
from glenside.codegen.storage import (
    Buffer,
    Origin,
    Stored,
    arrange,
    compact,
    inner_stride,
    occupied,
    ranking,
    repeated,
    replay,
    slice_of,
)
from glenside.language import APART, builders
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import BIJECTIONS, VIEWS, fill_value
from glenside.language.shape import FLOATS, AccessType
from glenside.language.term import Term, map_terms, rebuild

Array = np.ndarray[Any, Any]

_ROOM = 1 << 30
_MAX_DEPTH = 40
_MAX_NODES = 200
_MAX_GUARDED = 4
"""Computing nodes of a kernel that may stand under a guard, where all is one expression."""
_MIN_LANES = 8
"""A product needs at least this many results along its vector side to be blocked as a GEMM;"""
_MIN_FIXED = 3
"""or this many where that side is a parameter, which is packed once."""
_LONG = 16
_VECTOR = 4
"""Elements of a vector, as devices load them."""


@dataclass(frozen=True)
class Product:
    """How a ``dot`` of a ``cart_prod`` is blocked: the vector side's axes run along registers."""

    vector: Term
    pixels: Term
    vector_first: bool
    batch: int


@dataclass
class Kernel:
    """Computes ``tail`` into its storage. ``anchor`` is the reduction inside it, if any.

    ``over`` gives the axes of ``tail`` in the row-major space of ``anchor``. For a part of a concat
    that has to be copied, ``into`` is the storage. Where ``over`` is longer than ``tail`` along an
    axis, what the anchor has beyond is cut off.
    """

    tail: Term
    anchor: Term | None
    over: View
    product: Product | None = None
    into: Stored | None = None

    @property
    def edges(self) -> tuple[int, ...]:
        """The axes along which the tail is shorter than what is computed."""
        sizes = zip(self.over.shape, self.tail.shape, strict=True)
        return tuple(axis for axis, (whole, kept) in enumerate(sizes) if whole > kept)


@dataclass
class PythonStep:
    """A call, blocked product or host operator, executed by Python."""

    term: Term


@dataclass
class Fill:
    """Writes the margins of a buffer, laid out by ``view`` (margins included), with a number."""

    buffer: int
    view: View


@dataclass
class Partition:
    """A program ready to be lowered: steps in order and the place of every value."""

    steps: list[Kernel | PythonStep | Fill] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    stored: dict[Term, Stored] = field(default_factory=dict)
    since: dict[Term, int] = field(default_factory=dict)
    """How many steps there were when a value got its place: earlier steps compute it themselves."""
    constants: dict[Term, Any] = field(default_factory=dict)
    arrays: dict[int, Array] = field(default_factory=dict)
    weights: dict[Term, Array] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    """What the arrays of parameters' buffers are made of, where that is known."""
    inputs: dict[str, Term] = field(default_factory=dict)
    outputs: list[Term] = field(default_factory=list)
    origin: dict[Term, Term] = field(default_factory=dict)
    """Terms as the caller knows them, by the terms here."""


def partition(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    plain: bool = False,
    rows_last: bool = False,
) -> Partition:
    """Cuts the program with these outputs; raises :class:`InputError` for an unknown tensor.

    With ``plain`` every value lies row-major, without margins, addressed from the start of its
    buffer, and no operand of a product is copied to become a view: for devices whose kernels guard
    and stage what they read themselves, and whose buffers cannot be entered anywhere. With
    ``rows_last`` as well, what products compute lies with the rows of their resident operand
    innermost (a convolution's channels), and what is computed of it elementwise lies likewise.
    """
    return _Partitioner(outputs, inputs, params, plain, rows_last).run()


class _Partitioner:
    def __init__(
        self,
        outputs: Sequence[Term],
        inputs: Mapping[str, AccessType],
        params: Mapping[str, Array],
        plain: bool,
        rows_last: bool,
    ) -> None:
        self.result = Partition()
        self.plain, self.rows_last = plain, rows_last
        renamed = map_terms(outputs, canonical)
        for old, new in renamed.items():
            self.result.origin.setdefault(new, old)
        self.outputs = [renamed[term] for term in outputs]
        folding = Folding(self.outputs, inputs, params)
        self.order = folding.live(self.outputs)
        self.folded = self.result.weights = folding.arrays
        self.result.constants = folding.numbers
        self.kept: set[Term] = set()  # Terms that are materialised.
        self.roots: dict[Term, set[Term]] = {}
        self.relaid: set[Term] = set()  # Moves that are stored as what they move is computed.
        self.observed: set[Term] = set()  # Terms whose elements are needed outside of kernels.
        self.pulled: dict[Term, tuple[Term, View]] = {}  # Tail: the reduction inside its kernel.
        self.inside: set[Term] = set()  # Reductions that live inside another term's kernel.
        self.place: dict[Term, tuple[Term, int, list[Term]]] = {}
        self.copies: dict[Term, list[tuple[Term, int]]] = {}
        self.room: dict[Term, tuple[float | int, dict[int, tuple[int, int]]]] = {}

    def run(self) -> Partition:
        self._mark()
        self._pull()
        self._place_parts()
        if not self.plain:
            self._find_margins()
        self._lay_out()
        self.result.outputs = self.outputs
        return self.result

    # --- what is materialised -------------------------------------------------------------------

    def _leaf(self, term: Term) -> bool:
        return term in self.folded or term in self.kept or term in self.result.constants

    def _mark(self) -> None:
        self._spread_roots(decide=True)
        self._keep_guarded()
        if self.plain and not self.rows_last:
            self._relay()
        depth: dict[Term, int] = {}
        nodes: dict[Term, int] = {}
        for term in self.order:
            below = [c for c in term.children if not self._leaf(c)]
            depth[term] = 1 + max((depth[c] for c in below), default=0)
            nodes[term] = 1 + sum(nodes[c] for c in below)
            computes = _computes(term)
            long = computes and (depth[term] > _MAX_DEPTH or nodes[term] > _MAX_NODES)
            if (long or depth[term] > 4 * _MAX_DEPTH) and term.op not in ("pair", "cart_prod"):
                self.kept.add(term)
        self._spread_roots(decide=False)

    def _keep_guarded(self) -> None:
        """Materialises what takes long to compute where a guard decides whether it is computed.

        There is no place for statements there: values can only be named within one expression,
        which compilers take more than linear time for.
        """
        work: dict[Term, int] = {}
        for term in self.order:
            below = sum(work[child] for child in term.children if not self._leaf(child))
            work[term] = min(_computes(term) + below, _MAX_GUARDED + 1)
        guarded: set[Term] = set()
        for term in reversed(self.order):
            if term in guarded and _computes(term) and work[term] > _MAX_GUARDED:
                self.kept.add(term)
            guards = _without_cells(term) or (term in guarded and term not in self.kept)
            if guards or (_is_reduction(term) and term["function"] != "dot"):
                # A pair whose tuple axis is run over by a loop decides between two values, too.
                guarded.update(c for c in term.children if guards or c.op == "pair")

    def _spread_roots(self, decide: bool) -> None:
        """Finds the kernels each term is read in, and decides what is materialised."""
        self.roots = {term: set() for term in self.order}
        repeated: set[Term] = set()
        bare: set[Term] = set()
        self.observed = set(self.outputs)
        for term in reversed(self.order):
            rounds = term.op in ("compute", "cast") and term.dtype == "bfloat16"
            if decide and (self._must_keep(term, repeated) or (rounds and term in bare)):
                self.kept.add(term)
            without_cells = _without_cells(term) or (term in bare and term not in self.kept)
            if term in self.kept:
                roots, again = {term}, False
                if term.op == "compute" and FUNCTIONS[term["function"]].kind == "vector":
                    again = True
            else:
                roots, again = self.roots[term], term in repeated
                again = again or _repeats(term)
            seen = term in self.observed and term not in self.kept
            for child in term.children:
                if child in self.folded:
                    continue
                self.roots[child] |= roots
                if again or (term.op == "pad" and child.dtype not in FLOATS):
                    repeated.add(child)
                if without_cells:
                    bare.add(child)
                if seen or term.op in APART:
                    self.observed.add(child)

    def _must_keep(self, term: Term, repeated: set[Term]) -> bool:
        if term.op in ("tensor", "concat") or term.op in APART:
            return True
        if term.op == "compute":
            kind = FUNCTIONS[term["function"]].kind
            if kind == "vector" or (kind == "reduce" and not is_tuple_only(term)):
                return True
        if not _computes(term):
            return term in self.observed and term.op not in VIEWS
        if term in self.observed or term in repeated or len(self.roots[term]) > 1:
            return True
        return any(root.op == "concat" for root in self.roots[term])

    # --- fusing -----------------------------------------------------------------------------

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
            if top is term or not self._leaf(top):
                stack.extend((c, False) for c in top.children if c not in seen)
        return order

    def _pull(self) -> None:
        """Moves reductions into the kernel of the elementwise work that alone uses them."""
        for term in self.order:
            if term not in self.kept or _is_reduction(term):
                continue
            if not _computes(term) and term not in self.relaid:
                continue
            best: tuple[int, Term, View] | None = None
            for leaf in self.region(term):
                if leaf is term or leaf not in self.kept or not _is_reduction(leaf):
                    continue
                if self.roots[leaf] != {term} or leaf in self.observed or not leaf.type.size:
                    continue
                if FUNCTIONS[leaf["function"]].kind != "reduce":
                    continue
                if leaf["function"] in ("argmax", "argmin"):
                    continue
                over = self._trace_view(term, leaf, row_major(leaf.shape), exact=True)
                if over is None or not self._covers(over, leaf, term):
                    continue
                work = leaf.type.size * math.prod(leaf.children[0].item)
                if best is None or work > best[0]:
                    best = work, leaf, over
            if best is not None:
                self.pulled[term] = best[1:]
                self.inside.add(best[1])

    def _covers(self, over: View, leaf: Term, term: Term) -> bool:
        """Whether each element of ``term`` is made of another one of ``leaf``, all of them or, of a
        small map, all but some at the edges."""
        if leaf.type.size == term.type.size:
            return True
        return (
            math.prod(over.shape) == leaf.type.size
            and all(whole >= kept for whole, kept in zip(over.shape, term.shape, strict=True))
            and self._small(leaf)
        )

    def _small(self, term: Term) -> bool:
        """Whether a device computes the term by a thread for each item of a small map."""
        return self.plain and not self.rows_last and small_map(term, self.folded) is not None

    def _relay(self) -> None:
        """What only moves a small map's results is what the map stores: on the way out of the
        program all moves, on the way into a product those up to the last reshape."""
        users: dict[Term, list[Term]] = {}
        for term in self.order:
            for child in term.children:
                users.setdefault(child, []).append(term)
        for leaf in self.order:
            if leaf in self.outputs or not self._small(leaf):
                continue
            chain = [leaf]
            above = users.get(leaf, [])
            while len(above) == 1 and above[0].op in BIJECTIONS | {"slice"}:
                chain.append(above[0])
                above = [] if above[0] in self.outputs else users.get(above[0], [])
            if chain[-1] not in self.outputs:
                into_product = len(above) == 1 and above[0].op == "cart_prod"
                while len(chain) > 1 and not (into_product and chain[-1].op == "reshape"):
                    chain.pop()
            if len(chain) > 1:
                self.relaid.add(chain[-1])
                self.kept.add(chain[-1])

    def _trace_view(self, term: Term, source: Term, start: View, exact: bool) -> View | None:
        """The axes of ``term`` as seen from ``source``, whose own axes are ``start``.

        Element by element: the value of ``term`` at an index reads ``source`` at the address the
        view gives. None where there is no such view, or where two paths disagree; with ``exact``
        false, pads and the like are looked through and the first path decides.
        """
        views: dict[Term, View | None] = {}
        broken: set[Term] = set()
        for each in self.region(term):
            if each is source:
                views[each] = start
                continue
            if each is not term and self._leaf(each):
                views[each] = None
                continue
            given = [views[c] for c in each.children if views.get(c) is not None]
            if any(c in broken for c in each.children):
                broken.add(each)
                views[each] = None
                continue
            if not given:
                views[each] = None
                continue
            view = self._step_view(each, views, given, exact)
            if view is None:
                broken.add(each)
            views[each] = view
        return views[term]

    def _step_view(
        self,
        term: Term,
        views: Mapping[Term, View | None],
        given: Sequence[View | None],
        exact: bool,
    ) -> View | None:
        first = given[0]
        assert first is not None
        if exact and any(v is None or v.axes != first.axes for v in given):
            return None
        if term.op in VIEWS:
            if exact and term.op == "slice" and not term["low"] and term["step"] == 1:
                return first  # What is cut off at the end is not stored.
            if exact and term.op not in BIJECTIONS:
                return None
            if term.op in ("flatten", "reshape") and first.shape != term.children[0].shape:
                return None
            view = move_view(term, first)
            if view is None and term.op == "pad" and not exact:
                axes = list(first.axes)
                old = axes[term["axis"]]
                axes[term["axis"]] = ((term.shape[term["axis"]], old[-1][1] if old else 0),)
                return first.with_axes(axes)
            return view
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
            axes = list(first.axes)
            old = axes[term["axis"]]
            axes[term["axis"]] = ((term.shape[term["axis"]], old[-1][1] if old else 0),)
            return first.with_axes(axes)
        if term.op == "compute":
            function, child = FUNCTIONS[term["function"]], term.children[0]
            if function.kind == "map":
                return first
            split = child.type.split
            if function.kind == "fold" or is_tuple_only(term):
                axis = first.axes[split]
                if exact and axis not in ((), ((child.item[0], 0),)):
                    return None
                kept = (*first.axes[:split], *first.axes[split + 1 :])
                margins = (*first.margins[:split], *first.margins[split + 1 :])
                return first.with_axes(kept, margins)
            if not exact:
                return first.with_axes(first.axes[:split])
        return None

    # --- concat and pad ---------------------------------------------------------------------

    def _descend(self, term: Term, through: frozenset[str]) -> tuple[Term, list[Term]]:
        """The leaf below a chain of moves, and the chain from the leaf upward."""
        chain: list[Term] = []
        while not self._leaf(term) and term.op in through:
            chain.append(term)
            term = term.children[0]
        return term, chain[::-1]

    def _place_parts(self) -> None:
        """Decides which parts of a concat are computed in place."""
        for whole in reversed(self.order):
            if whole.op != "concat" or whole not in self.kept or not whole.type.size:
                continue
            at, axis = 0, whole["axis"]
            for part in whole.children:
                if part.type.size:
                    leaf, chain = self._descend(part, BIJECTIONS)
                    if self._placeable(leaf, chain, part, whole):
                        self.place[leaf] = (whole, at, chain)
                    else:
                        self.copies.setdefault(whole, []).append((part, at))
                at += part.shape[axis]

    def _placeable(self, leaf: Term, chain: list[Term], part: Term, whole: Term) -> bool:
        if leaf not in self.kept or leaf.op == "tensor" or leaf in self.place or leaf is whole:
            return False
        over = replay(chain, row_major(leaf.shape))
        return over is not None and (
            compose_inverse(over, leaf.shape, row_major(part.shape)) is not None
        )

    def _find_margins(self) -> None:
        """Finds the pads that can be margins around a stored value."""
        for term in self.order:
            if term.op != "pad" or term["interior"] or term in self.kept:
                continue
            leaf, chain = self._descend(term, BIJECTIONS | {"pad"})
            if leaf not in self.kept or not leaf.type.size:
                continue
            fill = fill_value(term["value"], term.dtype)
            start = row_major(leaf.shape, _ROOM)
            view = replay(chain, View(0, start.axes, start.margins, fill))
            if view is None:
                continue
            wanted: dict[int, tuple[int, int]] = {}
            for margin in view.margins:
                if margin is not None:
                    used = _ROOM - margin.before, _ROOM - margin.after
                    if any(used):
                        wanted[margin.axis] = used
            self._want_room(leaf, fill, wanted)

    def _want_room(self, term: Term, fill: Any, wanted: dict[int, tuple[int, int]]) -> None:
        while term in self.place and wanted:
            whole, _, chain = self.place[term]
            over = replay(chain, row_major(term.shape, _ROOM))
            assert over is not None
            moved = {}
            for axis, margin in enumerate(over.margins):
                if margin is not None and margin.axis in wanted and axis != whole["axis"]:
                    moved[axis] = wanted[margin.axis]
            term, wanted = whole, moved
        if not wanted:
            return
        known_fill, known = self.room.get(term, (fill, {}))
        if known_fill != fill:
            return
        merged = dict(known)
        for axis, (before, after) in wanted.items():
            old = merged.get(axis, (0, 0))
            merged[axis] = max(old[0], before), max(old[1], after)
        size = math.prod(n + sum(merged.get(axis, (0, 0))) for axis, n in enumerate(term.shape))
        if size <= max(4 * term.type.size, 1 << 14):
            self.room[term] = fill, merged

    # --- layout -----------------------------------------------------------------------------

    def _lay_out(self) -> None:
        for term in self.order:
            if term in self.kept and term not in self.inside:
                self._lay_out_term(term)
        for position, term in enumerate(self.outputs):
            self.outputs[position] = self._outside(term)

    def _lay_out_term(self, term: Term) -> None:
        result = self.result
        if term.op == "tensor":
            result.inputs[term["name"]] = term
            self._store(term, list(range(term.type.rank)))
            return
        self._limit_reindexing(term)
        if term.op in APART:
            for child in term.children:
                self._outside(child)
            self._store(term, list(range(term.type.rank)))
            result.steps.append(PythonStep(term))
            return
        if term.op == "concat":
            self._store(term, list(range(term.type.rank)))
            for part, at in self.copies.get(term, []):
                into = slice_of(result.stored[term], term["axis"], at, part.shape)
                into = self._based(into)
                result.steps.append(Kernel(part, None, row_major(part.shape), into=into))
            return
        anchor, over = self.pulled.get(term, (None, row_major(term.shape)))
        if anchor is None and _is_reduction(term):
            anchor = term
        product = None if anchor is None or self.plain else self._as_product(anchor)
        order = self._physical_order(term, anchor, product)
        space = anchor.shape if anchor is not None else term.shape
        self._store(term, order, over, space)
        if term.type.size:
            result.steps.append(Kernel(term, anchor, over, product))

    def _limit_reindexing(self, top: Term) -> None:
        """Copies what would be reshaped twice by division and remainder on the way into a kernel.

        A reshape that no strided view expresses repeats the whole index once an axis, so a chain
        of them would grow the index exponentially.
        """
        anchor = self.pulled[top][0] if top in self.pulled else None
        above: set[Term] = {anchor} if anchor is not None else set()
        views: dict[Term, View | None] = {}
        divided: dict[Term, int] = {}
        for each in self.region(top):
            if each is top or each is anchor:
                continue
            if any(child in above for child in each.children):
                above.add(each)  # Its index only leads to the accumulator.
                continue
            if self._leaf(each):
                stored = self.result.stored.get(each)
                views[each] = row_major(each.shape) if stored is None else stored.view
                continue
            below = [divided.get(child, 0) for child in each.children]
            divided[each] = max(below, default=0)
            view = views.get(each.children[0]) if each.op in VIEWS else None
            views[each] = None if view is None else move_view(each, view)
            if each.op in ("reshape", "flatten") and views[each] is None:
                divided[each] += 1
                if divided[each] > 1:
                    self._copy(each)
                    views[each], divided[each] = self.result.stored[each].view, 0

    def _as_product(self, anchor: Term) -> Product | None:
        """The blocking of a ``dot``, with its streamed operand made a view; None: plain loops."""
        if anchor["function"] != "dot" or anchor.children[0].op != "cart_prod":
            return None
        pairs = anchor.children[0]
        a, b = pairs.children
        batch = pairs["batch"]
        depth = math.prod(a.item)
        rows, columns = math.prod(a.outer[batch:]), math.prod(b.outer[batch:])
        if depth == 0 or not anchor.type.size:
            return None
        fixed = [each for each in (a, b) if each in self.folded]
        if len(fixed) == 1 and (rows if fixed[0] is a else columns) >= _MIN_FIXED:
            first = fixed[0] is a
        elif max(rows, columns) < _MIN_LANES or len(fixed) == 1:
            # Depthwise convolution and the like: plain loops, vectorised along the batch axes.
            return None
        else:
            first = columns < _MIN_LANES
        vector, pixels = (a, b) if first else (b, a)
        if not math.prod(anchor.shape[:batch]) * depth:
            return None
        self._make_view(pixels)
        self._bring_depth_inside(pixels)
        if self._descend(pixels, VIEWS)[0] in self.result.constants:
            return None
        return Product(vector, pixels, first, batch)

    def _make_view(self, term: Term) -> None:
        """Makes ``term`` readable through a strided view, copying what cannot be one."""
        if self._view_of(term) is not None:
            return
        chain = []
        below = term
        while not self._leaf(below) and below.op in VIEWS:
            chain.append(below)
            below = below.children[0]
        # The first term upward that has no view is copied, before windows multiply it.
        for each in [below, *reversed(chain)]:
            if self._view_of(each) is None:
                self._copy(each)
        assert self._view_of(term) is not None

    def _bring_depth_inside(self, pixels: Term) -> None:
        """Copies a streamed operand whose long reduced axis is not the innermost in memory.

        A product walks along that axis; channels-first input of many channels would touch another
        page at every step. What is copied is the value before windows multiply it.
        """
        view = self._view_of(pixels)
        assert view is not None
        item = [atom for axis in view.axes[pixels.type.split :] for atom in axis]
        longest = max(item, default=(1, 1))
        if longest[0] < _LONG or longest[1] == 1 or min(s for _, s in item) == 0:
            return
        leaf, chain = self._descend(pixels, VIEWS)
        source = leaf
        for term in chain:
            if term.op in ("windows", "broadcast"):
                break
            source = term
        if source is leaf:
            return
        inner = self._view_of(source)
        assert inner is not None
        # The axis that holds the long one, innermost; the others as they lie.
        last = [k for k, axis in enumerate(inner.axes) if any(s == longest[1] for _, s in axis)]
        if len(last) != 1 or source.type.size < _LONG * _LONG:
            return
        rest = [k for k in range(len(inner.axes)) if k not in last]
        rest.sort(key=lambda k: -inner_stride(inner.axes[k]))
        self._copy(source, [*rest, *last])

    def _copy(self, term: Term, order: list[int] | None = None) -> None:
        """A kernel that materialises a lazy term, with its axes in the order given."""
        self._limit_reindexing(term)
        if order is None:
            order = self._order_like(term, None)
        self.kept.add(term)
        self._store(term, order)
        if term.type.size:
            self.result.steps.append(Kernel(term, None, row_major(term.shape)))

    def _view_of(self, term: Term) -> View | None:
        leaf, chain = self._descend(term, VIEWS)
        if leaf in self.folded and leaf not in self.result.stored:
            self._store_constant(leaf)
        if leaf not in self.result.stored:
            return None
        return replay(chain, self.result.stored[leaf].view)

    def _outside(self, term: Term) -> Term:
        """Makes ``term`` something that NumPy can view: stored, or a view of what is stored."""
        view = self._view_of(term)
        if view is None:
            self._copy(term)
            view = self._view_of(term)
        assert view is not None
        leaf, _ = self._descend(term, VIEWS)
        if term not in self.result.stored:
            base = self.result.stored[leaf]
            self._put(term, Stored(base.buffer, base.base, view))
        return term

    def _based(self, stored: Stored) -> Stored:
        """The same place, for a plain partition said from the start of its buffer."""
        if not self.plain or not stored.base:
            return stored
        view = stored.view.with_axes(stored.view.axes, stored.view.margins, stored.base)
        return Stored(stored.buffer, 0, view)

    def _put(self, term: Term, stored: Stored) -> None:
        self.result.stored[term] = self._based(stored)
        self.result.since[term] = len(self.result.steps)

    def _store_constant(self, term: Term) -> None:
        array = self.folded[term]
        stored, view = compact(array)
        number = self._buffer(stored.size, term.dtype)
        self.result.arrays[number] = stored.reshape(-1)
        self.result.origins[number] = Origin(term, repeated(array))
        self.result.stored[term] = Stored(number, 0, view)

    def _buffer(self, size: int, dtype: str) -> int:
        self.result.buffers.append(Buffer(max(size, 1), dtype))
        return len(self.result.buffers) - 1

    def _store(
        self,
        term: Term,
        order: Sequence[int],
        over: View | None = None,
        space: tuple[int, ...] = (),
    ) -> None:
        """Gives ``term`` its place. ``order`` sorts the axes of ``space``, outermost first."""
        if term in self.result.stored:
            return  # A part of a concat fixed the layout before.
        if over is None:
            over, space = row_major(term.shape), term.shape
        if term in self.place:
            self._store_wholes(term, over, space, order)
            whole, at, chain = self.place[term]
            part_view = replay(chain, row_major(term.shape))
            assert part_view is not None
            into = slice_of(self.result.stored[whole], whole["axis"], at, part_view.shape)
            view = compose_inverse(part_view, term.shape, into.view)
            assert view is not None
            self._put(term, Stored(into.buffer, into.base, view))
            return
        fill, wanted = self.room.get(term, (0, {}))
        room = 0
        if self.plain and not self.rows_last:
            view = row_major(term.shape)
            if term in self.relaid and term not in self.outputs:
                view, room = _spaced(term.shape)
        else:
            view = arrange(term.shape, over, space, order, wanted, fill, not self.plain)
        number = self._buffer(max(occupied(view), room), term.dtype)
        self._put(term, Stored(number, 0, view))
        if any(view.margins):
            self.result.steps.append(Fill(number, view))

    def _store_wholes(
        self, term: Term, over: View, space: tuple[int, ...], order: Sequence[int]
    ) -> None:
        """Gives the concats that ``term`` is computed into their place, the outermost first."""
        wholes: list[tuple[Term, list[int]]] = []
        while term in self.place and self.place[term][0] not in self.result.stored:
            whole, _, chain = self.place[term]
            part = replay(chain, over)
            axes = list(range(whole.type.rank))
            if part is not None:
                rank = ranking(part, space, order)
                axes.sort(key=lambda axis: rank[axis])
            wholes.append((whole, axes))
            term, over, space, order = whole, row_major(whole.shape), whole.shape, axes
        for whole, axes in reversed(wholes):
            self._store(whole, axes)

    def _physical_order(
        self, term: Term, anchor: Term | None, product: Product | None
    ) -> list[int]:
        """The order of the axes of the kernel's loop space (its anchor's, else its own)."""
        if anchor is None:
            return self._order_like(term, None)
        if self.rows_last and anchor["function"] == "dot" and anchor.children[0].op == "cart_prod":
            return self._rows_last(anchor)
        if product is None:
            return self._order_like(anchor, anchor.children[0])
        batch, count = product.batch, len(anchor.shape)
        pixels = self._view_of(product.pixels)
        assert pixels is not None
        streamed = len(product.pixels.outer) - batch
        resident = count - batch - streamed
        if product.vector_first:
            mine = list(range(batch, batch + resident))
            theirs = list(range(batch + resident, count))
        else:
            theirs = list(range(batch, batch + streamed))
            mine = list(range(batch + streamed, count))
        strides = [inner_stride(pixels.axes[batch + k]) for k in range(streamed)]
        theirs = [
            axis for _, axis in sorted(zip(strides, theirs, strict=True), key=lambda p: -p[0])
        ]
        shared = list(range(batch))
        if product.vector in self.folded:
            return [*theirs, *shared, *mine]
        return [*shared, *theirs, *mine]

    def _rows_last(self, anchor: Term) -> list[int]:
        """The axes of a product's result, those of its resident operand innermost."""
        pairs = anchor.children[0]
        a, b = pairs.children
        batch, count = pairs["batch"], len(anchor.shape)
        middle = len(a.outer)
        first, second = list(range(batch, middle)), list(range(middle, count))
        if b in self.folded and a not in self.folded:
            first, second = second, first
        return [*second, *range(batch), *first] if self._folded(a, b) else [
            *range(batch), *second, *first
        ]  # fmt: skip

    def _folded(self, *terms: Term) -> bool:
        return any(term in self.folded for term in terms)

    def _order_like(self, term: Term, operand: Term | None) -> list[int]:
        """Axes of ``term`` in the order of the largest value it reads."""
        top = term if operand is None else operand
        stored = self.result.stored
        if top is operand and top in stored:
            leaves = [top]
        else:
            leaves = [
                leaf
                for leaf in self.region(top)
                if leaf is not term and leaf in self.kept and leaf in stored
            ]
        for leaf in sorted(leaves, key=lambda leaf: -leaf.type.size):
            if leaf is top:
                view: View | None = self.result.stored[leaf].view
            else:
                view = self._trace_view(top, leaf, self.result.stored[leaf].view, exact=False)
            if view is not None:
                strides = [inner_stride(axis) for axis in view.axes[: term.type.rank]]
                axes = range(len(strides))
                return sorted(axes, key=lambda axis: -strides[axis] if strides[axis] else -_ROOM)
        return list(range(term.type.rank))


# --- helpers ------------------------------------------------------------------------------------


def canonical(term: Term, children: tuple[Term, ...]) -> Term:
    """The form the code generator knows: reshapes of a product moved to its operands.

    ``dot(reshape(cart_prod a b))`` that keeps the outer axes and the tuple axis is
    ``dot(cart_prod (reshape a) (reshape b))``; long folds become reductions.
    """
    term = rebuild(term, children)
    if term.op != "compute":
        return term
    name, (child,) = term["function"], term.children
    if name == "dot":
        shapes = []
        inner = child
        while inner.op == "reshape" and inner.children[0].item[:1] == inner.item[:1]:
            shapes.append(inner)
            inner = inner.children[0]
        if shapes and inner.op == "cart_prod" and shapes[0].item[:1] == (2,):
            a, b = inner.children
            item = shapes[0].item[1:]
            product = builders.cart_prod(
                builders.reshape(a, a.outer, item),
                builders.reshape(b, b.outer, item),
                inner["batch"],
            )
            dot = builders.compute("dot", product, term["accumulate"])
            return builders.reshape(dot, shapes[0].outer, ())
    reductions = [f.name for f in FUNCTIONS.values() if f.step == name]
    if reductions and child.item[0] > 8:
        split, rank = child.type.split, child.type.rank
        moved = [*range(split), *range(split + 1, rank), split]
        last = builders.access(builders.transpose(child, moved), rank - 1)
        return builders.access(builders.compute(reductions[0], last), split)
    return term


def _spaced(shape: tuple[int, ...]) -> tuple[View, int]:
    """Row-major with rows that begin where vectors do, and how many elements that takes."""
    padded = (*shape[:-1], -(-shape[-1] // _VECTOR) * _VECTOR)
    view = row_major(padded)
    axes = [*view.axes[:-1], row_major(shape[-1:]).axes[0]]
    return view.with_axes(axes), math.prod(padded)


def _computes(term: Term) -> bool:
    return term.op in ("compute", "cast", "where", "gather")


def _is_reduction(term: Term) -> bool:
    if term.op != "compute":
        return False
    kind = FUNCTIONS[term["function"]].kind
    return kind == "vector" or (kind == "reduce" and not is_tuple_only(term))


def _repeats(term: Term) -> bool:
    """Whether a lazy term reads elements of its operands several times."""
    if term.op == "windows":
        dilation = term["dilation"] or (1,) * len(term["shape"])
        return any(
            k > s or (d > 1 and k > 1)
            for k, s, d in zip(term["shape"], term["stride"], dilation, strict=True)
        )
    if term.op == "broadcast":
        return term.type.size > term.children[0].type.size
    return term.op in ("cart_prod", "gather")


def _without_cells(term: Term) -> bool:
    """Whether a kernel reads the operands where no value can be kept in a cell: under a guard, or
    in a comparison. A rounding to bfloat16 names its operand five times, so that a chain of them
    would be written out without end there; each is stored instead."""
    if term.op == "compute":
        return term["function"] in ("argmax", "argmin")
    return term.op == "pad"


def _product_view(term: Term, left: View | None, right: View | None) -> View | None:
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
