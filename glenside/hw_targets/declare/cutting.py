"""Whether a declared term may be cut or padded along a size: an argument on its structure.

A unit's own size is shorter than the operands it is given: a call is cut into *parts* along a size
variable, and what is shorter than a part is *padded*. That is right only for some terms, whatever
the numbers are. The argument goes through the term once, operands first, and says of every node
what becomes of its value in the parts, from what becomes of the values below it:

=========  =========================================================================================
`Same`     it does not depend on what is cut: every part has the whole value
`Along`    it has one axis along the size: a part has its stretch of that axis, no more and no less
`Parts`    it has no such axis any more: the whole is the sum (or the maximum) of what parts have
=========  =========================================================================================

A node of which none of these can be said ends the argument, with the reason. Three questions are
asked of a cut (is the result ``Along``; is it ``Parts`` of a sum; of a maximum) and two of padding
(is the result unchanged where zeros, or lowest values, stand behind).

In parts of a sum but the first, operands without the cut axis are zero, so that a bias is added
once. A value that such operands alone make counts as ``Parts`` if it is zero then.

Sums are those of exact arithmetic and data are finite: zero times any number is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from glenside.errors import GlensideError
from glenside.hw_targets.declare import template as templates
from glenside.hw_targets.declare.sizes import Size
from glenside.hw_targets.declare.template import Node, Operand, OperandType, Template
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS, INTEGERS, AccessType, Shape, highest, lowest
from glenside.language.term import Term

Sizes = Mapping[str, int]
Types = Mapping[int, AccessType]
"""The type of each part of a term, by its identity."""

CUTS = ("outer", "sum", "max")
"""What may become of a cut: parts side by side, added up, or the greatest of them."""

PADDINGS = ("zero", "lowest")
"""What may stand behind the elements."""

LINEAR = frozenset({"neg"})
"""Functions f of one number with f(a + b) = f(a) + f(b)."""


class NotCuttable(GlensideError):
    """The argument ends: ``str`` of it is the reason, ``reached`` how many nodes it got through."""

    reached = 0


@dataclass(frozen=True)
class Same:
    """A value that does not depend on what is cut.

    ``vanishes``: it is zero where operands are. ``literal``: it is the same whatever the operands;
    ``number`` is then what it is everywhere, if that is one number.
    """

    vanishes: bool = True
    literal: bool = False
    number: float | None = None


@dataclass(frozen=True)
class Along:
    """A value with one axis along the size.

    ``grouped`` is () where the axis is the size itself; where a reshape merged it with others, the
    lengths of these, with -1 in its own place. ``fill``: what stands behind it if operands are
    padded, where that is one number.
    """

    axis: int
    grouped: tuple[int, ...] = ()
    fill: float | None = None


@dataclass(frozen=True)
class Parts:
    """A value that is the sum, or the maximum, of those of the parts."""


Value = Same | Along | Parts


@dataclass(frozen=True)
class Both:
    """Two values side by side along a tuple axis; axes are numbered as if it was there in each."""

    at: int
    sides: tuple[Value, Value]

    def each(self, change: Callable[[Value], Value | Both], at: int | None = None) -> Both:
        """With both sides changed, along the axis ``at`` if that is another now."""
        one, two = (change(side) for side in self.sides)
        assert not isinstance(one, Both) and not isinstance(two, Both), "a side is no pair"
        return Both(self.at if at is None else at, (one, two))


@dataclass(frozen=True)
class Question:
    """What is asked: ``how`` is one of :data:`CUTS` or :data:`PADDINGS`, of the size ``name``."""

    name: str
    how: str

    @property
    def pads(self) -> bool:
        """Whether it is about padding."""
        return self.how in PADDINGS


def cut(
    term: Template, operands: Mapping[str, OperandType], name: str, how: str, built: Types
) -> int | None:
    """Which axis of the result is cut if ``how`` is ``outer``; None for parts of a sum or maximum.

    :param built: types of the parts of ``term``, for sizes that differ and are longer than 1.
    :raises NotCuttable: it is not so, with the reason.
    """
    value = _Argument(operands, Question(name, how), built).of(term)
    if how == "outer":
        if isinstance(value, Along) and not value.grouped:
            return value.axis
        merged = isinstance(value, Along)
        raise NotCuttable(
            f"the result has {name} merged with other axes"
            if merged
            else f"the result has no axis {name}"
        )
    if isinstance(value, Parts) or (how == "max" and isinstance(value, Same)):
        return None
    if isinstance(value, Same) and value.vanishes:
        return None
    raise NotCuttable(f"nothing is reduced along {name}")


def pad(
    term: Template, operands: Mapping[str, OperandType], name: str, how: str, built: Types
) -> None:
    """Asks whether ``zero`` or ``lowest`` values behind the elements leave the result alone.

    :raises NotCuttable: they do not, with the reason.
    """
    value = _Argument(operands, Question(name, how), built).of(term)
    if isinstance(value, Along) and value.grouped:
        raise NotCuttable(f"the result has {name} merged with other axes, padding among them")


def types_of(term: Template, sizes: Sizes, leaves: Mapping[str, Term]) -> Types:
    """The types of all parts of a term for these sizes; raises :class:`ShapeError`."""
    built: dict[int, AccessType] = {}

    def note(part: Template, made: Term) -> None:
        built[id(part)] = made.type

    templates.build(term, sizes, leaves, note)
    return built


class _Argument:
    def __init__(
        self, operands: Mapping[str, OperandType], question: Question, built: Types
    ) -> None:
        self.operands, self.question, self.built = operands, question, built
        self.size, self.how = question.name, question.how
        self.reached = 0
        self.dtype = ""
        """Of the computation that is being looked at."""

    def of(self, term: Template) -> Value:
        """The value of the whole term."""
        try:
            value = self._of(term)
            if isinstance(value, Both):
                self.fails("the result holds two values side by side")
        except NotCuttable as problem:
            problem.reached = self.reached
            raise
        return value

    def fails(self, why: str) -> NoReturn:
        raise NotCuttable(why)

    # As deep as a person wrote: recursion is safe here.

    def _of(self, part: Template) -> Value | Both:
        if isinstance(part, Operand):
            value: Value | Both = self.operand(part.name)
        else:
            below = [self._of(child) for child in part.children]
            value = getattr(self, f"_{part.op}")(part, *below)
        self.reached += 1
        return value

    def operand(self, name: str) -> Value:
        axes = self.operands[name].axes
        found = [i for i, size in enumerate(axes) if self.size in size.names]
        for i in found:
            if axes[i].text != self.size:
                self.fails(f"{self.size} is only part of the length {axes[i]} of {name}")
        if len(found) > 1:
            self.fails(f"{name} has {self.size} twice")
        if not found:
            return Same()
        dtype = self.operands[name].dtype
        fill = {"zero": 0.0, "lowest": -math.inf}.get(self.how)
        if self.how == "lowest" and dtype in INTEGERS:
            fill = float(lowest(dtype))
        return Along(found[0], fill=fill)

    # --- leaves and moves -------------------------------------------------------------------------

    def type(self, part: Template) -> AccessType:
        return self.built[id(part)]

    def given(self, node: Node) -> AccessType:
        """The type of the first operand."""
        return self.type(node.children[0])

    def mentioned(self, sizes: Sequence[Size]) -> list[int]:
        """Where the size stands in a list of lengths, by itself.

        :raises NotCuttable: it stands there as a part of something.
        """
        for size in sizes:
            if self.size in size.names and size.text != self.size:
                self.fails(f"{self.size} is in the length {size} of a part of the term")
        return [i for i, size in enumerate(sizes) if size.text == self.size]

    def unmentioned(self, node: Node, *names: str) -> None:
        """:raises NotCuttable: the size is in one of these attributes."""
        for name in names:
            value = node[name]
            for size in value if isinstance(value, tuple) else (value,):
                if isinstance(size, Size) and self.size in size.names:
                    self.fails(f"{self.size} is the {name} of a {node.operator.spelling}")

    def known(self, axis: Size) -> int:
        """The number of an axis; raises :class:`NotCuttable` where sizes decide it."""
        if not axis.is_number:
            self.fails(f"the axis {axis} depends on the sizes")
        return int(axis.of({}))

    def _constant(self, node: Node) -> Value:
        number = float(node["value"])
        at = self.mentioned(node["shape"])
        if len(at) > 1:
            self.fails(f"a constant has {self.size} twice")
        if at:
            return Along(at[0], fill=number)
        return Same(vanishes=number == 0, literal=True, number=number)

    def moved(self, value: Value | Both, to: Any) -> Value | Both:
        """With its axes renumbered by the function ``to``."""
        match value:
            case Along(axis):
                return replace(value, axis=to(axis))
            case Both(at):
                return value.each(lambda side: self.moved(side, to), to(at))
        return value

    def untouched(self, value: Value | Both, axis: int, what: str) -> None:
        """:raises NotCuttable: an axis is that along the size, or a tuple axis."""
        if isinstance(value, Both):
            if value.at == axis:
                self.fails(f"{what} along the axis of a pair")
            for side in value.sides:
                self.untouched(side, axis, what)
        elif isinstance(value, Along) and value.axis == axis:
            self.fails(f"{what} along {self.size}")

    def _access(self, node: Node, x: Value | Both) -> Value | Both:
        return x

    def _transpose(self, node: Node, x: Value | Both) -> Value | Both:
        order = [self.known(at) for at in node["permutation"]]
        return self.moved(x, order.index)

    def _squeeze(self, node: Node, x: Value | Both) -> Value | Both:
        axis = self.known(node["axis"])
        self.untouched(x, axis, "squeezes")
        return self.moved(x, lambda at: at - (at > axis))

    def _unsqueeze(self, node: Node, x: Value | Both) -> Value | Both:
        axis = self.known(node["axis"])
        return self.moved(x, lambda at: at + (at >= axis))

    def _slice(self, node: Node, x: Value | Both) -> Value | Both:
        self.unmentioned(node, "low", "high", "step")
        self.untouched(x, self.known(node["axis"]), "slices")
        return x

    def _pad(self, node: Node, x: Value | Both) -> Value | Both:
        self.unmentioned(node, "before", "after", "interior")
        self.untouched(x, self.known(node["axis"]), "pads")
        fill = {"zero": 0.0, "lowest": -math.inf}.get(node["value"], node["value"])
        return self.edged(x, float(fill))

    def edged(self, x: Value | Both, fill: float) -> Value | Both:
        """With a number beside it on another axis."""
        match x:
            case Both():
                return x.each(lambda side: self.edged(side, fill))
            case Parts() if self.how == "sum" and fill != 0:
                self.fails("a number is put beside a sum, and would be added once a part")
            case Same(vanishes, literal, _):
                return Same(vanishes and fill == 0, literal)
            case Along() if x.fill != fill:
                return replace(x, fill=None)
        return x

    def _concat(self, node: Node, x: Value | Both, y: Value | Both) -> Value | Both:
        axis = self.known(node["axis"])
        if isinstance(x, Both) or isinstance(y, Both):
            if not (isinstance(x, Both) and isinstance(y, Both) and x.at == y.at != axis):
                self.fails("joins pairs")
            a, b = (self.joined(p, q, axis) for p, q in zip(x.sides, y.sides, strict=True))
            return Both(x.at, (a, b))
        return self.joined(x, y, axis)

    def joined(self, x: Value, y: Value, axis: int) -> Value:
        for each in (x, y):
            self.untouched(each, axis, "joins")
        return self.merged(x, y, "concat", lambda a, b: a if a == b else None)

    def _gather(self, node: Node, x: Value | Both, indices: Value | Both) -> Value | Both:
        if isinstance(x, Same) and isinstance(indices, Same):
            return Same(x.vanishes and not x.literal, x.literal and indices.literal)
        self.fails("gathers")

    def _broadcast(self, node: Node, x: Value | Both) -> Value | Both:
        shape: tuple[Size, ...] = node["shape"]
        at = [i for i in self.mentioned(shape) if self.given(node).shape[i] == 1]
        if len(at) > 1:
            self.fails(f"repeats along {self.size} twice")
        if not at:
            return x
        match x:
            case Same(literal=literal, number=number) if literal or self.how != "sum":
                return Along(at[0], fill=number)
            case Same():
                self.fails(
                    f"an operand without {self.size} is repeated along {self.size}, and later parts"
                    " are given zeros for it"
                )
        self.fails(f"what is reduced along {self.size} is repeated along it")

    def _flatten(self, node: Node, x: Value | Both) -> Value | Both:
        made = self.type(node)
        return self.regrouped(self.given(node), made, x)

    def _reshape(self, node: Node, x: Value | Both) -> Value | Both:
        return self.regrouped(self.given(node), self.type(node), x)

    def regrouped(self, old: AccessType, new: AccessType, x: Value | Both) -> Value | Both:
        match x:
            case Both(at):
                place, grouped = _regrouped(old, new, at)
                if grouped:
                    self.fails("the axis of a pair is merged with others")
                if place is None:
                    self.fails("the axis of a pair is divided")
                return x.each(lambda side: self.regrouped(old, new, side), place)
            case Along(axis, already):
                place, grouped = _regrouped(old, new, axis)
                if place is None or (grouped and already):
                    self.fails(f"a reshape divides {self.size} or mixes it with other axes")
                return replace(x, axis=place, grouped=grouped or already)
        return x

    def _windows(self, node: Node, x: Value | Both) -> Value | Both:
        split, count = self.given(node).split, len(node["shape"])

        def to(axis: int) -> int:
            if axis < split:
                return axis
            i = axis - split
            one = all(
                node[name] is None or node[name][i].text == "1" for name in ("shape", "stride")
            )
            return axis if one else axis + count

        for i, size in enumerate(node["shape"]):
            axis = split + i
            if isinstance(x, Both) and x.at == axis:
                self.fails("windows slide along the axis of a pair")
            for side in x.sides if isinstance(x, Both) else (x,):
                along = isinstance(side, Along) and side.axis == axis
                # A window over all of it has one place; one of a single element leaves it.
                fits = size.text == self.size and not (isinstance(side, Along) and side.grouped)
                if along and not fits and to(axis) != axis:
                    self.fails(f"windows slide along {self.size}")
                if not along and self.size in size.names:
                    self.fails(f"windows are {self.size} long")
        self.unmentioned(node, "stride", "dilation")
        return self.moved(x, to)

    # --- two values -------------------------------------------------------------------------------

    def _pair(self, node: Node, a: Value | Both, b: Value | Both) -> Value | Both:
        split = self.given(node).split

        def to(axis: int) -> int:
            return axis + (axis >= split)

        return self.both(split, self.moved(a, to), self.moved(b, to))

    def _cart_prod(self, node: Node, a: Value | Both, b: Value | Both) -> Value | Both:
        batch = self.known(node["batch"])
        of_a, of_b = (self.type(child).split for child in node.children)
        outer = of_a + of_b - batch

        def from_a(axis: int) -> int:
            return axis if axis < of_a else axis - of_a + outer + 1

        def from_b(axis: int) -> int:
            if axis < batch:
                return axis
            return axis + of_a - batch if axis < of_b else axis - of_b + outer + 1

        return self.both(outer, self.moved(a, from_a), self.moved(b, from_b))

    def both(self, at: int, a: Value | Both, b: Value | Both) -> Both:
        if isinstance(a, Both) or isinstance(b, Both):
            self.fails("pairs of pairs")
        return Both(at, (a, b))

    def merged(self, a: Value, b: Value, function: str, fill: Any) -> Value:
        """One value of two, of elements by themselves: what a ``function`` makes of them.

        :param fill: of two numbers, what it makes of these.
        """
        match a, b:
            case Along(), Along():
                if (a.axis, a.grouped) != (b.axis, b.grouped):
                    self.fails(f"{self.size} runs along two axes under {function}")
                return replace(a, fill=fill(a.fill, b.fill))
            case (Along() as along, Same() as other) | (Same() as other, Along() as along):
                if self.how == "sum" and not other.literal:
                    self.fails(
                        f"{function} takes an operand without {self.size}, which is given to the "
                        f"first part only, with one that has {self.size}"
                    )
                numbers = [each.fill if each is along else other.number for each in (a, b)]
                return replace(along, fill=fill(*numbers))
            case Same(), Same():
                number = fill(a.number, b.number) if a.literal and b.literal else None
                return Same(self.both_vanish(a, b, function), a.literal and b.literal, number)
            case (Along(), Parts()) | (Parts(), Along()):
                self.fails(
                    f"{function} takes what is reduced along {self.size} with what is not yet"
                )
        return self.with_parts(a, b, function)

    def both_vanish(self, a: Same, b: Same, function: str) -> bool:
        """Whether the function is zero where operands are."""
        if function in ("mul", "and", "bit_and") and (a.vanishes or b.vanishes):
            return True
        if function == "div" and a.vanishes and b.literal and not b.vanishes:
            return True
        keeps = {"add", "sub", "maximum", "minimum", "or", "xor", "bit_or", "bit_xor", "concat"}
        return a.vanishes and b.vanishes and function in keeps

    def with_parts(self, a: Value, b: Value, function: str) -> Value:
        """Of values of which one is reduced already, the other perhaps."""
        assert not isinstance(a, Along) and not isinstance(b, Along)
        other = b if isinstance(a, Parts) else a
        floats = self.dtype in FLOATS
        if self.how == "max":
            if function in ("maximum", "concat"):
                return Parts()
            # What keeps the order of numbers; integers may wrap around.
            ordered = function == "add" or (function == "sub" and other is b)
            if isinstance(other, Same) and (function == "minimum" or (ordered and floats)):
                return Parts()
            self.fails(f"{function} of a maximum is not the maximum of those of the parts")
        adds = isinstance(other, Parts) or other.vanishes
        if function in ("add", "sub", "concat") and adds:
            return Parts()
        scales = function == "mul" or (function == "div" and other is b and floats)
        if isinstance(other, Same) and other.literal and scales:
            return Parts()
        if function in ("add", "sub") and isinstance(other, Same):
            self.fails(f"{function} takes a number with a sum, and would do so in every part")
        if function == "mul" and isinstance(other, Same):
            self.fails(
                f"a sum along {self.size} is multiplied by an operand without {self.size}, which is"
                " given to the first part only"
            )
        self.fails(f"{function} of a sum is not the sum of those of its parts")

    # --- what computes ----------------------------------------------------------------------------

    def _cast(self, node: Node, x: Value | Both) -> Value | Both:
        if isinstance(x, Both):
            return x.each(lambda side: self._cast(node, side))
        old, new = self.given(node).dtype, node["dtype"]
        wider = np.can_cast(old, new) if "bfloat16" not in (old, new) else old != "float64"
        if isinstance(x, Parts):
            floats = old in FLOATS and new in FLOATS
            if not (floats or (wider and self.how == "max")):
                self.fails(f"a cast from {old} to {new} does not keep sums")
            return x
        if not wider and isinstance(x, Along):
            return x if x.fill == 0 else replace(x, fill=None)
        return x if wider or not isinstance(x, Same) else replace(x, number=None)

    def _where(self, node: Node, *values: Value | Both) -> Value | Both:
        condition, a, b = values
        reduced = Parts | Both
        if isinstance(condition, reduced) or isinstance(a, reduced) or isinstance(b, reduced):
            self.fails(f"chooses by or among what is reduced along {self.size}")
        chosen = self.merged(a, b, "where", lambda *_: None)
        result = self.merged(condition, chosen, "where", lambda *_: None)
        if isinstance(result, Same) and isinstance(a, Same) and isinstance(b, Same):
            return replace(result, vanishes=a.vanishes and b.vanishes)
        return result

    def _compute(self, node: Node, x: Value | Both) -> Value | Both:
        name = node["function"]
        kind = FUNCTIONS[name].kind
        given = self.given(node)
        self.dtype = given.dtype
        if kind == "map":
            return self.mapped(name, given.dtype, x)
        if isinstance(x, Both):
            return self.of_both(name, given, x)
        if kind == "fold":
            return self.folded(name, given, x)
        return self.reduced(name, given, x)

    def mapped(self, name: str, dtype: str, x: Value | Both) -> Value | Both:
        match x:
            case Both():
                return x.each(lambda side: self.mapped(name, dtype, side))
            case Along(fill=fill):
                return replace(x, fill=_number(name, dtype, fill))
            case Same(literal=literal, number=number):
                made = _number(name, dtype, number if literal else 0.0)
                vanishes = made == 0 and (literal or x.vanishes)
                return Same(vanishes, literal, made if literal else None)
        if self.how == "sum" and name not in LINEAR:
            self.fails(f"{name} of a sum along {self.size} is not the sum of {name} of its parts")
        if self.how == "max" and not FUNCTIONS[name].monotone:
            self.fails(f"{name} of a maximum is not the maximum of {name} of its parts")
        return x

    def of_both(self, name: str, given: AccessType, x: Both) -> Value:
        """A fold of the two, or a reduction of both together."""
        function = FUNCTIONS[name]
        first = name == "dot" or function.kind == "fold"
        if x.at < given.split or (first and x.at != given.split):
            self.fails(f"{name} of a pair whose axis is not the first of the items")
        fold = name if function.kind == "fold" else _step_of_pair(name)
        if fold is None:
            self.fails(f"{name} of a pair")
        a, b = x.sides
        together = self.merged(
            a, b, "mul" if name == "dot" else fold, lambda p, q: _number(fold, given.dtype, p, q)
        )
        at = x.at
        value = self.moved(together, lambda axis: axis - (axis > at))
        assert not isinstance(value, Both)
        if function.kind == "fold":
            return value
        rest = AccessType(given.outer, given.shape[given.split : at] + given.shape[at + 1 :], "")
        rest = replace(rest, dtype=given.dtype)
        return self.reduced("sum" if name == "dot" else name, rest, value, said=name)

    def folded(self, name: str, given: AccessType, x: Value) -> Value:
        """A fold of the slices along a first item axis that is no tuple axis."""
        if isinstance(x, Along) and x.axis == given.split:
            reduction = next((f.name for f in FUNCTIONS.values() if f.step == name), None)
            if reduction is None:
                self.fails(f"{name} goes from one to the next along {self.size}")
            item = (given.item[0],)
            return self.reduced(reduction, AccessType(given.outer, item, given.dtype), x, said=name)
        if isinstance(x, Along):
            at = given.split
            moved = self.moved(x, lambda axis: axis - (axis > at))
            assert isinstance(moved, Along)
            return replace(moved, fill=0.0 if x.fill == 0 and name in ("add", "sub") else None)
        if isinstance(x, Same):
            return Same(x.vanishes and name in ("add", "sub", "mul", "maximum", "minimum"))
        if self.how == "sum" and name in ("add", "sub"):
            return x
        if self.how == "max" and name == "maximum":
            return x
        self.fails(f"{name} of what is reduced along {self.size}")

    def reduced(self, name: str, given: AccessType, x: Value, said: str = "") -> Value:
        """A reduction of items, or a function of a whole item."""
        said = said or name
        if isinstance(x, Along) and x.axis < given.split:
            return replace(x, fill=self.filled(name, given, x))
        if isinstance(x, Along):
            return self.reduced_along(name, given, x, said)
        if isinstance(x, Same):
            return Same(x.vanishes and name in ("sum", "mean", "max", "min", "argmax"), x.literal)
        if self.how == "sum" and (name == "sum" or (name == "mean" and given.dtype in FLOATS)):
            return x
        if self.how == "max" and name == "max":
            return x
        self.fails(
            f"{said} of a {self.how} along {self.size} is not the {self.how} of those of its parts"
        )

    def filled(self, name: str, given: AccessType, x: Along) -> float | None:
        """What becomes of padding beside items that are reduced."""
        if x.fill is None or not np.prod(given.item, dtype=int):
            return None
        if name in ("max", "min") or (x.fill == 0 and name in ("sum", "mean")):
            return x.fill
        return None

    def reduced_along(self, name: str, given: AccessType, x: Along, said: str) -> Value:
        """A reduction along the size."""
        function = FUNCTIONS[name]
        does = {"sum": "adds up", "dot": "adds up"}.get(
            said, f"is computed over all of {self.size}"
        )
        if self.question.pads:
            return self.padded_along(name, given, x, said)
        if name == "dot":
            self.fails(f"{self.size} is the axis along which dot multiplies, or that of no pair")
        if self.how == name:
            return Parts()
        if self.how == "outer":
            whole = f"{said} {does}" + (f" along {self.size}" if "adds" in does else "")
            self.fails(f"{whole}, so that no part has an element of the result")
        if function.kind == "vector":
            self.fails(f"{said} needs all of {self.size} for each element")
        kind = "sum" if self.how == "sum" else "maximum"
        self.fails(f"{said} along {self.size} is not the {kind} of {said} of the parts")

    def padded_along(self, name: str, given: AccessType, x: Along, said: str) -> Value:
        fill, dtype = x.fill, given.dtype
        if fill is not None:
            least, most = float(lowest(dtype)), float(highest(dtype))
            # Of operands whose dtype is open, -inf stands for the least value of any.
            low = fill in (least, -math.inf)
            neutral = {
                "sum": fill == 0,
                "prod": fill == 1,
                "max": low,
                "argmax": low,
                "min": fill == most,
                "softmax": low,
            }
            if neutral.get(name, False):
                # An element of padding counts for nothing: exp(-inf) is 0.
                return replace(x, fill=0.0) if name == "softmax" else Same(False)
        stands = "what stands there" if fill is None else f"{fill:g}"
        self.fails(f"{said} along {self.size} takes padding, {stands}, for elements")


def _step_of_pair(reduction: str) -> str | None:
    """What a reduction does along a tuple axis."""
    return "mul" if reduction == "dot" else FUNCTIONS[reduction].step


_KEEPS_EXTREMES = frozenset({"relu", "sign", "maximum", "minimum"})
"""Functions that do not wrap around, whatever the integer."""


def _number(name: str, dtype: str, *numbers: float | None) -> float | None:
    """What a function makes of numbers, where that is known."""
    extreme = any(n is not None and abs(n) == math.inf for n in numbers)
    if name == "mul" and 0 in numbers and not extreme:
        return 0.0  # Data are finite.
    if any(n is None for n in numbers):
        return None
    if extreme and dtype in INTEGERS and name not in _KEEPS_EXTREMES:
        return None
    function = FUNCTIONS[name]
    kind = "bool" if function.domain == ("bool",) else "float64"
    kind = "int64" if function.domain == INTEGERS else kind
    try:
        arrays = [np.array([n], kind) for n in numbers]
        with np.errstate(all="ignore"):
            found = float(function.numpy(*arrays)[0])
    except (OverflowError, ValueError, TypeError):
        return None
    if dtype in INTEGERS and not (extreme or lowest(dtype) <= found <= highest(dtype)):
        return None  # It wraps around.
    return None if math.isnan(found) else found


def _regrouped(old: AccessType, new: AccessType, axis: int) -> tuple[int | None, tuple[int, ...]]:
    """Where an axis goes in a reshape, and with which lengths it is merged, -1 for its own.

    No place where it is divided, or axes around it are arranged in another way.
    """
    outer = axis < old.split
    start, target = (0, 0) if outer else (old.split, new.split)
    before: Shape = old.outer if outer else old.item
    after: Shape = new.outer if outer else new.item
    i = j = 0
    while i < len(before) or j < len(after):
        low_i, low_j, left, right = i, j, 1, 1
        if i < len(before):
            left, i = before[i], i + 1
        if j < len(after):
            right, j = after[j], j + 1
        while left != right:
            if left < right and i < len(before):
                left, i = left * before[i], i + 1
            elif right < left and j < len(after):
                right, j = right * after[j], j + 1
            else:
                return None, ()
        if low_i <= axis - start < i:
            group = before[low_i:i]
            places = [k for k in range(low_j, j) if after[k] != 1]
            if len(places) != 1:
                return None, ()
            own = axis - start - low_i
            merged = tuple(-1 if k == own else n for k, n in enumerate(group) if n != 1 or k == own)
            return target + places[0], merged if len(merged) > 1 else ()
    return None, ()
