"""The functions of ``compute`` on one element, as TIR expressions.

Each agrees with the NumPy meaning in ``glenside.language.functions``, corner cases included: NaN
passes through maxima, integer division truncates and never traps, shifts by the width or more are
defined. float16 is computed in float32 and rounded once. ``bool`` lives in memory as ``uint8`` 0/1
and is a TIR ``bool`` only inside an expression. bfloat16, which few compilers know, lives in memory
as the ``uint16`` of its bits and is in expressions a float32 whose lower 16 bits are 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glenside.errors import GlensideError
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import (
    BFLOAT16,
    FLOATS,
    HALVES,
    SIGNED,
    UNSIGNED,
    highest,
    lowest,
)

Expr = Any
"""A TIR expression."""


def storage_dtype(dtype: str) -> str:
    """The dtype a buffer of ``dtype`` has in TIR."""
    return {"bool": "uint8", "bfloat16": "uint16"}.get(dtype, dtype)


def value_dtype(dtype: str) -> str:
    """The dtype an expression of ``dtype`` has in TIR."""
    return "float32" if dtype == "bfloat16" else dtype


def itemsize(dtype: str) -> int:
    """Bytes of an element."""
    return np.dtype(storage_dtype(dtype)).itemsize


def wide(dtype: str) -> str:
    """The dtype in which arithmetic on ``dtype`` is done."""
    return "float32" if dtype in HALVES else dtype


def const(value: Any, dtype: str) -> Expr:
    """A constant; booleans as TIR bools. Infinities and NaN keep their bits."""
    from tvm import tirx

    if dtype == "bool":
        return tirx.const(bool(value), "bool")
    if dtype == "bfloat16":
        with np.errstate(over="ignore"):
            value, dtype = np.float32(value).astype(BFLOAT16), "float32"
    if dtype in FLOATS:
        return tirx.FloatImm(dtype, float(value))
    return tirx.const(int(value), dtype)


def convert(value: Expr, source: str, target: str) -> Expr:
    """``numpy.astype`` of one element: anything to bool as ``!= 0``, floats to ints toward zero."""
    from tvm import tirx

    if source == target:
        return value
    if source == "bfloat16":
        return convert(value, "float32", target)
    if target == "bfloat16":
        return rounded(convert(value, source, "float32"))
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        # TVM refuses to make an unsigned constant of a negative one.
        with np.errstate(all="ignore"):
            return const(np.array(value.value).astype(source).astype(target).item(), target)
    if target == "bool" and source in FLOATS:
        # By the bits: NaN is not 0, which LLVM's ordered comparison does not say.
        magnitude, whole = _magnitude(value, source)
        return tirx.NE(magnitude, const(0, whole))
    if target == "bool":
        return tirx.NE(value, const(0, source))
    if source == "bool":
        return value.astype(target)
    if target in UNSIGNED and source != "bool" and source not in UNSIGNED:
        # By way of the signed type of that width: TVM refuses to fold a negative constant.
        signed = convert(value, source, target[1:])
        result = tirx.reinterpret(target, signed)
        if source in ("float32", "float64") and target == "uint64":
            limit = const(2.0**63, source)  # What is above is brought into the signed range.
            high = tirx.reinterpret(target, (value - limit).astype("int64")) + const(2**63, target)
            return tirx.Select(tirx.LT(value, limit), result, high)
        if source in FLOATS and target == "uint32":
            return tirx.reinterpret("uint64", value.astype("int64")).astype(target)
        return result
    if source in FLOATS and target in ("int8", "int16"):
        # Through a wider integer, so that what does not fit wraps around as NumPy does.
        return value.astype("int32").astype(target)
    return value.astype(target)


def rounded(value: Expr) -> Expr:
    """A float32 as the nearest bfloat16, ties to even; NaN and infinities are kept."""
    from tvm import tirx

    if isinstance(value, tirx.FloatImm):
        return const(float(value.value), "bfloat16")
    whole = tirx.Var(_ROUNDED, "float32")
    bits = tirx.reinterpret("uint32", whole)
    odd = tirx.bitwise_and(tirx.shift_right(bits, const(16, "uint32")), const(1, "uint32"))
    nearest = bits + (const(0x7FFF, "uint32") + odd)
    quiet = tirx.bitwise_or(bits, const(0x400000, "uint32"))
    kept = tirx.Select(is_nan(whole, "float32"), quiet, nearest)
    cut = tirx.bitwise_and(kept, const(0xFFFF0000, "uint32"))
    return tirx.Let(whole, value, tirx.reinterpret("float32", cut))


_ROUNDED = "whole"
"""The name that :func:`rounded` gives to what it rounds."""


def unrounded(value: Expr) -> Expr | None:
    """What :func:`rounded` made the expression of; None where it is another one."""
    from tvm import tirx

    if isinstance(value, tirx.Let) and str(value.var.name) == _ROUNDED:
        return value.value
    return None


def unloaded(value: Expr) -> Expr | None:
    """The load whose bits :func:`loaded` made a bfloat16 of; None for other expressions."""
    if not str(getattr(getattr(value, "op", None), "name", "")).endswith("reinterpret"):
        return None
    shift = value.args[0]
    cast = getattr(shift, "a", None) if type(shift).__name__ == "LShift" else None
    load: Any = getattr(cast, "value", None)
    held = type(load).__name__ == "TensorLoad" and str(load.ty) == "uint16"
    return load if held else None


def stored(value: Expr, dtype: str) -> Expr:
    """A value of ``dtype`` as memory holds it."""
    from tvm import tirx

    if dtype != "bfloat16":
        return convert(value, dtype, storage_dtype(dtype))
    if isinstance(value, tirx.FloatImm):
        bits = np.float32(value.value).view(np.uint32)
        return tirx.const(int(bits) >> 16, "uint16")
    bits = tirx.reinterpret("uint32", value)
    return tirx.shift_right(bits, const(16, "uint32")).astype("uint16")


def loaded(value: Expr, dtype: str) -> Expr:
    """The value of ``dtype`` that memory holds so."""
    from tvm import tirx

    if dtype == "bool":
        return tirx.NE(value, tirx.const(0, "uint8"))
    if dtype == "bfloat16":
        bits = tirx.shift_left(value.astype("uint32"), const(16, "uint32"))
        return tirx.reinterpret("float32", bits)
    return value


def is_nan(value: Expr, dtype: str) -> Expr:
    """Looks at the bits: TVM's simplifier takes ``x != x`` to be false."""
    from tvm import tirx

    return tirx.GT(*_magnitude_and(_infinity(dtype), value, dtype))


