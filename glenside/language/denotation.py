"""What programs denote: for each access a type, and a function from an index to an element.

The third meaning of every operator, beside its type rule and its NumPy meaning: one in which a
length need not be a number. Lengths and indices are integers or anything that computes and compares
as they do (a solver's integers, say), dtypes and names whatever a :class:`Logic` makes of their
text, and an element is a small tree over the elements of leaves. So both sides of a rewrite rule
can be compared for all sizes at once (``glenside.rewrites.soundness.proofs``), and on plain
numbers the denotations can be held against the interpreter.

Branches and bodies are functions that are called when they are looked into. What they ask of a
:class:`Logic` is to be asked under their condition, or within the range of their index: only there
does it make sense.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Length = Any
"""An integer, or what computes and compares like one; of lengths, indices, axes and dtypes."""
Lengths = list[Length]
Index = list[Length]


# --- elements -----------------------------------------------------------------------------------


@dataclass(eq=False)
class Leaf:
    """An access of which nothing is known but its type."""

    name: str
    outer: Lengths
    item: Lengths
    dtype: Any

    @property
    def lengths(self) -> Lengths:
        return self.outer + self.item


@dataclass(eq=False)
class Read:
    """The element of a leaf at an index."""

    leaf: Leaf
    index: Index


@dataclass(eq=False)
class Constant:
    """A number: ``value`` is its text, or ``zero`` or ``lowest`` of the dtype."""

    value: Any
    dtype: Any


@dataclass(eq=False)
class Choice:
    """One of two elements, by a condition on lengths and indices."""

    condition: Any
    then: Callable[[], Element]
    otherwise: Callable[[], Element]


@dataclass(eq=False)
class Apply:
    """A function of elements. ``function`` is its name and what else it depends on: dtypes of a
    cast, how many elements a mean is over."""

    function: tuple[Any, ...]
    operands: list[Element]


@dataclass(eq=False)
class Reduce:
    """All elements ``body(index)``, index in ``lengths``, combined by ``add``, ``mul``, ``max``,
    ``min``, ``argmax`` or ``argmin``."""

    operation: str
    dtype: Any
    lengths: Lengths
    body: Callable[[Index], Element]


@dataclass(eq=False)
class Fold:
    """``body(0)``, ``body(1)``, ... up to a length that is no number, combined from the left."""

    function: str
    length: Length
    body: Callable[[Length], Element]


@dataclass(eq=False)
class Softmax:
    """Position ``at`` of the softmax of ``body(0)``, ``body(1)``, ..."""

    dtype: Any
    length: Length
    body: Callable[[Length], Element]
    at: Length


Element = Read | Constant | Choice | Apply | Reduce | Fold | Softmax


# --- accesses -----------------------------------------------------------------------------------


@dataclass(eq=False)
class Denotation:
    """An access: its type, and its element at an index into all axes."""

    logic: Logic
    outer: Lengths
    item: Lengths
    dtype: Any
    at: Callable[[Index], Element]

    @property
    def lengths(self) -> Lengths:
        """Of all axes, outer first."""
        return self.outer + self.item

    @property
    def split(self) -> int:
        """Number of outer axes."""
        return len(self.outer)

    def moved(
        self, lengths: Sequence[Length], split: int, at: Callable[[Index], Element]
    ) -> Denotation:
        """Other axes, the first ``split`` of them outer, of the same dtype."""
        return Denotation(self.logic, [*lengths[:split]], [*lengths[split:]], self.dtype, at)


class Logic(abc.ABC):
    """How lengths are reasoned about."""

    @abc.abstractmethod
    def need(self, condition: Any, what: str) -> None:
        """``condition`` has to hold for the access to be well-typed; ``what`` says which it is."""

    @abc.abstractmethod
    def text(self, text: str) -> Any:
        """What stands for a dtype, a name or a number's text."""

    @abc.abstractmethod
    def is_value(self, value: Any, dtype: Any) -> Any:
        """Whether a constant or fill of that text is one of the dtype: a condition."""

    @abc.abstractmethod
    def holds(self, condition: Any) -> bool:
        """Whether the condition is known to hold."""

    @abc.abstractmethod
    def pick(self, condition: Any, then: Length, otherwise: Length) -> Length:
        """One of two integers."""

    @abc.abstractmethod
    def less_one(self, length: Length) -> Length:
        """``max(length - 1, 0)``."""

    @abc.abstractmethod
    def unravel(self, lengths: Lengths, of: Lengths, index: Index) -> Index:
        """The index into ``lengths`` whose row-major offset is that of ``index`` into ``of``; both
        have as many elements."""

    @abc.abstractmethod
    def steps(self, length: Length, step: Length) -> Length:
        """``length // step + 1`` for a length from 0 and a step from 1 up."""

    @abc.abstractmethod
    def position(self, element: Element) -> Length:
        """The integer that an element is."""

    # A logic may let one length stand for a run of axes, however many. Below is all that operators
    # ask about how many axes there are; here each length is one axis.

    def rank(self, lengths: Lengths) -> Length:
        """How many axes these are."""
        return len(lengths)

    def axis(self, axis: Length, lengths: Lengths, what: str) -> int:
        """The position in ``lengths`` of the axis of that number, which there has to be."""
        self.need(0 <= axis < len(lengths), f"{what}: axis")
        return int(axis)

    def cut(self, axes: Length, lengths: Lengths, what: str) -> int:
        """The position in ``lengths`` behind the first so many axes."""
        self.need(0 <= axes <= len(lengths), f"{what}: axes")
        return int(axes)

    def first(self, lengths: Lengths, what: str) -> None:
        """There has to be a first axis."""
        self.need(len(lengths) >= 1, what)

    def ranked(self, lengths: Lengths, rank: int, what: str) -> None:
        """There have to be so many axes."""
        self.need(len(lengths) == rank, what)

    def each(self, lengths: Lengths) -> Lengths:
        """The same axes, each by itself."""
        return lengths

    def decide(self, condition: Any) -> bool:
        """Whether a condition on ranks holds."""
        return bool(condition)

    def pairs(self, a: Lengths, b: Lengths, what: str) -> list[tuple[Length, Length]]:
        """Two lists, which have to be of one rank, axis by axis."""
        self.need(len(a) == len(b), f"{what}: ranks")
        return list(zip(a, b, strict=True))

    def beside(self, *lists: Lengths, what: str) -> list[tuple[Length, ...]]:
        """Several lists, which have to be of one rank; what each has of an axis, or of a run."""
        self.need(len({len(each) for each in lists}) == 1, f"{what}: rank")
        return list(zip(*lists, strict=True))

    def slid(
        self, length: Length, window: Length, step: Length, dilation: Length, what: str
    ) -> tuple[Length, Callable[[Length, Length], Length]]:
        """How many windows lie along an axis, and where in it is what: by the number of a window
        and a position in it."""
        for each in (window, step, dilation):
            self.need(each >= 1, f"{what}: at least 1")
        reach = plus(times(minus(window, 1), dilation), 1)
        self.need(reach <= length, f"{what}: reach")
        count = self.steps(minus(length, reach), step)
        return count, lambda w, i: plus(times(w, step), times(i, dilation))

    def alike(self, a: Lengths, b: Lengths, what: str) -> None:
        """The two have to be equal, axis by axis."""
        for one, other in self.pairs(a, b, what):
            if not same_length(one, other):
                self.need(one == other, f"{what}: lengths")

    def among(self, dtype: Any, dtypes: Sequence[str]) -> Any:
        """Whether a dtype is one of these: a condition."""
        return either(*(dtype == self.text(each) for each in dtypes))


