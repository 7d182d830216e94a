"""The operators of the language, each declared once: arguments, type rule, NumPy meaning, and the
meaning for lengths that are symbols.

Everything else follows from these declarations or is tested against them: the text form
(``syntax.py``), the interpreter, the e-graph vocabulary and the documentation.

A **transformer** only moves data: its result holds the very bits of its operands. Sizes and axis
numbers are ints; axis numbers count over ``outer ++ item``.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import InputError, ShapeError
from glenside.language import invocation
from glenside.language.denotation import (
    Apply,
    Constant,
    Denotation,
    Element,
    Index,
    Length,
    Lengths,
    Logic,
    choose,
    converted,
    either,
    floor_divide,
    minus,
    plus,
    product,
    same_length,
    times,
)
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import (
    BFLOAT16,
    DTYPES,
    INTEGERS,
    AccessType,
    check_dtype,
    check_int,
    check_number,
    check_shape,
    lowest,
)

Array = np.ndarray[Any, Any]
Types = tuple[AccessType, ...]
Values = Mapping[str, Any]
"""Attribute values by name."""
Operands = Sequence[Denotation]


class Kind(enum.Enum):
    """What an attribute holds; decides how it is checked, spelled and stored in an e-graph."""

    INT = "int"
    INTS = "list of ints"
    NAME = "name"
    DTYPE = "dtype"
    NUMBER = "number"
    FILL = "zero, lowest or a number"


class Moves(enum.Flag):
    """What a transformer does to the elements of its operands, beside renumbering their axes.

    Elements are looked at in row-major order; what is not named is not done.
    """

    NOTHING = 0
    """Each stays where it is."""
    REORDERS = enum.auto()
    """They come in another order."""
    DROPS = enum.auto()
    """Some may be left out."""
    REPEATS = enum.auto()
    """Some may be there more than once."""
    ADDS = enum.auto()
    """There are others beside them."""
    JOINS = enum.auto()
    """Those of two operands come one behind the other along an axis that both have."""
    PAIRS = enum.auto()
    """Those of two operands stand beside each other along a new axis, the tuple axis."""


REQUIRED: Any = object()
_FILLS = ("zero", "lowest")
_GREATEST = int(np.finfo("float64").max)


@dataclass(frozen=True)
class Attribute:
    """An argument that is not an access. With a default it is an option: ``:name value``."""

    name: str
    kind: Kind
    default: Any = REQUIRED

    @property
    def optional(self) -> bool:
        return self.default is not REQUIRED

    def check(self, value: object, operator: str) -> Any:
        """``value`` in its canonical Python type; raises :class:`ShapeError`."""
        what = f"{operator}: {self.name}"
        match self.kind:
            case Kind.INT:
                return check_int(value, what)
            case Kind.INTS:
                if isinstance(value, np.ndarray):
                    value = value.tolist()
                if not isinstance(value, tuple | list | range):
                    raise ShapeError(f"{what} must be a list of integers, got {value!r}")
                return tuple([check_int(each, f"{what}: each entry") for each in value])
            case Kind.DTYPE:
                return check_dtype(value)
            case Kind.NAME:
                if not isinstance(value, str):
                    raise ShapeError(f"{what} must be a name, got {value!r}")
                return str(value)
            case Kind.NUMBER | Kind.FILL:
                if isinstance(value, str) and self.kind is Kind.FILL and value in _FILLS:
                    return str(value)
                if isinstance(value, bool | np.bool_):
                    return bool(value)
                if isinstance(value, int | np.integer):
                    if abs(int(value)) > _GREATEST:
                        raise ShapeError(f"{what}: a number beyond every dtype was given")
                    return int(value)
                if isinstance(value, float | np.floating):
                    return float(value)
                raise ShapeError(f"{what} must be {self.kind.value}, got {value!r}")


@dataclass(frozen=True)
class Operator:
    """One operator: ``infer(types, attributes)`` and ``evaluate(arrays, types, attributes)``.

    ``arity`` is the number of operands (None: any number). ``exact`` operators are transformers and
    leaves: they move bits and never round. ``moves`` is what a transformer does to elements; None
    for others. ``canonical(types, attributes)``, where there is one, gives the attributes that have
    several spellings in the one that terms hold. ``denote(logic, operands, attributes)``, which
    leaves and calls lack, is the meaning for lengths that need not be numbers: see
    ``denotation.py``.
    """

    name: str
    summary: str
    attributes: tuple[Attribute, ...]
    arity: int | None
    infer: Callable[[Types, Values], AccessType]
    evaluate: Callable[[list[Array], Types, Values], Array]
    exact: bool = True
    canonical: Callable[[Types, Values], Values] | None = None
    denote: Callable[[Logic, Operands, Values], Denotation] | None = None
    moves: Moves | None = None

    def may(self, move: Moves) -> bool:
        """Whether it is a transformer that may do this to elements."""
        return self.moves is not None and move in self.moves

    @functools.cached_property
    def spelling(self) -> str:
        """Its name in the text form."""
        return self.name.replace("_", "-")

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Where each attribute stands among the values of a term."""
        return {attribute.name: i for i, attribute in enumerate(self.attributes)}

    @functools.cached_property
    def has_number(self) -> bool:
        """Whether a value may be a float, for which equality is not sameness (-0.0, nan)."""
        return any(a.kind in (Kind.NUMBER, Kind.FILL) for a in self.attributes)


