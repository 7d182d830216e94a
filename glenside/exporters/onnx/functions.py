"""ONNX forms of the functions of ``compute``: of maps, folds and :data:`REDUCTIONS`.

Most are as declared (``Function.onnx``); here stand those that depend on the dtype.
The meaning to reach is NumPy's, as ``glenside.language.functions`` has it: integers wrap around,
division by zero gives 0 instead of stopping the runtime, ``mod`` has the divisor's sign, shifts by
the width or more give what arithmetic says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from glenside.exporters.onnx.expressions import Expression
from glenside.exporters.onnx.graph import Graph, Value
from glenside.exporters.onnx.kernels import working_dtype
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS, UNSIGNED

Map = Callable[[Graph, Value], Value]
Fold = Callable[[Graph, Value, Value], Value]


# --- one operand --------------------------------------------------------------------------------


def _relu(g: Graph, x: Value) -> Value:
    if x.dtype in UNSIGNED:
        return x
    return g.apply("Max", x, 0) if x.dtype == "int64" else g.apply("Relu", x)


def _softmax(g: Graph, x: Value) -> Value:
    return g.apply("Softmax", x, axis=-1)


def _tan(g: Graph, x: Value) -> Value:
    return g.apply("Div", g.apply("Sin", x), g.apply("Cos", x))


def _cosh(g: Graph, x: Value) -> Value:
    up, down = g.apply("Exp", x), g.apply("Exp", g.apply("Neg", x))
    return g.apply("Mul", g.apply("Add", up, down), 0.5)


def _sinh(g: Graph, x: Value) -> Value:
    # Not (e^x - e^-x) / 2, which loses the small values.
    return g.apply("Mul", g.apply("Tanh", x), _cosh(g, x))


def _asinh(g: Graph, x: Value) -> Value:
    # log(|x| + sqrt(x^2 + 1)), where squares that overflow are not used.
    size = g.apply("Abs", x)
    root = g.apply("Sqrt", g.apply("Add", g.apply("Mul", x, x), 1.0))
    near = g.apply("Log", g.apply("Add", size, root))
    far = g.apply("Add", g.apply("Log", size), math.log(2))
    large = g.apply("Greater", size, 1e8, result="bool")
    return g.apply("Mul", g.apply("Sign", x), g.where(large, far, near))


def _acosh(g: Graph, x: Value) -> Value:
    # Two roots, not one of x^2 - 1: NaN below 1, and nothing overflows.
    roots = (g.apply("Sqrt", g.apply("Sub", x, 1.0)), g.apply("Sqrt", g.apply("Add", x, 1.0)))
    return g.apply("Log", g.apply("Add", x, g.apply("Mul", *roots)))


def _atanh(g: Graph, x: Value) -> Value:
    ratio = g.apply("Div", g.apply("Add", x, 1.0), g.apply("Sub", g.scalar(1.0, x.dtype), x))
    return g.apply("Mul", g.apply("Log", ratio), 0.5)


def _atan(g: Graph, x: Value) -> Value:
    # The float32 answer y, then the angle between it and the truth: tan(atan x - y).
    y = g.cast(g.apply("Atan", g.cast(x, "float32")), "float64")
    sin, cos = g.apply("Sin", y), g.apply("Cos", y)
    above = g.apply("Sub", g.apply("Mul", x, cos), sin)
    below = g.apply("Add", g.apply("Mul", x, sin), cos)
    near = g.apply("Add", y, g.apply("Div", above, below))
    limit = g.apply("Mul", g.apply("Sign", x), math.pi / 2)
    return g.where(g.apply("IsInf", x, result="bool"), limit, near)


def _asin(g: Graph, x: Value) -> Value:
    one = g.scalar(1.0, x.dtype)
    square = g.apply("Mul", g.apply("Sub", one, x), g.apply("Add", one, x))
    return _atan(g, g.apply("Div", x, g.apply("Sqrt", square)))


def _acos(g: Graph, x: Value) -> Value:
    return g.apply("Sub", g.scalar(math.pi / 2, x.dtype), _asin(g, x))


def _erf(g: Graph, x: Value) -> Value:
    """Rational approximations of W. J. Cody, Math. Comp. 23 (1969), near 0 and away from it."""
    size = g.apply("Abs", x)
    square = g.apply("Mul", x, x)
    near = g.apply("Mul", x, _ratio(g, square, _ERF_NEAR))
    # Beyond 6 erf is 1 to the last bit.
    limited = g.apply("Min", size, 6.0)
    decay = g.apply("Exp", g.apply("Neg", g.apply("Mul", limited, limited)))
    rest = g.apply("Mul", decay, _ratio(g, limited, _ERF_FAR))
    far = g.apply("Mul", g.apply("Sign", x), g.apply("Sub", g.scalar(1.0, x.dtype), rest))
    return g.where(g.apply("LessOrEqual", size, 0.46875, result="bool"), near, far)


Polynomials = tuple[tuple[float, ...], tuple[float, ...]]

_ERF_NEAR: Polynomials = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3,
     2.84423683343917062e3),
)  # fmt: skip
_ERF_FAR: Polynomials = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
     1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3,
     1.23033935480374942e3),
)  # fmt: skip
"""Numerator and denominator, highest power first."""


def _ratio(g: Graph, x: Value, polynomials: Polynomials) -> Value:
    sums = []
    for first, *others in polynomials:
        total = g.scalar(first, x.dtype)
        for coefficient in others:
            total = g.apply("Add", g.apply("Mul", total, x), coefficient)
        sums.append(total)
    return g.apply("Div", *sums)


_MAPS: dict[str, Map] = {
    "relu": _relu,
    "softmax": _softmax,
}
_MAPS_IN_DOUBLE: dict[str, Map] = {
    "tan": _tan,
    "asin": _asin,
    "acos": _acos,
    "atan": _atan,
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "erf": _erf,
}
"""For float64, where onnxruntime lacks the operator: expressions that are as exact."""


def map_form(function: str) -> Map | None:
    """The form of a function of one operand that keeps its shape; None where there is none."""
    if function in _MAPS:
        return _MAPS[function]
    declared, in_double = FUNCTIONS[function], _MAPS_IN_DOUBLE.get(function)
    if declared.kind != "map" or declared.onnx is None:
        return None
    form = Expression(declared.onnx, declared.result)

    def apply(g: Graph, x: Value) -> Value:
        if in_double is not None and x.dtype == "float64":
            return in_double(g, x)
        return form.apply(g, x=x)

    return apply


# --- two operands -------------------------------------------------------------------------------


def _extreme(operator: str, of_bools: str) -> Fold:
    return lambda g, a, b: g.apply(of_bools if a.dtype == "bool" else operator, a, b)


def _compare(operator: str) -> Fold:
    return lambda g, a, b: g.apply(operator, _ordered(g, a), _ordered(g, b), result="bool")


def _ordered(g: Graph, x: Value) -> Value:
    """uint64 as int64 in the same order, since the cast alone would wrap the upper half around."""
    if x.dtype != "uint64":
        return x
    return g.cast(g.apply("BitwiseXor", x, 2**63), "int64")


def _trouble(g: Graph, b: Value) -> Value | None:
    """Where a divisor would stop the processor (0, or -1 under the minimum); None for nowhere."""
    known = g.known.get(b.name)
    if known is not None and not np.isin(known, (0, -1)).any():
        return None
    zero = g.apply("Equal", b, 0, result="bool")
    if b.dtype in UNSIGNED:
        return zero
    return g.apply("Or", zero, g.apply("Equal", b, -1, result="bool"))


def _divide(g: Graph, a: Value, b: Value) -> Value:
    if a.dtype in FLOATS:
        return g.apply("Div", a, b)
    trouble = _trouble(g, b)
    if trouble is None:
        return g.apply("Div", a, b)
    quotient = g.apply("Div", a, g.where(trouble, 1, b))
    if b.dtype in UNSIGNED:
        special = g.scalar(0, b.dtype)
    else:
        special = g.apply("Mul", a, b)  # 0 by 0, the negative by -1.
    return g.where(trouble, special, quotient)


def _remainder(g: Graph, a: Value, b: Value, fmod: int) -> Value:
    if a.dtype not in FLOATS:
        trouble = _trouble(g, b)
        safe = b if trouble is None else g.where(trouble, 1, b)
        return g.apply("Mod", a, safe, fmod=fmod)
    rest = g.apply("Mod", a, b, fmod=1)
    if fmod:
        return rest
    # ONNX has no other remainder of floats than C's, with the dividend's sign.
    signs = [g.apply("Less", v, 0.0, result="bool") for v in (rest, b)]
    inexact = g.apply("Not", g.apply("Equal", rest, 0.0, result="bool"))
    wrong = g.apply("And", inexact, g.apply("Xor", *signs))
    return g.where(wrong, g.apply("Add", rest, b), rest)


def _power(g: Graph, a: Value, b: Value) -> Value:
    if a.dtype in FLOATS:
        return g.apply("Pow", a, b)
    known, dtype = g.known.get(b.name), a.dtype
    bits = np.iinfo(dtype).bits
    a, b = g.cast(a, "int64"), g.cast(b, "int64")
    # onnxruntime goes through float64; squaring stays exact and wraps around as NumPy does.
    if known is not None and int(known.flat[0]) >= 0:
        return g.cast(_known_power(g, a, int(known.flat[0]), b), dtype)
    power, square = None, a
    for bit in range(bits if dtype in UNSIGNED else bits - 1):
        mask = 2**bit if bit < 63 else -(2**63)
        unset = g.apply("Equal", g.apply("BitwiseAnd", b, mask), 0, result="bool")
        factor = g.where(unset, 1, square)
        power = factor if power is None else g.apply("Mul", power, factor)
        square = g.apply("Mul", square, square)
    assert power is not None
    if dtype in UNSIGNED:
        return g.cast(power, dtype)
    odd = g.apply("Equal", g.apply("BitwiseAnd", b, 1), 1, result="bool")
    minus = g.apply("Equal", a, -1, result="bool")
    one = g.apply("Equal", a, 1, result="bool")
    sign = g.where(odd, g.scalar(-1, "int64"), 1)
    fraction = g.where(minus, sign, g.where(one, g.scalar(1, "int64"), 0))
    negative = g.apply("Less", b, 0, result="bool")
    return g.cast(g.where(negative, fraction, power), dtype)


def _known_power(g: Graph, a: Value, exponent: int, b: Value) -> Value:
    power = None
    while exponent:
        if exponent & 1:
            power = a if power is None else g.apply("Mul", power, a)
        exponent >>= 1
        if exponent:
            a = g.apply("Mul", a, a)
    # An exponent of 0 gives ones in the shape that the operands broadcast to.
    return power if power is not None else g.apply("Add", g.apply("Mul", a, 0), 1)


def _shift(direction: str) -> Fold:
    def apply(g: Graph, a: Value, b: Value) -> Value:
        dtype, amount = a.dtype, g.cast(b, "int64")
        width = np.iinfo(dtype).bits
        inside = g.apply("And", g.apply("GreaterOrEqual", amount, 0, result="bool"),
                         g.apply("Less", amount, width, result="bool"))  # fmt: skip
        steps = g.cast(g.where(inside, amount, 0), "uint64")
        # BitShift takes unsigned numbers. To the right, the complement of a negative one is moved.
        complement = direction == "RIGHT" and dtype not in UNSIGNED
        gone = g.scalar(0, "int64")
        if complement:
            a = g.cast(a, "int64")
            negative = g.apply("Less", a, 0, result="bool")
            a = g.where(negative, g.apply("BitwiseNot", a), a)
            gone = g.where(negative, g.scalar(-1, "int64"), 0)
        moved = g.apply("BitShift", g.cast(a, "uint64"), steps, direction=direction)
        moved = g.cast(moved, "int64")
        if complement:
            moved = g.where(negative, g.apply("BitwiseNot", moved), moved)
        return g.cast(g.where(inside, moved, gone), dtype)

    return apply


_FOLDS: dict[str, Fold] = {
    "div": _divide,
    "maximum": _extreme("Max", "Or"),
    "minimum": _extreme("Min", "And"),
    "pow": _power,
    "mod": partial(_remainder, fmod=0),
    "fmod": partial(_remainder, fmod=1),
    "shift_left": _shift("LEFT"),
    "shift_right": _shift("RIGHT"),
    "less": _compare("Less"),
    "less_equal": _compare("LessOrEqual"),
    "greater": _compare("Greater"),
    "greater_equal": _compare("GreaterOrEqual"),
}


def fold_form(function: str) -> Fold | None:
    """The form of a function that combines two slices; None where there is none."""
    if function in _FOLDS:
        return _FOLDS[function]
    declared = FUNCTIONS[function]
    if declared.kind != "fold" or declared.onnx is None:
        return None
    form = Expression(declared.onnx, declared.result)
    return lambda g, a, b: form.apply(g, a=a, b=b)


# --- reductions over the axes from ``split`` on ---------------------------------------------------


def _sum(g: Graph, x: Value, split: int) -> Value:
    if x.dtype in FLOATS:
        return g.reduce("ReduceSum", x, split)
    # ReduceSum of integers saturates; a product with ones wraps around.
    depth = math.prod(x.shape[split:])
    rows = g.reshape(x, (*x.shape[:split], depth))
    return g.matmul(rows, g.fill(1, (depth,), x.dtype), x.shape[:split])


def _prod(g: Graph, x: Value, split: int) -> Value:
    if x.dtype in FLOATS:
        return g.reduce("ReduceProd", x, split)
    # ReduceProd of integers saturates too: halves are multiplied until one element is left.
    length = math.prod(x.shape[split:])
    x = g.reshape(x, (*x.shape[:split], length))
    while length > 1:
        half = length // 2
        parts = [g.slice(x, split, 0, half), g.slice(x, split, half, 2 * half)]
        product = g.apply("Mul", *parts)
        if length % 2:
            product = g.concat([product, g.slice(x, split, length - 1, length)], split)
        x, length = product, half + length % 2
    return g.reshape(x, x.shape[:split])


def _most(operator: str) -> Callable[[Graph, Value, int], Value]:
    def apply(g: Graph, x: Value, split: int) -> Value:
        done = g.reduce(operator, _ordered(g, x), split)
        if x.dtype != "uint64":
            return done
        return g.apply("BitwiseXor", g.cast(done, "uint64"), 2**63)

    return apply


def _position(operator: str) -> Callable[[Graph, Value, int], Value]:
    def find(g: Graph, x: Value, split: int, operator: str) -> Value:
        x = g.cast(x, working_dtype(operator, x.dtype))
        return g.node(operator, [x], x.shape[:split], "int64", axis=split, keepdims=0)

    def apply(g: Graph, x: Value, split: int) -> Value:
        found = find(g, _ordered(g, x), split, operator)
        if x.dtype not in FLOATS:
            return found
        # The first NaN wins, as NumPy has it.
        nan = g.cast(g.apply("IsNaN", x, result="bool"), "int32")
        some = g.cast(g.reduce("ReduceMax", nan, split), "bool")
        return g.where(some, find(g, nan, split, "ArgMax"), found)

    return apply


REDUCTIONS: dict[str, Callable[[Graph, Value, int], Value]] = {
    "sum": _sum,
    "prod": _prod,
    "mean": lambda g, x, split: g.reduce("ReduceMean", x, split),
    "max": _most("ReduceMax"),
    "min": _most("ReduceMin"),
    "argmax": _position("ArgMax"),
    "argmin": _position("ArgMin"),
}
"""All reductions but ``dot``, which depends on how its operand is made. Items are not empty."""
