"""Einsum: contractions of pairs of operands, each one ``dot`` of a ``cart_prod``."""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.lowering.constants import Arrays
from glenside.frontends.lowering.phrases import dot, reduce, reshape, spread, transpose
from glenside.language import Term, builders
from glenside.language.builders import access


def einsum(arrays: Arrays, equation: str, operands: Sequence[Term]) -> Term:
    """``numpy.einsum(equation, *operands)``; raises :class:`ShapeError` where they do not fit."""
    subscripts, result = _labels(equation, operands)
    sizes: dict[str, int] = {}
    for labels, x in zip(subscripts, operands, strict=True):
        for label, length in zip(labels, x.shape, strict=True):
            if sizes.setdefault(label, length) == 1:
                sizes[label] = length
            elif length not in (1, sizes[label]):
                raise ShapeError(f"axis {label} has lengths {sizes[label]} and {length}")
    parts = [_diagonal(arrays, labels, x) for labels, x in zip(subscripts, operands, strict=True)]
    labels, term = parts[0]
    for i, (others, right) in enumerate(parts[1:], 1):
        later = set(result).union(*(each for each, _ in parts[i + 1 :]))
        labels, term = _contract(labels, term, others, right, later, sizes)
    labels, term = _sum_out(labels, term, set(result))
    if set(labels) != set(result) or len(set(result)) != len(result):
        raise ShapeError(f"the result names axes {result!r} that no operand has")
    term = transpose(term, [labels.index(label) for label in result])
    return spread(term, [sizes[label] for label in result])


def _labels(equation: str, operands: Sequence[Term]) -> tuple[list[str], str]:
    """One letter for each axis of each operand and of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ShapeError(f"equation {equation!r} has {len(terms)} terms, not {len(operands)}")
    used = set(equation)
    spare = [letter for letter in string.ascii_letters + string.digits if letter not in used]
    rank = 0
    for term, x in zip(terms, operands, strict=True):
        if "..." in term:
            rank = max(rank, x.type.rank - len(term) + 3)
    dots = "".join(spare[:rank])
    subscripts = []
    for term, x in zip(terms, operands, strict=True):
        count = x.type.rank - len(term) + 3
        if "..." in term and count >= 0:
            term = term.replace("...", dots[rank - count :])
        if len(term) != x.type.rank or not all(c.isalpha() or c in dots for c in term):
            raise ShapeError(f"equation {equation!r} does not fit data of shape {x.shape}")
        subscripts.append(term)
    if arrow and dots and "..." not in right:
        raise ShapeError(f"equation {equation!r} has '...' on its left side only")
    if arrow:
        return subscripts, right.replace("...", dots)
    once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
    return subscripts, dots + "".join(once)


def _diagonal(arrays: Arrays, labels: str, x: Term) -> tuple[str, Term]:
    """An operand that names an axis twice, reduced to its diagonal."""
    distinct = "".join(dict.fromkeys(labels))
    if distinct == labels:
        return labels, x
    lengths = dict(zip(labels, x.shape, strict=True))
    places = np.zeros([lengths[label] for label in distinct], np.int64)
    step = 1
    for label, length in reversed(list(zip(labels, x.shape, strict=True))):
        shape = [-1 if each == label else 1 for each in distinct]
        places = places + (np.arange(length) * step).reshape(shape)
        step *= length
    flat = reshape(x, (x.type.size,))
    return distinct, builders.gather(flat, arrays.parameter(places, "diagonal"), 0)


def _sum_out(labels: str, x: Term, wanted: set[str]) -> tuple[str, Term]:
    axes = [axis for axis, label in enumerate(labels) if label not in wanted]
    if not axes:
        return labels, x
    return "".join(each for each in labels if each in wanted), reduce("sum", x, axes, False)


def _contract(
    left: str, a: Term, right: str, b: Term, later: set[str], sizes: dict[str, int]
) -> tuple[str, Term]:
    """Two operands into one: shared axes are batch axes or, where nobody needs them, summed."""
    left, a = _sum_out(left, a, later | set(right))
    right, b = _sum_out(right, b, later | set(left))
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in later]
    summed = [label for label in shared if label not in later]
    rows = [label for label in left if label not in shared]
    columns = [label for label in right if label not in shared]
    a = _arranged(left, a, [*batch, *rows, *summed], sizes)
    b = _arranged(right, b, [*batch, *columns, *summed], sizes)
    split = len(batch)
    product = dot(access(a, split + len(rows)), access(b, split + len(columns)), split)
    return "".join([*batch, *rows, *columns]), product


def _arranged(labels: str, x: Term, order: list[str], sizes: dict[str, int]) -> Term:
    x = transpose(x, [labels.index(label) for label in order])
    return spread(x, [sizes[label] for label in order])