def _infinity(dtype: str) -> int:
    """The bits of infinity in the dtype that :func:`_magnitude` looks at."""
    return 0x7FF0000000000000 if dtype == "float64" else 0x7F800000


def _magnitude_and(bits: int, value: Expr, dtype: str) -> tuple[Expr, Expr]:
    """The bits of a float but its sign, and others to compare them with."""
    magnitude, whole = _magnitude(value, dtype)
    return magnitude, const(bits, whole)


def _magnitude(value: Expr, dtype: str) -> tuple[Expr, str]:
    """The bits of a float but its sign, and the dtype of that integer."""
    from tvm import tirx

    if dtype == "float64":
        bits = tirx.reinterpret("uint64", value)
        return tirx.bitwise_and(bits, const(2**63 - 1, "uint64")), "uint64"
    bits = tirx.reinterpret("int32", convert(value, dtype, "float32"))
    return tirx.bitwise_and(bits, const(0x7FFFFFFF, "int32")), "int32"


def maximum(a: Expr, b: Expr, dtype: str) -> Expr:
    """The greater; NaN if either is."""
    return _extreme(a, b, dtype, greater=True)


def minimum(a: Expr, b: Expr, dtype: str) -> Expr:
    """The lesser; NaN if either is."""
    return _extreme(a, b, dtype, greater=False)


