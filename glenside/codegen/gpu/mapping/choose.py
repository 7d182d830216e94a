"""Which mapping a product gets."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any

from glenside.codegen.gpu.interface import Choose, DeviceLimits
from glenside.codegen.gpu.mapping.kind import Kind, Ranked, Space
from glenside.codegen.gpu.mapping.kinds import MATRICES, THREADS, UNITS, kind_of
from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.gpu.space import ProductSpace
from glenside.errors import TargetError

_TRIED = 16
"""Mappings of a product that are tried where a device refuses the best."""
_ALIKE = 2
"""Mappings with the same in common that are chosen."""
_REMEMBERED = 1280
"""Products whose mappings are remembered, counted once for each kind."""


class InfeasibleMapping(TargetError):
    """No mapping obeys all constraints; ``groups`` names those that cannot hold together."""

    def __init__(self, message: str, groups: Sequence[str]) -> None:
        super().__init__(message)
        self.groups = tuple(groups)


def best_mapping(space: ProductSpace, limits: DeviceLimits) -> ProductMapping:
    """The mapping predicted to be fastest.

    :raises InfeasibleMapping: there is none.
    """
    return best_mappings(space, limits, 1)[0]


def chosen_mapping(
    space: ProductSpace,
    limits: DeviceLimits,
    choose: Choose | None,
    refused: Collection[ProductMapping] = (),
) -> ProductMapping:
    """What ``choose`` names, else the mapping predicted to be fastest.

    :param refused: mappings whose kernels the device does not run; the next best is then taken, of
        a few.
    :raises InfeasibleMapping: it names none, and there is none.
    """
    named = choose(space, limits) if choose is not None else None
    if named is not None and kind_of(named).scratch_bytes(space, named) > limits.scratch_bytes:
        named = None
    if not refused:
        return best_mapping(space, limits) if named is None else named
    passed = {replace(each, predicted=0.0) for each in refused}
    first = [best_mapping(space, limits)] if named is None else [named]
    for each in [*first, *best_mappings(space, limits, _TRIED)]:
        if replace(each, predicted=0.0) not in passed:
            return each
    raise InfeasibleMapping(
        f"a product of {space.key()}: {limits.name} refused the kernels of all {len(passed)} "
        "mappings that were tried",
        (),
    )


def best_mappings(
    space: ProductSpace, limits: DeviceLimits, count: int
) -> Sequence[ProductMapping]:
    """Up to ``count`` mappings that differ in more than a detail, best predicted first: to matrix
    units where the device has them for the operands' dtype, else to threads, those of products of
    plain matrices and of any product in turn.

    :raises InfeasibleMapping: there is none.
    """
    on_units = [each for kind in UNITS for each in _ranked(kind, space, limits).mappings]
    if on_units:
        return _different(sorted(on_units, key=lambda each: each.predicted), count)
    matrices = best_of(MATRICES, space, limits, count)
    if matrices and count == 1 and MATRICES.suffices(space, matrices[0], limits):
        return matrices
    # Where results are few, a reduction that is split over groups may be faster.
    try:
        others = best_of(THREADS, space, limits, count)
    except InfeasibleMapping:
        if not matrices:
            raise
        others = []
    if not matrices or not others:
        return matrices or others
    # The best of all, then of either kind in turn: the predictions are not each other's.
    kinds: list[Sequence[ProductMapping]] = [matrices, others]
    kinds.sort(key=lambda found: kind_of(found[0]).weighed(space, found[0], limits))
    turns = itertools.zip_longest(*kinds)
    return [each for turn in turns for each in turn if each is not None][:count]


def best_of[S: Space, M: ProductMapping](
    kind: Kind[S, M], space: S, limits: DeviceLimits, count: int
) -> list[M]:
    """The same of one kind; maybe none, but of threads.

    :raises InfeasibleMapping: the kind is that of threads, which any product fits, and there is
        none.
    """
    found = _ranked(kind, space, limits).mappings
    if not found and kind.name == THREADS.name:
        raise infeasible(kind, space, limits)
    return _different(found, count)


def infeasible(kind: Kind[Any, Any], space: Space, limits: DeviceLimits) -> InfeasibleMapping:
    """Why a product that fits a kind has no mapping of it."""
    problems = kind.problems(space, limits)
    groups = problems[0].conflict() if problems else []
    why = f"these constraints conflict: {', '.join(groups) or 'its budget of search'}"
    if problems and not problems[0].whole:
        why = "no time is left to search for mappings"
    return InfeasibleMapping(
        f"a product of {space.key()} cannot be mapped to {limits.name}: {why}", groups
    )


_known: dict[tuple[str, str, str], tuple[DeviceLimits, Ranked[Any]]] = {}


def _ranked[S: Space, M: ProductMapping](
    kind: Kind[S, M], space: S, limits: DeviceLimits
) -> Ranked[M]:
    """All mappings of a kind, which are searched for once; what time cut short is not kept."""
    key = (kind.name, space.key(), limits.name)
    known = _known.get(key)
    if known is not None and known[0] == limits:
        return known[1]
    found = kind.ranked(space, limits)
    if found.whole:
        if len(_known) >= _REMEMBERED:
            _known.clear()
        _known[key] = limits, found
    return found


def searched(kind: Kind[Any, Any], space: Space, limits: DeviceLimits) -> Ranked[Any] | None:
    """What a kind was found to have for a product; None where choosing did not ask for it."""
    known = _known.get((kind.name, space.key(), limits.name))
    return known[1] if known is not None and known[0] == limits else None


def _different[M: ProductMapping](ranked: Sequence[M], count: int) -> list[M]:
    """The first ones, few that differ in no more than a detail."""
    if count == 1:
        return list(ranked[:1])
    seen: dict[Hashable, int] = {}
    chosen: list[M] = []
    for mapping in ranked:
        alike = [(mapping.kind, each) for each in kind_of(mapping).alike(mapping)]
        if any(seen.get(each, 0) >= _ALIKE for each in alike):
            continue
        for each in alike:
            seen[each] = seen.get(each, 0) + 1
        chosen.append(mapping)
        if len(chosen) == count:
            break
    return chosen
