"""Operators on every element by itself, with broadcasting and type promotion."""

from __future__ import annotations

import math
from collections.abc import Callable

from glenside.frontends.lowering import phrases
from glenside.frontends.lowering.phrases import elementwise, select, square
from glenside.frontends.refusal import Refused
from glenside.frontends.torch.promotion import as_tensor, promoted
from glenside.frontends.torch.signature import Node, Number, operator
from glenside.language import Term, builders
from glenside.language.shape import FLOATS

_MAPS = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atan": "atan", "atanh": "atanh", "cos": "cos", "cosh": "cosh", "erf": "erf", "exp": "exp",
    "expm1": "expm1", "log": "log", "log1p": "log1p", "neg": "neg", "reciprocal": "recip",
    "relu": "relu", "sigmoid": "sigmoid", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt",
    "tan": "tan", "tanh": "tanh",
}  # fmt: skip
"""Operators that are one function; of integers most compute in the default float dtype."""


def _map(function: str) -> Callable[..., Term]:
    def apply(node: Node, x: Term) -> Term:
        return elementwise(function, builders.cast(x, node.dtype))

    return apply


for _name, _function in _MAPS.items():
    operator(_name)(_map(_function))


@operator("sign", "sgn")
def sign(x: Term) -> Term:
    """-1, 0 or 1; of bools they themselves."""
    return x if x.dtype == "bool" else elementwise("sign", x)


def _rounding(function: str) -> Callable[..., Term]:
    def apply(x: Term) -> Term:
        return elementwise(function, x) if x.dtype in FLOATS else x

    return apply


for _name in ("ceil", "floor"):
    operator(_name)(_rounding(_name))


@operator("round")
def round_(x: Term, decimals: int = 0) -> Term:
    """The nearest integer, or number of so many decimals; of two the even one."""
    if x.dtype not in FLOATS:
        return x
    if not decimals:
        return elementwise("round", x)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return phrases.div(elementwise("round", phrases.mul(x, scale)), scale)
    return phrases.mul(elementwise("round", phrases.div(x, scale)), scale)


@operator("trunc")
def trunc(x: Term) -> Term:
    """The fraction cut off."""
    if x.dtype not in FLOATS:
        return x
    negative = elementwise("less", x, phrases.like(x, 0))
    return select(negative, elementwise("ceil", x), elementwise("floor", x))


@operator("isnan")
def isnan(x: Term) -> Term:
    """Whether an element is no number."""
    if x.dtype not in FLOATS:
        return builders.constant(False, x.shape, "bool")
    return elementwise("is_nan", x)


@operator("isinf")
def isinf(x: Term) -> Term:
    """Whether an element is infinite."""
    if x.dtype not in FLOATS:
        return builders.constant(False, x.shape, "bool")
    return elementwise("is_inf", x)


@operator("erfc")
def erfc(node: Node, x: Term) -> Term:
    """``1 - erf(x)``; what that leaves of values near 0 has the accuracy of 1."""
    return phrases.sub(phrases.like(x, 1), elementwise("erf", builders.cast(x, node.dtype)))


@operator("exp2")
def exp2(node: Node, x: Term) -> Term:
    """2 to the power of ``x``."""
    return elementwise("pow", as_tensor(2, node.dtype), builders.cast(x, node.dtype))


@operator("rsqrt")
def rsqrt(node: Node, x: Term) -> Term:
    """``1 / sqrt(x)``"""
    return elementwise("recip", elementwise("sqrt", builders.cast(x, node.dtype)))


def _log(base: float) -> Callable[..., Term]:
    def apply(node: Node, x: Term) -> Term:
        return phrases.mul(elementwise("log", builders.cast(x, node.dtype)), 1 / math.log(base))

    return apply


operator("log2")(_log(2))
operator("log10")(_log(10))


# --- of two operands ----------------------------------------------------------------------------


def _scaled(node: Node, other: Number, alpha: float) -> Term:
    """``other * alpha`` in the dtype of the result."""
    term = as_tensor(other, node.dtype)
    return term if alpha == 1 else phrases.mul(term, alpha)


@operator("fmax")
def fmax(node: Node, x: Term, other: Term) -> Term:
    """The greater of two elements; a number where the other is none."""
    return _numbered("maximum", node, x, other)