def _extreme(a: Expr, b: Expr, dtype: str, *, greater: bool) -> Expr:
    from tvm import tirx

    if dtype == "bool":
        return tirx.Or(a, b) if greater else tirx.And(a, b)
    if isinstance(b, tirx.FloatImm) and not math.isnan(b.value):
        # As _relu: one vmaxps. TVM expands names where it simplifies, so it counts that a stands
        # here only twice.
        return tirx.Select(tirx.LE(a, b) if greater else tirx.GE(a, b), b, a)
    wins = tirx.GT(a, b) if greater else tirx.LT(a, b)
    if dtype in FLOATS:
        wins = tirx.Or(wins, is_nan(a, dtype))
    return tirx.Select(wins, a, b)


Name = Callable[[Expr, str], Expr]
"""Binds an expression of a dtype to a variable, so that it is computed once."""


def combine(function: str, a: Expr, b: Expr, dtype: str, name: Name) -> Expr:
    """One step of a fold; comparisons give a TIR bool."""
    if dtype in HALVES:
        same = a.same_as(b)
        a = convert(a, dtype, "float32")
        b = a if same else convert(b, dtype, "float32")
        result = combine(function, a, b, "float32", name)
        declared = FUNCTIONS[function]
        if declared.result == "bool":
            return result
        if declared.exact:
            return result if dtype == "bfloat16" else result.astype(dtype)
        return convert(result, "float32", dtype)
    if function == "pow" and dtype not in FLOATS:
        return _integer_power(a, b, dtype, name)
    if function in ("mod", "fmod"):
        return _remainder(a, b, dtype, name, floored=function == "mod")
    if function in _FOLDS:
        return _FOLDS[function](a, b, dtype)
    return libm(_in_library(function), dtype, a, b)


def apply(function: str, a: Expr, dtype: str) -> Expr:
    """A map function."""
    exact = FUNCTIONS[function].exact
    if dtype == "bfloat16":
        result = apply(function, a, "float32")
        return result if exact else rounded(result)
    if dtype == "float16" and not exact:
        return apply(function, a.astype("float32"), "float32").astype("float16")
    if function in _MAPS:
        return _MAPS[function](a, dtype)
    return libm(_in_library(function), dtype, a)


def _in_library(function: str) -> str:
    """What C's library calls a function that needs no form of its own."""
    name = FUNCTIONS[function].libm
    if name is None:
        raise GlensideError(
            f"compute {function}: no code can be generated for it, since it is declared without "
            "the name (libm) of a function of C's mathematical library"
        )
    return name


# --- folds --------------------------------------------------------------------------------------


def _divide(a: Expr, b: Expr, dtype: str) -> Expr:
    from tvm import tirx

    if dtype in FLOATS:
        if isinstance(b, tirx.FloatImm) and b.value == 0:
            # TVM refuses to divide by a literal zero; this gives the same for every number.
            return _times(a, const(math.copysign(math.inf, b.value), dtype), dtype)
        if isinstance(a, tirx.FloatImm) and a.value == 0:
            # Nor does the simplifier's 0 / x = 0 hold of zero and NaN.
            above = tirx.GT(*_magnitude_and(0, b, dtype))
            number = tirx.LE(*_magnitude_and(_infinity(dtype), b, dtype))
            return _zero_where(tirx.And(above, number), b, a.value, dtype)
        return tirx.Div(a, b)
    # Without selects: the simplifier would move the division out of its guard.
    safe, zero, minus = _safe_divisor(b, dtype)
    factor = const(1, dtype) - zero
    if minus is not None:
        factor = factor - minus - minus
    return tirx.truncdiv(a, safe) * factor


