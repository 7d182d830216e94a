"""Relay text to a model: which parameters are inputs, which arrays the others have."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glenside.errors import ModelError, ShapeError
from glenside.frontends.counting import count_operators
from glenside.frontends.parameters import is_input, seeded
from glenside.frontends.relay.parser import parse_module
from glenside.frontends.relay.syntax_tree import Function, Module, Position
from glenside.frontends.relay.types import TensorType, access_type, flat, flat_parameters, spell
from glenside.frontends.relay.walk import Progress, Walk
from glenside.language import DTYPES, AccessType, Model, topological_order
from glenside.language.shape import check_shape

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int]]

_TEXT = re.compile(r"\n|def\s*@|^\s*fn\s*[(\[]|^\s*free_var\s")
"""What no path holds."""


def import_relay(
    text_or_path: str | os.PathLike[str],
    *,
    params: Mapping[str, Array] | None = None,
    seed: int = 0,
    shapes: Shapes | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model that the function ``@main`` of a Relay module, or a lone ``fn``, describes.

    Inputs are the first parameter, those called data, input or image (and ``data_1``, ...), and
    the tensors of tuples, as ``state.0``; all others are weights.

    :param text_or_path: Relay text, or a file that holds it.
    :param params: arrays by parameter name; a parameter given here is a weight whatever its name.
    :param seed: weights that ``params`` lacks are drawn from it; see :func:`seeded_arrays`.
    :param shapes: whole shapes, by name, of parameters with unknown lengths (``?``).
    :param progress: called with (bindings done, bindings in all).
    :raises UnsupportedOperator: lists every call that has no meaning here.
    :raises ModelError: the text is no Relay module, contradicts itself, or ``params`` or
        ``shapes`` do not fit it; one line that says where.
    """
    source = _read(text_or_path)
    declared = source.parameters(shapes or {})
    given = {name: _fit(name, array, declared) for name, array in (params or {}).items()}
    inputs: dict[str, AccessType] = {}
    weights: dict[str, Array] = {}
    for position, (name, type_) in enumerate(declared.items()):
        if name in given:
            weights[name] = given[name]
        elif is_input(position, name):
            inputs[name] = type_
        else:
            weights[name] = seeded(position, name, type_, seed)
    walk = Walk(source.name, source.module, source.main, declared, given)
    outputs = {f"out{i}": term for i, term in enumerate(flat(walk.run(progress)))}
    leaves = topological_order(outputs.values())
    used = {leaf["name"] for leaf in leaves if leaf.op == "tensor"}
    kept = {
        name: array for name, array in (weights | walk.constants.arrays).items() if name in used
    }
    counts = count_operators(walk.calls, inputs)
    asked = walk.constants.requirements(outputs.values(), inputs)
    return Model(source.model, inputs, kept, outputs, walk.names, counts, asked)


def declared_lengths(text_or_path: str | os.PathLike[str]) -> dict[str, list[int | str | None]]:
    """Axis lengths of the parameters that are inputs, None where the text has a ``?``.

    :raises ModelError: the text is no Relay module.
    """
    found: dict[str, list[int | str | None]] = {}
    position = 0
    for parameter in _read(text_or_path).main.parameters:
        for name, type_ in flat_parameters(parameter.name, parameter.type):
            open_ = isinstance(type_, TensorType) and None in type_.shape
            if isinstance(type_, TensorType) and (open_ or is_input(position, name)):
                found[name] = [*type_.shape]
            position += 1
    return found


def seeded_arrays(
    text_or_path: str | os.PathLike[str], *, seed: int = 0, shapes: Shapes | None = None
) -> dict[str, Array]:
    """Arrays for all parameters, inputs included, in order, drawn from ``seed``.

    Integers are 0 to 9, data is standard normal, vectors are small, or around 1 where they scale,
    and all else is normal with variance 1 / fan-in.
    """
    declared = _read(text_or_path).parameters(shapes or {})
    return {
        name: seeded(position, name, type_, seed)
        for position, (name, type_) in enumerate(declared.items())
    }


@dataclass(frozen=True)
class _Source:
    """A parsed module: what messages call it, the model's name, its main function."""

    name: str
    model: str
    module: Module
    main: Function

    def error(self, at: Position, what: object) -> ModelError:
        return ModelError(f"{self.name}: {at}: {what}")

    def parameters(self, shapes: Shapes) -> dict[str, AccessType]:
        """Types of all parameters, tuples flattened, unknown lengths taken from ``shapes``."""
        result: dict[str, AccessType] = {}
        for parameter in self.main.parameters:
            for name, type_ in flat_parameters(parameter.name, parameter.type):
                what = f"parameter %{name}"
                if name in result:
                    raise self.error(parameter.at, f"{what} is declared twice")
                if not isinstance(type_, TensorType) or type_.dtype not in DTYPES:
                    kind = spell(type_)
                    raise self.error(parameter.at, f"{what} has the unsupported type {kind}")
                try:
                    result[name] = _settle(what, type_, shapes.get(name))
                except (ModelError, ShapeError) as problem:
                    raise self.error(parameter.at, problem) from None
        unknown = shapes.keys() - result.keys()
        if unknown:
            raise ModelError(f"{self.name}: shapes: no parameter {', '.join(sorted(unknown))}")
        return result


def _read(text_or_path: str | os.PathLike[str]) -> _Source:
    name = model = "relay"
    if isinstance(text_or_path, str) and _TEXT.search(text_or_path):
        text = text_or_path
    else:
        path = Path(text_or_path)
        name, model = path.name, path.stem
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as problem:
            raise ModelError(f"{name} cannot be read as a Relay text file: {problem}") from None
    module = parse_module(text, name)
    if "main" not in module.functions:
        raise ModelError(f"{name}: the module has no function @main")
    return _Source(name, model, module, module.functions["main"])


def _settle(what: str, type_: TensorType, shape: Sequence[int] | None) -> AccessType:
    if shape is None:
        if None in type_.shape:
            name = what.removeprefix("parameter %")
            raise ModelError(f"{what} is {type_}: give its shape with shapes={{{name!r}: (...)}}")
        known = access_type(type_)
        check_shape(known.shape, what)
        return known
    lengths = check_shape(shape, f"{what}: shapes")
    fits = len(lengths) == len(type_.shape) and all(
        wanted in (None, length) for wanted, length in zip(type_.shape, lengths, strict=True)
    )
    if not fits:
        raise ModelError(f"{what} is {type_}, which shapes gives as {lengths}")
    return AccessType(lengths, (), type_.dtype)


def _fit(name: str, array: Array, declared: Mapping[str, AccessType]) -> Array:
    if name not in declared:
        raise ModelError(f"params: the model has no parameter {name!r}")
    wanted, array = declared[name], np.asarray(array)
    if array.shape != wanted.shape or array.dtype.name != wanted.dtype:
        raise ModelError(
            f"params: {name!r} is {wanted.dtype} of shape {wanted.shape}, "
            f"got {array.dtype.name} of shape {array.shape}"
        )
    return array
