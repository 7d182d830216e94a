"""Units for rows compute items of any shape."""

import numpy as np
import pytest

import glenside
from glenside.errors import GlensideError
from glenside.language import builders as b
from glenside.rewrites.rules.rows import rows_of
from glenside.rewrites.soundness import check_fires
from tests.effort import tries


@pytest.mark.parametrize("function", ["softmax", "sum", "argmax"])
def test_it_is_sound(function: str) -> None:
    check_fires(rows_of(function), examples=tries(40))


@pytest.mark.parametrize("function", ["dot", "relu", "add", "no"])
def test_it_is_of_functions_of_items_only(function: str) -> None:
    with pytest.raises(GlensideError, match="a function of items"):
        rows_of(function)


@pytest.mark.parametrize("function", ["softmax", "sum", "mean", "prod", "min", "argmax"])
@pytest.mark.parametrize("shape", [((4, 8), (16,)), ((), (16,)), ((2, 3, 4), (5,)), ((6,), (7,))])
def test_rows_of_any_function_are_found(function: str, shape) -> None:
    glenside.Accelerator(
        "test-rows", operands={"x": "((R) (N))"}, computes=f"(compute {function} ?x)"
    )
    outer, item = shape
    x = b.access(b.tensor("x", outer + item), len(outer))
    program = glenside.optimize(b.compute(function, x), "test-rows")
    assert program.report.offloads == {"test-rows": 1}
    array = np.random.default_rng(0).standard_normal(outer + item).astype("float32")
    powers = np.exp(array - array.max(axis=-1, keepdims=True))
    right = {
        "softmax": lambda: powers / powers.sum(axis=-1, keepdims=True),
        "sum": lambda: array.sum(axis=-1),
        "mean": lambda: array.mean(axis=-1),
        "prod": lambda: array.prod(axis=-1),
        "min": lambda: array.min(axis=-1),
        "argmax": lambda: array.argmax(axis=-1),
    }[function]()
    np.testing.assert_allclose(program(array), right, rtol=1e-5, atol=1e-6)


def test_sums_over_several_axes_are_rows_too() -> None:
    glenside.Accelerator("test-rows", operands={"x": "((R) (N))"}, computes="(compute sum ?x)")
    x = b.access(b.tensor("x", (2, 3, 4, 5)), 2)
    assert glenside.optimize(b.compute("sum", x), "test-rows").report.offloads == {"test-rows": 1}
