"""A Relax module to a model: which parameters are inputs, which arrays the others have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from glenside.errors import ModelError
from glenside.frontends.counting import count_operators
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.parameters import seeded
from glenside.frontends.relax.signature import Value
from glenside.frontends.relax.tvm_values import Lengths, dims_of, dtype_of
from glenside.frontends.relax.walk import Progress, Walk
from glenside.language import (
    DTYPES,
    AccessType,
    Model,
    Term,
    builders,
    topological_order,
)

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, Sequence[int]]


def import_relax(
    module: Any,
    *,
    params: Mapping[str, Array] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Model:
    """The model that the function ``main`` of a Relax module describes.

    Parameters are inputs, except those that ``params`` or the function's attribute ``params``
    gives, and those behind the first ``num_input`` where it has that attribute: these are weights.
    A parameter that is a tuple gives inputs called ``state.0``, ``state.1``, ...

    :param module: ``tvm.IRModule``; without a ``main``, its only Relax function is taken.
    :param params: arrays by parameter name.
    :param shapes: whole shapes, by name, of parameters with symbolic or unknown lengths.
    :param seed: weights that nobody gave are drawn from it.
    :param progress: called with (bindings done, bindings in all).
    :raises UnsupportedOperator: lists every call that has no meaning here.
    :raises ModelError: the module contradicts itself, leaves a shape open, or ``params`` or
        ``shapes`` do not fit it.
    """
    main, name = _entry(module)
    parameters = _Parameters(main, params or {}, shapes or {})
    constants = Constants(set(parameters.tensors))
    constants.arrays.update(parameters.arrays)
    for position, (each, type_) in enumerate(parameters.tensors.items()):
        if each in parameters.unfilled:
            constants.arrays[each] = seeded(position, each, type_, seed)
    walk = Walk(module, constants, parameters.lengths)
    result = walk.run(main, parameters.arguments, progress)
    outputs = {f"out{i}": term for i, term in enumerate(_flat(result))}
    if not outputs:
        raise ModelError("the function gives no tensor")
    inputs = {n: t for n, t in parameters.tensors.items() if n not in constants.arrays}
    used = {leaf["name"] for leaf in topological_order(outputs.values()) if leaf.op == "tensor"}
    weights = {n: array for n, array in constants.arrays.items() if n in used}
    counts = count_operators(walk.calls, inputs)
    asked = constants.requirements(outputs.values(), inputs)
    return Model(name, inputs, weights, outputs, walk.names, counts, asked)


def declared_lengths(module: Any) -> dict[str, list[int | str | None] | None]:
    """Axis lengths of the parameters that are inputs: numbers, names, and None for expressions of
    names; None for an unknown rank.

    :raises ModelError: the module has no function to import.
    """
    main, _ = _entry(module)
    unique = _last_occurrences(main.params)
    attributes = main.attrs or {}
    held = len(attributes["params"]) if "params" in attributes else 0
    count = int(attributes["num_input"]) if "num_input" in attributes else len(unique) - held
    found: dict[str, list[int | str | None] | None] = {}
    for name, type_ in _flattened(unique[:count]):
        dims = dims_of(type_)
        found[name] = None if dims is None else [_said(dim) for dim in dims]
    return found


def _said(dim: Any) -> int | str | None:
    """A length as a number or a name; None for an expression of names."""
    from tvm import tirx

    if isinstance(dim, tirx.IntImm):
        return int(dim.value)
    return str(dim.name) if isinstance(dim, tirx.Var) else None


def _entry(module: Any) -> tuple[Any, str]:
    """The function to import and a name for the model."""
    from tvm import relax

    functions = {
        str(variable.name_hint): function
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function)
    }
    if "main" in functions:
        return functions["main"], "main"
    if len(functions) != 1:
        listed = ", ".join(sorted(functions)) or "none"
        raise ModelError(f"the module must have a Relax function main; there are: {listed}")
    ((name, function),) = functions.items()
    return function, name


class _Parameters:
    """The parameters of a function, tuples flattened: types, arrays, and what they stand for."""

    def __init__(self, main: Any, params: Mapping[str, Array], shapes: Shapes) -> None:
        self.lengths = Lengths()
        self.tensors: dict[str, AccessType] = {}
        self.arrays: dict[str, Array] = {}
        self.unfilled: set[str] = set()
        """Weights that nobody gave."""
        unique = _last_occurrences(main.params)
        declared = dict(_flattened(unique))
        self._take_arrays(main, unique, params, declared)
        self._settle(declared, shapes)
        attributes = main.attrs or {}
        count = int(attributes["num_input"]) if "num_input" in attributes else len(unique)
        for parameter in unique[count:]:
            self.unfilled.update(n for n, _ in _flattened([parameter]) if n not in self.arrays)
        terms = {n: builders.tensor(n, t.shape, t.dtype) for n, t in self.tensors.items()}
        self.arguments: list[Value] = [_nest(p.name, p.ty, terms) for p in main.params]

    def _take_arrays(
        self,
        main: Any,
        unique: Sequence[Any],
        params: Mapping[str, Array],
        declared: Mapping[str, Any],
    ) -> None:
        held = list((main.attrs or {}).get("params", ()))
        for parameter, array in zip(unique[len(unique) - len(held) :], held, strict=True):
            self.arrays[str(parameter.name)] = array.numpy()
        unknown = params.keys() - declared.keys()
        if unknown:
            raise ModelError(f"params: the model has no parameter {', '.join(sorted(unknown))}")
        self.arrays |= {name: np.asarray(array) for name, array in params.items()}
        for name, array in self.arrays.items():
            if name in declared and array.dtype.name != dtype_of(declared[name]):
                raise ModelError(
                    f"params: {name!r} is {dtype_of(declared[name])}, got {array.dtype.name}"
                )

    def _settle(self, declared: Mapping[str, Any], shapes: Shapes) -> None:
        unknown = shapes.keys() - declared.keys()
        if unknown:
            raise ModelError(f"shapes: no parameter {', '.join(sorted(unknown))}")
        given = {name: tuple(int(n) for n in shape) for name, shape in shapes.items()}
        given |= {name: array.shape for name, array in self.arrays.items()}
        for name, type_ in declared.items():
            dtype, dims = dtype_of(type_), dims_of(type_)
            if dtype not in DTYPES:
                raise ModelError(f"parameter {name!r} has the unsupported type {type_}")
            if name not in given:
                continue
            fits = min(given[name], default=0) >= 0 and type_.ndim in (-1, len(given[name]))
            if not fits or (dims is not None and not self.lengths.bind(dims, given[name])):
                raise ModelError(f"parameter {name!r} is {type_}, given is shape {given[name]}")
        for name, type_ in declared.items():
            shape = given[name] if name in given else self._known_shape(type_)
            if shape is None:
                raise ModelError(
                    f"parameter {name!r} is {type_}: give its shape with shapes={{{name!r}: (...)}}"
                )
            self.tensors[name] = AccessType(shape, (), dtype_of(type_))

    def _known_shape(self, type_: Any) -> tuple[int, ...] | None:
        dims = dims_of(type_)
        if dims is None:
            return () if type_.ndim == 0 else None
        lengths = [self.lengths.resolve(dim) for dim in dims]
        return None if None in lengths else tuple(n for n in lengths if n is not None)


def _last_occurrences(parameters: Sequence[Any]) -> list[Any]:
    """Each variable once: TVM's ONNX importer lists some twice, as inputs and as weights."""
    last = {parameter: position for position, parameter in enumerate(parameters)}
    return [p for position, p in enumerate(parameters) if last[p] == position]


