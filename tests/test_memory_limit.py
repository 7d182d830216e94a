"""A memory limit holds: by the form of a program or its products' mappings, else by an error."""

import numpy as np
import pytest

import glenside
from glenside import pipeline
from glenside.deadline import TimeIsUp
from glenside.errors import InputError, MemoryLimit
from glenside.extraction import Roofline
from glenside.language import Model, evaluate
from glenside.language import builders as b
from glenside.memory_limit import parse_bytes
from tests.codegen.codegen_help import convolution, weights

QUICK = Roofline(peak_flops=1e9, bandwidth=1e15, launch_seconds=0.0)
"""Multiplying is all that takes time, so that minimal filtering pays at any size."""
MALI = "opencl:mali-g72"


def layer(channels=32, size=8):
    x = b.tensor("x", (1, channels, size, size))
    w = b.tensor("w", (channels, channels, 3, 3))
    term = convolution(x, w, (1, 1), (1, 1, 1, 1))
    params = {"w": weights(channels, channels, 3, 3)}
    return Model("layer", {"x": x.type}, params, {"y": term})


def held(**options):
    options = {"cost_model": QUICK, "check": False} | options
    return glenside.optimize(layer(), MALI, **options).report


@pytest.mark.parametrize(
    ("given", "count"),
    [(0, 0), (1000, 1000), ("12", 12), ("64MB", 64_000_000), ("64 MiB", 64 << 20), ("1.5kb", 1500),
     ("2GiB", 2 << 30), ("7b", 7), ("3K", 3000)],
)  # fmt: skip
def test_limits_are_bytes_or_text(given, count):
    assert parse_bytes(given) == count


@pytest.mark.parametrize("given", [-1, float("nan"), float("inf"), True, "much", "1e3", "-5MB", []])
def test_what_is_no_limit_is_refused(given):
    with pytest.raises(InputError, match="memory_limit must be bytes from 0 up"):
        glenside.optimize(layer(), "cpu", memory_limit=given)


def test_the_form_gives_way_to_the_limit():
    free = held()
    assert free.cost_after < free.cost_before, "minimal filtering, which holds transforms"
    # F(4, 3) of 8 x 8 places: 36 positions of 4 tiles by 32 channels on either side of the product.
    assert free.memory.largest[next(iter(free.memory.largest))] == 4 * 36 * 4 * 32
    assert free.memory.derived == 4 * 32 * 32 * (36 - 9), "filters of 6 x 6 for 3 x 3"
    same = held(memory_limit=free.memory.held)
    assert same.memory == free.memory
    less = held(memory_limit=free.memory.held - 1)
    assert less.memory.held < free.memory.held
    assert free.cost_after <= less.cost_after <= free.cost_before
    least = held(memory_limit="0B")
    assert (least.memory.held, least.memory_limit) == (0, 0)
    assert least.cost_after == least.cost_before


def test_the_cost_model_that_counts_memory_holds_least():
    told = held(cost_model="memory")
    assert told.memory.held == 0
    assert told.cost_model == "memory" and told.cost_parts[0] == "bytes stored"


def test_what_cannot_be_held_is_one_error_that_says_the_least():
    x, w = b.tensor("x", (8, 16)), b.tensor("w", (32, 16))
    first = b.compute(
        "softmax", b.access(b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1))), 1)
    )
    term = b.compute("dot", b.cart_prod(first, b.access(b.tensor("v", (4, 32)), 1)))
    params = {"w": weights(32, 16), "v": weights(4, 32)}
    model = Model("two", {"x": x.type}, params, {"y": term})
    least = glenside.optimize(model, "cpu", cost_model="memory").report.memory.held
    assert least > 0
    kept = glenside.optimize(model, "cpu", memory_limit=least)
    given = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    (wanted,) = evaluate([term], {"x": given, **params})
    np.testing.assert_allclose(kept(given), wanted, rtol=1e-4, atol=1e-5)
    with pytest.raises(MemoryLimit, match=f"least that is known to be reachable is {least} bytes"):
        glenside.optimize(model, "cpu", memory_limit=least - 1)


def test_a_limit_holds_where_time_is_up(monkeypatch):
    def late(*args, **kwargs):
        raise TimeIsUp

    monkeypatch.setattr(pipeline, "hold", late)
    told = held(memory_limit=0)
    assert "memory" in told.cut and told.memory.held == 0
    with pytest.raises(MemoryLimit, match="time_limit left time for"):
        x = b.access(b.tensor("x", (4, 64)), 1)
        term = b.compute("exp", b.compute("softmax", b.compute("softmax", x)))
        twice = b.compute("add", b.pair(b.compute("softmax", term), b.compute("softmax", x)))
        model = Model("rows", {"x": x.children[0].type}, {}, {"y": twice})
        glenside.optimize(model, "cpu", memory_limit=0, check=False)
