"""Long sums are added up in blocks: as exact as NumPy's, which halves them again and again."""

import numpy as np
import pytest

import glenside
from glenside.codegen.totals import BLOCK, in_blocks
from glenside.language import builders as b

LONG = {
    "to one number": ((1 << 20,), 0),
    "no multiple of a block": ((3, (1 << 16) + 37), 1),
    "axes of no block's size": ((5, 300, 33, 3), 1),
    "along the results": ((4001, 7), None),
}


def reduction(function, shape, split):
    x = b.tensor("x", shape)
    if split is None:
        return b.compute(function, b.access(b.transpose(x, (1, 0)), 1)), 0
    return b.compute(function, b.access(x, split)), tuple(range(split, len(shape)))


@pytest.mark.parametrize("target", ["cpu", "opencl"])
@pytest.mark.parametrize("case", LONG)
def test_a_long_mean_is_exact_to_some_units_in_the_last_place(case, target):
    shape, split = LONG[case]
    term, axes = reduction("mean", shape, split)
    program = glenside.optimize(term, target, rules=[], check=False)
    x = (np.random.default_rng(0).random(shape) + 1).astype("float32")
    right = x.astype("float64").mean(axes)
    # One after another they are wrong by 1e-6 and more.
    np.testing.assert_allclose(program(x), right, rtol=4 * np.finfo("float32").eps)


@pytest.mark.parametrize("target", ["cpu", "opencl"])
def test_the_powers_of_a_long_softmax_are_added_up_likewise(target):
    x = b.tensor("x", (2, 1 << 17))
    term = b.compute("softmax", b.access(x, 1))
    program = glenside.optimize(term, target, rules=[], check=False)
    values = np.random.default_rng(0).random((2, 1 << 17)).astype("float32")
    powers = np.exp(values.astype("float64"))
    right = powers / powers.sum(1, keepdims=True)
    np.testing.assert_allclose(program(values), right, rtol=1e-6)


@pytest.mark.parametrize("extents", [(1,), (128,), (129,), (3, 5, 128), (2, 1000, 3), (7, 1, 513)])
def test_every_term_comes_once_and_blocks_are_short(extents, monkeypatch):
    """The loops written out in Python: what is built of them must not depend on the sizes."""
    from glenside.codegen import totals

    runs = []

    def run(count, body):
        return [each for i in range(count) for each in body(i)]

    def all_of(lengths, body):
        def level(k, index):
            if k == len(lengths):
                return body(index)
            return run(lengths[k], lambda i: level(k + 1, [*index, i]))

        return level(0, [])

    monkeypatch.setattr(totals, "nested", all_of)
    monkeypatch.setattr(totals, "repeat", run)
    monkeypatch.setattr(totals, "sequence", lambda parts: [each for p in parts for each in p])

    def around(inside):
        runs.append(len(inside))
        return inside

    seen = in_blocks(extents, lambda index: [tuple(index)], around, all_of)
    assert sorted(seen) == sorted(np.ndindex(extents))
    assert max(runs) <= BLOCK and len(runs) <= 3 * -(-np.prod(extents) // BLOCK)
