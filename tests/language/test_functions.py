"""Every function of ``compute`` on every dtype it takes, against plain statements about numbers.

Integers are held against Python's exact integers, wrapped to the dtype; floats against ``math``.
"""

import functools
import math

import ml_dtypes
import numpy as np
import pytest

from glenside.language import DTYPES, FUNCTIONS, builders, evaluate
from glenside.language.shape import FLOATS, INTEGERS, SIGNED

NAN, INF = math.nan, math.inf


def run(function, items, dtype, accumulate=None, outer=0):
    """``compute function`` of an array whose first ``outer`` axes are outer."""
    array = np.asarray(items, dtype)
    term = builders.access(builders.tensor("t", array.shape, dtype), outer)
    term = builders.compute(function, term, accumulate)
    (result,) = evaluate([term], {"t": array})
    assert result.shape == term.shape
    assert result.dtype == term.dtype
    return result


def wrap(number: int, dtype: str) -> int:
    """What two's complement makes of an exact integer."""
    bits = np.dtype(dtype).itemsize * 8
    number %= 1 << bits
    return number - (1 << bits) if dtype in SIGNED and number >> (bits - 1) else number


def samples(dtype: str) -> list:
    """Numbers of a dtype: its extremes and small ones."""
    if dtype == "bool":
        return [False, True]
    if dtype in FLOATS:
        return [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, -7.25, 1e-3, 100.0, INF, -INF, NAN]
    limits = np.iinfo(dtype)
    small = [n for n in (0, 1, 2, 3, 5, 7, 9, 63, -1, -2, -3, -5, -7, -9) if limits.min <= n]
    return [*small, int(limits.max), int(limits.min), int(limits.max) - 1, int(limits.min) + 1]


def expect(actual, expected, dtype) -> None:
    """Equal: exactly for integers and bools, else to a few units in the last place."""
    if dtype not in FLOATS:
        np.testing.assert_array_equal(actual, np.array(expected, dtype))
        return
    with np.errstate(over="ignore"):
        expected = np.array(expected, "float64").astype(dtype)
    eps = float(ml_dtypes.finfo(dtype).eps)
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    np.testing.assert_allclose(actual, expected, rtol=4 * eps, atol=2 * tiny)


# --- maps ---------------------------------------------------------------------------------------


def total(function, poles=()):
    """A function of ``math`` on all floats: nan outside its domain, infinite where it overflows."""
    poles = dict(poles)

    def apply(number):
        if number in poles:
            return poles[number]
        try:
            return function(number)
        except ValueError:
            return NAN
        except OverflowError:
            return INF

    return apply


def rounded(number, how):
    return float(how(number)) if math.isfinite(number) else number


def sinh(number):
    return math.copysign(INF, number) if abs(number) > 700 else math.sinh(number)


def reciprocal(number):
    return math.copysign(INF, number) if number == 0 else 1 / number


def sigmoid(number):
    return 1 / (1 + math.exp(-number)) if number > -700 else math.exp(number)


MAPS_OF_FLOATS = {
    "relu": lambda a: a if math.isnan(a) else max(a, 0.0),
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: a if math.isnan(a) else float((a > 0) - (a < 0)),
    "recip": reciprocal,
    "sqrt": total(math.sqrt),
    "exp": total(math.exp),
    "expm1": total(math.expm1),
    "log": total(math.log, {0.0: -INF}),
    "log1p": total(math.log1p, {-1.0: -INF}),
    "sin": total(math.sin),
    "cos": total(math.cos),
    "tan": total(math.tan),
    "asin": total(math.asin),
    "acos": total(math.acos),
    "atan": total(math.atan),
    "sinh": sinh,
    "cosh": total(math.cosh),
    "asinh": total(math.asinh),
    "acosh": total(math.acosh),
    "atanh": total(math.atanh, {1.0: INF, -1.0: -INF}),
    "tanh": total(math.tanh),
    "sigmoid": sigmoid,
    "erf": total(math.erf),
    "floor": lambda a: rounded(a, math.floor),
    "ceil": lambda a: rounded(a, math.ceil),
    "round": lambda a: rounded(a, round),  # Python's is half to even too.
    "is_nan": math.isnan,
    "is_inf": math.isinf,
}
MAPS_OF_INTEGERS = {
    "relu": lambda a: max(a, 0),
    "neg": lambda a: -a,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "bit_not": lambda a: ~a,
}
MAPS_OF_BOOLS = {"not": lambda a: not a}


def cases(of_floats, of_integers, of_bools):
    return [
        (name, dtype)
        for table, dtypes in ((of_floats, FLOATS), (of_integers, INTEGERS), (of_bools, ["bool"]))
        for name in table
        for dtype in dtypes
    ]