@operator("fmin")
def fmin(node: Node, x: Term, other: Term) -> Term:
    """The lesser of two elements; a number where the other is none."""
    return _numbered("minimum", node, x, other)


def _numbered(function: str, node: Node, x: Term, other: Term) -> Term:
    a, b = as_tensor(x, node.dtype), as_tensor(other, node.dtype)
    either = elementwise(function, a, b)
    if node.dtype not in FLOATS:
        return either
    a, b = phrases.spread(a, node.shape), phrases.spread(b, node.shape)
    return select(elementwise("is_nan", a), b, select(elementwise("is_nan", b), a, either))


@operator("hypot")
def hypot(node: Node, x: Term, other: Term) -> Term:
    """``sqrt(x * x + other * other)``, formed so that no square overflows."""
    a, b = (elementwise("abs", as_tensor(each, node.dtype)) for each in (x, other))
    most, least = elementwise("maximum", a, b), elementwise("minimum", a, b)
    none = elementwise("equal", most, phrases.like(most, 0))
    share = elementwise("div", least, select(none, 1, most))
    return phrases.mul(most, elementwise("sqrt", phrases.add(square(share), 1)))


@operator("add")
def add(node: Node, x: Number, other: Number, alpha: float = 1) -> Term:
    """``x + alpha * other``; of bools the disjunction."""
    if node.dtype == "bool":
        return elementwise("or", *promoted(x, other)) if alpha else as_tensor(x, "bool")
    return elementwise("add", as_tensor(x, node.dtype), _scaled(node, other, alpha))


@operator("sub")
def sub(node: Node, x: Number, other: Number, alpha: float = 1) -> Term:
    """``x - alpha * other``"""
    return elementwise("sub", as_tensor(x, node.dtype), _scaled(node, other, alpha))


@operator("rsub")
def rsub(node: Node, x: Number, other: Number, alpha: float = 1) -> Term:
    """``other - alpha * x``"""
    return sub(node, other, x, alpha)


@operator("mul")
def mul(node: Node, x: Number, other: Number) -> Term:
    """``x * other``; of bools the conjunction."""
    function = "and" if node.dtype == "bool" else "mul"
    return elementwise(function, as_tensor(x, node.dtype), as_tensor(other, node.dtype))


@operator("div")
def div(node: Node, x: Number, other: Number, rounding_mode: str | None = None) -> Term:
    """The quotient, of integers in floats, or rounded to zero (``trunc``) or down (``floor``)."""
    a, b = as_tensor(x, node.dtype), as_tensor(other, node.dtype)
    if rounding_mode == "floor":
        return floor_quotient(a, b)
    quotient = elementwise("div", a, b)
    return trunc(quotient) if rounding_mode == "trunc" else quotient


@operator("floor_divide")
def floor_divide(node: Node, x: Number, other: Number) -> Term:
    """The quotient rounded down."""
    return div(node, x, other, "floor")


def floor_quotient(a: Term, b: Term) -> Term:
    """The quotient rounded down: what is left when the remainder is taken off.

    Rounding the quotient itself would take 1.0 // 0.1 for 10; its remainder is nearly 0.1.
    """
    exact = elementwise("div", elementwise("sub", a, elementwise("mod", a, b)), b)
    if a.dtype not in FLOATS:
        return exact
    none = elementwise("equal", b, phrases.like(b, 0))
    return select(none, elementwise("div", a, b), elementwise("round", exact))


@operator("remainder")
def remainder(node: Node, x: Number, other: Number) -> Term:
    """What division leaves, with the sign of the divisor."""
    return elementwise("mod", as_tensor(x, node.dtype), as_tensor(other, node.dtype))


@operator("fmod")
def fmod(node: Node, x: Number, other: Number) -> Term:
    """What division leaves, with the sign of the dividend."""
    return elementwise("fmod", as_tensor(x, node.dtype), as_tensor(other, node.dtype))


def _extreme(function: str) -> Callable[..., Term]:
    def apply(node: Node, x: Term, other: Term) -> Term:
        return elementwise(function, as_tensor(x, node.dtype), as_tensor(other, node.dtype))

    return apply


