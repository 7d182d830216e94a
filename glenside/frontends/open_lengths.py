"""Models of any size: what they say of the lengths of their inputs, and each size imported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glenside.frontends import is_exported_program, is_module, is_relay, load_model
from glenside.frontends.lengths import Length, OpenModel, Shapes
from glenside.language import Model

Array = np.ndarray[Any, Any]


def open_model(model: object, example_inputs: object = None) -> OpenModel | None:
    """A model by what it says of its inputs; None for what is of one size only, as terms are.

    :raises ModelError: it cannot be read.
    """
    if is_module(model):
        from glenside.frontends.torch.open_lengths import open_module

        return None if example_inputs is None else open_module(model, example_inputs)
    if is_exported_program(model):
        from glenside.frontends.torch.open_lengths import open_program

        return None if example_inputs is not None else open_program(model)
    if isinstance(model, Model) or type(model).__name__ == "Term":
        return None
    if type(model).__name__ == "IRModule":
        from glenside.frontends.relax.importer import declared_lengths as of_relax

        return _plain(model, of_relax(model))
    if is_relay(model):
        from glenside.frontends.relay.importer import declared_lengths as of_relay

        assert isinstance(model, str | os.PathLike)
        return _plain(model, of_relay(model))
    named = isinstance(model, str | os.PathLike)
    if not named and type(model).__name__ != "ModelProto" and not isinstance(model, bytes):
        return None  # Importing it says why.
    from glenside.frontends.onnx.open_lengths import open_proto

    return open_proto(model)


def _plain(model: object, lengths: Mapping[str, Sequence[Length] | None]) -> OpenModel:
    def load(shapes: Shapes, params: Mapping[str, Array] | None = None) -> Model:
        return load_model(model, shapes=shapes, params=params)

    return OpenModel(lengths, load, model)