def meaning(name, dtype, of_floats, of_integers, of_bools):
    if dtype in FLOATS:
        return of_floats[name]
    return of_bools[name] if dtype == "bool" else of_integers[name]


MAPS = (MAPS_OF_FLOATS, MAPS_OF_INTEGERS, MAPS_OF_BOOLS)


@pytest.mark.parametrize(("name", "dtype"), cases(*MAPS))
def test_map(name, dtype):
    function = meaning(name, dtype, *MAPS)
    items = np.array(samples(dtype), dtype)
    expected = [function(number) for number in items.tolist()]
    if dtype in INTEGERS:
        expected = [wrap(number, dtype) for number in expected]
    expect(run(name, items, dtype), expected, FUNCTIONS[name].result or dtype)


def test_sigmoid_keeps_the_digits_of_small_values():
    expect(run("sigmoid", [-20.0, -80.0], "float32"), [math.exp(-20), math.exp(-80)], "float32")
    expect(run("sigmoid", [-12.0], "float16"), [math.exp(-12)], "float16")


def test_expm1_and_log1p_keep_the_digits_of_small_values():
    for name in ("expm1", "log1p"):
        expect(run(name, [1e-20, -1e-12], "float32"), [1e-20, -1e-12], "float32")


def test_round_is_half_to_even():
    row = [0.5, 1.5, 2.5, -0.5, -1.5]
    np.testing.assert_array_equal(run("round", row, "float32"), [0, 2, 2, 0, -2])


def test_relu_and_max_propagate_nan():
    assert np.isnan(run("relu", [NAN], "float32"))
    assert np.isnan(run("max", [1.0, NAN], "float32"))
    assert np.isnan(run("min", [1.0, NAN], "float32"))
    assert np.isnan(run("maximum", [1.0, NAN], "float32"))


# --- folds --------------------------------------------------------------------------------------


def divide(a, b):
    if b != 0 or math.isnan(a):
        return a / b if b != 0 else NAN
    return NAN if a == 0 else math.copysign(INF, a) * math.copysign(1, b)


