"""An ``ExportedProgram`` to a model: its graph lowered node by node, its weights where they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glenside.errors import GlensideError, ModelError, Unsupported, UnsupportedOperator
from glenside.frontends.counting import count_operators
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.refusal import Refused
from glenside.frontends.torch.exporting import arguments, in_core_operators, with_shapes
from glenside.frontends.torch.operators import OPERATORS, REFUSED
from glenside.frontends.torch.signature import Node
from glenside.frontends.torch.values import as_array, plain, type_of
from glenside.language import (
    AccessType,
    Model,
    Term,
    builders,
    topological_order,
)

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int]]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Imported:
    """A model, and what of it PyTorch's caller has to do."""

    model: Model
    mutated: dict[str, str] = field(default_factory=dict)
    """Outputs that are new values of inputs, and these inputs."""


def import_torch(
    program: Any,
    *,
    shapes: Shapes | None = None,
    params: Mapping[str, Array] | None = None,
    progress: Progress | None = None,
) -> Model:
    """The model that a ``torch.export.ExportedProgram`` describes.

    Parameters, buffers and constants keep their names and share their memory. Inputs are called as
    the parameters of ``forward``; parts of one ``state.0`` or ``state.key``.

    :param shapes: whole shapes, by name, of inputs with dynamic dimensions.
    :param params: arrays of inputs to hold constant, by name.
    :raises UnsupportedOperator: lists every node that has no meaning here.
    :raises ModelError: it has dynamic dimensions that ``shapes`` leaves open, or buffers change.
    """
    found = read(program, shapes=shapes, params=params, progress=progress)
    if found.mutated:
        first = next(iter(found.mutated.values()))
        raise ModelError(
            f"{first!r} is changed by a call: a program keeps no state; in training mode call "
            ".eval() on the module, else return the new value"
        )
    return found.model


def read(
    program: Any,
    *,
    shapes: Shapes | None = None,
    params: Mapping[str, Array] | None = None,
    progress: Progress | None = None,
) -> Imported:
    """As :func:`import_torch`, changed inputs and buffers being further outputs."""
    names = input_names(program)
    core = core_of(program, names, shapes)
    return read_core(core, names, params=params, progress=progress)


def core_of(program: Any, names: Sequence[str], shapes: Shapes | None = None) -> Any:
    """A program in core operators, without dynamic dimensions: what takes the time of reading it.

    :raises ModelError: it has dynamic dimensions that ``shapes`` leaves open.
    """
    return in_core_operators(_fixed(program, shapes or {}, names))


def read_core(
    program: Any,
    names: Sequence[str],
    *,
    params: Mapping[str, Array] | None = None,
    progress: Progress | None = None,
) -> Imported:
    """As :func:`read`, of what :func:`core_of` makes.

    :param names: of its inputs, :func:`input_names` of the program that it was.
    """
    return _Reader(program, names, dict(params or {})).run(progress)


# --- names --------------------------------------------------------------------------------------


def input_names(program: Any) -> list[str]:
    """What the inputs are called, in flat order."""
    from torch.utils import _pytree

    nodes = list(program.graph_signature.user_inputs)
    count = len(nodes)
    spec = program.call_spec.in_spec
    if spec is None or spec.num_leaves != count:
        return [str(node) for node in nodes]
    whole = _pytree.tree_unflatten(list(range(count)), spec)
    paths = [path for path, _ in _pytree.tree_flatten_with_path(whole)[0]]
    stated = program.module_call_graph[0].signature
    called = list(getattr(stated, "forward_arg_names", None) or ())
    names = []
    for node, path in zip(nodes, paths, strict=True):
        keys = [_key(each) for each in path]
        if keys[0] == "1":
            names.append(".".join(keys[1:]))
        elif len(keys) == 2:
            # A positional argument: export names its placeholder after it.
            names.append(str(node))
        elif int(keys[1]) < len(called):
            names.append(".".join([called[int(keys[1])], *keys[2:]]))
        else:
            names.append(_stem(str(node), keys[2:]))
    return names if len(set(names)) == count else [str(node) for node in nodes]


