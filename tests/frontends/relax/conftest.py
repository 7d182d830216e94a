"""Makes small Relax modules and holds what is imported against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from glenside.frontends.relax import import_relax
from glenside.language import Model, evaluate

Array = np.ndarray[Any, Any]


def module_of(build: Callable[..., Any], *arrays: Array) -> Any:
    """A module whose ``main`` takes ``x0``, ``x1``, ... and gives what ``build`` makes of them."""
    from tvm import relax

    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{i}", relax.TensorType(array.shape, array.dtype.name))
        for i, array in enumerate(arrays)
    ]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(build(*inputs)))
        builder.emit_func_output(result)
    return builder.get()


def run(model: Model, *arrays: Array) -> list[Array]:
    given = dict(zip([f"x{i}" for i in range(len(arrays))], arrays, strict=True))
    return evaluate(model.roots, {**model.params, **given})


class Ask:
    """What a test asks about one expression."""

    module_of = staticmethod(module_of)
    run = staticmethod(run)

    @staticmethod
    def same(
        build: Callable[..., Any], wanted: Callable[..., Any], *arrays: Array, rtol: float = 1e-5
    ) -> Model:
        """Imports, runs and compares with NumPy: shapes, dtypes and values."""
        model = import_relax(module_of(build, *arrays))
        got = run(model, *arrays)
        expected = wanted(*arrays)
        expected = list(expected) if isinstance(expected, tuple | list) else [expected]
        assert len(got) == len(expected)
        for mine, theirs in zip(got, map(np.asarray, expected), strict=True):
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol)
        return model


@pytest.fixture(scope="session")
def ask() -> type[Ask]:
    return Ask