def _safe_divisor(b: Expr, dtype: str) -> tuple[Expr, Expr, Expr | None]:
    """``b`` with 0 and -1 made 1, and 1 where it was 0 and -1: the minimum by -1 traps on x86."""
    from tvm import tirx

    zero = tirx.EQ(b, const(0, dtype)).astype(dtype)
    if dtype not in SIGNED:
        return b + zero, zero, None
    minus = tirx.EQ(b, const(-1, dtype)).astype(dtype)
    return b + zero + minus + minus, zero, minus


def _remainder(a: Expr, b: Expr, dtype: str, name: Name, *, floored: bool) -> Expr:
    from tvm import tirx

    if dtype in FLOATS:
        rest = name(libm("fmod", dtype, a, b), dtype)
        if not floored:
            return rest
        wrong = _signs_differ(rest, b, dtype)
        return tirx.Select(wrong, rest + b, rest)
    safe, no, minus = _safe_divisor(b, dtype)
    kept = const(1, dtype) - no if minus is None else const(1, dtype) - no - minus
    rest = tirx.truncmod(a, safe) * kept
    if floored and dtype in SIGNED:
        rest = name(rest, dtype)
        return rest + _signs_differ(rest, b, dtype).astype(dtype) * b
    return rest


def _signs_differ(a: Expr, b: Expr, dtype: str) -> Expr:
    """Whether one is below and the other above zero."""
    from tvm import tirx

    zero = const(0, dtype)
    return tirx.Or(
        tirx.And(tirx.LT(a, zero), tirx.GT(b, zero)), tirx.And(tirx.GT(a, zero), tirx.LT(b, zero))
    )


def _times(a: Expr, b: Expr, dtype: str) -> Expr:
    """The simplifier takes ``x * 0`` to be 0, which it is not of NaN and infinities."""
    from tvm import tirx

    for zero, other in ((b, a), (a, b)):
        if isinstance(zero, tirx.FloatImm) and zero.value == 0:
            finite = tirx.LT(*_magnitude_and(_infinity(dtype), other, dtype))
            return _zero_where(finite, other, zero.value, dtype)
    return tirx.Mul(a, b)


def _minus(a: Expr, b: Expr, dtype: str) -> Expr:
    """The simplifier takes ``x - x`` to be 0, which it is not of NaN and infinities."""
    from tvm import tirx

    if dtype in FLOATS and a.same_as(b):
        finite = tirx.LT(*_magnitude_and(_infinity(dtype), a, dtype))
        return tirx.Select(finite, const(0, dtype), const(math.nan, dtype))
    return tirx.Sub(a, b)


def _zero_where(holds: Expr, a: Expr, zero: float, dtype: str) -> Expr:
    """A zero with the sign of ``a`` times that of ``zero`` where something holds, else NaN."""
    from tvm import tirx

    whole, sign = ("uint64", 2**63) if dtype == "float64" else ("uint32", 2**31)
    bits = tirx.bitwise_and(tirx.reinterpret(whole, a), const(sign, whole))
    if math.copysign(1.0, zero) < 0:
        bits = tirx.bitwise_xor(bits, const(sign, whole))
    return tirx.Select(holds, tirx.reinterpret(dtype, bits), const(math.nan, dtype))


def _power(a: Expr, b: Expr, dtype: str) -> Expr:
    from tvm import tirx

    if isinstance(b, tirx.FloatImm) and float(b.value) in (0.5, 0.75, 1.0, 2.0):
        return _simple_power(a, float(b.value), dtype)
    return libm("pow", dtype, a, b)


