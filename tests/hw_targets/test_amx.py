"""Intel AMX: one instruction to the bit, and products of any size."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import glenside
from glenside.hw_targets.units.amx import tdpb
from glenside.language import builders as b
from glenside.language import evaluate

RNG = np.random.default_rng(0)
DTYPES = {"s": "int8", "u": "uint8"}


def integers(dtype: str, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("kinds", [*itertools.product("su", repeat=2)])
def test_an_instruction_adds_exact_products_of_bytes(kinds: tuple[str, str]) -> None:
    x, y = integers(DTYPES[kinds[0]], 16, 64), integers(DTYPES[kinds[1]], 16, 64)
    got = tdpb({}, x, y)
    np.testing.assert_array_equal(got, x.astype("int64") @ y.astype("int64").T)
    x[:], y[:] = np.iinfo(x.dtype).min or 255, np.iinfo(y.dtype).min or 255
    assert got.dtype == np.int32
    np.testing.assert_array_equal(tdpb({}, x, y), 64 * int(x[0, 0]) * int(y[0, 0]))


def test_an_instruction_takes_one_tile() -> None:
    with pytest.raises(ValueError, match="reshape"):
        tdpb({}, integers("int8", 16, 65), integers("int8", 16, 65))


@pytest.mark.parametrize("kinds", [*itertools.product("su", repeat=2)])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_products_of_any_size_are_found_and_exact(kinds: tuple[str, str], batch: tuple) -> None:
    shapes = ((*batch, 17, 70), (*batch, 5, 70))
    x, y = (
        b.access(b.cast(b.tensor(n, s, DTYPES[k]), "int32"), len(batch) + 1)
        for n, s, k in zip("xy", shapes, kinds, strict=True)
    )
    program = glenside.optimize(b.compute("dot", b.cart_prod(x, y, len(batch))), "amx")
    unit = f"amx-{'batch-' * len(batch)}tdpb{''.join(kinds)}d"
    assert [use.unit for use in program.report.units] == [unit]
    tiles = 2 * 2 * 1 * (batch or (1,))[0]
    assert program.report.units[0].cycles == 16 * tiles
    arrays = {n: integers(DTYPES[k], *s) for n, s, k in zip("xy", shapes, kinds, strict=True)}
    want = arrays["x"].astype("int64") @ arrays["y"].astype("int64").swapaxes(-1, -2)
    np.testing.assert_array_equal(program(**arrays), want)


def test_sums_wrap_around() -> None:
    depth = 2**31 // 255**2 + 64
    x = b.access(b.tensor("x", (1, depth), "uint8"), 1)
    call = b.call("amx-tdpbuud", (), x, x)
    full = np.full((1, depth), 255, "uint8")
    (got,) = evaluate([call], {"x": full})
    assert got.item() == depth * 255**2 - 2**32
