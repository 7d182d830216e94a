"""Small models that users of other tools reported as failing, and what is right for each.

``GLENSIDE_BUG_CASES`` names another folder of the same form: ``cases.json`` lists the cases, and
beside each MODEL.onnx stands a MODEL.npz with inputs (``in_NAME``) and right outputs (``out0``...).
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glenside.errors import ModelError
from glenside.frontends.onnx import import_model
from glenside.language import Model

Array = np.ndarray[Any, Any]

OWN = Path(__file__).parent / "frontends" / "onnx" / "bugs"
FOLDER = Path(os.environ.get("GLENSIDE_BUG_CASES") or OWN)
CASES: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text())["cases"]
MODELS = sorted({name for case in CASES for name in case["models"]})
ANSWERED = [name for name in MODELS if (FOLDER / name).with_suffix(".npz").exists()]
REFUSED = [name for name in MODELS if name not in ANSWERED]


def named(names: Sequence[str]) -> list[Any]:
    """Parameters for the models ``names``, each called after the cases that use it."""
    used = {name: [case["id"] for case in CASES if name in case["models"]] for name in names}
    return [pytest.param(name, id=f"{'+'.join(used[name])}: {Path(name).stem}") for name in names]


def present(*names: str) -> pytest.MarkDecorator:
    """Skips a test about models that the folder does not have."""
    missing = ", ".join(name for name in names if name not in MODELS)
    return pytest.mark.skipif(bool(missing), reason=f"the folder has no {missing}")


def answers(name: str) -> tuple[dict[str, Array], list[Array]]:
    """Inputs of a model, and the right outputs."""
    with np.load((FOLDER / name).with_suffix(".npz")) as stored:
        inputs = {k.removeprefix("in_"): stored[k] for k in stored if k.startswith("in_")}
        return inputs, [stored[k] for k in sorted(stored) if k.startswith("out")]


@functools.cache
def shapes_of(name: str) -> Mapping[str, tuple[int, ...]] | None:
    """The shapes of its inputs where a model asks for them, else None."""
    try:
        import_model(FOLDER / name)
    except ModelError as problem:
        assert "shapes=" in str(problem)
        return {key: value.shape for key, value in answers(name)[0].items()}
    return None


def load(name: str) -> tuple[Model, dict[str, Array], list[Array]]:
    """The model, its inputs and the right outputs; shapes are given where the model asks."""
    return import_model(FOLDER / name, shapes=shapes_of(name)), *answers(name)


def assert_right(got: Sequence[Array], wanted: Sequence[Array]) -> None:
    """Shapes, dtypes and, as closely as the dtype allows, values."""
    for mine, right in zip(got, wanted, strict=True):
        assert mine.shape == right.shape and mine.dtype == right.dtype
        loose = right.dtype == np.float16
        np.testing.assert_allclose(
            mine, right, rtol=1e-2 if loose else 1e-4, atol=1e-3 if loose else 1e-6
        )
