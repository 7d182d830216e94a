"""The functions that ``compute`` applies to each item, each declared once.

A function is one of four kinds, which alone decides its shape rule:

==========  =====================  ==============================================================
kind        item shape             meaning
==========  =====================  ==============================================================
reduce      any -> ()              all elements of the item become one
fold        (t, s...) -> (s...)    the t slices along the first item axis are combined, left first
map         s -> s                 every element by itself
vector      (n) -> (n)             a whole rank-1 item at once
==========  =====================  ==============================================================
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.errors import ShapeError
from glenside.language.denotation import (
    Apply,
    Denotation,
    Element,
    Index,
    Lengths,
    Logic,
    Softmax,
    converted,
    folded,
    product,
    reduced,
)
from glenside.language.shape import (
    BFLOAT16,
    FLOATS,
    HALVES,
    INTEGERS,
    NUMBERS,
    AccessType,
    highest,
    is_float,
    lowest,
)

Array = np.ndarray[Any, Any]
ANY = (*NUMBERS, "bool")
_BOOL = ("bool",)


@dataclass(frozen=True)
class Function:
    """A function of ``compute``: its meaning, what holds of it, and what others call it.

    Whatever else of the project treats functions by their properties asks this declaration, so that
    a new function is one of these and nothing more.
    """

    name: str
    kind: str
    numpy: Callable[..., Array]
    """Takes, by kind: *reduce* ``(array, item axes)``; *fold* two arrays; *map* one array; *vector*
    one array whose last axis is the item."""
    domain: tuple[str, ...] = NUMBERS
    result: str | None = None
    """The dtype of the result where it is not that of the operand."""
    accumulates: bool = False
    """Whether sums or products are formed in the dtype that ``compute(..., accumulate=)`` names."""
    item_rank: int | None = None
    arity: int | None = None
    """How many slices a fold takes; None for any number from one up."""

    commutes: bool = False
    """Whether the two operands of a fold may change places."""
    neutral: int | None = None
    """What leaves the first operand of a fold as it is; the second one too where it commutes."""
    step: str | None = None
    """The fold with which a reduction takes in one element more; it starts at the neutral one."""
    exact: bool = False
    """Whether of floats nothing is rounded: each result is one of the numbers given, the negative
    of one, or a number that every dtype has."""
    bounds: tuple[float, float] | None = None
    """Between which numbers results lie, whatever is given; None where nothing is known."""
    monotone: bool = False
    """Whether f(max(a, b)) = max(f(a), f(b)) for all numbers a and b."""
    grows: bool = False
    """Whether the result for a number of ordinary size may be beyond every dtype of 16 bits."""

    libm: str | None = None
    """Its name for float64 in the mathematical library of C, and in OpenCL C for every float; C and
    CUDA add an ``f`` for float32. Code generation may know a better form."""
    spelled: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Its name in languages of kernels (:mod:`glenside.codegen.text.dialects`) that have another
    than :attr:`libm` says, by the language's name."""
    onnx: str | None = None
    """The ONNX operator that means the same, or an expression of such operators over ``x`` (of a
    fold ``a`` and ``b``) and numbers, as ``Log(Add(Exp(x), 1))``. The exporter knows of dtypes for
    which another form is needed."""
    tvm: str | None = None
    """The operator that means the same in TVM's Relay and Relax."""

    @property
    def reassociates(self) -> bool:
        """Whether it adds up or multiplies elements, whose order rounding shows."""
        return self.accumulates or self.kind == "vector"

    @property
    def onnx_operator(self) -> str | None:
        """The one ONNX operator that means the same; None if there is none."""
        return self.onnx if self.onnx and self.onnx.isidentifier() else None

    def infer(self, operand: AccessType, accumulate: str | None) -> AccessType:
        """Type of ``compute(self, operand)``; raises :class:`ShapeError`."""
        what = f"compute {self.name} of {operand}"
        if operand.dtype not in self.domain:
            raise ShapeError(f"{what}: takes {', '.join(self.domain)}")
        if accumulate is not None and not self.accumulates:
            raise ShapeError(f"{what}: only sum, mean, prod and dot have an accumulate dtype")
        if accumulate is not None and accumulate not in self.domain:
            raise ShapeError(f"{what}: cannot accumulate in {accumulate}")
        if self.item_rank is not None and len(operand.item) != self.item_rank:
            raise ShapeError(f"{what}: takes items with {self.item_rank} axis")
        if (self.kind == "fold" or self.name == "dot") and not operand.item:
            raise ShapeError(f"{what}: needs a first item axis to combine over")
        if self.kind == "fold" and (
            operand.item[0] < 1 or self.arity not in (None, operand.item[0])
        ):
            wanted = self.arity or "at least 1"
            raise ShapeError(f"{what}: the first item axis must have length {wanted}")
        if self.name in ("argmax", "argmin") and 0 in operand.item:
            raise ShapeError(f"{what}: an empty item has no such element")
        item = {"reduce": (), "fold": operand.item[1:]}.get(self.kind, operand.item)
        return AccessType(operand.outer, item, self.result or accumulate or operand.dtype)

    def denote(self, logic: Logic, x: Denotation, accumulate: Any) -> Denotation:
        """What ``compute(self, x)`` denotes; ``accumulate`` is the dtype that is used."""
        what, k = self.name, x.split
        logic.need(logic.among(x.dtype, self.domain), f"{what}: dtype")
        dtype = logic.text(self.result) if self.result else x.dtype
        if self.accumulates:
            logic.need(logic.among(accumulate, self.domain), f"{what}: accumulate")
            dtype = accumulate
        if self.item_rank is not None:
            logic.ranked(x.item, self.item_rank, f"{what}: item")
        if self.kind == "fold" or what == "dot":
            logic.first(x.item, f"{what}: tuple axis")
        # Asking may have told more of the item.
        lengths = x.item

        def of(item: Lengths, at: Callable[[Index], Element]) -> Denotation:
            return Denotation(logic, x.outer, item, dtype, at)

        def value(i: Index) -> Element:
            element = x.at(i)
            return converted(logic, accumulate, x, element) if self.accumulates else element

        def dot(i: Index) -> Element:
            def factors(j: Index) -> Element:
                return reduced("mul", dtype, lengths[:1], lambda c: value(i + c + j))

            return reduced("add", dtype, lengths[1:], factors)

        def mean(i: Index) -> Element:
            total = reduced("add", dtype, lengths, lambda j: value(i + j))
            return Apply(("over", product(lengths)), [total])

        match self.kind:
            case "map":
                return of(lengths, lambda i: Apply((what,), [x.at(i)]))
            case "vector":
                return of(
                    lengths,
                    lambda i: Softmax(dtype, lengths[0], lambda j: x.at([*i[:k], j]), i[k]),
                )
            case "fold":
                few = lengths[0] == self.arity if self.arity else lengths[0] >= 1
                logic.need(few, f"{what}: length")
                return of(
                    lengths[1:],
                    lambda i: folded(
                        what, x.dtype, lengths[0], lambda j: x.at([*i[:k], j, *i[k:]])
                    ),
                )
        if what in ("argmax", "argmin"):
            for length in lengths:
                logic.need(length >= 1, f"{what}: an element")
        if what in ("dot", "mean"):
            return of([], dot if what == "dot" else mean)
        operation = {"sum": "add", "prod": "mul"}.get(what, what)
        return of([], lambda i: reduced(operation, dtype, lengths, lambda j: value(i + j)))

    def evaluate(self, array: Array, operand: AccessType, accumulate: str | None) -> Array:
        """The NumPy meaning on an array of shape ``operand.shape``."""
        at = operand.split
        if self.kind == "reduce" and self.accumulates and accumulate:
            array = array.astype(accumulate, copy=False)
        # NumPy knows little of bfloat16, least of all how to add it up.
        numpy = _in_float32(self.numpy) if array.dtype == BFLOAT16 else self.numpy
        if self.kind == "reduce":
            return np.asarray(numpy(array, tuple(range(at, operand.rank))))
        if self.kind == "fold":
            slices = np.moveaxis(array, at, 0)
            return np.asarray(functools.reduce(numpy, slices[1:], slices[0]))
        return np.asarray(numpy(array))


