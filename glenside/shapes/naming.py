"""Programs with names in the place of lengths: text, and ONNX with ``dim_param``.

A form is said for lengths that are large primes, and again with one of them changed: what changes
with it is a multiple of that name. Only names along which the form treats rows one by one can be
told from other numbers so; the others are left as the size that the form was found for has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import GlensideError
from glenside.language import Term, to_text
from glenside.program import Program
from glenside.shapes.names import Named, Sizes
from glenside.shapes.rows import NotByRows, by_rows

if TYPE_CHECKING:
    import onnx

_PRIMES = ((10007, 10009), (10037, 10039), (10061, 10067), (10069, 10079))
"""Two lengths for each name; a program has hardly any other axis as long."""
_TOKEN = re.compile(r"[()]|[^()\s]+|\s+")


def _axes(named: Named, name: str) -> dict[str, int]:
    """The axis of each input that is so long.

    :raises NotByRows: an input has two of them.
    """
    axes: dict[str, int] = {}
    for each, shape in named.shapes.items():
        if shape.count(name) > 1:
            raise NotByRows(f"{each!r} has {name} twice")
        if name in shape:
            axes[each] = shape.index(name)
    return axes


def _said(terms: Sequence[Term], named: Named, old: Sizes, new: Sizes) -> list[Term]:
    """A form for other lengths; raises :class:`NotByRows`."""
    found = list(terms)
    for name, before, after in zip(named.ranges, old, new, strict=True):
        if before != after:
            found = list(by_rows(found, _axes(named, name), before, after).terms)
    return found


def _nameable(terms: Sequence[Term], named: Named, sizes: Sizes) -> tuple[Sizes, list[Sizes]]:
    """Lengths for the names that a form can be said for, and the same with each of them changed;
    for a name that it cannot, nothing is changed."""
    base = list(sizes)
    able = []
    for number, (first, _) in enumerate(_PRIMES[: len(sizes)]):
        trial = [*base]
        trial[number] = first
        try:
            _said(terms, named, sizes, tuple(trial))
        except NotByRows:
            continue
        base = trial
        able.append(number)
    changed = [
        tuple(
            _PRIMES[n][1] if n == number and n in able else length for n, length in enumerate(base)
        )
        for number in range(len(sizes))
    ]
    return tuple(base), changed


def _called(value: int, base: Sizes, dependent: Sequence[int], names: Sequence[str]) -> str | None:
    """A number that changes with names, in their terms."""
    for number in dependent:
        if value % base[number]:
            return None
        value //= base[number]
    called = [names[number] for number in dependent]
    return "*".join(([] if value == 1 else [str(value)]) + called)


def named_text(terms: Sequence[Term], named: Named, sizes: Sizes) -> str:
    """The text form of a program that was found for ``sizes``."""
    base, variants = _nameable(terms, named, sizes)
    if all(each == base for each in variants):
        return to_text(*terms)
    texts = [
        _TOKEN.findall(to_text(*_said(terms, named, sizes, each))) for each in (base, *variants)
    ]
    names = list(named.ranges)
    shown = []
    for token, *others in zip(*texts, strict=True):
        dependent = [number for number, other in enumerate(others) if other != token]
        told = _called(int(token), base, dependent, names) if dependent else token
        shown.append(token if told is None else told)
    return "".join(shown)


def named_onnx(
    program: Program, named: Named, sizes: Sizes, *, opset: int | None = None
) -> onnx.ModelProto:
    """A program as an ONNX model with ``dim_param``.

    :param opset: as of :meth:`Program.to_onnx`.
    :raises GlensideError: a name cannot be told in it, or an operator needs the number; says which.
    """

    from glenside.exporters.onnx import to_onnx

    base, variants = _nameable(program.terms, named, sizes)
    names = list(named.ranges)
    for number, variant in enumerate(variants):
        if variant == base:
            name = names[number]
            raise GlensideError(
                f"{program.name} does not treat {name} row by row, so that its export has the "
                f"number built in: export one size, program.at({named.spell(sizes)}).to_onnx()"
            )
    model = program.as_model()
    protos = []
    for each in (base, *variants):
        shapes = named.shapes_at(each)
        inputs = {
            name: type_.with_shape(shapes.get(name, type_.shape), type_.rank)
            for name, type_ in program.inputs.items()
        }
        terms = _said(program.terms, named, sizes, each)
        outputs = dict(zip(program.output_names, terms, strict=True))
        protos.append(to_onnx(program.name, inputs, model.params, outputs, {}, opset=opset))
    whole: onnx.ModelProto = protos[0]
    for value in (*whole.graph.input, *whole.graph.output):
        others = [_value(each, value.name) for each in protos[1:]]
        _name_dims(value, others, base, names)
    del whole.graph.value_info[:]
    _open_shapes(whole, protos[1:], base, named, program.name)
    return whole


def _value(proto: onnx.ModelProto, name: str) -> onnx.ValueInfoProto:
    return next(v for v in (*proto.graph.input, *proto.graph.output) if v.name == name)


def _name_dims(
    value: onnx.ValueInfoProto,
    others: Sequence[onnx.ValueInfoProto],
    base: Sizes,
    names: Sequence[str],
) -> None:
    for axis, dim in enumerate(value.type.tensor_type.shape.dim):
        there = [each.type.tensor_type.shape.dim[axis].dim_value for each in others]
        dependent = [number for number, other in enumerate(there) if other != dim.dim_value]
        if dependent:
            told = _called(dim.dim_value, base, dependent, names)
            dim.ClearField("dim_value")
            dim.dim_param = told or f"{value.name}_{axis}"


def _open_shapes(
    whole: onnx.ModelProto,
    others: Sequence[onnx.ModelProto],
    base: Sizes,
    named: Named,
    called: str,
) -> None:
    """Has the lists of lengths that operators are given be worked out from the inputs' own, or hold
    -1 for a Reshape to find out.

    :raises GlensideError: something else holds a length that stays open.
    """
    from onnx import numpy_helper

    names = list(named.ranges)
    there = [{each.name: each for each in other.graph.initializer} for other in others]
    computed: list[onnx.NodeProto] = []
    for tensor in list(whole.graph.initializer):
        name = tensor.name
        users = [node for node in whole.graph.node if name in node.input]
        values = [numpy_helper.to_array(each[name]) for each in there if name in each]
        value = numpy_helper.to_array(tensor)
        if len(values) == len(there) and all(np.array_equal(value, each) for each in values):
            continue
        what = f"{users[0].op_type} {users[0].output[0]!r}" if users else name
        plain = value.ndim == 1 and value.dtype == np.int64
        if not plain or len(values) != len(there) or any(v.shape != value.shape for v in values):
            raise _built_in(called, what, names)
        moved = {k for other in values for k in map(int, np.flatnonzero(other != value))}
        if len(moved) == 1 and all(
            node.op_type == "Reshape" and node.input[1] == name for node in users
        ):
            value = value.copy()
            value[moved.pop()] = -1
            tensor.CopyFrom(numpy_helper.from_array(value, name))
            continue
        computed += _worked_out(name, value, values, base, named, what, called)
        whole.graph.initializer.remove(tensor)
    for position, node in enumerate(whole.graph.node):
        for other in others:
            found = other.graph.node
            if len(found) != len(whole.graph.node) or found[position] != node:
                what = f"{node.op_type} {node.output[0]!r}"
                raise _built_in(called, what, names)
    if any(list(other.functions) != list(whole.functions) for other in others):
        raise _built_in(called, "a function", names)
    kept = [*computed, *whole.graph.node]
    del whole.graph.node[:]
    whole.graph.node.extend(kept)


def _worked_out(
    name: str,
    value: np.ndarray[Any, Any],
    others: Sequence[np.ndarray[Any, Any]],
    base: Sizes,
    named: Named,
    what: str,
    called: str,
) -> list[onnx.NodeProto]:
    """Nodes that make a list of lengths from the shapes of inputs."""
    from onnx import helper, numpy_helper

    names, places = list(named.ranges), list(named.places().values())
    nodes: list[onnx.NodeProto] = []

    def constant(number: int, into: str) -> str:
        array = numpy_helper.from_array(np.array([number], np.int64), into)
        nodes.append(helper.make_node("Constant", [], [into], value=array))
        return into

    entries = []
    for position, number in enumerate(value.tolist()):
        entry = f"{name}.{position}"
        dependent = [k for k, other in enumerate(others) if other[position] != number]
        if any(number % base[k] for k in dependent) or len(dependent) > 1:
            raise _built_in(called, what, names)
        if not dependent:
            entries.append(constant(number, entry))
            continue
        given, axis = places[dependent[0]]
        nodes.append(helper.make_node("Shape", [given], [f"{entry}.shape"]))
        at = constant(axis, f"{entry}.axis")
        nodes.append(helper.make_node("Gather", [f"{entry}.shape", at], [f"{entry}.length"]))
        times = constant(number // base[dependent[0]], f"{entry}.times")
        nodes.append(helper.make_node("Mul", [f"{entry}.length", times], [entry]))
        entries.append(entry)
    nodes.append(helper.make_node("Concat", entries, [name], axis=0))
    return nodes


def _built_in(called: str, what: str, names: Sequence[str]) -> GlensideError:
    return GlensideError(
        f"the export of {called} has {', '.join(names)} built in ({what}): export one size, "
        "program.at(...).to_onnx()"
    )
