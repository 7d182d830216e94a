"""Operands that may be numbers or must be known, and known positions of an axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.refusal import Refused
from glenside.language import Term, builders
from glenside.language.shape import is_float


def number_of(constants: Constants, x: Term | float, what: str) -> float:
    """An operand that must be one known number."""
    if not isinstance(x, Term):
        return x
    known = constants.known(x)
    if known is None or known.size != 1:
        raise Refused(f"operand {what} must be a known number")
    return float(known.item()) if is_float(known.dtype) else int(known.item())


def ints_of(constants: Constants, x: Term | Ints, what: str) -> list[int]:
    """An operand that must be a list of known integers."""
    if not isinstance(x, Term):
        return list(x)
    known = constants.known(x)
    if known is None or known.dtype.kind not in "iu":
        raise Refused(f"operand {what} must be known while importing")
    return [int(each) for each in known.reshape(-1)]


def pick(constants: Constants, x: Term, places: Sequence[int], axis: int) -> Term:
    """Known positions of one axis: a slice where they ascend evenly, else a gather."""
    steps = {b - a for a, b in itertools.pairwise(places)} or {1}
    if list(places) == list(range(x.shape[axis])):
        return x
    if not places:
        return builders.slice_(x, axis, 0, 0)
    if len(steps) == 1 and min(steps) >= 1:
        return builders.slice_(x, axis, places[0], places[-1] + 1, min(steps))
    indices = constants.parameter(np.array(places, np.int64), "positions")
    return builders.gather(x, indices, axis)


def padded_places(length: int, before: int, after: int, mode: str) -> list[int]:
    """The positions of an axis that is padded with what it holds itself.

    :param mode: ``reflect``, ``edge`` or ``wrap``, as :func:`numpy.pad` has them.
    """
    # NumPy's types know modes by name only, as literals.
    places = np.pad(np.arange(length), (before, after), mode=mode)  # type: ignore[call-overload]
    return [int(each) for each in places]
