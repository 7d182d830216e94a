"""The dynamic dimensions of an ``ExportedProgram``, and modules exported for one size after the
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glenside.errors import ModelError
from glenside.frontends import load_model
from glenside.frontends.lengths import Length, OpenModel
from glenside.frontends.torch.exporting import arguments, export
from glenside.frontends.torch.importer import called, input_names
from glenside.language import Model

Array = np.ndarray[Any, Any]


def open_program(program: Any) -> OpenModel:
    """An ``ExportedProgram`` by its dynamic dimensions and the ranges that it was exported for."""
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    lengths: dict[str, list[Length]] = {}
    ranges: dict[str, tuple[int, int | None]] = {}
    for name, given in zip(input_names(program), program.graph_signature.user_inputs, strict=True):
        value: Any = nodes[given].meta.get("val") if isinstance(given, str) else None
        if not hasattr(value, "shape"):
            continue
        lengths[name] = [each if isinstance(each, int) else called(each) for each in value.shape]
        for each in value.shape:
            stated = None if isinstance(each, int) else _range(program, each)
            if stated is not None:
                ranges[called(each)] = stated

    def load(
        shapes: Mapping[str, Sequence[int]], params: Mapping[str, Array] | None = None
    ) -> Model:
        return load_model(program, shapes=shapes, params=params)

    return OpenModel(lengths, load, program, ranges, meant=bool(ranges))


def _range(program: Any, length: Any) -> tuple[int, int | None] | None:
    """Between which numbers a length may be; None where it is said to be computed of others."""
    expression = length.node.expr
    stated = program.range_constraints.get(expression)
    if stated is None:
        return (0, None) if expression.free_symbols else None
    # Dimensions of 0 and 1 are special to torch.export, which assumes 2 unless told otherwise.
    low = int(stated.lower)
    return (1 if low == 2 else low), _finite(stated.upper)


def _finite(bound: Any) -> int | None:
    try:
        number = int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None  # One of PyTorch's infinities.
    return number if number < 2**62 else None


def open_module(module: Any, example_inputs: Any) -> OpenModel:
    """A module, exported anew for every size: the example is cut and repeated to it.

    Every length of the example can be opened.
    """
    exported = export(module, example_inputs)
    names = input_names(exported)
    args, kwargs = arguments(example_inputs)
    leaves = _flat(args, kwargs)
    if len(leaves) != len(names):
        raise ModelError(f"example_inputs are {len(leaves)} values, {len(names)} are exported")
    lengths = {
        name: [*value.shape]
        for name, value in zip(names, leaves, strict=True)
        if hasattr(value, "shape")
    }

    def load(
        shapes: Mapping[str, Sequence[int]], params: Mapping[str, Array] | None = None
    ) -> Model:
        unknown = shapes.keys() - lengths.keys()
        if unknown:
            raise ModelError(
                f"shapes: no input {', '.join(sorted(unknown))}; there are {', '.join(lengths)}"
            )
        resized = [
            _resized(value, shapes[name], name) if name in shapes else value
            for name, value in zip(names, leaves, strict=True)
        ]
        again = _nested(args, kwargs, resized)
        return load_model(export(module, again), params=params)

    return OpenModel(lengths, load, exported, reopens=True)


def _flat(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    from torch.utils import _pytree

    return list(_pytree.tree_leaves((args, dict(kwargs))))


def _nested(args: tuple[Any, ...], kwargs: Mapping[str, Any], leaves: Sequence[Any]) -> Any:
    """Other values in the place of the example's."""
    from torch.utils import _pytree

    spec = _pytree.tree_structure((args, dict(kwargs)))
    new_args, new_kwargs = _pytree.tree_unflatten(list(leaves), spec)
    return new_kwargs if kwargs else new_args


def _resized(tensor: Any, shape: Sequence[int], name: str) -> Any:
    """A tensor of another shape that holds no values but those it had."""
    import torch

    if len(shape) != tensor.dim():
        raise ModelError(f"shapes: input {name!r} has {tensor.dim()} axes, given {tuple(shape)}")
    for axis, length in enumerate(shape):
        had = tensor.shape[axis]
        if length != had:
            if not had:
                raise ModelError(f"example_inputs: {name!r} is empty along axis {axis}")
            tensor = tensor.index_select(axis, torch.arange(int(length)) % had)
    return tensor
