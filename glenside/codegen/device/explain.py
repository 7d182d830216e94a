"""Why a compiled program's products are mapped as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glenside.codegen.device.compile import cut_for_device
from glenside.codegen.gpu.dispatch import space_of
from glenside.codegen.gpu.interface import Choose, DeviceLimits, make_builder
from glenside.codegen.gpu.mapping.explain import MappingExplanation, explained
from glenside.codegen.gpu.mapping.reading import read_mapping
from glenside.codegen.program.record import Kernel
from glenside.language.shape import AccessType
from glenside.language.term import Term

Array = np.ndarray[Any, Any]


def explain_mappings(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    limits: DeviceLimits,
    choose: Choose | None,
    chosen: Mapping[str, Mapping[str, Any]],
    names: Mapping[Term, str],
) -> MappingExplanation:
    """How each product of a program is mapped, and why.

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
        space = space_of(builder, step, limits) if isinstance(step, Kernel) else None
        if space is not None:
            known = chosen.get(space.key())
            mapping = None if known is None else read_mapping(known)
            kernel = f"step_{number}"
            told.append(explained(kernel, space, limits, choose, mapping, name))
    return MappingExplanation(limits.name, told)