def constant(logic: Logic, value: Any, dtype: Any) -> Constant:
    """A constant of a text that is known."""
    return Constant(logic.text(value), dtype)


# --- arithmetic ---------------------------------------------------------------------------------
#
# What is known to be a number is computed, so that expressions of a solver stay small.


def plus(a: Length, b: Length) -> Length:
    """Their sum."""
    if isinstance(a, int) and a == 0:
        return b
    return a if isinstance(b, int) and b == 0 else a + b


def minus(a: Length, b: Length) -> Length:
    """Their difference."""
    return a if isinstance(b, int) and b == 0 else a - b


def times(a: Length, b: Length) -> Length:
    """Their product."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, int) and one in (0, 1):
            return other if one else 0
    return a * b


def product(lengths: Sequence[Length]) -> Length:
    """The product of all."""
    result: Length = 1
    for each in lengths:
        result = times(result, each)
    return result


def ravel(lengths: Sequence[Length], index: Sequence[Length]) -> Length:
    """The row-major offset of an index."""
    result: Length = 0
    for length, each in zip(lengths, index, strict=True):
        result = plus(times(result, length), each)
    return result


def floor_divide(a: Length, b: Length) -> Length:
    """Of what is not negative by what is positive."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return a / b  # A solver's integers divide as whole numbers.


def either(*conditions: Any) -> Any:
    """Whether one of the conditions holds."""
    found: Any = False
    for each in conditions:
        if each is True:
            return True
        if each is not False:
            found = each if found is False else found | each
    return found


def same_length(a: Length, b: Length) -> bool:
    """Whether two lengths are one and the same expression, whatever it stands for."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a is b or bool(a.eq(b))


def choose(
    condition: Any, then: Callable[[], Element], otherwise: Callable[[], Element]
) -> Element:
    """One of two elements, at once where the condition is a bool."""
    if isinstance(condition, bool):
        return then() if condition else otherwise()
    return Choice(condition, then, otherwise)


# --- computation --------------------------------------------------------------------------------

SPELLED_OUT = 4
"""Products and extremes of at most so many elements are written with functions of two."""

_OF_TWO = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


def converted(logic: Logic, dtype: Any, of: Denotation, element: Element) -> Element:
    """An element of ``of`` in another dtype."""
    same = logic.holds(dtype == of.dtype)
    return element if same else Apply(("cast", dtype, of.dtype), [element])


def reduced(
    operation: str, dtype: Any, lengths: Lengths, body: Callable[[Index], Element]
) -> Element:
    """A reduction; of few elements, whose number is known, it is spelled out."""
    most = 1 if operation == "add" else SPELLED_OUT
    known = [n for n in lengths if isinstance(n, int)]
    if operation in _OF_TWO and len(known) == len(lengths) and 1 <= math.prod(known) <= most:
        parts = [body(list(index)) for index in itertools.product(*map(range, known))]
        result = parts[0]
        for part in parts[1:]:
            result = Apply((_OF_TWO[operation],), [result, part])
        return result
    return Reduce(operation, dtype, list(lengths), body)


def folded(name: str, dtype: Any, length: Length, body: Callable[[Length], Element]) -> Element:
    """Elements combined from the left."""
    if not isinstance(length, int):
        return Fold(name, length, body)
    function = (name, dtype) if name == "div" else (name,)
    result = body(0)
    for k in range(1, length):
        result = Apply(function, [result, body(k)])
    return result
