"""A float32 model in half precision, on request."""

from __future__ import annotations

from glenside.errors import InputError
from glenside.frontends.lowering.half_precision import in_float32, narrowed
from glenside.language import Model
from glenside.language.shape import HALVES

PRECISIONS = HALVES
"""What a float32 model may be computed in."""


def in_precision(model: Model, precision: str) -> Model:
    """The model with its float32 values in ``precision``, but for what that cannot hold.

    Inputs and outputs keep their dtypes: values are cast where they enter and leave. Parameters are
    converted now. Products of matrices add up in float32 and are rounded after that. What
    normalisations, softmaxes, distances and losses square, sum, exponentiate and divide by stays in
    float32, and so do numbers beyond the precision and what is computed of them
    (:mod:`glenside.frontends.lowering.half_precision`); the bounds of a clip, which no value
    reaches, become infinities. What onnxruntime computes (``host_op``) takes and gives float32.
    Values of other dtypes stay as they are.

    :raises InputError: there is no such precision.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision {precision!r} is not known: {' and '.join(PRECISIONS)} are")
    return narrowed(model, precision)


def without_halves(model: Model) -> Model | None:
    """The model in float32 where it computes in half precision; None where it does not, or where
    onnxruntime does, which takes no other dtype than the file's."""
    terms = model.terms()
    halves = [term for term in terms if term.dtype in HALVES]
    if not halves or any(term.op in ("host_op", "call", "blocked") for term in terms):
        return None
    return in_float32(model)
