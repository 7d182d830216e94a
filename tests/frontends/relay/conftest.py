"""What the Relay tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glenside.frontends.relay import import_relay
from glenside.language import evaluate

Array = np.ndarray[Any, Any]
REPOSITORY = Path(__file__).parents[3]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``relay_file``: each of the real models, by name."""
    if "relay_file" in metafunc.fixturenames:
        files = sorted(data_folder().glob("*.relay"))
        if files:
            metafunc.parametrize("relay_file", files, ids=[file.stem for file in files])
        else:
            reason = f"no .relay files in {data_folder()} (GLENSIDE_RELAY_DATA names the folder)"
            skipped = pytest.param(None, marks=pytest.mark.skip(reason=reason))
            metafunc.parametrize("relay_file", [skipped], ids=["none"])


def data_folder() -> Path:
    given = os.environ.get("GLENSIDE_RELAY_DATA")
    return Path(given) if given else REPOSITORY.parent / "shared" / "data" / "relay"


@pytest.fixture(scope="session")
def relay_data() -> Path:
    """The folder of the real models."""
    return data_folder()


@pytest.fixture(scope="session")
def run_text() -> Callable[..., list[Array]]:
    """Imports Relay text and interprets it: arrays of all parameters in, outputs out."""

    def run(text: str, arrays: Mapping[str, Array] | None = None) -> list[Array]:
        model = import_relay(text)
        return evaluate(model.roots, {**model.params, **(arrays or {})})

    return run


def text_of(body: str, arrays: Mapping[str, Array]) -> str:
    """A module whose main function has the arrays as parameters and ``body`` as its result."""
    parameters = ", ".join(
        f"%{name}: Tensor[({', '.join(map(str, array.shape))}), {array.dtype.name}]"
        for name, array in arrays.items()
    )
    return f"def @main({parameters}) {{ {body} }}"


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Normal floats, or integers from -5 to 5; the same for the same shape and seed."""
    rng = np.random.default_rng([seed, *shape])
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-5, 6, shape).astype(dtype)


@pytest.fixture(scope="session")
def check(run_text: Callable[..., list[Array]]) -> Callable[..., None]:
    """``check(body, *wanted, **arrays)``: the outputs of the call are the wanted arrays."""

    def run(body: str, *wanted: Any, tolerance: float = 1e-5, **arrays: Array) -> None:
        outputs = run_text(text_of(body, arrays), arrays)
        for got, each in zip(outputs, wanted, strict=True):
            value = np.asarray(each)
            assert got.shape == value.shape
            if got.dtype.kind == "f":
                np.testing.assert_allclose(got, value, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_array_equal(got, value)
                assert got.dtype == value.dtype

    return run
