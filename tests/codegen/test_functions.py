"""Every function of ``compute`` on every dtype it takes, special values included."""

from __future__ import annotations

import numpy as np
import pytest

from glenside.codegen.compile import compile_terms
from glenside.language import FUNCTIONS, Term, evaluate
from glenside.language.builders import (
    access,
    cast,
    compute,
    constant,
    elementwise,
    gather,
    pair,
    tensor,
    where,
)
from glenside.language.shape import DTYPES, FLOATS, is_float
from tests.codegen.codegen_help import TOLERANCE, compare, leaves
from tests.codegen.gpu.device_help import compiled
from tests.codegen.programs import renamed, terms_of, values_for

FUNCTION_NAMES = list(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTION_NAMES)
def test_function(name):
    """All dtypes at once: one compilation a function."""
    outputs: list[Term] = []
    inputs: dict[str, np.ndarray] = {}
    for number, dtype in enumerate(FUNCTIONS[name].domain):
        for term in terms_of(name, dtype):
            outputs.append(renamed(term, dtype))
        for leaf, t in leaves(outputs).items():
            inputs.setdefault(leaf, values_for(name, t.dtype, t.shape, number + (leaf[0] == "b")))
    with np.errstate(all="ignore"):
        expected = evaluate(outputs, inputs)
    program = compile_terms(outputs, leaves(outputs), {}, threads=2)
    for got, wanted, term in zip(program.run(inputs), expected, outputs, strict=True):
        source = term.children[0].dtype
        compare(got, wanted, TOLERANCE.get(source) if is_float(wanted.dtype) else None)


@pytest.mark.parametrize("source", DTYPES)
def test_cast(source):
    a = tensor("a", (3, 21), source)
    outputs = [cast(a, dtype) for dtype in DTYPES]
    rng = np.random.default_rng(0)
    values = rng.integers(0 if source.startswith("u") or source == "bool" else -7, 9, (3, 21))
    inputs = {"a": (values / 2 if source in FLOATS else values).astype(source)}
    program = compile_terms(outputs, leaves(outputs), {}, threads=1)
    with np.errstate(all="ignore"):
        expected = evaluate(outputs, inputs)
    for got, wanted, term in zip(program.run(inputs), expected, outputs, strict=True):
        if source in FLOATS and term.dtype.startswith("u"):
            keep = inputs["a"] > -1  # C leaves the rest open.
            got, wanted = got[keep], wanted[keep]
        compare(got, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_and_gather(dtype):
    a, b = tensor("a", (4, 9), dtype), tensor("b", (4, 9), dtype)
    chosen = where(tensor("c", (4, 9), "bool"), a, b)
    taken = gather(a, tensor("i", (2, 3), "int64"), 1)
    rng = np.random.default_rng(3)
    inputs = {
        "a": rng.integers(0, 2, (4, 9)).astype(dtype),
        "b": rng.integers(0, 2, (4, 9)).astype(dtype),
        "c": rng.integers(0, 2, (4, 9)).astype(bool),
        "i": np.array([[0, -1, 8], [-9, 3, 3]]),
    }
    program = compile_terms([chosen, taken], leaves([chosen, taken]), {})
    got = program.run(inputs)
    compare(got[0], np.where(inputs["c"], inputs["a"], inputs["b"]))
    compare(got[1], np.take(inputs["a"], inputs["i"], axis=1))


def test_softmax_of_large_numbers_is_finite():
    x = tensor("x", (3, 50))
    values = np.linspace(-1e4, 1e4, 150, dtype="float32").reshape(3, 50)
    program = compile_terms([compute("softmax", access(x, 1))], {"x": x.type}, {})
    (got,) = program.run({"x": values})
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-5)


def test_a_value_used_many_times_does_not_multiply_the_code():
    x = tensor("x", (40,))
    y = access(x, 0)
    for _ in range(30):
        y = compute("mul", pair(compute("sigmoid", y), y))
    program = compile_terms([y], {"x": x.type}, {})
    values = np.linspace(-2, 2, 40, dtype="float32")
    compare(program.run({"x": values})[0], evaluate([y], {"x": values})[0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_what_holds_of_numbers_but_not_of_nan_and_infinity(dtype):
    """0 x, x - x, x / 0 and 0 / x, which TVM takes to be 0 or refuses to compile."""
    x = tensor("x", (2, 4), dtype)
    none, less, ratio = (constant(value, (2, 4), dtype) for value in (0.0, -0.0, 3.0))
    terms = [
        *(elementwise("mul", *pair) for pair in ((x, none), (less, x), (ratio, none))),
        *(elementwise("div", *pair) for pair in ((x, none), (x, less), (none, x), (less, x))),
        elementwise("recip", elementwise("mul", x, less)),
        elementwise("sub", x, x),
        elementwise("div", x, elementwise("abs", elementwise("sub", x, x))),
        elementwise("maximum", elementwise("mul", x, none), x),
    ]
    values = np.array([[0.0, -0.0, 1.5, -2.0], [np.nan, np.inf, -np.inf, 1e-40]]).astype(dtype)
    with np.errstate(all="ignore"):
        want = evaluate(terms, {"x": values})
    made = [compile_terms(terms, {"x": x.type}, {}, threads=1).run({"x": values})]
    pytest.importorskip("pyopencl")
    made.append(compiled(terms, {}).run({"x": values}))
    for got in made:
        for term, one, right in zip(terms, got, want, strict=True):
            one, right = (each.astype("float64") for each in (one, right))
            np.testing.assert_array_equal(one, right, err_msg=str(term))
            assert ((np.signbit(one) == np.signbit(right)) | np.isnan(right)).all(), term


def test_integer_division_by_zero_does_not_stop_the_process():
    a, b = tensor("a", (4,), "int32"), constant(0, (4,), "int32")
    outputs = [elementwise(name, a, b) for name in ("div", "mod", "fmod")]
    program = compile_terms(outputs, {"a": a.type}, {})
    values = np.array([1, -5, 0, np.iinfo("int32").min], "int32")
    assert all(result.shape == (4,) for result in program.run({"a": values}))
