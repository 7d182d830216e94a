"""How lengths are reasoned about in a proof: what operators ask of theirs, answered by facts.

Left of a rule a term is there, so that it is well-typed: what its operators need is assumed. Right
of it that is to be proved.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import z3

from glenside.errors import ShapeError
from glenside.language.denotation import (
    Element,
    Index,
    Length,
    Lengths,
    Logic,
    plus,
)
from glenside.language.operators import fill_value
from glenside.language.shape import DTYPES
from glenside.rewrites.engine.encoding import read_number
from glenside.rewrites.soundness.proofs import indices
from glenside.rewrites.soundness.proofs.axes import Axes, Undetermined
from glenside.rewrites.soundness.proofs.facts import Differs, Facts, Open, code, fresh, text_of
from glenside.rewrites.soundness.proofs.polynomials import same

_VALUE = z3.Function("is value of", z3.IntSort(), z3.IntSort(), z3.BoolSort())


class NoMatch(Exception):
    """A rule does not match under these decisions: nothing is to be shown."""


class Symbolic(Logic):
    """The logic of one case of a rule."""

    def __init__(self, facts: Facts, axes: Axes) -> None:
        self.facts, self.axes = facts, axes
        self.proving = False
        self._silent = False
        self._slid: set[str] = set()
        """The windows over runs that there are."""

    @contextlib.contextmanager
    def to_prove(self) -> Iterator[None]:
        """What is needed within is to be proved, not assumed."""
        before, self.proving = self.proving, True
        try:
            yield
        finally:
            self.proving = before

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """What is needed within was asked for before."""
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def need(self, condition: Any, what: str) -> None:
        if condition is True or self._silent:
            return
        if not self.proving:
            if condition is False:
                raise NoMatch(what)
            self.facts.assume(condition)
            return
        answer = self.facts.prove(condition)
        if answer is False:
            raise Differs(f"ill-typed: {what}", self.facts.model)
        if answer is None:
            raise Open(f"type: {what}: {condition}")

    def text(self, text: str) -> int:
        return code(text)

    def is_value(self, value: Any, dtype: Any) -> Any:
        text = text_of(value) if isinstance(value, int) else None
        if text is None:
            return _VALUE(*(z3.IntVal(e) if isinstance(e, int) else e for e in (value, dtype)))
        number = read_number(text)
        if isinstance(number, str):
            return True
        return self.among(dtype, [each for each in DTYPES if _takes(each, number)])

    def holds(self, condition: Any) -> bool:
        return self.facts.holds(condition)

    def pick(self, condition: Any, then: Length, otherwise: Length) -> Length:
        if isinstance(condition, bool):
            return then if condition else otherwise
        return z3.If(condition, then, otherwise)

    def less_one(self, length: Length) -> Length:
        if isinstance(length, int):
            return max(length - 1, 0)
        return z3.If(length >= 1, length - 1, 0)

    def unravel(self, lengths: Lengths, of: Lengths, index: Index) -> Index:
        return indices.regrouped(self.facts, lengths, of, index)

    def steps(self, length: Length, step: Length) -> Length:
        return plus(length, 1) if same(step, 1) else indices.steps(self.facts, length, step)

    def position(self, element: Element) -> Length:
        for known, value in self.facts.positions:
            if known is element:
                return value
        value = fresh("position")
        self.facts.positions.append((element, value))
        return value

    def among(self, dtype: Any, dtypes: Any) -> Any:
        codes = [code(each) for each in dtypes]
        return dtype in codes if isinstance(dtype, int) else _among(dtype, tuple(sorted(codes)))

    def slid(
        self, length: Length, window: Length, step: Length, dilation: Length, what: str
    ) -> tuple[Length, Callable[[Length, Length], Length]]:
        run = self.axes.run(length)
        if run is None:
            return super().slid(length, window, step, dilation, what)
        # Along each axis of a run there are some windows: which is not asked.
        name = f"windows:{length} {window} {step} {dilation}"
        if name not in self._slid and self.proving:
            raise self.axes.enumerated(run)
        self._slid.add(name)
        self.facts.assume(z3.And(window >= 1, length >= window))
        count = self.axes.made(name, run, lambda n: [n >= 1, n <= length])
        place = z3.Function(name, z3.IntSort(), z3.IntSort(), z3.IntSort())

        def at(w: Length, i: Length) -> Length:
            found = place(w, i)
            self.facts.assume(z3.And(found >= 0, found < length))
            return found

        return count, at

    def beside(self, *lists: Lengths, what: str) -> list[tuple[Length, ...]]:
        first, *others = lists
        for each in others:
            self.need(self.rank(each) == self.rank(first), f"{what}: rank")
        if not self.axes.beside(lists):
            self.need(False, f"{what}: rank")
            raise NoMatch(what)
        return list(zip(*lists, strict=True))

    # --- ranks ------------------------------------------------------------------------------------

    def rank(self, lengths: Lengths) -> Length:
        return self.axes.rank(lengths)

    def axis(self, axis: Length, lengths: Lengths, what: str) -> int:
        self.need(_both(axis >= 0, axis < self.rank(lengths)), f"{what}: axis")
        return self.axes.axis(axis, lengths)

    def cut(self, axes: Length, lengths: Lengths, what: str) -> int:
        self.need(_both(axes >= 0, axes <= self.rank(lengths)), f"{what}: axes")
        return self.axes.cut(axes, lengths)

    def first(self, lengths: Lengths, what: str) -> None:
        self.need(self.rank(lengths) >= 1, what)
        self.axes.first(lengths)

    def ranked(self, lengths: Lengths, rank: int, what: str) -> None:
        self.need(self.rank(lengths) == rank, what)
        self.each(lengths)

    def each(self, lengths: Lengths) -> Lengths:
        self.axes.each(lengths)
        return lengths

    def decide(self, condition: Any) -> bool:
        return self.axes.decide(condition, ())

    def pairs(self, a: Lengths, b: Lengths, what: str) -> list[tuple[Length, Length]]:
        self.need(self.rank(a) == self.rank(b), f"{what}: ranks")
        if not self.axes.alongside and not all(map(same, a, b)):
            self.each([*a, *b])
        if not self.axes.beside((a, b)):
            self.need(False, f"{what}: ranks")
            raise NoMatch(what)
        for one, other in zip(a, b, strict=True):
            run = self.axes.run(one)
            # Of lengths in a run it is not known which are equal, but where all of them are 1.
            if run is not None and not (same(one, other) or self.facts.holds(one == 1)):
                raise self.axes.enumerated(run)
        return list(zip(a, b, strict=True))

    def alike(self, a: Lengths, b: Lengths, what: str) -> None:
        self.need(self.rank(a) == self.rank(b), f"{what}: ranks")
        pairs = self.axes.matched(a, b, known=not self.proving)
        if pairs is None:
            self.need(False, f"{what}: ranks")
            return
        for one, other in pairs:
            if not same(one, other):
                self.need(one == other, f"{what}: lengths")


@functools.cache
def _among(value: Any, codes: tuple[int, ...]) -> Any:
    """Whether a value is one of some integers: neighbours are a range."""
    ranges: list[list[int]] = []
    for each in codes:
        if ranges and ranges[-1][1] == each - 1:
            ranges[-1][1] = each
        else:
            ranges.append([each, each])
    return z3.Or(*[z3.And(low <= value, value <= high) for low, high in ranges])


def _both(a: Any, b: Any) -> Any:
    if a is True or b is False:
        return b
    return a if b is True or a is False else z3.And(a, b)


def _takes(dtype: str, value: Any) -> bool:
    try:
        fill_value(value, dtype)
    except (ShapeError, OverflowError, ValueError):
        return False
    return True


__all__ = ["NoMatch", "Symbolic", "Undetermined"]
