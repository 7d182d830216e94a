"""Whether another way to say a unit's term says the same: both are computed on drawn numbers.

A rule for the other way would put what it computes in place of the term, whatever that is. Rounding
may differ, and so may what neither defines: where one of the two is no finite number (a root of a
negative one), nothing is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from glenside.errors import ShapeError, TargetError
from glenside.hw_targets.declare import samples, template
from glenside.hw_targets.declare.sizes import Condition
from glenside.hw_targets.declare.template import OperandType, Template
from glenside.language import builders
from glenside.language.interpreter import evaluate
from glenside.language.shape import FLOATS, lowest

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]

SIZES = 3
"""Different sizes at which both are computed."""
SEEDS = 8
"""Of each kind of operands at each of these sizes, that many: they are small."""

_ROUNDING = {"float64": 1e-4, "float32": 1e-4}
"""Relative to the largest result: constants in programs have few digits, sums another order."""
_ROUNDING_OF_HALVES = 5e-2
_STEP = 1
"""By which integers may differ: where a division or a quantiser rounds."""


def require_same(
    text: str,
    term: Template,
    other: Template,
    operands: Mapping[str, OperandType],
    names: Sequence[str],
    conditions: Sequence[Condition],
    dtype: str,
) -> None:
    """Computes both.

    :param text: the other way as it was written, for the message.
    :param dtype: of operands without one of their own.
    :raises TargetError: they differ; names sizes and numbers.
    """
    for sizes in itertools.islice(_sizes(term, operands, names, conditions, dtype), SIZES):
        types = {name: each.of(sizes, dtype) for name, each in operands.items()}
        leaves = {name: builders.leaf(name, each) for name, each in types.items()}
        shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
        own = template.build(term, sizes, leaves)
        try:
            others = template.build(other, sizes, leaves)
        except ShapeError as problem:
            raise TargetError(f"{text!r} is ill-shaped with {shown}: {problem}") from None
        if others.type != own.type:
            raise TargetError(f"{text!r} has another type than the term with {shown}")
        for draw, seed in itertools.product(_DRAWS, range(SEEDS)):
            rng = np.random.default_rng(seed)
            arrays = {
                name: draw(rng, each.shape, each.dtype).astype(each.dtype)
                for name, each in types.items()
            }
            with np.errstate(all="ignore"):
                differs = _first_difference(*evaluate([own, others], arrays))
            if differs is not None:
                raise TargetError(
                    f"{text!r} does not compute what the term does: with {shown} it gives "
                    f"{differs[1]:.6g}, the term {differs[0]:.6g}"
                )


def _sizes(
    term: Template,
    operands: Mapping[str, OperandType],
    names: Sequence[str],
    conditions: Sequence[Condition],
    dtype: str,
) -> Iterator[Sizes]:
    for sizes in itertools.islice(samples.samples(names, conditions), 64):
        leaves = {n: builders.leaf(n, each.of(sizes, dtype)) for n, each in operands.items()}
        try:
            if template.build(term, sizes, leaves).type.size:
                yield sizes
        except ShapeError:
            continue


def _first_difference(own: Array, other: Array) -> tuple[float, float] | None:
    """The two numbers where they differ most, by more than rounding does."""
    a, b = own.astype(np.float64), other.astype(np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    if not known.any():
        return None
    a, b = a[known], b[known]
    if own.dtype == np.bool_:
        allowed = 0.0
    elif own.dtype.name in FLOATS:
        rounding = _ROUNDING.get(own.dtype.name, _ROUNDING_OF_HALVES)
        allowed = rounding * float(np.abs(a).max())
    else:
        allowed = _STEP
    at = int(np.abs(a - b).argmax())
    return (float(a[at]), float(b[at])) if abs(a[at] - b[at]) > allowed else None


def _whole(low: int, high: int) -> Callable[[np.random.Generator, Any, str], Array]:
    def draw(rng: np.random.Generator, shape: Any, dtype: str) -> Array:
        least = low if dtype in FLOATS else max(low, int(lowest(dtype)))
        return rng.integers(least, (1 if dtype == "bool" else high) + 1, shape)

    return draw


def _real(low: float, high: float) -> Callable[[np.random.Generator, Any, str], Array]:
    def draw(rng: np.random.Generator, shape: Any, dtype: str) -> Array:
        if dtype not in FLOATS:
            return _whole(0, 9)(rng, shape, dtype)
        return rng.uniform(low, high, shape)

    return draw


_DRAWS = (_whole(-4, 4), _real(-2.0, 2.0), _real(0.1, 3.0))
"""Of mixed signs, and above zero, where roots and logarithms are defined."""