def truncated_divide(a: Array, b: Array) -> Array:
    """Division as ONNX and C define it: integers round toward zero. Divided by 0 they give 0."""
    if is_float(a.dtype):
        return np.divide(a, b)
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "u":
        return quotient
    inexact = (a - quotient * b) != 0
    return (quotient + (inexact & ((a < 0) != (b < 0)) & (b != 0))).astype(a.dtype)


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "i":
        # NumPy refuses negative integer powers; C's pow truncates the fraction away.
        safe = np.power(a, np.maximum(b, 0))
        fraction = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
        return np.where(b < 0, fraction, safe).astype(a.dtype)
    return np.power(a, b)


def _in_float32(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` of bfloat16 arrays computed in float32, floats that it gives rounded once."""

    def apply(*operands: Any) -> Array:
        wide = [
            each.astype(np.float32) if isinstance(each, np.ndarray | np.generic) else each
            for each in operands
        ]
        result = np.asarray(function(*wide))
        return result.astype(BFLOAT16) if result.dtype == np.float32 else result

    return apply


def _rounded_once(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` with 16-bit floats computed in float32: only the result is rounded.

    That is what ``numpy.matmul`` and matrix units do; sums of halves overflow at 65,504.
    """

    def apply(array: Array, *axes: tuple[int, ...]) -> Array:
        if array.dtype.name not in HALVES:
            return function(array, *axes)
        return np.asarray(function(array.astype(np.float32), *axes)).astype(array.dtype)

    return apply


@_rounded_once
def _dot(array: Array, axes: tuple[int, ...]) -> Array:
    product = np.prod(array, axis=axes[0], dtype=array.dtype)
    return np.sum(product, axis=tuple(axis - 1 for axis in axes[1:]), dtype=array.dtype)


def _extreme(reduce: Any, neutral: Callable[[str], float | int | bool]) -> Callable[..., Array]:
    def apply(array: Array, axes: tuple[int, ...]) -> Array:
        start = np.array(neutral(array.dtype.name), array.dtype)
        return np.asarray(reduce(array, axis=axes, initial=start))

    return apply


@_rounded_once
def _mean(array: Array, axes: tuple[int, ...]) -> Array:
    count = math.prod(array.shape[axis] for axis in axes)
    total = np.sum(array, axis=axes, dtype=array.dtype)
    return np.asarray(total / np.array(count, array.dtype), array.dtype)


@_rounded_once
def _softmax(array: Array) -> Array:
    if array.shape[-1] == 0:
        return array
    powers = np.exp(array - array.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True, dtype=array.dtype)


@_rounded_once
def _sigmoid(array: Array) -> Array:
    # Not by tanh, which loses every digit of the small values.
    return np.reciprocal(1 + np.exp(-array))


_erf_object = np.frompyfunc(math.erf, 1, 1)


def _erf(array: Array) -> Array:
    return np.asarray(_erf_object(array.astype(np.float64))).astype(array.dtype)


def _shift(direction: Any) -> Callable[[Array, Array], Array]:
    def apply(a: Array, b: Array) -> Array:
        # Shifting by the width or more is undefined in C; the mathematical value is taken.
        width = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < width)
        shifted = direction(a, np.where(inside, b, 0).astype(a.dtype))
        gone = np.where(a < 0, -1, 0) if direction is np.right_shift and a.dtype.kind == "i" else 0
        return np.where(inside, shifted, gone).astype(a.dtype)

    return apply


def _reduce(name: str, numpy: Callable[..., Array], **options: Any) -> Function:
    return Function(name, "reduce", numpy, **options)


def _fold(name: str, numpy: Callable[..., Array], **options: Any) -> Function:
    return Function(name, "fold", numpy, **options)


def _map(name: str, numpy: Callable[..., Array], **options: Any) -> Function:
    return Function(name, "map", numpy, **options)


def _of_floats(name: str, numpy: Callable[..., Array], **options: Any) -> Function:
    return _map(name, numpy, domain=FLOATS, **options)


def _compare(name: str, numpy: Callable[..., Array], **options: Any) -> Function:
    return _fold(name, numpy, result="bool", arity=2, tvm=name, **options)


def _library(name: str, numpy: Callable[..., Array], **options: Any) -> Function:
    """One that C and TVM call by our name, and ONNX with a capital."""
    names = {"libm": name, "onnx": name.capitalize(), "tvm": name}
    return _of_floats(name, numpy, **names, **options)


_UNIT, _SIGNED_UNIT = (0.0, 1.0), (-1.0, 1.0)


def _total(ufunc: Any) -> Callable[..., Array]:
    return _rounded_once(lambda array, axes: ufunc.reduce(array, axis=axes, dtype=array.dtype))


FUNCTIONS: dict[str, Function] = {
    function.name: function
    for function in (
        _reduce("dot", _dot, accumulates=True),
        _reduce("sum", _total(np.add), accumulates=True, step="add"),
        _reduce("prod", _total(np.multiply), accumulates=True, step="mul"),
        _reduce("mean", _mean, domain=FLOATS, accumulates=True),
        _reduce("max", _extreme(np.max, lowest), domain=ANY, step="maximum", exact=True),
        _reduce("min", _extreme(np.min, highest), domain=ANY, step="minimum", exact=True),
        _reduce("argmax", lambda a, axes: np.argmax(a, axes[0]), result="int64", item_rank=1),
        _reduce("argmin", lambda a, axes: np.argmin(a, axes[0]), result="int64", item_rank=1),
        _fold("add", np.add, commutes=True, neutral=0, onnx="Add", tvm="add"),
        _fold("sub", np.subtract, neutral=0, onnx="Sub", tvm="subtract"),
        _fold("mul", np.multiply, commutes=True, neutral=1, onnx="Mul", tvm="multiply"),
        _fold("div", truncated_divide, neutral=1, onnx="Div", tvm="divide"),
        _fold("maximum", np.maximum, domain=ANY, commutes=True, exact=True, tvm="maximum"),
        _fold("minimum", np.minimum, domain=ANY, commutes=True, exact=True, tvm="minimum"),
        _fold("pow", _power, neutral=1, libm="pow", tvm="power"),
        _fold("mod", np.mod, tvm="floor_mod"),
        _fold("fmod", np.fmod, libm="fmod", tvm="mod"),
        _fold("and", np.logical_and, domain=_BOOL, commutes=True, onnx="And", tvm="logical_and"),
        _fold("or", np.logical_or, domain=_BOOL, commutes=True, onnx="Or", tvm="logical_or"),
        _fold("xor", np.logical_xor, domain=_BOOL, commutes=True, onnx="Xor", tvm="logical_xor"),
        _fold("bit_and", np.bitwise_and, domain=INTEGERS, commutes=True, onnx="BitwiseAnd"),
        _fold("bit_or", np.bitwise_or, domain=INTEGERS, commutes=True, neutral=0, onnx="BitwiseOr"),
        _fold(
            "bit_xor", np.bitwise_xor, domain=INTEGERS, commutes=True, neutral=0, onnx="BitwiseXor"
        ),
        _fold("shift_left", _shift(np.left_shift), domain=INTEGERS, neutral=0, tvm="left_shift"),
        _fold("shift_right", _shift(np.right_shift), domain=INTEGERS, neutral=0, tvm="right_shift"),
        _compare("equal", np.equal, domain=ANY, commutes=True, onnx="Equal"),
        _compare("less", np.less, onnx="Less"),
        _compare("less_equal", np.less_equal, onnx="LessOrEqual"),
        _compare("greater", np.greater, onnx="Greater"),
        _compare("greater_equal", np.greater_equal, onnx="GreaterOrEqual"),
        _map(
            "relu",
            lambda a: np.maximum(a, a.dtype.type(0)),
            exact=True,
            monotone=True,
            onnx="Relu",
            tvm="nn.relu",
        ),
        _map("neg", np.negative, exact=True, onnx="Neg", tvm="negative"),
        _map("abs", np.absolute, exact=True, libm="fabs", onnx="Abs", tvm="abs"),
        _map(
            "sign", np.sign, exact=True, bounds=_SIGNED_UNIT, monotone=True, onnx="Sign", tvm="sign"
        ),
        _map("not", np.logical_not, domain=_BOOL, onnx="Not", tvm="logical_not"),
        _map("bit_not", np.bitwise_not, domain=INTEGERS, onnx="BitwiseNot"),
        _of_floats("recip", np.reciprocal, onnx="Reciprocal"),
        _library("sqrt", np.sqrt),
        _library("exp", np.exp, monotone=True, grows=True),
        _of_floats(
            "expm1",
            np.expm1,
            monotone=True,
            grows=True,
            libm="expm1",
            onnx="Mul(Tanh(Mul(x, 0.5)), Add(Exp(x), 1))",  # Exp(x) - 1 loses small values.
        ),
        _library("log", np.log),
        _of_floats(
            "log1p",
            np.log1p,
            libm="log1p",
            # The quotient puts right what rounding took from 1 + x (W. Kahan): Log(Add(x, 1)) alone
            # loses small values.
            onnx="Where(Equal(Add(x, 1), 1), x, Where(IsInf(x), Log(x), "
            "Mul(Log(Add(x, 1)), Div(x, Sub(Add(x, 1), 1)))))",
        ),
        _library("sin", np.sin, bounds=_SIGNED_UNIT),
        _library("cos", np.cos, bounds=_SIGNED_UNIT),
        _library("tan", np.tan),
        _library("asin", np.arcsin),
        _library("acos", np.arccos),
        _library("atan", np.arctan, monotone=True),
        _library("sinh", np.sinh, monotone=True, grows=True),
        _library("cosh", np.cosh, grows=True),
        _library("asinh", np.arcsinh, monotone=True),
        _library("acosh", np.arccosh),
        _library("atanh", np.arctanh),
        _library("tanh", np.tanh, bounds=_SIGNED_UNIT, monotone=True),
        _of_floats("sigmoid", _sigmoid, bounds=_UNIT, monotone=True, onnx="Sigmoid", tvm="sigmoid"),
        _library("erf", _erf, bounds=_SIGNED_UNIT, monotone=True),
        _library("floor", np.floor, monotone=True),
        _library("ceil", np.ceil, monotone=True),
        _of_floats("round", np.rint, monotone=True, libm="rint", onnx="Round", tvm="round"),
        _of_floats("is_nan", np.isnan, result="bool", exact=True, onnx="IsNaN", tvm="isnan"),
        _of_floats("is_inf", np.isinf, result="bool", exact=True, onnx="IsInf", tvm="isinf"),
        Function("softmax", "vector", _softmax, domain=FLOATS, item_rank=1, bounds=_UNIT),
    )
}
"""All functions of ``compute`` by name. Ties in argmax/argmin go to the first element;
``round`` is half to even; integer ``div`` truncates; ``mod`` has the divisor's sign, ``fmod`` the
dividend's."""
