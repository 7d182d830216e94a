"""The forms that were found of a model, said for other sizes of it.

A form is a program that exploration found for one size. For another number of rows it is said again
(:mod:`glenside.shapes.rows`), where both the model and the form are shown to treat rows one by one,
and the model of the other size is that of the first but for their number. That is a proof, so that
nothing is explored; where it fails, exploration begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glenside.language import Model, Term, topological_order
from glenside.shapes.rows import Digit, NotByRows, by_rows, plain

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Form:
    """A program, the model of one size that it was found for, and what that size is called."""

    model: Model
    terms: tuple[Term, ...]
    size: str


@dataclass(frozen=True)
class Reused:
    """A form for another size: its terms, and where each output has the rows."""

    terms: tuple[Term, ...]
    digits: tuple[Digit | None, ...]
    model: Model
    """The model of that size, its parameters those of the form's model."""


def axes_of_rows(one: Model, other: Model) -> tuple[dict[str, int], int, int]:
    """The axis of each input that is longer in the other model, and its two lengths.

    :raises NotByRows: they differ in more than the length of one axis, the same one for all.
    """
    axes: dict[str, int] = {}
    lengths: set[tuple[int, int]] = set()
    if list(one.inputs) != list(other.inputs):
        raise NotByRows("the inputs are others")
    for name, type_ in one.inputs.items():
        there = other.inputs[name]
        if there.rank != type_.rank or there.dtype != type_.dtype:
            raise NotByRows(f"input {name!r} is of another rank or dtype")
        pairs = enumerate(zip(type_.shape, there.shape, strict=True))
        differing = {axis: pair for axis, pair in pairs if pair[0] != pair[1]}
        if len(differing) > 1:
            raise NotByRows(f"input {name!r} differs in more than one axis")
        for axis, pair in differing.items():
            axes[name] = axis
            lengths.add(pair)
    if len(lengths) != 1:
        raise NotByRows("the inputs differ by more than one number of rows")
    return axes, *lengths.pop()


def reused(form: Form, model: Model) -> Reused:
    """A form for the size of another import of the same model.

    :raises NotByRows: it cannot be shown to mean the same there; says why.
    """
    axes, old, new = axes_of_rows(form.model, model)
    expected = by_rows(form.model.roots, axes, old, new)
    if list(model.outputs) != list(form.model.outputs):
        raise NotByRows("the outputs are others")
    if plain(expected.terms) != plain(model.roots):
        raise NotByRows("the model computes something else for the other size")
    params = _same(form.model.params, model.params, model.roots)
    found = by_rows(form.terms, axes, old, new)
    if found.digits != expected.digits:
        raise NotByRows("the form has rows elsewhere than the model")
    for term, root in zip(found.terms, model.roots, strict=True):
        if term.type != root.type:
            raise NotByRows(f"the form gives {term.type}, the model {root.type}")
    return Reused(found.terms, found.digits, replace(model, params=params))


def _same(
    held: Mapping[str, Array], given: Mapping[str, Array], roots: Sequence[Term]
) -> dict[str, Array]:
    """The parameters that are held, if those given are the same.

    :raises NotByRows: one is not.
    """
    used = {term["name"] for term in topological_order(roots) if term.op == "tensor"}
    kept = {}
    for name, array in given.items():
        mine = held.get(name)
        if name in used and (mine is None or not _equal(mine, array)):
            raise NotByRows(f"parameter {name!r} is another for the other size")
        kept[name] = array if mine is None else mine
    # A form may use parameters that the model of this size lists as well, and no others.
    return kept


def _equal(a: Array, b: Array) -> bool:
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.ctypes.data == b.ctypes.data and a.strides == b.strides:
        return True
    width = f"V{a.dtype.itemsize}"  # As bytes: nan is not equal to itself.
    one, other = (np.ascontiguousarray(each).view(width) for each in (a, b))
    return bool(np.array_equal(one, other))
