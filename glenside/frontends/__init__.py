"""Model files in: each front end turns one kind of file or object into a :class:`Model`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glenside.errors import InputError, ModelError
from glenside.language import AccessType, Model, Term, topological_order

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int]]

__all__ = ["load_model", "model_of_terms"]


def load_model(
    model: object,
    *,
    shapes: Shapes | None = None,
    params: Mapping[str, Array] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Model:
    """A model from whatever the user has: a path, an ONNX ``ModelProto``, a term, a :class:`Model`.

    :param shapes: lengths of dynamic dimensions, as whole shapes by input name.
    :param params: arrays of parameters that the model names but does not hold.
    :raises ModelError: it is none of these, or cannot be read.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, Term):
        return model_of_terms({"output": model}, params or {})
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if not path.is_file():
            raise ModelError(f"{path}: no such file")
    elif type(model).__name__ != "ModelProto" and not isinstance(model, bytes):
        raise ModelError(
            f"a model is a path, an ONNX ModelProto, a glenside Model or Term; "
            f"got {type(model).__name__}"
        )
    from glenside.frontends.onnx import import_model

    return import_model(model, shapes=shapes, progress=progress)


def model_of_terms(outputs: Mapping[str, Term], params: Mapping[str, Array]) -> Model:
    """A model from terms: tensors named in ``params`` are parameters, the others inputs."""
    inputs: dict[str, AccessType] = {}
    weights: dict[str, Array] = {}
    for leaf in topological_order(outputs.values()):
        if leaf.op != "tensor":
            continue
        name = leaf["name"]
        if name not in params:
            if inputs.setdefault(name, leaf.type) != leaf.type:
                raise InputError(f"tensor {name!r} is used as {inputs[name]} and as {leaf.type}")
            continue
        array = np.asarray(params[name])
        if array.shape != leaf.shape or array.dtype.name != leaf.dtype:
            raise InputError(
                f"parameter {name!r} is {leaf.type} in the program, "
                f"got {array.dtype.name} of shape {array.shape}"
            )
        weights[name] = array
    unused = params.keys() - weights.keys()
    if unused:
        raise InputError(f"params: the program has no tensor {', '.join(sorted(unused))}")
    return Model("term", inputs, weights, dict(outputs))
