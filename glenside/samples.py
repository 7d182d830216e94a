"""Real networks to try things on: those that the onnx package ships, with weights of their own.

As shipped, every weight tensor of these networks holds one number over and over, so that wrong
programs, too, compute the answers that come with them. Here weights are drawn from a seed, scaled
by their fan-in: activations keep their magnitude through the layers, and answers depend on the
image.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import InputError

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]

_PREFIX = "light_"


def sample_names() -> list[str]:
    """The networks there are: ``squeezenet``, ``resnet50``, ..."""
    return sorted(path.stem.removeprefix(_PREFIX) for path in _folder().glob(f"{_PREFIX}*.onnx"))


def sample_model(name: str = "squeezenet", seed: int = 0) -> onnx.ModelProto:
    """A network for images of (1, 3, 224, 224), its weights drawn from ``seed``.

    :raises InputError: there is none of that name, or the seed is below zero.
    """
    import onnx

    if seed < 0:
        raise InputError(f"the seed is a whole number from 0 up, got {seed}")
    if name not in sample_names():
        raise InputError(f"no sample network is called {name!r}: {', '.join(sample_names())}")
    return with_drawn_weights(onnx.load(str(_folder() / f"{_PREFIX}{name}.onnx")), seed)


def with_drawn_weights(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """The same network; what ``ConstantOfShape`` fills becomes an initializer drawn at random.

    Variances of batch normalisation are positive.
    """
    import onnx
    from onnx import numpy_helper

    rng = np.random.default_rng(seed)
    shapes = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    role = {
        name: (node.op_type, position)
        for node in model.graph.node
        for position, name in enumerate(node.input)
    }
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            result.graph.node.append(node)
            continue
        shape = tuple(shapes[node.input[0]])
        drawn = _draw(rng, shape, variance=role[node.output[0]] in _VARIANCES)
        result.graph.initializer.append(numpy_helper.from_array(drawn, node.output[0]))
    result.ir_version = max(result.ir_version, 4)  # Before, initializers had to be inputs.
    used = {name for node in result.graph.node for name in node.input}
    weights = {each.name for each in result.graph.initializer}
    for values, wanted in (
        (result.graph.initializer, used),
        (result.graph.input, used - weights),
    ):
        kept = [each for each in values if each.name in wanted]
        del values[:]
        values.extend(kept)
    return result


_VARIANCES = (("BatchNormalization", 1), ("BatchNormalization", 4))
"""Operands that have to be positive, or that keep a layer alive."""


def _draw(rng: np.random.Generator, shape: tuple[int, ...], variance: bool) -> Array:
    if variance:
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    if len(shape) > 1:
        return rng.standard_normal(shape, "float32") * np.float32(np.sqrt(2 / np.prod(shape[1:])))
    return (0.1 * rng.standard_normal(shape)).astype("float32")


def _folder() -> Path:
    import onnx

    return Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
