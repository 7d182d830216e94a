"""Model files in: each front end turns one kind of file or object into a :class:`Model`."""

from __future__ import annotations

import os
import re
import reprlib
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from glenside.errors import InputError, ModelError
from glenside.frontends.lowering.half_precision import widened_halves
from glenside.language import (
    AccessType,
    Model,
    Term,
    can_require,
    index_requirements,
    topological_order,
)

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int]]

__all__ = ["is_exported_program", "is_module", "is_relay", "load_model", "model_of_terms"]


def load_model(
    model: object,
    *,
    shapes: Shapes | None = None,
    params: Mapping[str, Array] | None = None,
    example_inputs: object = None,
    progress: Callable[[int, int], None] | None = None,
) -> Model:
    """A model from whatever the user has: a path, an ONNX ``ModelProto`` or its bytes, Relay text,
    a Relax ``IRModule``, a PyTorch module or ``ExportedProgram``, a term or a :class:`Model`.

    :param shapes: lengths of dynamic dimensions, as whole shapes by input name.
    :param params: arrays of parameters that the model names but does not hold, or of inputs to
        hold constant.
    :param example_inputs: what a PyTorch module is called with: a tuple, or a mapping by keyword;
        of an ``ExportedProgram`` they fix dynamic dimensions.
    :raises ModelError: it is none of these, or cannot be read.
    """
    if is_module(model):
        from glenside.frontends.torch import export

        if example_inputs is None:
            raise ModelError(
                f"a PyTorch module such as {type(model).__name__} is read by running it: give "
                "example_inputs=(...), what it is called with, or an ExportedProgram"
            )
        model = export(model, example_inputs)
        example_inputs = None
    if is_exported_program(model):
        from glenside.frontends.torch import import_torch, shapes_of

        if example_inputs is not None:
            shapes = {**shapes_of(model, example_inputs), **(shapes or {})}
        return widened_halves(import_torch(model, shapes=shapes, params=params, progress=progress))
    if example_inputs is not None:
        raise ModelError(
            f"example_inputs are for a PyTorch module; the model is a {type(model).__name__}"
        )
    if isinstance(model, Model):
        return _bind(model, params or {})
    if isinstance(model, Term):
        return model_of_terms({"output": model}, params or {})
    if type(model).__name__ == "IRModule":
        from glenside.frontends.relax import import_relax

        return widened_halves(import_relax(model, shapes=shapes, params=params, progress=progress))
    if isinstance(model, str | os.PathLike) and not _is_relay_text(model):
        _check_file(model)
        if Path(model).suffix == ".pt2":
            named_so = load_model(_exported_file(model), shapes=shapes, params=params,
                                  progress=progress)  # fmt: skip
            return replace(named_so, name=Path(model).stem)
    if is_relay(model):
        from glenside.frontends.relay import import_relay

        return widened_halves(import_relay(model, shapes=shapes, params=params, progress=progress))
    named = isinstance(model, str | os.PathLike)
    if not named and type(model).__name__ != "ModelProto" and not isinstance(model, bytes):
        raise ModelError(
            f"a model is a path, an ONNX ModelProto, Relay text, a Relax IRModule, "
            f"a PyTorch module or ExportedProgram, a glenside Model or Term; got "
            f"{type(model).__name__}"
        )
    from glenside.frontends.onnx import import_model

    source: Any = model
    return widened_halves(import_model(source, shapes=shapes, params=params, progress=progress))


def is_module(model: object) -> bool:
    """Whether a model is a PyTorch module."""
    return _is_torch(model, "torch.nn.modules", "Module")


def is_exported_program(model: object) -> bool:
    """Whether a model is what ``torch.export`` makes."""
    return _is_torch(model, "torch.export", "ExportedProgram")


def _exported_file(path: str | os.PathLike[str]) -> object:
    """The program that ``torch.export.save`` wrote.

    :raises ModelError: it is no such file, or PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise ModelError(
            f"{path}: PyTorch's files need PyTorch: pip install 'glenside[torch]'"
        ) from None
    try:
        return torch.export.load(os.fspath(path))
    except Exception as problem:  # PyTorch's errors share no base class.
        first = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        raise ModelError(f"{path} is not what torch.export.save writes: {first}") from problem


def _is_torch(model: object, module: str, name: str) -> bool:
    """Whether a value is of a class of PyTorch, which is not imported to find out."""
    return any(
        each.__name__ == name and each.__module__.startswith(module) for each in type(model).__mro__
    )


_RELAY = re.compile(rb"^\s*(?:#\[version|def\s+@|fn\s*[(\[]|free_var\s|type\s+\w|/\*|//)")


def _check_file(path: str | os.PathLike[str]) -> None:
    """:raises ModelError: it cannot be the file of a model, or cannot be read."""
    if str(path) == "":
        raise ModelError("the path of the model is empty")
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISREG(kind):
            with open(path, "rb") as file:
                file.read(1)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        shown = reprlib.repr(str(path))
        raise ModelError(f"cannot read the model {shown}: {reason}") from None
    if stat.S_ISDIR(kind):
        raise ModelError(f"{path} is a directory; a model is a file")
    if not stat.S_ISREG(kind):
        raise ModelError(f"{path} is a pipe or a device; a model is a file")


def _is_relay_text(model: object) -> TypeGuard[str]:
    return isinstance(model, str) and _RELAY.match(model.encode()) is not None


def is_relay(model: object) -> TypeGuard[str | os.PathLike[str]]:
    """Relay text, or a file that is called or begins like some."""
    if not isinstance(model, str | os.PathLike):
        return False
    if _is_relay_text(model) or Path(model).suffix == ".relay":
        return True
    with open(model, "rb") as file:
        return _RELAY.match(file.read(256)) is not None


def _bind(model: Model, params: Mapping[str, Array]) -> Model:
    """``model`` with the inputs named in ``params`` turned into parameters."""
    if not params:
        return model
    unknown = [name for name in params if name not in model.inputs]
    if unknown:
        raise InputError(
            f"params: {', '.join(map(repr, unknown))}: the inputs of {model.name} are "
            f"{', '.join(map(repr, model.inputs)) or 'none'}"
        )
    used = {leaf["name"] for leaf in model.leaves()}
    arrays = {n: a for n, a in {**model.params, **params}.items() if n in used}
    bound = model_of_terms(model.outputs, arrays)
    inputs = {name: t for name, t in model.inputs.items() if name not in params}
    asked = model.requirements
    open_ = tuple(each for each in asked if can_require(each.term, inputs))
    return replace(model, inputs=inputs, params=bound.params, requirements=open_)


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
    asked = index_requirements(outputs.values(), inputs, {})
    return Model("term", inputs, weights, dict(outputs), requirements=asked)
