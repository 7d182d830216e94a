"""The lengths that an ONNX model leaves open, and the model with more of them open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from glenside.frontends import load_model
from glenside.frontends.lengths import Length, OpenModel
from glenside.frontends.onnx import loading
from glenside.language import Model

Array = np.ndarray[Any, Any]


def open_proto(model: Any) -> OpenModel:
    """A model by its inputs, those left out that it holds values of.

    Lengths that it fixes can be opened: exporters write down the size of their example.
    """
    proto, name = loading.load(model)
    names = set(loading.input_names(proto.graph))
    known = {each.name: each for each in proto.graph.input}
    lengths = {
        each.name: loading.declared_lengths(each)
        for each in proto.graph.input
        if each.name in names
    }

    def load(
        shapes: Mapping[str, Sequence[int]], params: Mapping[str, Array] | None = None
    ) -> Model:
        fixed = {
            name: shape
            for name, shape in shapes.items()
            if name in known and not _fits(lengths.get(name), shape)
        }
        found = load_model(_reopened(proto, fixed), shapes=shapes, params=params)
        return replace(found, name=name)

    return OpenModel(lengths, load, proto, reopens=True)


def _fits(lengths: Sequence[Length] | None, shape: Sequence[int]) -> bool:
    if lengths is None or len(lengths) != len(shape):
        return True  # Importing tells what is wrong.
    return all(not isinstance(n, int) or n == m for n, m in zip(lengths, shape, strict=True))


def _reopened(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """The model with other lengths of inputs, nothing said of its values in between."""
    if not shapes:
        return proto
    opened = onnx.ModelProto()
    opened.CopyFrom(proto)
    for each in opened.graph.input:
        if each.name in shapes:
            dims = each.type.tensor_type.shape.dim
            for dim, length in zip(dims, shapes[each.name], strict=True):
                if dim.HasField("dim_value"):
                    dim.dim_value = int(length)
    for each in (*opened.graph.output, *opened.graph.value_info):
        each.type.tensor_type.ClearField("shape")
    return opened
