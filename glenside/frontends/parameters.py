"""Which parameters of a function are inputs, and the weights that nobody gave.

Relay text names its weights but does not hold them. What is not given is made from a seed, by a
recipe that keeps activations in range: variances are positive, matrices are scaled by their
fan-in.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from glenside.errors import ModelError
from glenside.language.memory import require
from glenside.language.shape import FLOATS, AccessType

Array = np.ndarray[Any, Any]

MOST_ELEMENTS = 2**31
"""Weights drawn from a seed have no more elements: 16 GiB while they are drawn."""

_DATA = re.compile(r"(data|inputs?|images?)(_|\d|$)")


def is_input(position: int, name: str) -> bool:
    """Whether a parameter is data: the first one, one named so, or part of a tuple (a state).

    :param position: among all parameters, tuples flattened.
    """
    return position == 0 or "." in name or _DATA.match(name.lower()) is not None


def seeded(position: int, name: str, type_: AccessType, seed: int) -> Array:
    """A parameter's array by the recipe, reproducible from seed and position.

    :param position: among all parameters, tuples flattened.
    :raises ModelError: it has more than :data:`MOST_ELEMENTS`.
    """
    if type_.size > MOST_ELEMENTS:
        raise ModelError(
            f"parameter %{name} of shape {type_.shape} is too large to be drawn from a seed: "
            f"give it with params={{{name!r}: array}}"
        )
    require(type_.size * 16, f"parameter %{name} of {type_}, drawn from a seed,")
    rng = np.random.default_rng([seed, position])
    return np.asarray(_draw(rng, position, name.lower(), type_)).astype(type_.dtype)


def _draw(rng: np.random.Generator, position: int, name: str, type_: AccessType) -> Any:
    shape = type_.shape
    if type_.dtype == "bool":
        return rng.integers(0, 2, shape)
    if type_.dtype not in FLOATS:
        return rng.integers(0, 10, shape)
    if position == 0 or _DATA.match(name):
        return rng.standard_normal(shape)
    if not shape:
        return 6.0 if "max" in name else 0.0 if "min" in name else rng.standard_normal()
    if sum(length > 1 for length in shape) <= 1:
        if "var" in name or "gamma" in name or name.endswith(("weight", "_g")):
            return rng.uniform(0.5, 1.5, shape)
        return 0.1 * rng.standard_normal(shape)
    is_hwio = len(shape) == 4 and shape[0] == shape[1] <= 7
    fan_in = math.prod(shape[:-1] if is_hwio else shape[1:])
    return rng.standard_normal(shape) / np.sqrt(max(fan_in, 1))
