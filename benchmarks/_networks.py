"""Networks that the GPU benchmarks share: light models and Relay text, in any dtype and batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from optimize import light_models

from glenside.frontends import load_model
from glenside.language import AccessType, Model, Term, builders, map_terms, rebuild

LEVELS = 8
"""Values that a random weight can have: files of weights shrink to 3 bits a weight."""


def network(name: str, batch: int = 1) -> Model:
    """A light model by its name (``squeezenet``) or a file; weights are drawn anew."""
    paths = {path.stem.removeprefix("light_"): path for path in light_models()}
    if name in paths:
        import onnx

        model = load_model(_batched(onnx.load(paths[name]), batch))
    else:
        if batch != 1:
            raise SystemExit(f"{name}: only the light models are made in other batches than 1")
        model = load_model(name)
    return replace(_logits(model), params=_random_weights(model), name=Path(name).stem)


def _logits(model: Model) -> Model:
    """Without a softmax at the end, as PyTorch has its networks; a softmax of random logits is all
    but one-hot, and would hide errors."""
    last = {}
    for root in model.roots:
        term = root
        while term.op in ("reshape", "flatten", "access", "squeeze", "unsqueeze"):
            term = term.children[0]
        if term.op == "compute" and term["function"] == "softmax":
            last[term] = True

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        return children[0] if term in last else rebuild(term, children)

    new = map_terms(model.roots, change)
    return replace(model, outputs={n: new[t] for n, t in model.outputs.items()}, names={})


def _batched(proto: Any, batch: int) -> Any:
    """The same graph for another batch: inputs, and reshapes that name the batch."""
    from onnx import numpy_helper

    constants = {each.name for each in proto.graph.initializer}
    for each in proto.graph.input:
        if each.name not in constants:
            each.type.tensor_type.shape.dim[0].dim_value = batch
    shapes = {node.input[1] for node in proto.graph.node if node.op_type == "Reshape"}
    for each in proto.graph.initializer:
        if each.name in shapes:
            shape = numpy_helper.to_array(each).copy()
            if shape.size and shape[0] == 1:
                shape[0] = batch
                each.CopyFrom(numpy_helper.from_array(shape, each.name))
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return proto


def _random_weights(model: Model, seed: int = 3) -> dict[str, np.ndarray]:
    """Weights of a few values each, scaled by their fan-in so that activations keep their size.

    Vectors (biases, batch normalisation) are positive, as variances have to be.
    """
    rng = np.random.default_rng(seed)
    steps = np.linspace(-1.5, 1.5, LEVELS, dtype=np.float32)
    params = {}
    for name, array in model.params.items():
        if array.dtype != np.float32 or array.size < 2:
            params[name] = array
        elif array.ndim > 1:
            scale = np.float32(np.sqrt(1 / np.prod(array.shape[1:])))
            params[name] = (steps * scale)[rng.integers(0, LEVELS, array.shape)]
        else:
            params[name] = (1 + steps / 4)[rng.integers(0, LEVELS, array.shape)]
    return params


def retyped(model: Model, dtype: str) -> Model:
    """The same network with float32 replaced by ``dtype`` throughout."""

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        if term.dtype == "float32" and term.op == "tensor":
            return builders.tensor(term["name"], term.shape, dtype)
        if term.dtype == "float32" and term.op == "constant":
            return builders.constant(term["value"], term.shape, dtype)
        if term.op == "cast" and term["dtype"] == "float32":
            return builders.cast(children[0], dtype)
        return rebuild(term, children)

    new = map_terms(model.roots, change)
    outputs = {name: new[term] for name, term in model.outputs.items()}
    inputs = {
        name: AccessType(t.outer, t.item, dtype if t.dtype == "float32" else t.dtype)
        for name, t in model.inputs.items()
    }
    params = {
        name: array.astype(dtype) if array.dtype == np.float32 else array
        for name, array in model.params.items()
    }
    return replace(model, inputs=inputs, outputs=outputs, params=params, names={})
