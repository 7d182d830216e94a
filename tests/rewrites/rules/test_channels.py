"""Convolutions whose channels come last reach units that want them first."""

import numpy as np
import pytest

import glenside
from glenside.language import builders as b
from glenside.language import evaluate, topological_order
from glenside.rewrites.rules.channels import channels_first
from glenside.rewrites.soundness import check_fires
from tests.effort import tries


def test_it_is_sound() -> None:
    check_fires(channels_first(), examples=tries(60))


def convolution(pads=(1, 1), stride=(1, 2), filters_first=True, channels=4):
    """Over (N H W C) with filters (O kh kw C), written without any transposition."""
    w = b.access(b.tensor("w", (8, 3, 2, channels)), 1)
    x = b.tensor("x", (2, 7, 6, channels))
    for axis, width in zip((1, 2), pads, strict=True):
        x = b.pad(x, axis, width, width)
    looks = b.squeeze(b.windows(b.access(x, 1), (3, 2, channels), (*stride, 1)), 3)
    factors = (w, looks) if filters_first else (looks, w)
    return b.compute("dot", b.cart_prod(*factors))


@pytest.mark.parametrize("filters_first", [True, False])
@pytest.mark.parametrize("pads", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize(
    ("target", "unit"),
    [("hlscnn", "hlscnn-conv2d"), ("systolic-array:4x4:conv2d", "systolic-conv2d-")],
)
def test_a_convolution_with_channels_last_is_one_call(target, unit, pads, filters_first) -> None:
    term = convolution(pads, filters_first=filters_first)
    program = glenside.optimize(term, target)
    (call,) = [t for t in topological_order(program.terms) if t.op == "call"]
    assert call["unit"].startswith(unit)
    assert program.report.left == ()
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s).astype("float32") for n, s in
              (("w", (8, 3, 2, 4)), ("x", (2, 7, 6, 4)))}  # fmt: skip
    np.testing.assert_allclose(program(**arrays), evaluate([term], arrays)[0], rtol=1e-4, atol=1e-4)