def shapes_of(program: Any, example_inputs: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the inputs of an ``ExportedProgram`` in a call, by name.

    :raises ModelError: it is not called like that.
    """
    from torch.utils import _pytree

    flat = _pytree.tree_leaves(arguments(example_inputs))
    names = input_names(program)
    if len(flat) != len(names):
        raise ModelError(
            f"example_inputs: the program takes {', '.join(names)}; got {len(flat)} values"
        )
    return {
        name: tuple(value.shape)
        for name, value in zip(names, flat, strict=True)
        if hasattr(value, "shape")
    }


def _stem(node: str, keys: Sequence[str]) -> str:
    """``state.0`` for the placeholder ``state_0`` whose keys are ``0``."""
    joined = "_" + "_".join(re.sub(r"\W", "_", key) for key in keys)
    base = node.removesuffix(joined)
    return ".".join([base, *keys]) if base != node else node


def _key(entry: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def output_names(program: Any, count: int) -> list[str]:
    """What the outputs are called: by keys where the module gives a mapping, else by number."""
    from torch.utils import _pytree

    numbered = ["output"] if count == 1 else [f"out{i}" for i in range(count)]
    spec = program.call_spec.out_spec
    if spec is None or spec.num_leaves != count:
        return numbered
    whole = _pytree.tree_unflatten(list(range(count)), spec)
    paths = [path for path, _ in _pytree.tree_flatten_with_path(whole)[0]]
    if not any(hasattr(entry, "key") or hasattr(entry, "name") for p in paths for entry in p[:1]):
        return numbered
    names = [".".join(map(_key, path)) for path in paths]
    return names if len(set(names)) == count else numbered


def _fixed(program: Any, shapes: Shapes, names: Sequence[str]) -> Any:
    """The program with all lengths known.

    :raises ModelError: ``shapes`` names no input, contradicts it, or leaves lengths open.
    """
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    tensors = {
        name: nodes[given].meta["val"]
        for name, given in zip(names, program.graph_signature.user_inputs, strict=True)
        if isinstance(given, str) and hasattr(nodes[given].meta.get("val"), "shape")
    }
    unknown = shapes.keys() - tensors.keys()
    if unknown:
        raise ModelError(
            f"shapes: no input {', '.join(sorted(unknown))}; there are {', '.join(tensors)}"
        )
    open_ = False
    for name, value in tensors.items():
        lengths = tuple(value.shape)
        dynamic = [axis for axis, n in enumerate(lengths) if not isinstance(n, int)]
        open_ = open_ or bool(dynamic)
        if name in shapes:
            given = tuple(shapes[name])
            fits = len(given) == len(lengths) and all(
                not isinstance(n, int) or n == g for n, g in zip(lengths, given, strict=True)
            )
            if not fits:
                stated = ", ".join(map(called, lengths))
                raise ModelError(f"shapes: input {name!r} is of shape ({stated}), given {given}")
        elif dynamic:
            axis = dynamic[0]
            stated = ", ".join(map(called, lengths))
            raise ModelError(
                f"input {name!r} has the dynamic dimension {called(lengths[axis])} (axis {axis} "
                f"of ({stated})): give its shape with shapes={{{name!r}: (...)}}"
            )
    return with_shapes(program, shapes, names) if open_ else program


def called(length: Any) -> str:
    """What the user calls a length: the name of a ``Dim``, where that is still known."""
    inner = getattr(length, "node", None)
    env = getattr(inner, "shape_env", None)
    names = getattr(env, "source_name_to_debug_name", {})
    for source in getattr(env, "var_to_sources", {}).get(getattr(inner, "expr", None), ()):
        where = source.name() if callable(source.name) else source.name
        if where in names:
            return str(names[where])
    return str(length)


# --- the graph ----------------------------------------------------------------------------------


class _Missing:
    """Marks the value of what could not be lowered; what depends on it is passed over."""


_MISSING = _Missing()


class _Reader:
    def __init__(self, program: Any, names: Sequence[str], params: dict[str, Array]) -> None:
        self._program = program
        self._taken: set[str] = set()
        self._constants = Constants(self._taken)
        self._values: dict[Any, Any] = {}
        self._inputs: dict[str, AccessType] = {}
        self._targets: dict[str, str] = {}
        """What the names of placeholders stand for in the module."""
        self._names: dict[Term, str] = {}
        self._calls: list[tuple[str, Any]] = []
        self._unsupported: list[Unsupported] = []
        self._weights: dict[tuple[Any, ...], Term] = {}
        self._given = params
        self._read_inputs(names)

    def _read_inputs(self, names: Sequence[str]) -> None:
        from torch.export.graph_signature import InputKind

        called = iter(names)
        unknown = self._given.keys() - set(names)
        if unknown:
            raise ModelError(f"params: the model has no input {', '.join(sorted(unknown))}")
        nodes = [node for node in self._program.graph.nodes if node.op == "placeholder"]
        for node, spec in zip(nodes, self._program.graph_signature.input_specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                self._values[node] = self._input(node, spec, next(called))
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                held = self._program.state_dict
                if spec.target not in held or spec.kind == InputKind.CONSTANT_TENSOR:
                    held = self._program.constants
                self._targets[node.name] = spec.target
                self._values[node] = self._weight(spec.target, held[spec.target])
            elif spec.kind == InputKind.TOKEN:
                self._values[node] = None  # Orders what has effects, which has no meaning here.
            else:
                raise ModelError(f"input {node.name!r} is a {spec.kind.name}, not a tensor")

    def _input(self, node: Any, spec: Any, name: str) -> Any:
        self._targets[node.name] = name
        try:
            type_ = type_of(node.meta.get("val"))
        except Refused as problem:
            raise ModelError(f"input {name!r}: {problem}") from None
        if type_ is None:
            return getattr(spec.arg, "value", None)
        self._taken.add(name)
        if name in self._given:
            array = np.asarray(self._given[name])
            if array.shape != type_.shape or array.dtype.name != type_.dtype:
                raise ModelError(
                    f"params: {name!r} is {type_.dtype} of shape {type_.shape}, got "
                    f"{array.dtype.name} of shape {array.shape}"
                )
            self._constants.arrays[name] = array
        else:
            self._inputs[name] = type_
        return builders.tensor(name, type_.shape, type_.dtype)

    def _weight(self, name: str, tensor: Any) -> Term:
        """The tensor of a weight; one that is tied to another is that other."""
        array = as_array(tensor, name)
        at = array.__array_interface__["data"][0]
        key = (at, array.shape, array.strides, array.dtype.name)
        if key not in self._weights or not array.size:
            self._constants.scope = ""
            self._weights[key] = self._constants.parameter(array, name)
        return self._weights[key]

    def run(self, progress: Progress | None) -> Imported:
        """The model; raises :class:`ModelError`."""
        nodes = list(self._program.graph.nodes)
        output: Any = None
        for done, node in enumerate(nodes, 1):
            if node.op == "call_function":
                self._values[node] = self._settle(node)
            elif node.op == "output":
                output = node
            elif node.op == "get_attr":
                self._values[node] = self._attribute(node)
            if progress is not None:
                progress(done, len(nodes))
        return self._finished(output)

    def _attribute(self, node: Any) -> Any:
        value = self._program.graph_module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        import torch

        return self._weight(str(node.target), value) if isinstance(value, torch.Tensor) else value

    def _settle(self, node: Any) -> Any:
        name, operator = _place(node), str(node.target)
        try:
            if _lacks(node, self._values):
                return _MISSING
            value = self._lower(node, name)
        except Refused as problem:
            self._unsupported.append(Unsupported(name, operator, str(problem)))
            return _MISSING
        except UnsupportedOperator:
            raise
        except GlensideError as problem:
            raise ModelError(f"{name} ({operator}): {problem}") from problem
        if isinstance(value, Term):
            self._names.setdefault(value, name)
        return value

    def _lower(self, node: Any, name: str) -> Any:
        import operator

        if node.target is operator.getitem:
            of, index = (self._value(each) for each in node.args)
            if of[index] is None:
                raise Refused(f"result {index} of {node.args[0].target} is not computed here")
            return of[index]
        target = str(node.target)
        if target.startswith("aten._assert") or target.startswith("aten.sym_constrain"):
            return None
        if not target.startswith("aten."):
            raise Refused("no meaning is known for this operator; ATen's core operators have one")
        short = target.split(".")[1]
        if short not in OPERATORS:
            raise Refused(REFUSED.get(short, "no meaning is known for this operator"))
        self._constants.scope, self._constants.caller = name, f"{name} ({target})"
        stated = node.meta.get("val")
        several = isinstance(stated, list | tuple)
        types = [type_of(each) for each in (stated if several else (stated,))]
        given, defaults = self._arguments(node)
        value = OPERATORS[short](Node(self._constants, types), given, defaults)
        if isinstance(value, tuple) and not several:
            value = value[0]
        self._check(value if isinstance(value, tuple) else (value,), types)
        self._calls.append((short, value))
        return value

    def _arguments(self, node: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of a node by name, and defaults of those that have one."""
        given: dict[str, Any] = {}
        defaults: dict[str, Any] = {}
        schema = node.target._schema.arguments  # noqa: SLF001  (PyTorch has no other way)
        for position, argument in enumerate(schema):
            name = "x" if argument.name == "self" else argument.name
            if argument.has_default_value():
                defaults[name] = plain(argument.default_value)
            if position < len(node.args):
                given[name] = self._value(node.args[position])
            elif argument.name in node.kwargs:
                given[name] = self._value(node.kwargs[argument.name])
            elif name in defaults:
                given[name] = defaults[name]
        return given, defaults

    def _value(self, argument: Any) -> Any:
        """An argument, nodes in it replaced by their values."""
        import torch

        if isinstance(argument, torch.fx.Node):
            return self._values[argument]
        if isinstance(argument, list | tuple):
            return tuple(self._value(each) for each in argument)
        return plain(argument)

    def _check(self, values: Sequence[Any], types: Sequence[AccessType | None]) -> None:
        """Every result must be what the graph states it to be."""
        for value, type_ in zip(values, types, strict=False):
            if isinstance(value, Term) and type_ is not None and value.type != type_:
                raise Refused(f"is stated to be {type_}, but would be {value.type}")

    def _finished(self, output: Any) -> Imported:
        from torch.export.graph_signature import OutputKind

        specs = self._program.graph_signature.output_specs
        results = output.args[0]
        results = list(results) if isinstance(results, list | tuple) else [results]
        outputs: dict[str, Term] = {}
        mutated: dict[str, str] = {}
        users = [spec.kind == OutputKind.USER_OUTPUT for spec in specs]
        names = iter(output_names(self._program, sum(users)))
        for result, spec, user in zip(results, specs, users, strict=True):
            if spec.kind == OutputKind.TOKEN:
                continue
            value = self._values.get(result, result)
            name = next(names) if user else f"{spec.target} after the call"
            if isinstance(value, _Missing):
                raise UnsupportedOperator(self._unsupported)
            if not isinstance(value, Term):
                if value is None or isinstance(value, int | float | bool):
                    continue
                raise ModelError(f"output {name!r} is {value!r}, which is no tensor")
            outputs[name] = value
            if not user:
                mutated[name] = self._targets.get(spec.target, spec.target)
        if not outputs:
            raise ModelError("the module gives no tensor")
        used = {leaf["name"] for leaf in topological_order(outputs.values()) if leaf.op == "tensor"}
        weights = {n: array for n, array in self._constants.arrays.items() if n in used}
        counts = count_operators(self._calls, self._inputs)
        asked = self._constants.requirements(outputs.values(), self._inputs)
        model = Model("main", self._inputs, weights, outputs, self._names, counts, asked)
        return Imported(model, mutated)


def _place(node: Any) -> str:
    """The module that a node belongs to, and its own name."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values() if path]
    return f"{paths[-1]}/{node.name}" if paths else str(node.name)


def _lacks(node: Any, values: Mapping[Any, Any]) -> bool:
    return any(isinstance(values.get(each), _Missing) for each in node.all_input_nodes)