def _integer_power(a: Expr, b: Expr, dtype: str, name: Name) -> Expr:
    """Square and multiply over the bits of the exponent; products wrap around."""
    from tvm import tirx

    one, zero = const(1, dtype), const(0, dtype)
    result, square = one, a
    bits = int("".join(c for c in dtype if c.isdigit())) - (dtype in SIGNED)
    for bit in range(bits):
        odd = tirx.bitwise_and(tirx.shift_right(b, const(bit, dtype)), one)
        # Arithmetic, not a select: one less condition for TVM to reason about.
        result = name(result * (one + odd * (square - one)), dtype)
        square = name(square * square, dtype)
    if dtype not in SIGNED:
        return result
    # A negative exponent leaves 1, -1 or 0.
    odd = tirx.NE(tirx.bitwise_and(b, one), zero)
    signed = tirx.Select(odd, const(-1, dtype), one)
    unit = tirx.Select(tirx.EQ(a, const(-1, dtype)), signed, zero)
    return tirx.Select(tirx.LT(b, zero), tirx.Select(tirx.EQ(a, one), one, unit), result)


def _simple_power(a: Expr, exponent: float, dtype: str) -> Expr:
    from tvm import tirx

    if exponent == 1.0:
        return a
    if exponent == 2.0:
        return a * a
    root = tirx.sqrt(a)
    if exponent == 0.5:
        # pow(-0.0, 0.5) is +0.0 and pow(-inf, 0.5) is inf.
        return tirx.Select(tirx.EQ(a, const(float("-inf"), dtype)), const(float("inf"), dtype),
                           root + const(0.0, dtype))  # fmt: skip
    # a**0.75 = sqrt(a) * sqrt(sqrt(a)): two correctly rounded roots instead of a libm call.
    power = root * tirx.sqrt(root) + const(0.0, dtype)
    return tirx.Select(tirx.EQ(a, const(float("-inf"), dtype)), const(float("inf"), dtype), power)


def _shift(a: Expr, b: Expr, dtype: str, *, left: bool) -> Expr:
    from tvm import tirx

    width = int("".join(c for c in dtype if c.isdigit()))
    zero = const(0, dtype)
    # No bit of the amount above the width's: one test for both bounds, also for unsigned types.
    high = const(~(width - 1) if dtype in SIGNED else 2**width - width, dtype)
    inside = tirx.EQ(tirx.bitwise_and(b, high), zero)
    amount = tirx.Select(inside, b, zero)
    shifted = tirx.shift_left(a, amount) if left else tirx.shift_right(a, amount)
    gone = zero
    if not left and dtype in SIGNED:
        gone = tirx.Select(tirx.LT(a, zero), const(-1, dtype), zero)
    return tirx.Select(inside, shifted, gone)


def _binary(name: str) -> Callable[[Expr, Expr, str], Expr]:
    def build(a: Expr, b: Expr, dtype: str) -> Expr:
        from tvm import tirx

        return getattr(tirx, name)(a, b)

    return build


def _compare(name: str) -> Callable[[Expr, Expr, str], Expr]:
    def build(a: Expr, b: Expr, dtype: str) -> Expr:
        from tvm import tirx

        if dtype == "bool":
            a, b = convert(a, "bool", "uint8"), convert(b, "bool", "uint8")
        if dtype in FLOATS and a.same_as(b) and name in ("EQ", "LE", "GE"):
            return tirx.Not(is_nan(a, dtype))  # The simplifier takes x == x to be true.
        return getattr(tirx, name)(a, b)

    return build


def _xor(a: Expr, b: Expr, dtype: str) -> Expr:
    from tvm import tirx

    return tirx.NE(a.astype("uint8"), b.astype("uint8"))


_FOLDS: dict[str, Callable[[Expr, Expr, str], Expr]] = {
    "add": _binary("Add"),
    "sub": _minus,
    "mul": _times,
    "div": _divide,
    "maximum": maximum,
    "minimum": minimum,
    "pow": _power,
    "and": _binary("And"),
    "or": _binary("Or"),
    "xor": _xor,
    "bit_and": _binary("bitwise_and"),
    "bit_or": _binary("bitwise_or"),
    "bit_xor": _binary("bitwise_xor"),
    "shift_left": lambda a, b, dtype: _shift(a, b, dtype, left=True),
    "shift_right": lambda a, b, dtype: _shift(a, b, dtype, left=False),
    "equal": _compare("EQ"),
    "less": _compare("LT"),
    "less_equal": _compare("LE"),
    "greater": _compare("GT"),
    "greater_equal": _compare("GE"),
}