OPERATORS: dict[str, Operator] = {}


def _operator(
    name: str,
    arity: int | None,
    *attributes: Attribute,
    exact: bool = True,
    moves: Moves | None = None,
) -> Callable[[type], type]:
    """Registers the class below it, which holds ``infer``, ``evaluate`` and a docstring."""

    def register(body: Any) -> type:
        summary = " ".join((body.__doc__ or "").split())
        canonical, denote = (getattr(body, each, None) for each in ("canonical", "denote"))
        OPERATORS[name] = Operator(
            name,
            summary,
            attributes,
            arity,
            body.infer,
            body.evaluate,
            exact,
            canonical,
            denote,
            moves,
        )
        return body

    return register


def _axis(axis: int, rank: int, what: str) -> int:
    if not 0 <= axis < rank:
        there = f"axes are 0 to {rank - 1}" if rank else "there are no axes"
        raise ShapeError(f"{what}: axis {axis} does not exist, {there}")
    return axis


def _same_dtype(types: Types, what: str) -> None:
    if len({t.dtype for t in types}) > 1:
        raise ShapeError(f"{what}: dtypes differ: {', '.join(t.dtype for t in types)}")


_AXIS = Attribute("axis", Kind.INT)


# --- leaves -------------------------------------------------------------------------------------


