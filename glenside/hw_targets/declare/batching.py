"""The term of a unit for a batch: what calls for one position after the other compute together.

Every part of the term gets one more outer axis in front, so that the term for a batch is the term
with its axis numbers moved by one. A product of a batch of matrices then is found as calls of a
unit for single matrices, ``(call UNIT (...) :batch 1)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from glenside.hw_targets.declare.sizes import Size
from glenside.hw_targets.declare.template import Node, Operand, OperandType, Template, nodes

BATCH = "batch_"
"""The size variable of the axis; users' own do not end so."""

_MOVED = frozenset({"axis", "split", "batch"})
"""Attributes that count axes from the first outer one."""
_LONGER = frozenset({"shape", "outer"})
"""Attributes that hold the lengths of all axes, or of the outer ones."""
_AS_THEY_ARE = frozenset({"pair", "windows", "cast", "where", "compute"})


@dataclasses.dataclass(frozen=True)
class Batched:
    """A term for a batch, and what its operands are then."""

    template: Template
    operands: Mapping[str, OperandType]
    splits: Mapping[Template, int]


def batched(
    template: Template, operands: Mapping[str, OperandType], splits: Mapping[Template, int]
) -> Batched | None:
    """The term for a batch.

    None where it multiplies nothing, has a batch of its own, or has a part that no axis can be put
    in front of.

    :param splits: how many outer axes each part of the term has.
    """
    products = [p for p in nodes(template) if isinstance(p, Node) and p.op == "cart_prod"]
    if not products or any(each["batch"].text != "0" for each in products):
        return None
    found: dict[Template, int] = {}
    lifted = _lifted(template, splits, found)
    if lifted is None:
        return None
    size = Size.parse(BATCH)
    types = {
        name: dataclasses.replace(each, outer=(size, *each.outer))
        for name, each in operands.items()
    }
    return Batched(lifted, types, found)


# As deep as a person wrote: recursion is safe here.


def _lifted(
    part: Template, splits: Mapping[Template, int], found: dict[Template, int]
) -> Template | None:
    if isinstance(part, Operand):
        found[part] = splits[part] + 1
        return part
    below = [_lifted(child, splits, found) for child in part.children]
    children = [each for each in below if each is not None]
    merges = part.op == "flatten" and splits[part] > 0
    if len(children) < len(below) or merges or part.op == "gather":
        return None
    values = list(part.values)
    if part.op not in _AS_THEY_ARE:
        for i, attribute in enumerate(part.operator.attributes):
            value = values[i]
            if attribute.name in _MOVED:
                values[i] = _plus_one(value)
            elif attribute.name in _LONGER:
                values[i] = (Size.parse(BATCH), *value)
            elif attribute.name == "permutation":
                values[i] = (Size.parse("0"), *map(_plus_one, value))
    result = Node(part.operator, tuple(values), tuple(children))
    found[result] = splits[part] + 1
    return result


def _plus_one(size: Size) -> Size:
    return Size.parse(str(size.of({}) + 1) if size.is_number else f"({size}) + 1")