# --- maps ---------------------------------------------------------------------------------------


def libm(name: str, dtype: str, *arguments: Expr) -> Expr:
    """A function of the C mathematical library."""
    from tvm import tirx

    return tirx.call_pure_extern(dtype, name if dtype == "float64" else name + "f", *arguments)


def _relu(a: Expr, dtype: str) -> Expr:
    from tvm import tirx

    # This order lets NaN through and is one vmaxps.
    return tirx.Select(tirx.GT(const(0, dtype), a), const(0, dtype), a)


def _sign(a: Expr, dtype: str) -> Expr:
    from tvm import tirx

    zero = const(0, dtype)
    below = const(-1, dtype) if dtype in SIGNED + FLOATS else zero
    result = tirx.Select(tirx.GT(a, zero), const(1, dtype), zero)
    result = tirx.Select(tirx.LT(a, zero), below, result)
    return tirx.Select(is_nan(a, dtype), a, result) if dtype in FLOATS else result


def _abs(a: Expr, dtype: str) -> Expr:
    from tvm import tirx

    if dtype in FLOATS:
        return tirx.Select(tirx.LE(a, const(0, dtype)), const(0, dtype) - a, a)
    return tirx.Select(tirx.LT(a, const(0, dtype)), const(0, dtype) - a, a)


def _neg(a: Expr, dtype: str) -> Expr:
    from tvm import tirx

    if dtype in FLOATS:
        return a * const(-1, dtype)
    return tirx.bitwise_not(a) + const(1, dtype)


def _sigmoid(a: Expr, dtype: str) -> Expr:
    half = const(0.5, dtype)
    return half * libm("tanh", dtype, half * a) + half


def _rounding(name: str) -> Callable[[Expr, str], Expr]:
    def build(a: Expr, dtype: str) -> Expr:
        from tvm import tirx

        return getattr(tirx, name)(a)

    return build


def _is_inf(a: Expr, dtype: str) -> Expr:
    from tvm import tirx

    infinity = float("inf")
    return tirx.Or(tirx.EQ(a, const(infinity, dtype)), tirx.EQ(a, const(-infinity, dtype)))


def _bit_not(a: Expr, dtype: str) -> Expr:
    from tvm import tirx

    return tirx.bitwise_not(a)


def _not(a: Expr, dtype: str) -> Expr:
    from tvm import tirx

    return tirx.Not(a)


_MAPS: dict[str, Callable[[Expr, str], Expr]] = {
    "relu": _relu,
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "not": _not,
    "bit_not": _bit_not,
    "recip": lambda a, dtype: _divide(const(1, dtype), a, dtype),
    "sqrt": _rounding("sqrt"),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "round": _rounding("nearbyint"),
    "sigmoid": _sigmoid,
    "is_nan": is_nan,
    "is_inf": _is_inf,
}
"""Functions that are more, or faster, than a call of C's library."""


# --- reductions ---------------------------------------------------------------------------------


def identity(function: str, dtype: str) -> Expr:
    """The start value of a reduction."""
    if function == "max":
        return const(lowest(dtype), dtype)
    if function == "min":
        return const(highest(dtype), dtype)
    return const(1 if function == "prod" else 0, dtype)


def accumulate(function: str, total: Expr, value: Expr, dtype: str) -> Expr:
    """One step of a reduction."""
    if function == "max":
        return maximum(total, value, dtype)
    if function == "min":
        return minimum(total, value, dtype)
    return total * value if function == "prod" else total + value


def mean(total: Expr, count: int, dtype: str) -> Expr:
    """The mean of ``count`` numbers that add up to ``total``: nan of none, as NumPy and ONNX say
    (TVM refuses to divide by zero)."""
    return total / const(count, dtype) if count else const(math.nan, dtype)