for _name in ("maximum", "minimum"):
    operator(_name)(_extreme(_name))


@operator("pow")
def power(node: Node, x: Number, exponent: Number) -> Term:
    """``x`` to the power of ``exponent``."""
    if not isinstance(exponent, Term) and isinstance(x, Term):
        base = builders.cast(x, node.dtype)
        if exponent == 0.5 and node.dtype in FLOATS:
            return elementwise("sqrt", base)
        if exponent == -0.5 and node.dtype in FLOATS:
            return elementwise("recip", elementwise("sqrt", base))
        if exponent in (1, 2, 3):
            result = base
            for _ in range(int(exponent) - 1):
                result = elementwise("mul", result, base)
            return result
    return elementwise("pow", as_tensor(x, node.dtype), as_tensor(exponent, node.dtype))


@operator("atan2")
def atan2(node: Node, x: Term, other: Term) -> Term:
    """The angle of the point (``other``, ``x``)."""
    y, x_ = as_tensor(x, node.dtype), as_tensor(other, node.dtype)
    y, x_ = (phrases.spread(each, node.shape) for each in (y, x_))
    zero = phrases.like(y, 0)
    angle = elementwise("atan", elementwise("div", y, x_))
    below = elementwise("less", y, zero)
    turned = select(below, phrases.sub(angle, math.pi), phrases.add(angle, math.pi))
    upright = phrases.mul(elementwise("sign", y), math.pi / 2)
    result = select(elementwise("less", x_, zero), turned, angle)
    return select(elementwise("equal", x_, zero), upright, result)


