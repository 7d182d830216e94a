"""A model in another precision: casts where values enter and leave, sums kept in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glenside.errors import InputError
from glenside.language import Model, Term, make, map_terms, topological_order
from glenside.language.shape import HALVES

Array = np.ndarray[Any, Any]

PRECISIONS = HALVES
"""What a float32 model may be computed in."""
_FULL = "float32"
_BOUNDED = ("softmax", "sigmoid", "tanh", "erf", "sign", "sin", "cos")
"""Functions whose results are at most 1, whatever they are given."""
_REPEATING = ("access", "transpose", "squeeze", "unsqueeze", "broadcast", "flatten", "reshape")
"""Moves of the same numbers, which a bound of a clip may have gone through."""


def in_precision(model: Model, precision: str) -> Model:
    """The model with its float32 values in ``precision``.

    Inputs and outputs keep their dtypes: values are cast where they enter and leave. Parameters are
    converted now. Sums, means and products of matrices add up in float32 and are cast after that.
    What onnxruntime computes (``host_op``) takes and gives float32. Values of other dtypes stay as
    they are. A number in the program that is beyond the precision (what is added to masked scores,
    say), and what is computed of it, stay in float32 up to a function with bounded results
    (``softmax``); the bounds of a clip, which no value reaches, become infinities.

    :raises InputError: no such precision, or a parameter has numbers beyond it.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is not known: {' and '.join(PRECISIONS)} are")
    params = {
        name: _converted(name, array, precision) if array.dtype == _FULL else array
        for name, array in model.params.items()
    }

    most = _most(precision)
    unreached = _unreached(model, most)

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        attributes = dict(zip(term.operator.positions, term.values, strict=True))
        beyond = term.dtype == _FULL and _is_beyond(term, most)
        if term in unreached:
            attributes["value"] = math.copysign(math.inf, attributes["value"])
        elif beyond or (
            term.op != "host_op"
            and any(
                old.dtype == new.dtype == _FULL
                for old, new in zip(term.children, children, strict=True)
            )
        ):
            full = [
                _cast(child, old.dtype) for old, child in zip(term.children, children, strict=True)
            ]
            made = make(term.op, full, **attributes)
            bounded = term.op == "compute" and term["function"] in _BOUNDED
            return _cast(made, precision) if bounded else made
        if term.op == "tensor":
            if term.dtype != _FULL:
                return term
            if term["name"] in params:
                return make("tensor", [], **{**attributes, "dtype": precision})
            return _cast(term, precision)
        if term.op == "host_op":
            given = [
                _cast(child, old.dtype) for old, child in zip(term.children, children, strict=True)
            ]
            made = make(term.op, given, **attributes)
            return _cast(made, precision) if term.dtype == _FULL else made
        if term.op in ("constant", "cast") and attributes["dtype"] == _FULL:
            attributes["dtype"] = precision
        if term.op == "compute" and any(child.dtype == precision for child in children):
            name = attributes["function"]
            if name in ("dot", "sum", "mean", "prod") and term.dtype == _FULL:
                made = make(term.op, children, **{**attributes, "accumulate": _FULL})
                return _cast(made, precision)
        return make(term.op, children, **attributes)

    new = map_terms(model.roots, change)
    outputs = {name: _cast(new[term], term.dtype) for name, term in model.outputs.items()}
    names = {new[term]: name for term, name in model.names.items() if term in new}
    asked = model.requirements
    return Model(model.name, model.inputs, params, outputs, names, model.operators, asked)


def _is_beyond(term: Term, most: float) -> bool:
    """Whether a term brings in a finite number that is larger than ``most``."""
    value = term["value"] if term.op in ("constant", "pad") else 0
    return not isinstance(value, str) and math.isfinite(value) and abs(value) > most


def _unreached(model: Model, most: float) -> set[Term]:
    """The constants beyond ``most`` that are but lower bounds below all numbers of the precision,
    or upper bounds above them, so that infinity bounds the same."""
    lower: dict[Term, bool] = {}
    upper: dict[Term, bool] = {}
    for root in model.roots:
        lower[root] = upper[root] = False
    order = topological_order(model.roots)
    for term in reversed(order):
        passes = term.op == "pair" or term.op in _REPEATING
        name = term["function"] if term.op == "compute" else ""
        for child in term.children:
            lower[child] = lower.get(child, True) and (lower[term] if passes else name == "maximum")
            upper[child] = upper.get(child, True) and (upper[term] if passes else name == "minimum")
    return {
        term
        for term in order
        if term.op == "constant"
        and term.dtype == _FULL
        and _is_beyond(term, most)
        and (lower if term["value"] < 0 else upper)[term]
    }


def _most(precision: str) -> float:
    """The largest finite number of the precision."""
    import ml_dtypes

    return float(ml_dtypes.finfo(precision).max)


def _cast(term: Term, dtype: str) -> Term:
    return term if term.dtype == dtype else make("cast", [term], dtype=dtype)


def _converted(name: str, array: Array, precision: str) -> Array:
    """The array in the precision; repetitions stay repetitions."""
    kept = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    most = _most(precision)
    beyond = np.isfinite(kept) & (np.abs(kept) > most)
    if beyond.any():
        worst = float(kept[beyond].flat[0])
        raise InputError(f"parameter {name!r} holds {worst:g}: {precision} ends at {most:g}")
    return np.broadcast_to(kept.astype(precision), array.shape)