@_operator(
    "tensor",
    0,
    Attribute("name", Kind.NAME),
    Attribute("shape", Kind.INTS),
    Attribute("dtype", Kind.DTYPE, "float32"),
)
class _Tensor:
    """A named array: an input or a parameter. All its axes are outer."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        return AccessType(check_shape(a["shape"], f"tensor {a['name']}"), (), a["dtype"])

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        raise AssertionError("the interpreter looks tensors up")


@_operator(
    "constant",
    0,
    Attribute("value", Kind.NUMBER),
    Attribute("shape", Kind.INTS),
    Attribute("dtype", Kind.DTYPE, "float32"),
)
class _Constant:
    """An array filled with one number. All its axes are outer."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        check_number(a["value"], a["dtype"], "constant")
        return AccessType(check_shape(a["shape"], "constant"), (), a["dtype"])

    @staticmethod
    def canonical(types: Types, a: Values) -> Values:
        return {**a, "value": check_number(a["value"], a["dtype"], "constant")}

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return np.broadcast_to(np.array(a["value"], a["dtype"]), a["shape"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        for length in a["shape"]:
            logic.need(length >= 0, "constant: lengths")
        logic.need(logic.is_value(a["value"], a["dtype"]), "constant: value")
        filled = Constant(a["value"], a["dtype"])
        return Denotation(logic, [*a["shape"]], [], a["dtype"], lambda index: filled)


# --- transformers -------------------------------------------------------------------------------


@_operator("access", 1, Attribute("split", Kind.INT), moves=Moves.NOTHING)
class _Access:
    """The same array with its first ``split`` axes outer."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,) = types
        if not 0 <= a["split"] <= x.rank:
            raise ShapeError(f"access {a['split']} of {x}: the split must be 0 to {x.rank}")
        return x.with_shape(x.shape, a["split"])

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return arrays[0]

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,) = x
        return of.moved(of.lengths, logic.cut(a["split"], of.lengths, "access"), of.at)


@_operator("transpose", 1, Attribute("permutation", Kind.INTS), moves=Moves.REORDERS)
class _Transpose:
    """Axes permuted as numpy.transpose does; the number of outer axes stays."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,), order = types, a["permutation"]
        if sorted(order) != list(range(x.rank)):
            raise ShapeError(f"transpose of {x}: {order} is not a permutation of 0 to {x.rank - 1}")
        return x.with_shape([x.shape[axis] for axis in order])

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return arrays[0].transpose(a["permutation"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,), order = x, a["permutation"]
        lengths = logic.each(of.lengths)
        logic.need(sorted(order) == list(range(len(lengths))), "transpose: permutation")
        inverse = [order.index(axis) for axis in range(len(order))]
        return of.moved(
            [lengths[axis] for axis in order], of.split, lambda i: of.at([i[k] for k in inverse])
        )


@_operator("cart_prod", 2, Attribute("batch", Kind.INT, 0), moves=Moves.PAIRS | Moves.REPEATS)
class _CartProd:
    """Every outer position of the first with every one of the second, items paired.

    ``((g, p), (i)) x ((g, q), (i)) -> ((g, p, q), (2, i))`` where the first ``batch`` outer axes g
    are shared (batch 0 is the paper's cartProd). The new item axis is the tuple axis.
    """

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        x, y = types
        batch, what = a["batch"], f"cart-prod of {x} and {y}"
        _same_dtype(types, what)
        if x.item != y.item:
            raise ShapeError(f"{what}: item shapes must be equal")
        if not 0 <= batch <= min(x.split, y.split):
            raise ShapeError(f"{what}: batch {batch} exceeds the outer axes")
        if x.outer[:batch] != y.outer[:batch]:
            raise ShapeError(f"{what}: the first {batch} outer axes must be equal")
        return AccessType(x.outer + y.outer[batch:], (2, *x.item), x.dtype)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        (x, y), batch = types, a["batch"]
        out = x.outer + y.outer[batch:]
        left = arrays[0].reshape(x.outer + (1,) * (y.split - batch) + x.item)
        right = arrays[1].reshape(
            x.outer[:batch] + (1,) * (x.split - batch) + y.outer[batch:] + y.item
        )
        full = out + x.item
        return np.stack([np.broadcast_to(left, full), np.broadcast_to(right, full)], axis=len(out))

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (left, right), what = x, "cart-prod"
        shared, also = (logic.cut(a["batch"], each.outer, what) for each in x)
        logic.alike(left.item, right.item, what)
        logic.alike(left.outer[:shared], right.outer[:also], what)
        logic.need(left.dtype == right.dtype, f"{what}: dtypes")
        own = right.outer[also:]
        outer = left.outer + own

        def at(i: Index) -> Element:
            position, side, item = i[: len(outer)], i[len(outer)], i[len(outer) + 1 :]
            return choose(
                side == 0,
                lambda: left.at(position[: left.split] + item),
                lambda: right.at(position[:shared] + position[left.split :] + item),
            )

        return left.moved([*outer, 2, *left.item], len(outer), at)


@_operator("pair", 2, moves=Moves.PAIRS)
class _Pair:
    """Two accesses of equal type side by side: a new first item axis (the tuple axis) of 2."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        x, y = types
        if x != y:
            raise ShapeError(f"pair of {x} and {y}: both must have the same type")
        return AccessType(x.outer, (2, *x.item), x.dtype)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return np.stack(arrays, axis=types[0].split)

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        left, right = x
        logic.alike(left.outer, right.outer, "pair")
        logic.alike(left.item, right.item, "pair")
        logic.need(left.dtype == right.dtype, "pair: dtypes")
        k = left.split

        def at(i: Index) -> Element:
            rest = i[:k] + i[k + 1 :]
            return choose(i[k] == 0, lambda: left.at(rest), lambda: right.at(rest))

        return left.moved([*left.outer, 2, *left.item], k, at)


@_operator(
    "windows",
    1,
    Attribute("shape", Kind.INTS),
    Attribute("stride", Kind.INTS),
    Attribute("dilation", Kind.INTS, None),
    moves=Moves.REORDERS | Moves.DROPS | Moves.REPEATS,
)
class _Windows:
    """Sliding windows over all item axes: ``((o), (d...)) -> ((o, w...), (k...))``.

    ``w = floor((d - (k-1)*dilation - 1) / stride) + 1`` along each axis; nothing is padded.
    """

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,) = types
        shape, stride, dilation = a["shape"], a["stride"], _dilation(a)
        what = f"windows {shape} of {x}"
        if not len(shape) == len(stride) == len(dilation) == len(x.item):
            raise ShapeError(f"{what}: shape, stride and dilation need one entry an item axis")
        if min((*shape, *stride, *dilation), default=1) < 1:
            raise ShapeError(f"{what}: shape, stride and dilation must be at least 1")
        reach = [(k - 1) * d + 1 for k, d in zip(shape, dilation, strict=True)]
        if any(r > n for r, n in zip(reach, x.item, strict=True)):
            raise ShapeError(f"{what}: the window reaches over {tuple(reach)}, the item is smaller")
        counts = tuple((n - r) // s + 1 for n, r, s in zip(x.item, reach, stride, strict=True))
        return AccessType(x.outer + counts, shape, x.dtype)

    @staticmethod
    def canonical(types: Types, a: Values) -> Values:
        undilated = a["dilation"] == (1,) * len(a["shape"])
        return {**a, "dilation": None} if undilated else a

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        (x,), (array,) = types, arrays
        shape, stride, dilation = a["shape"], a["stride"], _dilation(a)
        reach = [(k - 1) * d + 1 for k, d in zip(shape, dilation, strict=True)]
        axes = tuple(range(x.split, x.rank))
        view = np.lib.stride_tricks.sliding_window_view(array, reach, axes)
        steps = (slice(None),) * x.split + tuple(slice(None, None, s) for s in stride)
        return view[steps + tuple(slice(None, None, d) for d in dilation)]

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,), what = x, "windows"
        shape, stride = [*a["shape"]], [*a["stride"]]
        dilation = [1] * len(shape) if a["dilation"] is None else [*a["dilation"]]
        axes = logic.beside(of.item, shape, stride, dilation, what=what)
        slid = [logic.slid(n, k, s, d, what) for n, k, s, d in axes]
        m, rank = of.split, len(axes)

        def at(i: Index) -> Element:
            window, inside = i[m : m + rank], i[m + rank :]
            return of.at(
                i[:m] + [at(w, k) for (_, at), w, k in zip(slid, window, inside, strict=True)]
            )

        return of.moved([*of.outer, *(count for count, _ in slid), *shape], m + rank, at)


def _dilation(a: Values) -> tuple[int, ...]:
    given = a["dilation"]
    return (1,) * len(a["shape"]) if given is None else given


@_operator(
    "slice",
    1,
    _AXIS,
    Attribute("low", Kind.INT),
    Attribute("high", Kind.INT),
    Attribute("step", Kind.INT, 1),
    moves=Moves.DROPS,
)
class _Slice:
    """Positions ``low``, ``low+step``, ... below ``high`` along one axis."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,) = types
        axis, low, high, step = a["axis"], a["low"], a["high"], a["step"]
        what = f"slice {low}:{high}:{step} of {x}"
        length = x.shape[_axis(axis, x.rank, what)]
        if not (0 <= low <= high <= length and step >= 1):
            raise ShapeError(f"{what}: needs 0 <= low <= high <= {length} and step >= 1")
        dims = list(x.shape)
        dims[axis] = -(-(high - low) // step)
        return x.with_shape(dims)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        chosen = slice(a["low"], a["high"], a["step"])
        return arrays[0][(slice(None),) * a["axis"] + (chosen,)]

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,), what = x, "slice"
        k, low, high, step = logic.axis(a["axis"], of.lengths, what), a["low"], a["high"], a["step"]
        for condition in (low >= 0, low <= high, high <= of.lengths[k], step >= 1):
            logic.need(condition, f"{what}: bounds")
        lengths = list(of.lengths)
        lengths[k] = floor_divide(plus(minus(high, low), minus(step, 1)), step)
        if same_length(step, 1):
            lengths[k] = minus(high, low)
        return of.moved(
            lengths, of.split, lambda i: of.at([*i[:k], plus(low, times(i[k], step)), *i[k + 1 :]])
        )


@_operator("concat", 2, _AXIS, moves=Moves.JOINS)
class _Concat:
    """Two accesses joined along one axis; their other axes and splits are equal."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x, y), axis = types, a["axis"]
        what = f"concat of {x} and {y}"
        _same_dtype(types, what)
        _axis(axis, x.rank, what)
        dims = list(x.shape)
        if x.rank != y.rank or x.split != y.split:
            raise ShapeError(f"{what}: ranks and splits must be equal")
        dims[axis] = y.shape[axis]
        if tuple(dims) != y.shape:
            raise ShapeError(f"{what}: only axis {axis} may differ")
        dims[axis] += x.shape[axis]
        return x.with_shape(dims)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return np.concatenate(arrays, axis=a["axis"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (first, second), what = x, "concat"
        for one, also in ((first.outer, second.outer), (first.item, second.item)):
            logic.need(logic.rank(one) == logic.rank(also), f"{what}: ranks")
        k = logic.axis(a["axis"], first.lengths, what)
        other = logic.axis(a["axis"], second.lengths, what)
        logic.alike(first.lengths[:k], second.lengths[:other], what)
        logic.alike(first.lengths[k + 1 :], second.lengths[other + 1 :], what)
        logic.need(first.dtype == second.dtype, f"{what}: dtypes")
        lengths, n = list(first.lengths), first.lengths[k]
        lengths[k] = plus(n, second.lengths[other])

        def at(i: Index) -> Element:
            return choose(
                i[k] < n,
                lambda: first.at(i),
                lambda: second.at([*i[:k], minus(i[k], n), *i[k + 1 :]]),
            )

        return first.moved(lengths, first.split, at)


@_operator(
    "pad",
    1,
    Attribute("value", Kind.FILL),
    _AXIS,
    Attribute("before", Kind.INT),
    Attribute("after", Kind.INT),
    Attribute("interior", Kind.INT, 0),
    moves=Moves.ADDS,
)
class _Pad:
    """One axis padded before, after and (``interior``) between its elements.

    The value is ``zero``, ``lowest`` (-inf for floats, the least value for integers) or a number.
    """

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,) = types
        axis, before, after, inside = a["axis"], a["before"], a["after"], a["interior"]
        what = f"pad of {x}"
        length = x.shape[_axis(axis, x.rank, what)]
        if min(before, after, inside) < 0:
            raise ShapeError(f"{what}: widths must not be negative: {before}, {after}, {inside}")
        fill_value(a["value"], x.dtype)
        dims = list(x.shape)
        dims[axis] = before + length + max(length - 1, 0) * inside + after
        return x.with_shape(dims)

    @staticmethod
    def canonical(types: Types, a: Values) -> Values:
        return a if a["value"] in _FILLS else {**a, "value": fill_value(a["value"], types[0].dtype)}

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        (x,), axis, before = types, a["axis"], a["before"]
        shape = _Pad.infer(types, a).shape
        result = np.full(shape, fill_value(a["value"], x.dtype), x.dtype)
        length = x.shape[axis]
        step = a["interior"] + 1
        stop = before + max(length - 1, 0) * step + (length > 0)
        result[(slice(None),) * axis + (slice(before, stop, step),)] = arrays[0]
        return result

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,), before, inside = x, a["before"], a["interior"]
        k = logic.axis(a["axis"], of.lengths, "pad")
        for width in (before, a["after"], inside):
            logic.need(width >= 0, "pad: widths")
        logic.need(logic.is_value(a["value"], of.dtype), "pad: value")
        lengths, n = list(of.lengths), of.lengths[k]
        span = n if same_length(inside, 0) else plus(n, times(logic.less_one(n), inside))
        lengths[k] = plus(plus(before, span), a["after"])

        def fill() -> Element:
            return Constant(a["value"], of.dtype)

        def at(i: Index) -> Element:
            offset = minus(i[k], before)

            def own(position: Length) -> Element:
                return of.at([*i[:k], position, *i[k + 1 :]])

            def within() -> Element:
                if same_length(inside, 0):
                    return own(offset)
                step = plus(inside, 1)
                return choose(offset % step == 0, lambda: own(floor_divide(offset, step)), fill)

            return choose(offset < 0, fill, lambda: choose(offset < span, within, fill))

        return of.moved(lengths, of.split, at)


def _reshaped(logic: Logic, of: Denotation, outer: Lengths, item: Lengths) -> Denotation:
    for old, new in ((of.outer, outer), (of.item, item)):
        for length in new:
            logic.need(length >= 0, "reshape: lengths")
        logic.need(product(old) == product(new), "reshape: elements")
    m = len(outer)

    def at(i: Index) -> Element:
        return of.at(logic.unravel(of.outer, outer, i[:m]) + logic.unravel(of.item, item, i[m:]))

    return Denotation(logic, outer, item, of.dtype, at)


def fill_value(value: str | int | float | bool, dtype: str) -> int | float | bool:
    """The number that a pad value stands for in ``dtype``; raises :class:`ShapeError`."""
    if value == "zero":
        return 0
    if isinstance(value, str):
        return lowest(dtype)
    return check_number(value, dtype, "pad value")


@_operator("squeeze", 1, _AXIS, moves=Moves.NOTHING)
class _Squeeze:
    """An axis of length 1 removed."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,), axis = types, a["axis"]
        if x.shape[_axis(axis, x.rank, f"squeeze of {x}")] != 1:
            raise ShapeError(f"squeeze of {x}: axis {axis} has not length 1")
        dims = x.shape[:axis] + x.shape[axis + 1 :]
        return x.with_shape(dims, x.split - (axis < x.split))

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return arrays[0].squeeze(a["axis"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,) = x
        k = logic.axis(a["axis"], of.lengths, "squeeze")
        logic.need(of.lengths[k] == 1, "squeeze: length 1")
        lengths = of.lengths[:k] + of.lengths[k + 1 :]
        return of.moved(lengths, of.split - (k < of.split), lambda i: of.at([*i[:k], 0, *i[k:]]))


@_operator("unsqueeze", 1, _AXIS, moves=Moves.NOTHING)
class _Unsqueeze:
    """An axis of length 1 inserted; at or before the split it joins the outer axes."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,), axis = types, a["axis"]
        _axis(axis, x.rank + 1, f"unsqueeze of {x}")
        dims = (*x.shape[:axis], 1, *x.shape[axis:])
        return x.with_shape(dims, x.split + (axis <= x.split))

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return np.expand_dims(arrays[0], a["axis"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,) = x
        k = logic.cut(a["axis"], of.lengths, "unsqueeze")
        outer = logic.decide(logic.rank(of.lengths[:k]) <= logic.rank(of.outer))
        lengths = [*of.lengths[:k], 1, *of.lengths[k:]]
        return of.moved(lengths, of.split + outer, lambda i: of.at(i[:k] + i[k + 1 :]))


@_operator("broadcast", 1, Attribute("shape", Kind.INTS), moves=Moves.REPEATS)
class _Broadcast:
    """Axes of length 1 repeated to the given lengths; rank and split stay."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,), dims = types, check_shape(a["shape"], "broadcast")
        fits = len(dims) == x.rank and all(n in (1, d) for n, d in zip(x.shape, dims, strict=True))
        if not fits:
            raise ShapeError(f"broadcast of {x} to {dims}: each axis must be equal or 1")
        return x.with_shape(dims)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return np.broadcast_to(arrays[0], a["shape"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,), what = x, "broadcast"
        result: Lengths = []
        reads: list[Callable[[Length], Length]] = []
        for n, m in logic.pairs(of.lengths, [*a["shape"]], what):
            result.append(m)
            if not same_length(n, m):
                logic.need(m >= 0, f"{what}: lengths")
                logic.need(either(n == 1, n == m), f"{what}: lengths")
            reads.append(_spread(logic, n, m))
        return of.moved(
            result, of.split, lambda i: of.at([read(k) for read, k in zip(reads, i, strict=True)])
        )


def _spread(logic: Logic, n: Length, m: Length) -> Callable[[Length], Length]:
    """From an index into an axis of length m, to which n was broadcast, to one into n."""
    if same_length(n, m):
        return lambda k: k
    if logic.holds(n == 1):
        return lambda k: 0
    if logic.holds(n == m):
        return lambda k: k
    return lambda k: logic.pick(n == 1, 0, k)


@_operator("flatten", 1, moves=Moves.NOTHING)
class _Flatten:
    """Outer axes become one, item axes become one; an empty part stays empty."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,) = types
        outer = (math.prod(x.outer),) if x.outer else ()
        item = (math.prod(x.item),) if x.item else ()
        return AccessType(outer, item, x.dtype)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return arrays[0].reshape(_Flatten.infer(types, a).shape)

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,) = x
        outer, item = (
            [product(part)] if logic.decide(logic.rank(part) > 0) else []
            for part in (of.outer, of.item)
        )
        return _reshaped(logic, of, outer, item)


@_operator(
    "reshape", 1, Attribute("outer", Kind.INTS), Attribute("item", Kind.INTS), moves=Moves.NOTHING
)
class _Reshape:
    """Row-major reshape of the outer axes among themselves and the item axes among themselves."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,) = types
        outer, item = check_shape(a["outer"], "reshape"), check_shape(a["item"], "reshape")
        for old, new, part in ((x.outer, outer, "outer"), (x.item, item, "item")):
            if math.prod(old) != math.prod(new):
                raise ShapeError(
                    f"reshape of {x}: the {part} part has {math.prod(old)} elements, "
                    f"{new} has {math.prod(new)}"
                )
        return AccessType(outer, item, x.dtype)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return arrays[0].reshape(a["outer"] + a["item"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        return _reshaped(logic, x[0], [*a["outer"]], [*a["item"]])


@_operator("gather", 2, _AXIS, moves=Moves.REORDERS | Moves.DROPS | Moves.REPEATS)
class _Gather:
    """Slices of the first at the positions the second holds, as numpy.take does.

    The axis is replaced by the axes of the indices, on the side of the split where it was.
    Negative positions count from the end; positions outside are an error.
    """

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x, indices), axis = types, a["axis"]
        what = f"gather from {x} by {indices}"
        _axis(axis, x.rank, what)
        if indices.dtype not in INTEGERS:
            raise ShapeError(f"{what}: indices must be integers")
        dims = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
        return x.with_shape(dims, x.split + (indices.rank - 1) * (axis < x.split))

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        data, indices = arrays
        length = data.shape[a["axis"]]
        if indices.size and not (-length <= indices.min() and indices.max() < length):
            raise InputError(f"gather: an index is outside -{length} to {length - 1}")
        return np.take(data, indices.astype(np.int64), axis=a["axis"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of, indices), what = x, "gather"
        k = logic.axis(a["axis"], of.lengths, what)
        logic.need(logic.among(indices.dtype, INTEGERS), f"{what}: indices")
        n, count = of.lengths[k], len(indices.lengths)
        lengths = of.lengths[:k] + indices.lengths + of.lengths[k + 1 :]

        def at(i: Index) -> Element:
            chosen = logic.position(indices.at(i[k : k + count]))
            rest = i[k + count :]
            return choose(
                chosen < 0,
                lambda: of.at([*i[:k], plus(chosen, n), *rest]),
                lambda: of.at([*i[:k], chosen, *rest]),
            )

        return of.moved(lengths, of.split + (count - 1) * (k < of.split), at)


# --- what computes ------------------------------------------------------------------------------


@_operator("cast", 1, Attribute("dtype", Kind.DTYPE), exact=False)
class _Cast:
    """Every element converted; floats to integers toward zero, anything to bool as ``!= 0``."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        (x,) = types
        return AccessType(x.outer, x.item, a["dtype"])

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            array = arrays[0]
            if array.dtype == BFLOAT16 or a["dtype"] == BFLOAT16.name:
                # By way of float32 from and to all dtypes, as compiled code goes.
                array = array.astype(np.float32)
            return array.astype(a["dtype"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        (of,), dtype = x, a["dtype"]
        return Denotation(
            logic, of.outer, of.item, dtype, lambda i: converted(logic, dtype, of, of.at(i))
        )


@_operator("where", 3, exact=False)
class _Where:
    """Elements of the second where the first (bool) holds, else of the third."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        condition, x, y = types
        what = f"where {condition} then {x} else {y}"
        if condition.dtype != "bool":
            raise ShapeError(f"{what}: the condition must be bool")
        if x != y or (condition.outer, condition.item) != (x.outer, x.item):
            raise ShapeError(f"{what}: all three must have the same shape, both values one dtype")
        return x

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        return np.where(*arrays)

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        condition, yes, no = x
        logic.need(condition.dtype == logic.text("bool"), "where: condition")
        for other in (condition, no):
            logic.alike(yes.outer, other.outer, "where")
            logic.alike(yes.item, other.item, "where")
        logic.need(yes.dtype == no.dtype, "where: dtypes")
        return yes.moved(
            yes.lengths, yes.split, lambda i: Apply(("where",), [each.at(i) for each in x])
        )


@_operator(
    "compute",
    1,
    Attribute("function", Kind.NAME),
    Attribute("accumulate", Kind.DTYPE, None),
    exact=False,
)
class _Compute:
    """A function applied to every item; see ``glenside.language.functions``."""

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        name = a["function"]
        if name not in FUNCTIONS:
            raise ShapeError(f"compute {name}: the functions are {', '.join(FUNCTIONS)}")
        return FUNCTIONS[name].infer(types[0], a["accumulate"])

    @staticmethod
    def canonical(types: Types, a: Values) -> Values:
        function = FUNCTIONS.get(a["function"])
        return _default_accumulate(types, a) if function and function.accumulates else a

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        with np.errstate(all="ignore"):
            return FUNCTIONS[a["function"]].evaluate(arrays[0], types[0], a["accumulate"])

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        return FUNCTIONS[a["function"]].denote(logic, x[0], a["accumulate"])


def _default_accumulate(types: Types, a: Values) -> Values:
    """An accumulate dtype equal to the operand's is the default, which is not spelled."""
    return {**a, "accumulate": None} if a["accumulate"] == types[0].dtype else a


@_operator(
    "call",
    None,
    Attribute("unit", Kind.NAME),
    Attribute("parameters", Kind.INTS),
    Attribute("batch", Kind.INT, 0),
    exact=False,
)
class _Call:
    """One invocation of an accelerator unit, with the meaning its declaration gives.

    With ``:batch g`` the operands share their first g outer axes, and the unit is invoked once for
    each position on them: the loop over the tiles of an expanded product.
    """

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        return invocation.infer_batch(
            invocation.find(a["unit"]), a["parameters"], types, a["batch"]
        )

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        unit = invocation.find(a["unit"])
        return invocation.run_batch(unit, a["parameters"], types, arrays, a.get("batch", 0))


@_operator(
    "blocked",
    2,
    Attribute("unit", Kind.NAME),
    Attribute("parameters", Kind.INTS),
    Attribute("batch", Kind.INT, 0),
    Attribute("accumulate", Kind.DTYPE, None),
    exact=False,
)
class _Blocked:
    """A matrix product tiled onto a unit, kept as one symbolic term.

    ``(blocked U P :batch g X Y)`` means ``(compute dot (cart-prod :batch g X Y))`` for items of one
    axis, of any size; the tiles are formed when the program is lowered.
    """

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        unit = invocation.find(a["unit"])
        what = f"blocked {a['unit']} {a['parameters']} of {types[0]} and {types[1]}"
        if unit.array is None:
            raise ShapeError(f"{what}: the unit has no matrix product to tile")
        if min(unit.array(a["parameters"])) < 1:
            raise ShapeError(f"{what}: array sizes must be positive")
        if len(types[0].item) != 1:
            raise ShapeError(f"{what}: items must have one axis")
        product = _CartProd.infer(types, {"batch": a["batch"]})
        return FUNCTIONS["dot"].infer(product, a["accumulate"])

    @staticmethod
    def canonical(types: Types, a: Values) -> Values:
        return _default_accumulate(types, a)

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        accumulate = a["accumulate"] or types[0].dtype
        unit = invocation.find(a["unit"])
        left, right = arrays
        return invocation.run_blocked(unit, a["parameters"], left, right, a["batch"], accumulate)

    @staticmethod
    def denote(logic: Logic, x: Operands, a: Values) -> Denotation:
        logic.ranked(x[0].item, 1, "blocked: items")
        product_ = _CartProd.denote(logic, x, {"batch": a["batch"]})
        return FUNCTIONS["dot"].denote(logic, product_, a["accumulate"])


@_operator(
    "host_op",
    None,
    Attribute("operator", Kind.NAME),
    Attribute("shape", Kind.INTS),
    Attribute("dtype", Kind.DTYPE, "float32"),
    Attribute("domain", Kind.NAME, ""),
    Attribute("version", Kind.INT, 1),
    Attribute("output", Kind.INT, 0),
    Attribute("attributes", Kind.NAME, "{}"),
    exact=False,
)
class _HostOp:
    """An ONNX operator without an access-pattern meaning; onnxruntime computes it.

    ``version`` is the opset, ``output`` which of its outputs this is, ``attributes`` their JSON.
    """

    @staticmethod
    def infer(types: Types, a: Values) -> AccessType:
        return AccessType(check_shape(a["shape"], f"host-op {a['operator']}"), (), a["dtype"])

    @staticmethod
    def evaluate(arrays: list[Array], types: Types, a: Values) -> Array:
        from glenside.language.host import run_host_op

        return run_host_op(a, arrays)


TRANSFORMERS = frozenset(name for name, o in OPERATORS.items() if o.moves is not None)
"""Operators that only move data."""


def transformers(allowed: Moves) -> frozenset[str]:
    """Those of one operand that do nothing to its elements but what is ``allowed``."""
    return frozenset(
        name
        for name, o in OPERATORS.items()
        if o.arity == 1 and o.moves is not None and o.moves in allowed
    )


VIEWS = transformers(~Moves.NOTHING)
"""Transformers of one operand: what they give can be read where the operand lies."""

RENUMBERING = transformers(Moves.NOTHING)
"""Transformers that leave every element where it is in row-major order."""

BIJECTIONS = transformers(Moves.REORDERS)
"""Transformers that keep every element, once."""

CALLS = frozenset(("call", "blocked"))
"""Operators that invoke an accelerator unit."""

APART = CALLS | {"host_op"}
"""Operators whose work is not a kernel's: a unit's simulator or onnxruntime does it."""

assert all(a.default is None or a.default in DTYPES for o in OPERATORS.values()
           for a in o.attributes if a.kind is Kind.DTYPE and a.optional)  # fmt: skip
