"""Why a compiled program's products and reductions over rows are mapped as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glenside.codegen.device.compile import cut_for_device
from glenside.codegen.gpu.dispatch import row_work, space_of
from glenside.codegen.gpu.interface import Choose, DeviceLimits, Dialect, make_builder
from glenside.codegen.gpu.mapping.explain import MappingExplanation, explained, explained_rows
from glenside.codegen.gpu.mapping.reading import read_mapping
from glenside.codegen.gpu.rows.space import rows_of
from glenside.codegen.program.record import Kernel
from glenside.language.shape import AccessType
from glenside.language.term import Term

Array = np.ndarray[Any, Any]


def explain_mappings(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    limits: DeviceLimits,
    dialect: Dialect,
    choose: Choose | None,
    chosen: Mapping[str, Mapping[str, Any]],
    names: Mapping[Term, str],
) -> MappingExplanation:
    """How each product and each reduction over rows of a program is mapped, and why.

    :param choose: names measured mappings.
    :param chosen: the mappings that kernels were made by, by the key of their product's space; of
        others, what would be chosen now is told.
    :param names: what the user's model calls values.
    :raises TargetError: the device lacks a dtype.
    """
    cut = cut_for_device(outputs, inputs, params, limits)
    builder = make_builder(cut)

    def name(term: Term) -> str | None:
        return names.get(cut.origin.get(term, term))

    told = []
    for number, step in enumerate(cut.steps):
        builder.at_step(number)
        if not isinstance(step, Kernel):
            continue
        space = space_of(builder, step, limits)
        if space is None:
            work = row_work(builder, step, number, limits, dialect)
            if work is not None:
                told.append(explained_rows(work, rows_of(step), name))
        else:
            known = chosen.get(space.key())
            mapping = None if known is None else read_mapping(known)
            kernel = f"step_{number}"
            told.append(explained(kernel, space, limits, choose, mapping, name))
    return MappingExplanation(limits.name, told)
