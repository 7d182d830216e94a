"""Which mapping a product gets: the kinds that a device has for it, ranked by predicted time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.kinds import AnyMapping
from glenside.codegen.gpu.mapping.matrices import matrix_mappings, occupies
from glenside.codegen.gpu.mapping.scratch import partial_bytes, weighed
from glenside.codegen.gpu.mapping.solver import InfeasibleMapping
from glenside.codegen.gpu.mapping.threads import thread_mappings
from glenside.codegen.gpu.mapping.units import tensor_mappings
from glenside.codegen.gpu.space import ProductSpace

Choose = Callable[[ProductSpace, DeviceLimits], AnyMapping | None]
"""Names the mapping of a product, from a tuning file say; None: the one predicted to be fastest."""

_TRIED = 16
"""Mappings of a product that are tried where a device refuses the best."""


def best_mapping(space: ProductSpace, limits: DeviceLimits) -> AnyMapping:
    """The mapping predicted to be fastest.

    :raises InfeasibleMapping: there is none.
    """
    return best_mappings(space, limits, 1)[0]


def chosen_mapping(
    space: ProductSpace,
    limits: DeviceLimits,
    choose: Choose | None,
    refused: Collection[AnyMapping] = (),
) -> AnyMapping:
    """What ``choose`` names, else the mapping predicted to be fastest.

    :param refused: mappings whose kernels the device does not run; the next best is then taken, of
        a few.
    :raises InfeasibleMapping: it names none, and there is none.
    """
    named = choose(space, limits) if choose is not None else None
    if named is not None and partial_bytes(space, named) > limits.scratch_bytes:
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


def best_mappings(space: ProductSpace, limits: DeviceLimits, count: int) -> Sequence[AnyMapping]:
    """Up to ``count`` mappings that differ in more than a detail, best predicted first: to matrix
    units where the device has them for the operands' dtype, else to threads, those of products of
    plain matrices and of any product in turn.

    :raises InfeasibleMapping: there is none.
    """
    on_matrix_units = tensor_mappings(space, limits, count)
    if on_matrix_units:
        return on_matrix_units
    matrices = matrix_mappings(space, limits, count)
    if matrices and count == 1 and occupies(matrices[0], space, limits):
        return matrices
    # Where results are few, a reduction that is split over groups may be faster.
    try:
        others = thread_mappings(space, limits, count)
    except InfeasibleMapping:
        if not matrices:
            raise
        others = []
    if not matrices or not others:
        return matrices or others
    # The best of all, then of either kind in turn: the predictions are not each other's.
    kinds: list[Sequence[AnyMapping]] = [matrices, others]
    kinds.sort(key=lambda kind: weighed(space, kind[0], limits))
    turns = itertools.zip_longest(*kinds)
    return [each for turn in turns for each in turn if each is not None][:count]