def truncated(a, b):
    if b == 0:
        return 0
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def floored_remainder(a, b):
    """As Python's %: the sign of the divisor."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return NAN
    return a % b


def power(a, b):
    if b >= 0:
        return a**b if abs(a) <= 1 or b < 4096 else pow(a, b, 1 << 64)
    return {1: 1, -1: 1 if b % 2 == 0 else -1}.get(a, 0)


def largest(a, b):
    return NAN if math.isnan(a) or math.isnan(b) else max(a, b)


def smallest(a, b):
    return NAN if math.isnan(a) or math.isnan(b) else min(a, b)


COMPARISONS = {
    "equal": lambda a, b: a == b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
}
FOLDS_OF_FLOATS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "maximum": largest,
    "minimum": smallest,
    "pow": None,  # Below: its special values are IEEE's, which math.pow does not give.
    "mod": floored_remainder,
    "fmod": lambda a, b: NAN if b == 0 or math.isinf(a) else math.fmod(a, b),
    **COMPARISONS,
}
FOLDS_OF_INTEGERS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": truncated,
    "maximum": max,
    "minimum": min,
    "pow": power,
    "mod": lambda a, b: a % b if b else 0,
    "fmod": lambda a, b: a - b * truncated(a, b) if b else 0,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "shift_left": None,  # Below.
    "shift_right": None,
    **COMPARISONS,
}
FOLDS_OF_BOOLS = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "maximum": max,
    "minimum": min,
    "equal": lambda a, b: a == b,
}
FOLDS = (FOLDS_OF_FLOATS, FOLDS_OF_INTEGERS, FOLDS_OF_BOOLS)


@pytest.mark.parametrize(
    ("name", "dtype"), [case for case in cases(*FOLDS) if meaning(*case, *FOLDS)]
)
def test_fold_of_two(name, dtype):
    function = meaning(name, dtype, *FOLDS)
    numbers = np.array(samples(dtype), dtype)
    left, right = (each.ravel() for each in np.meshgrid(numbers, numbers))
    expected = [function(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    result = FUNCTIONS[name].result or dtype
    if result in INTEGERS:
        expected = [wrap(number, dtype) for number in expected]
    expect(run(name, [left, right], dtype), expected, result)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "mod", "fmod"])
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_fold_starts_at_the_left(name, dtype):
    items = np.array([[90, 7], [4, 2], [3, 5]], dtype)
    function = FOLDS_OF_INTEGERS[name]
    expected = [wrap(functools.reduce(function, column), dtype) for column in items.T.tolist()]
    expect(run(name, items, dtype), expected, dtype)


@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS.values() if f.kind == "fold"])
def test_fold_of_one_slice_is_that_slice_and_comparisons_take_two(name):
    function = FUNCTIONS[name]
    dtype = function.domain[-1]
    items = np.array([[0, 1, 1]], dtype)
    if function.arity is None:
        np.testing.assert_array_equal(run(name, items, dtype), items[0])
    else:
        with pytest.raises(ValueError, match=f"compute {name} .* must have length 2"):
            run(name, items, dtype)


def test_fold_along_the_first_item_axis_not_the_outer_ones():
    array = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(run("add", array, "int64", outer=1), array.sum(1))


def test_division_of_integers_rounds_toward_zero_and_by_zero_gives_zero():
    np.testing.assert_array_equal(
        run("div", [[7, -7, 7, -7, 5, -5, -128], [2, 2, -2, -2, 0, 0, -1]], "int8"),
        [3, -3, -3, 3, 0, 0, -128],
    )


def test_mod_has_the_divisors_sign_and_fmod_the_dividends():
    pairs = [[7, -7, 7, -7], [3, 3, -3, -3]]
    for dtype in ("int8", "float32"):
        np.testing.assert_array_equal(run("mod", pairs, dtype), [1, 2, -2, -1])
        np.testing.assert_array_equal(run("fmod", pairs, dtype), [1, -1, 1, -1])


def test_powers_of_integers():
    bases = [2, 2, 1, -1, -1, 0, 0, -2, 3]
    exponents = [3, -1, -5, -5, -4, 0, -1, 7, 5]
    expected = [8, 0, 1, -1, 1, 1, 0, -128, 243 - 256]
    np.testing.assert_array_equal(run("pow", [bases, exponents], "int8"), expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_floats(dtype):
    bases = [2, 2, 0, 0, -8, INF, 1, NAN, 9]
    exponents = [3, -1, 0, -1, 1 / 3, -1, NAN, 0, 0.5]
    expect(run("pow", [bases, exponents], dtype), [8, 0.5, 1, INF, NAN, 0, 1, 1, 3], dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts(dtype):
    bits = np.dtype(dtype).itemsize * 8
    numbers = [n for n in (1, 5, -1, -5, 100) if n > 0 or dtype in SIGNED]
    for number in numbers:
        for by in (0, 1, bits - 1, bits, bits + 1, 127):
            pair = [[number], [by]]
            expect(run("shift_left", pair, dtype), [wrap(number << by, dtype)], dtype)
            expect(run("shift_right", pair, dtype), [number >> by], dtype)


# --- reductions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", INTEGERS)
def test_reductions_of_integers_wrap_around(dtype):
    numbers = np.array(samples(dtype), dtype).reshape(2, -1)
    exact = numbers.tolist()
    flat = exact[0] + exact[1]
    expect(run("sum", numbers, dtype), wrap(sum(flat), dtype), dtype)
    expect(run("prod", numbers[:, 1:4], dtype), wrap(_product(numbers[:, 1:4]), dtype), dtype)
    expect(run("max", numbers, dtype), max(flat), dtype)
    expect(run("min", numbers, dtype), min(flat), dtype)
    dot = sum(a * b for a, b in zip(*exact, strict=True))
    expect(run("dot", numbers, dtype), wrap(dot, dtype), dtype)


def _product(array):
    return math.prod(array.ravel().tolist())


@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions_of_floats(dtype):
    items = np.array([[1.5, -2.0, 4.0], [0.5, 3.0, -1.0]], dtype)
    expect(run("sum", items, dtype), 6.0, dtype)
    expect(run("prod", items, dtype), 18.0, dtype)
    expect(run("mean", items, dtype), 1.0, dtype)
    expect(run("max", items, dtype), 4.0, dtype)
    expect(run("min", items, dtype), -2.0, dtype)
    expect(run("dot", items, dtype), 0.75 - 6 - 4, dtype)


def test_reductions_of_bools():
    assert run("max", [False, True], "bool")
    assert not run("min", [False, True], "bool")


def test_dot_multiplies_along_the_first_item_axis_whatever_its_length():
    array = np.arange(1, 13).reshape(3, 2, 2)
    assert run("dot", array, "int64") == 780
    assert run("dot", [2, 3, 4], "int64") == 24
    assert run("dot", [[2, 3, 4]], "int64") == 9
    np.testing.assert_array_equal(
        run("dot", array, "int64", outer=1), (array[:, 0] * array[:, 1]).sum(1)
    )


def test_a_reduction_over_no_axes_changes_nothing():
    array = np.array([[1, 2], [3, 4]])
    for name in ("sum", "prod", "max", "min"):
        np.testing.assert_array_equal(run(name, array, "int8", outer=2), array)


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_items_give_the_neutral_element(dtype):
    empty = np.zeros((2, 0), dtype)
    if dtype != "bool":
        np.testing.assert_array_equal(run("sum", empty, dtype, outer=1), [0, 0])
        np.testing.assert_array_equal(run("prod", empty, dtype, outer=1), [1, 1])
        assert run("dot", empty, dtype) == 0  # Two factors, no products to sum.
        assert run("dot", empty.T, dtype) == 2  # No factors, two empty products.
    bounds = (-INF, INF) if dtype in FLOATS else (False, True)
    if dtype in INTEGERS:
        bounds = (np.iinfo(dtype).min, np.iinfo(dtype).max)
    np.testing.assert_array_equal(run("max", empty, dtype, outer=1), [bounds[0]] * 2)
    np.testing.assert_array_equal(run("min", empty, dtype, outer=1), [bounds[1]] * 2)
    if dtype in FLOATS:
        assert np.isnan(run("mean", empty, dtype, outer=1)).all()
        assert run("softmax", empty, dtype, outer=1).shape == (2, 0)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_no_items_at_all_are_no_problem(function):
    for dtype in function.domain:
        result = run(function.name, np.zeros((0, 2), dtype), dtype, outer=1)
        assert result.size == 0


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_argmax_and_argmin_give_the_first_of_equals(dtype):
    items = np.array([[1, 5, 0, 5], [3, 0, 7, 0]], dtype)
    np.testing.assert_array_equal(run("argmax", items, dtype, outer=1), [1, 2])
    np.testing.assert_array_equal(run("argmin", items, dtype, outer=1), [2, 1])


def test_softmax():
    row = [1.0, 2.0, 3.0]
    expected = [math.exp(a) / sum(map(math.exp, row)) for a in row]
    for dtype in FLOATS:
        expect(run("softmax", row, dtype), expected, dtype)


def test_softmax_does_not_overflow():
    np.testing.assert_array_equal(run("softmax", [1000.0, 1000.0], "float32"), [0.5, 0.5])
    np.testing.assert_array_equal(run("softmax", [-INF, 0.0], "float32"), [0, 1])
    large = np.zeros(2**17, "float16")
    np.testing.assert_allclose(run("softmax", large, "float16"), 2.0**-17, rtol=0.01)


# --- accumulation -------------------------------------------------------------------------------


def test_int8_products_accumulate_in_int32():
    items = np.full((2, 1000), 127, "int8")
    assert run("dot", items, "int8", "int32") == 127 * 127 * 1000
    assert run("sum", items, "int8", "int64") == 127 * 2000
    assert run("prod", items[:, :2], "int8", "int64") == 127**4
    assert run("dot", items, "int8") == wrap(127 * 127 * 1000, "int8")


def test_operands_are_cast_before_they_are_multiplied():
    assert run("dot", [[300.0], [300.0]], "float16", "float32") == 90000
    assert run("dot", [[2.5], [2.5]], "float32", "int32") == 4
    assert run("dot", [[300], [1]], "int32", "uint8") == 44
    assert run("mean", [60000.0, 60000.0], "float16", "float64") == 60000


def test_float16_is_rounded_once_at_the_end():
    # The partial sums pass 65,504, the largest float16; the result does not.
    assert run("sum", [60000.0, 60000.0, -60000.0], "float16") == 60000
    assert run("mean", [60000.0, 60000.0], "float16") == 60000
    assert run("prod", [300.0, 300.0, 0.5, 0.5], "float16") == 22496  # 22500 in float16
    assert run("dot", [[300.0, 300.0], [300.0, -299.0]], "float16") == 300
    assert run("mean", np.ones(100_000), "float16") == 1
    assert run("sum", np.ones(4096), "float16") == 4096
    assert run("sum", [60000.0, 60000.0], "float16") == INF


# --- completeness -------------------------------------------------------------------------------


def test_every_function_is_held_against_a_statement_on_every_dtype_it_takes():
    stated = {*cases(*MAPS), *cases(*FOLDS)}
    declared = {
        (function.name, dtype)
        for function in FUNCTIONS.values()
        if function.kind in ("map", "fold")
        for dtype in function.domain
    }
    assert stated == declared
    others = {name for name, function in FUNCTIONS.items() if function.kind in ("reduce", "vector")}
    assert others == {"dot", "sum", "prod", "mean", "max", "min", "argmax", "argmin", "softmax"}