_COMPARISONS = {
    "eq": "equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip


def _compared(function: str, x: Number, other: Number) -> Term:
    a, b = promoted(x, other)
    if a.dtype == "bool" and function != "equal":
        a, b = builders.cast(a, "int8"), builders.cast(b, "int8")
    return elementwise(function, a, b)


def _comparison(function: str) -> Callable[..., Term]:
    def apply(x: Number, other: Number) -> Term:
        return _compared(function, x, other)

    return apply


for _name, _function in _COMPARISONS.items():
    operator(_name)(_comparison(_function))


@operator("ne")
def ne(x: Number, other: Number) -> Term:
    """Whether two elements differ."""
    return elementwise("not", _compared("equal", x, other))


def _logical(function: str) -> Callable[..., Term]:
    def apply(x: Term, other: Term) -> Term:
        return elementwise(function, builders.cast(x, "bool"), builders.cast(other, "bool"))

    return apply


def _bitwise(function: str) -> Callable[..., Term]:
    def apply(x: Number, other: Number) -> Term:
        a, b = promoted(x, other)
        return elementwise(function if a.dtype == "bool" else f"bit_{function}", a, b)

    return apply


for _name in ("and", "or", "xor"):
    operator(f"logical_{_name}")(_logical(_name))
    operator(f"bitwise_{_name}")(_bitwise(_name))


@operator("logical_not")
def logical_not(x: Term) -> Term:
    """Whether an element is 0."""
    return elementwise("not", builders.cast(x, "bool"))


@operator("bitwise_not")
def bitwise_not(x: Term) -> Term:
    """Every bit turned."""
    return elementwise("not" if x.dtype == "bool" else "bit_not", x)


def _shift(function: str) -> Callable[..., Term]:
    def apply(x: Number, other: Number) -> Term:
        return elementwise(function, *promoted(x, other))

    return apply


operator("bitwise_left_shift", "__lshift__")(_shift("shift_left"))
operator("bitwise_right_shift", "__rshift__")(_shift("shift_right"))


# --- of three and more --------------------------------------------------------------------------


@operator("where")
def where(node: Node, condition: Term, x: Number, other: Number) -> Term:
    """``x`` where the condition holds, else ``other``."""
    a, b = as_tensor(x, node.dtype), as_tensor(other, node.dtype)
    return select(builders.cast(condition, "bool"), a, b)


@operator("clamp")
def clamp(node: Node, x: Term, min: Number | None = None, max: Number | None = None) -> Term:
    """Every element brought between two bounds; the upper one wins where they cross."""
    result = builders.cast(x, node.dtype)
    if min is not None:
        result = elementwise("maximum", result, as_tensor(min, node.dtype))
    if max is not None:
        result = elementwise("minimum", result, as_tensor(max, node.dtype))
    return result


@operator("hardtanh")
def hardtanh(node: Node, x: Term, min_val: float, max_val: float) -> Term:
    """Every element brought between two bounds."""
    return clamp(node, x, min_val, max_val)


@operator("_to_copy")
def to_copy(x: Term, dtype: str | None = None) -> Term:
    """Every element converted; floats to integers toward zero."""
    return x if dtype is None else builders.cast(x, dtype)


@operator("clone", "alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous")
def same(x: Term) -> Term:
    """The same value."""
    return x


@operator("copy")
def copy(x: Term, src: Term) -> Term:
    """The value of ``src`` in the shape and dtype of ``x``."""
    return phrases.spread(builders.cast(src, x.dtype), x.shape)


@operator("native_dropout")
def native_dropout(input: Term, p: float, train: bool | None) -> Term:
    """The same value; in training elements are dropped at random, which is refused."""
    if not train or not p:
        return input
    raise Refused("drops elements at random, as in training: call .eval() on the module")


# --- activations --------------------------------------------------------------------------------


@operator("gelu")
def gelu(x: Term, approximate: str = "none") -> Term:
    """``x * P(X <= x)`` for a standard normal X, or its approximation by ``tanh``."""
    if approximate == "tanh":
        inner = phrases.mul(x, phrases.add(phrases.mul(square(x), 0.044715), 1))
        share = elementwise("tanh", phrases.mul(inner, math.sqrt(2 / math.pi)))
    else:
        share = elementwise("erf", phrases.mul(x, math.sqrt(0.5)))
    return phrases.mul(phrases.mul(x, 0.5), phrases.add(share, 1))


@operator("silu")
def silu(x: Term) -> Term:
    """``x * sigmoid(x)``"""
    return phrases.mul(x, elementwise("sigmoid", x))


@operator("elu")
def elu(x: Term, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Term:
    """``scale * x`` where positive, else ``scale * alpha * (exp(input_scale * x) - 1)``."""
    inner = phrases.minimum(x if input_scale == 1 else phrases.mul(x, input_scale), 0)
    below = phrases.mul(elementwise("expm1", inner), alpha * scale)
    above = x if scale == 1 else phrases.mul(x, scale)
    return select(elementwise("greater", x, phrases.like(x, 0)), above, below)


@operator("leaky_relu")
def leaky_relu(x: Term, negative_slope: float = 0.01) -> Term:
    """``x`` where it is positive, else times the slope."""
    positive = elementwise("greater", x, phrases.like(x, 0))
    return select(positive, x, phrases.mul(x, negative_slope))


@operator("prelu", "_prelu_kernel")
def prelu(x: Term, weight: Term) -> Term:
    """``x`` where it is positive, else times the slope of its channel (axis 1)."""
    if weight.type.rank == 1 and x.type.rank > 1 and weight.type.size > 1:
        weight = phrases.unsqueeze_to(weight, 1, x.type.rank)
    elif weight.type.size == 1:
        weight = phrases.reshape(weight, ())
    positive = elementwise("greater", x, phrases.like(x, 0))
    return select(positive, x, phrases.mul(x, weight))


@operator("softplus")
def softplus(x: Term, beta: float = 1, threshold: float = 20) -> Term:
    """``log(1 + exp(beta x)) / beta``, and ``x`` where ``beta x`` exceeds the threshold."""
    scaled = x if beta == 1 else phrases.mul(x, beta)
    # Bounded before the power is formed, so that what is not chosen does not overflow either.
    curve = elementwise("log1p", elementwise("exp", phrases.minimum(scaled, threshold)))
    curve = curve if beta == 1 else phrases.mul(curve, 1 / beta)
    return select(elementwise("greater", scaled, phrases.like(scaled, threshold)), x, curve)


@operator("rrelu")
def rrelu(x: Term, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Term:
    """``x`` where it is positive, else times the mean slope; in training slopes are drawn."""
    if training:
        raise Refused("draws slopes at random, as in training: call .eval() on the module")
    return leaky_relu(x, (lower + upper) / 2)
