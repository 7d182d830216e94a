"""The official ONNX backend interface, so that anyone can run ONNX's own tests against Glenside.

Programs run in the NumPy interpreter: the backend shows what an imported model means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from glenside.errors import InputError
from glenside.frontends.onnx import import_model
from glenside.frontends.onnx.importer import NeedsValues
from glenside.frontends.onnx.loading import input_names
from glenside.language import Model, evaluate

Array = np.ndarray[Any, Any]


def _array(name: str, value: Any) -> Array:
    if isinstance(value, list | tuple) and any(isinstance(each, np.ndarray) for each in value):
        raise InputError(f"input {name!r} is a sequence: only tensors are supported")
    return np.asarray(value)


class GlensideRep(BackendRep):
    """A prepared model; it is read anew for every combination of input shapes it meets.

    Operands that must be known while importing, such as the shape a Reshape takes, may be inputs
    here: their values of the call are fixed then.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._proto = model
        self._names = input_names(model.graph)
        self._fixed: frozenset[str] = frozenset()
        self._read: dict[object, Model] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Array, ...]:
        """Outputs in order; ``inputs`` is a sequence, a mapping by name or one array."""
        if isinstance(inputs, Mapping):
            feeds = {name: _array(name, value) for name, value in inputs.items()}
        else:
            given = inputs if isinstance(inputs, Sequence) else [inputs]
            if len(given) != len(self._names):
                raise InputError(f"the model takes {len(self._names)} inputs, got {len(given)}")
            named = zip(self._names, given, strict=True)
            feeds = {name: _array(name, value) for name, value in named}
        model = self.model(feeds)
        env = {name: value for name, value in feeds.items() if name in model.inputs}
        return tuple(evaluate(model.roots, {**env, **model.params}))

    def model(self, feeds: Mapping[str, Array]) -> Model:
        """The model read for inputs like these."""
        while True:
            values = {name: feeds[name] for name in sorted(self._fixed)}
            shapes = {name: value.shape for name, value in feeds.items()}
            key = tuple(shapes.items()), tuple(value.tobytes() for value in values.values())
            if key not in self._read:
                try:
                    self._read[key] = import_model(self._proto, shapes=shapes, params=values)
                except NeedsValues as problem:
                    if problem.inputs <= self._fixed:
                        raise
                    self._fixed |= problem.inputs
                    continue
            return self._read[key]


class GlensideBackend(Backend):
    """``onnx.backend.base.Backend`` over the importer and the interpreter."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> GlensideRep:
        return GlensideRep(model)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Array, ...]:
        """Runs a single node of the newest opset on arrays for its (non-empty) inputs."""
        names = [name for name in node.input if name]
        infos = [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype), np.shape(x)
            )
            for name, x in zip(names, inputs, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], node.op_type, infos, outputs)
        return cls.prepare(onnx.helper.make_model(graph), device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.upper().split(":")[0] == "CPU"


prepare = GlensideBackend.prepare
run_node = GlensideBackend.run_node
run_model = GlensideBackend.run_model
supports_device = GlensideBackend.supports_device
is_compatible = GlensideBackend.is_compatible
