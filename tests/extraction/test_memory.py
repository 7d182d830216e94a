"""Cost models that count memory: what they charge, and what they prefer."""

import pytest

from glenside.extraction import (
    COST_MODELS,
    LeastMemory,
    MaximiseOffload,
    Roofline,
    WeighedMemory,
    dag_cost,
    find_cost_model,
)
from glenside.extraction.memory import stored_bytes
from glenside.language import builders as b

TIME = Roofline(peak_flops=1.0, bandwidth=1e30, launch_seconds=0.0)
"""A second an operation."""


def rows(name: str, *shape: int):
    return b.access(b.tensor(name, shape), 1)


def product(x, w):
    return b.compute("dot", b.cart_prod(x, w))


X = rows("x", 4, 6)


@pytest.mark.parametrize(
    ("term", "stored"),
    [
        (product(X, rows("w", 5, 6)), 4 * 4 * 5),
        (b.compute("sum", X), 4 * 4),
        (b.compute("softmax", X), 4 * 4 * 6),
        (b.concat(0, X, X), 4 * 8 * 6),
        (b.blocked("systolic-array", (16, 16), X, rows("w", 5, 6)), 4 * 4 * 5),
        # Read through, or computed where what it follows is.
        (b.compute("relu", X), 0),
        (b.compute("add", b.pair(X, X)), 0),
        (b.compute("dot", b.access(b.pair(b.access(X, 2), b.access(X, 2)), 2)), 0),
        (b.windows(X, (2,), (1,)), 0),
        (b.pad(X, 0, 1, 1), 0),
        (b.transpose(X, (1, 0)), 0),
    ],
    ids=lambda value: value.op if hasattr(value, "op") else None,
)
def test_what_compiled_code_stores_is_counted(term, stored):
    operands = [child.type for child in term.children]
    assert stored_bytes(term.op, term.attributes, term.type, operands) == stored


def test_memory_comes_first_and_then_what_the_other_model_counts():
    model = LeastMemory(TIME)
    assert model.components == ("bytes stored", "seconds", "bytes moved", "nodes")
    y, w = product(X, rows("w", 5, 6)), rows("v", 3, 5)
    z = product(b.access(y, 1), w)
    # 4 x 5 and 4 x 3 floats are stored; 2 * 4 * 5 * 6 and 2 * 4 * 3 * 5 operations.
    stored, seconds, *_ = dag_cost([z], model)
    assert (stored, seconds) == (4 * (20 + 12), 240 + 120)
    offload = LeastMemory(MaximiseOffload(units=()))
    blocked = b.blocked("systolic-array", (16, 16), X, rows("w", 5, 6))
    assert set(dag_cost([blocked], offload)) == {float("inf")}, "what the other refuses is refused"


def test_what_compiling_evaluates_counts_by_what_it_takes_more():
    model = LeastMemory(TIME)
    few, many = rows("x", 8, 1), rows("w", 8, 1)
    grown = product(few, many)  # 64 numbers of 16.
    stored, seconds, *_ = dag_cost([grown], model, {"x", "w"})
    assert (stored, seconds) == (4 * (64 - 16), 0)
    joined = b.concat(0, few, many)
    assert dag_cost([joined], model, {"x", "w"})[0] == 0, "it takes the place of both"


def test_weighed_memory_adds_to_the_first_part():
    y = product(X, rows("w", 5, 6))
    model = WeighedMemory(TIME, 0.5, "weighed")
    assert model.components == ("seconds and memory", "bytes moved", "nodes")
    assert dag_cost([y], model)[0] == 240 + 0.5 * 80
    assert dag_cost([y], model)[1:] == dag_cost([y], TIME)[1:]
    known = dag_cost([y], model, {"x", "w"})
    assert known[0] == 0, "4 x 5 numbers are fewer than those they are made of"


def test_the_model_has_a_name():
    assert "memory" in COST_MODELS
    assert find_cost_model("memory").name == "memory"