def _flattened(parameters: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Name and type of every tensor, depth first."""
    from tvm import relax

    seen: set[str] = set()
    pending = [(str(p.name), p.ty) for p in reversed(parameters)]
    while pending:
        name, type_ = pending.pop()
        if isinstance(type_, relax.TupleType):
            inner = [(f"{name}.{i}", field) for i, field in enumerate(type_.fields)]
            pending.extend(reversed(inner))
            continue
        if not isinstance(type_, relax.TensorType):
            raise ModelError(f"parameter {name!r} has the unsupported type {type_}")
        if name in seen:
            raise ModelError(f"two parameters are called {name!r}")
        seen.add(name)
        yield name, type_


def _nest(name: str, type_: Any, terms: Mapping[str, Term]) -> Value:
    """The tensors of a parameter, in tuples as its type says."""
    from tvm import relax

    root: list[Value] = []
    stack: list[tuple[list[Value], list[tuple[str, Any]]]] = [(root, [(str(name), type_)])]
    while True:
        done, pending = stack[-1]
        if pending:
            called, inner = pending.pop(0)
            if isinstance(inner, relax.TupleType):
                stack.append(([], [(f"{called}.{i}", f) for i, f in enumerate(inner.fields)]))
            else:
                done.append(terms[called])
            continue
        stack.pop()
        if not stack:
            return root[0]
        stack[-1][0].append(tuple(done))


def _flat(value: Value) -> Iterator[Term]:
    pending = [value]
    while pending:
        top = pending.pop()
        if isinstance(top, Term):
            yield top
        elif isinstance(top, tuple):
            pending.extend(reversed(top))
        else:
            raise ModelError(f"the function gives {top!r}, which is no tensor")
