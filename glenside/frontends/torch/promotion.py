"""Type promotion as PyTorch has it: tensors count more than scalars, and these than numbers.

https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from glenside.frontends.torch.signature import Number
from glenside.language import Term, builders
from glenside.language.shape import FLOATS, HALVES


def _category(dtype: str) -> int:
    return 0 if dtype == "bool" else 2 if dtype in FLOATS else 1


def _of_number(value: float) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int64" if isinstance(value, int) else "float32"


def _common(a: str, b: str) -> str:
    """The least dtype that both go into; any float holds any integer."""
    if _category(a) != _category(b):
        return a if _category(a) > _category(b) else b
    if a != b and a in HALVES and b in HALVES:
        return "float32"
    if _category(a) == 2:
        return max(a, b, key=lambda each: np.dtype(each).itemsize)
    return np.promote_types(a, b).name


def promoted_dtype(operands: Sequence[Number]) -> str:
    """The dtype in which operands meet."""
    groups: list[list[str]] = [[], [], []]
    for each in operands:
        if not isinstance(each, Term):
            groups[2].append(_of_number(each))
        else:
            groups[0 if each.type.rank else 1].append(each.dtype)
    found: str | None = None
    for group in filter(None, groups):
        dtype = functools.reduce(_common, group)
        # A lesser kind of operand matters only where it is of a higher category.
        if found is None or _category(dtype) > _category(found):
            found = dtype
    assert found is not None
    return found


def as_tensor(x: Number, dtype: str) -> Term:
    """An operand in a dtype; a number as a tensor without axes."""
    if isinstance(x, Term):
        return builders.cast(x, dtype)
    value = float(x) if dtype in FLOATS else bool(x) if dtype == "bool" else int(x)
    return builders.constant(value, (), dtype)


def promoted(*operands: Number) -> tuple[Term, ...]:
    """Operands in the dtype in which they meet."""
    dtype = promoted_dtype(operands)
    return tuple(as_tensor(each, dtype) for each in operands)
