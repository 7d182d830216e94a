"""Elementwise chains of any length compile to code of a length linear in theirs."""

import itertools

import numpy as np
import pytest

from glenside.codegen.compile import compile_terms
from glenside.frontends.lowering import phrases
from glenside.hw_targets.registry import find_target
from glenside.language import topological_order
from glenside.language.builders import access, compute, pad, slice_, tensor

SIZE = 20
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0]


def fold(function, value):
    return lambda x: phrases.elementwise(function, x, phrases.like(x, value))


def relu(a):
    return np.where(a < 0, np.float32(0), a)


STEPS = {
    "relu, neg": [
        (lambda x: compute("relu", x), relu),
        (lambda x: compute("neg", x), lambda a: -a),
    ],
    "relu, exp": [
        (lambda x: compute("relu", x), relu),
        (lambda x: compute("exp", phrases.sub(x, 4.0)), lambda a: np.exp(a - np.float32(4))),
    ],
    "relu, x - 1": [
        (lambda x: compute("relu", x), relu),
        (lambda x: phrases.sub(x, 1.0), lambda a: a - np.float32(1)),
    ],
    "clip": [
        (fold("maximum", -1.0), lambda a: np.maximum(a, np.float32(-1))),
        (fold("minimum", 1.0), lambda a: np.minimum(a, np.float32(1))),
        (fold("mul", 1.5), lambda a: a * np.float32(1.5)),
    ],
    "where": [
        (
            lambda x: phrases.select(fold("less", 0.5)(x), phrases.sub(x, 1.0), x),
            lambda a: np.where(a < np.float32(0.5), a - np.float32(1), a),
        ),
        (lambda x: compute("neg", x), lambda a: -a),
    ],
    "abs": [
        (lambda x: compute("abs", x), np.abs),
        (fold("sub", 0.5), lambda a: a - np.float32(0.5)),
    ],
    "used twice": [
        (lambda x: phrases.add(phrases.mul(x, x), x), lambda a: a * a + a),
        (fold("mul", -0.25), lambda a: a * np.float32(-0.25)),
    ],
}


def chain(kind, length, size=SIZE):
    x = access(tensor("x", (size,)), 1)
    for step, _ in itertools.islice(itertools.cycle(STEPS[kind]), length):
        x = step(x)
    return x


def in_numpy(kind, length, x):
    with np.errstate(all="ignore"):
        for _, step in itertools.islice(itertools.cycle(STEPS[kind]), length):
            x = step(x)
    return x


def numbers():
    rng = np.random.default_rng(5)
    return np.concatenate([SPECIAL, rng.standard_normal(SIZE - len(SPECIAL))]).astype(np.float32)


def compiled(term, target="cpu"):
    inputs = {"x": next(t.type for t in topological_order([term]) if t.op == "tensor")}
    if target == "cpu":
        return compile_terms([term], inputs, {}, threads=1)
    return find_target(target).compile([term], inputs, {})


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("kind", STEPS)
def test_values_are_those_of_numpy_special_ones_too(kind, target):
    x, length = numbers(), 33
    (got,) = compiled(chain(kind, length), target).run({"x": x})
    want = in_numpy(kind, length, x)
    if kind in ("relu, exp", "used twice"):  # exp and fused multiply-add round in other ways.
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("kind", "target"),
    [*itertools.product(STEPS, ["cpu", "opencl"]), ("relu, neg", "cuda:sm_90")],
)
def test_code_grows_as_the_chain_does(kind, target):
    short, long = (len(compiled(chain(kind, length), target).source) for length in (18, 36))
    assert long < 2.2 * short


def test_deep_expressions_are_vectors_in_registers():
    text = str(compiled(chain("relu, neg", 36, 64)).module)
    assert "T.vectorized(" in text
    source = compiled(chain("relu, neg", 36, 64)).source
    assert "select <" in source and " x float> " in source  # Not lane by lane.


def test_shallow_expressions_are_written_as_before():
    gelu = access(tensor("x", (64,)), 1)
    erf = compute("erf", fold("mul", 0.70710678)(gelu))
    text = str(compiled(phrases.mul(fold("mul", 0.5)(gelu), fold("add", 1.0)(erf))).module)
    assert "alloc" not in text


def test_equal_pieces_of_a_chain_are_compiled_once():
    program = compiled(chain("relu, neg", 4_000))
    assert len(program.plan.steps) > 50
    assert len(program.module.functions) <= 4
    x = numbers()
    np.testing.assert_array_equal(program.run({"x": x})[0], in_numpy("relu, neg", 4_000, x))


GUARDED = {
    "pad": (
        lambda x: slice_(pad(x, 0, 1, 0, -1.0), 0, 0, SIZE),
        lambda a: np.concatenate([[np.float32(-1)], a[:-1]]),
    ),
    "argmax": (
        lambda x: access(compute("argmax", access(x, 0)), 0),
        lambda a: np.argmax(a),  # The first NaN, if there is one.
    ),
}


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("kind", GUARDED)
def test_what_is_read_under_a_guard_is_stored_first(kind, target):
    move, moved = GUARDED[kind]
    term = move(chain("relu, neg", 17))
    program = compiled(term, target)
    assert len(program.plan.steps) == 2
    x = numbers()
    np.testing.assert_array_equal(program.run({"x": x})[0], moved(in_numpy("relu, neg", 17, x)))


def test_a_short_chain_under_a_guard_stays_in_its_kernel():
    term = GUARDED["argmax"][0](chain("relu, neg", 3))
    assert len(compiled(term).plan.steps) == 1
