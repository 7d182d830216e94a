"""Pass: reductions over the same rows, and the elementwise work around them, become one kernel.

A norm is a mean, what is left without it, a mean of squares of that, and a division by its root;
softmax is a maximum, a sum of powers, and a division. Each step needs the one before for a whole
row, but nothing of other rows, so that those who share a row can go through all steps.

Every value is placed in the *space* of one of them, the source: its elements in row-major order,
cut into digits. Along an axis a value moves along some of these digits; a value of one number a row
moves along those of the rows alone, and where it is spread over a row, along none.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from glenside.codegen.program.kinds import computes, is_reduction
from glenside.codegen.program.materialise import Readers, find_readers
from glenside.codegen.program.record import Cut, Rows
from glenside.codegen.views import Axis, View, move_view, row_major, split_atoms
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import BIJECTIONS
from glenside.language.term import Term

_SHORT = 1 << 13
"""Elements of a row up to which few threads are enough for it, and"""
_SHARE = 1 << 11
"""of longer ones, how many there may be for each row: one group of threads computes a row."""
_MOST = 16
"""Materialised values that become one kernel."""
_MOST_NODES = 200
_MOST_RESHAPES = 3
"""Reshapes of computed values, at each of which an index is divided anew."""


def find_rows(cut: Cut) -> Cut:
    """Finds chains of reductions over rows; of devices alone, whose threads can share a row."""
    if not cut.plain:
        return cut
    return _Finding(cut).found()


def reduces_rows(term: Term) -> bool:
    """Whether a term is a reduction that several threads can share."""
    return (
        is_reduction(term)
        and term["function"] not in ("dot", "argmax", "argmin")
        and 0 not in term.children[0].shape
    )


class _Finding:
    """The search for chains in one program."""

    def __init__(self, cut: Cut) -> None:
        self.cut = cut
        self.number = {term: k for k, term in enumerate(cut.order)}
        self.users: dict[Term, list[Term]] = {}
        for term in cut.order:
            for child in set(term.children):
                self.users.setdefault(child, []).append(term)

    def found(self) -> Cut:
        """The record with all chains."""
        cut = self.cut
        firsts = [term for term in cut.order if term in cut.kept and reduces_rows(term)]
        readers = find_readers(cut, set(cut.kept)) if firsts else Readers({}, set())
        rows: dict[Term, Rows] = {}
        taken: set[Term] = set()
        for first in firsts:
            if first not in taken:
                space = _Space(self, first, taken)
                for tail, made in space.chain(readers):
                    rows[tail] = made
                    taken |= {*made.inside, tail}
        inside = {term for made in rows.values() for term in made.inside}
        fused = {t: each for t, each in cut.fused.items() if t not in taken}
        return replace(cut, rows=rows, kept=cut.kept - inside, fused=fused)


class _Space:
    """What is known of values in the space of the first reduction's operand."""

    def __init__(self, finding: _Finding, first: Term, taken: Collection[Term]) -> None:
        self.cut, self.first, self.taken = finding.cut, first, taken
        operand = first.children[0]
        self.item: list[tuple[int, int]] = []
        self.source = self._find_source(operand, finding)
        self.size = operand.type.size
        self.item = _atoms(self.views[operand].axes[operand.type.split :])
        self.length = math.prod(operand.item)
        self.members: list[Term] = []
        self._spread_to_users(finding)

    def _find_source(self, operand: Term, finding: _Finding) -> Term:
        """A value in memory that the operand has all elements of, the one that most others read;
        else the operand itself."""
        leaves = self.cut.leaves
        region = [] if operand in leaves else leaves.region(operand)
        found = [
            each for each in region if each in self.cut.kept and each.type.size == operand.type.size
        ]
        for source in sorted(found, key=lambda each: -len(finding.users[each])):
            self.views: dict[Term, View] = {source: row_major(source.shape)}
            for each in region:
                view = None if each in leaves else self._view(each)
                if view is not None:
                    self.views[each] = view
            if operand in self.views and not any(map(_is_free, self.views[operand].axes)):
                return source
        self.views = {operand: row_major(operand.shape)}
        return operand

    def _spread_to_users(self, finding: _Finding) -> None:
        """Places what is made of placed values, in order."""
        waiting = [finding.number[u] for each in self.views for u in finding.users.get(each, ())]
        heapq.heapify(waiting)
        lost: set[Term] = set()
        done: set[int] = set()
        while waiting and len(self.members) < _MOST:
            number = heapq.heappop(waiting)
            term = self.cut.order[number]
            if number in done or term in self.views:
                continue
            done.add(number)
            if term in self.cut.kept and not self._may_be_inside(term):
                continue
            view = None if any(c in lost for c in term.children) else self._view(term)
            if view is None:
                if term in self.cut.kept:
                    continue
                lost.add(term)
            else:
                self.views[term] = view
                if term in self.cut.kept:
                    self.members.append(term)
            for user in finding.users.get(term, ()):
                heapq.heappush(waiting, finding.number[user])

    def _may_be_inside(self, term: Term) -> bool:
        if term in self.taken or term in self.cut.relaid:
            return False
        if is_reduction(term):
            return reduces_rows(term)
        fused = self.cut.fused.get(term)
        return computes(term) and (fused is None or fused.anchor in self.members)

    # --- places of values -------------------------------------------------------------------------

    def _view(self, term: Term) -> View | None:
        """Where a value is, given its operands; None where the space does not tell."""
        known = [self.views[child] for child in term.children if child in self.views]
        if not known:
            return None
        if term.op in BIJECTIONS or term.op == "broadcast":
            return move_view(term, known[0])
        if term.op == "pair":
            split = term.type.split
            joined = self._joined(known)
            if joined is None:
                return None
            longer = joined.unsqueeze(split)
            return longer.broadcast((*longer.shape[:split], 2, *longer.shape[split + 1 :]))
        if term.op in ("cast", "where"):
            return self._joined(known)
        return self._computed(term, known[0]) if term.op == "compute" else None

    def _joined(self, views: Sequence[View]) -> View | None:
        """The axes of what is made of values element by element: they may differ where one of them
        is spread along a row."""
        axes = list(views[0].axes)
        for other in views[1:]:
            for k, (mine, axis) in enumerate(zip(axes, other.axes, strict=True)):
                if mine == axis:
                    continue
                free, moving = (mine, axis) if _is_free(mine) else (axis, mine)
                if not _is_free(free) or not self._along_row(moving):
                    return None
                axes[k] = moving
        return views[0].with_axes(axes)

    def _computed(self, term: Term, view: View) -> View | None:
        function, child = FUNCTIONS[term["function"]], term.children[0]
        split = child.type.split
        if function.kind == "map":
            return view
        if is_reduction(term):
            if not reduces_rows(term) or math.prod(child.item) != self.length:
                return None
            outer, item = view.axes[:split], view.axes[split:]
            if not all(map(self._along_row, item)) or any(map(_is_free, item)):
                return None
            return view if function.kind == "vector" else view.with_axes(outer)
        if function.kind != "fold" or not _is_free(view.axes[split]):
            return None
        return view.with_axes((*view.axes[:split], *view.axes[split + 1 :]))

    def _along_row(self, axis: Axis) -> bool:
        bounds = [bound for size, low in self.item for bound in (low, low * size)]
        atoms = split_atoms(axis, bounds) if all(stride for _, stride in axis) else None
        return atoms is not None and all(
            any(low <= stride and stride * size <= low * count for count, low in self.item)
            for size, stride in atoms
        )

    # --- the chain --------------------------------------------------------------------------------

    def chain(self, readers: Readers) -> Iterable[tuple[Term, Rows]]:
        """What becomes one kernel, by its result; nothing where no more than the first would."""
        rows = self.size // max(self.length, 1)
        if self.first not in self.members or self.length > max(_SHORT, _SHARE * rows):
            return
        below = self._below()
        for tail in reversed(self.members):
            inside = self._inside(tail, below, readers)
            if inside is None or self.first not in inside | {tail}:
                continue
            if self._is_source_inside(inside | {tail}, readers):
                inside |= {self.source}
            made = self._made(tail, inside)
            if made is not None:
                yield tail, made
                return

    def _below(self) -> dict[Term, set[Term]]:
        """The members that each member reads, those behind them included."""
        below: dict[Term, set[Term]] = {}
        for member in self.members:
            read = {leaf for leaf in self.cut.leaves.region(member) if leaf in below}
            below[member] = read.union(*(below[leaf] for leaf in read)) - {member}
        return below

    def _inside(
        self, tail: Term, below: Mapping[Term, set[Term]], readers: Readers
    ) -> set[Term] | None:
        """What lives inside the kernel of ``tail``; None where others need something of a row."""
        inside = set(below[tail])
        changed = True
        while changed:
            seen = [
                m
                for m in inside
                if m in readers.observed or not readers.roots[m] <= inside | {tail}
            ]
            changed = bool(seen)
            for member in seen:
                if reduces_rows(member) or any(reduces_rows(each) for each in below[member]):
                    return None
                inside.discard(member)
        return inside

    def _is_source_inside(self, members: Collection[Term], readers: Readers) -> bool:
        """Whether the source is elementwise work that nobody else reads."""
        source = self.source
        return (
            source in self.cut.kept
            and source not in self.taken
            and computes(source)
            and not is_reduction(source)
            and source not in self.cut.fused
            and source not in self.cut.relaid
            and source not in readers.observed
            and readers.roots[source] <= set(members)
        )

    def _made(self, tail: Term, inside: set[Term]) -> Rows | None:
        members = [each for each in self.members if each in inside or each is tail]
        chain = tuple(each for each in members if reduces_rows(each))
        if tail.type.size != self.size and len(chain) < 2:
            return None  # One number a row: the reduction's own kernel does as well.
        leaves = replace(self.cut, kept=self.cut.kept - inside).leaves
        region = [each for each in leaves.region(tail) if each is tail or each not in leaves]
        reshapes = sum(each.op in ("reshape", "flatten") for each in region)
        if len(region) > _MOST_NODES or reshapes > _MOST_RESHAPES:
            return None
        placed = {term: view for term, view in self.views.items() if term in region}
        placed |= {self.source: self.views[self.source], tail: self.views[tail]}
        return self._cut_up(tail, chain, frozenset(inside), placed)

    def _cut_up(
        self,
        tail: Term,
        chain: tuple[Term, ...],
        inside: frozenset[Term],
        placed: Mapping[Term, View],
    ) -> Rows | None:
        """The space in digits, of which every placed value moves along whole ones."""
        ends = {1, self.size}
        for atom in [*self.item, *(atom for view in placed.values() for atom in _atoms(view.axes))]:
            ends |= {atom[1], atom[0] * atom[1]}
        bounds = sorted(ends, reverse=True)
        pairs = [*itertools.pairwise(bounds)]
        if any(high % low for high, low in pairs):
            return None
        by_stride = {low: k for k, (_, low) in enumerate(pairs)}
        digits = tuple(high // low for high, low in pairs)
        item = frozenset(
            k
            for k, (high, low) in enumerate(pairs)
            if any(first <= low and high <= first * count for count, first in self.item)
        )
        positions: dict[Term, tuple[tuple[int, ...], ...]] = {}
        for term, view in placed.items():
            if any(_is_free((atom,)) and not _is_free(axis) for axis in view.axes for atom in axis):
                return None  # An axis partly spread has no place of its own.
            axes = []
            for axis in view.axes:
                atoms = () if _is_free(axis) else split_atoms(axis, bounds)
                if atoms is None:
                    return None
                axes.append(tuple(by_stride[stride] for _, stride in atoms))
            positions[term] = tuple(axes)
        everything, outer = [*range(len(digits))], [k for k in range(len(digits)) if k not in item]
        wanted = {each.children[0]: everything for each in chain}
        wanted[tail] = everything if tail.type.size == self.size else outer
        for term, along in wanted.items():
            free = any(_is_free(axis) for axis in self.views[term].axes)
            if free or sorted(d for axis in positions[term] for d in axis) != along:
                return None
        return Rows(self.source, digits, item, chain, inside, positions)


def _atoms(axes: Sequence[Axis]) -> list[tuple[int, int]]:
    return [atom for axis in axes for atom in axis if atom[1]]


def _is_free(axis: Axis) -> bool:
    """Whether nothing moves along an axis that is longer than 1."""
    return bool(axis) and all(stride == 0 for _, stride in axis)
