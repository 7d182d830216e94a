"""A model in another precision: casts where values enter and leave, sums kept in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.errors import InputError
from glenside.language import Model, Term, make, map_terms
from glenside.language.shape import HALVES

Array = np.ndarray[Any, Any]

PRECISIONS = HALVES
"""What a float32 model may be computed in."""
_FULL = "float32"


def in_precision(model: Model, precision: str) -> Model:
    """The model with its float32 values in ``precision``.

    Inputs and outputs keep their dtypes: values are cast where they enter and leave. Parameters are
    converted now. Sums, means and products of matrices add up in float32 and are cast after that.
    What onnxruntime computes (``host_op``) takes and gives float32. Values of other dtypes stay as
    they are.

    :raises InputError: no such precision, or a parameter has numbers beyond it.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is not known: {' and '.join(PRECISIONS)} are")
    params = {
        name: _converted(name, array, precision) if array.dtype == _FULL else array
        for name, array in model.params.items()
    }

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        attributes = dict(zip(term.operator.positions, term.values, strict=True))
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
    return Model(model.name, model.inputs, params, outputs, names, model.operators)


def _cast(term: Term, dtype: str) -> Term:
    return term if term.dtype == dtype else make("cast", [term], dtype=dtype)


def _converted(name: str, array: Array, precision: str) -> Array:
    """The array in the precision; repetitions stay repetitions."""
    import ml_dtypes

    kept = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    most = float(ml_dtypes.finfo(precision).max)
    beyond = np.isfinite(kept) & (np.abs(kept) > most)
    if beyond.any():
        worst = float(kept[beyond].flat[0])
        raise InputError(f"parameter {name!r} holds {worst:g}: {precision} ends at {most:g}")
    return np.broadcast_to(kept.astype(precision), array.shape)
