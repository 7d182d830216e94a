"""Programs with names in the place of lengths: text, and ONNX with ``dim_param``.

A form is said for lengths that are large primes, and again with one of them changed: what changes
with it is a multiple of that name. Only names along which the form treats rows one by one can be
told from other numbers so; the others are left as the size that the form was found for has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

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


def named_onnx(program: Program, named: Named, sizes: Sizes) -> onnx.ModelProto:
    """A program as an ONNX model with ``dim_param``.

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
        protos.append(to_onnx(program.name, inputs, model.params, outputs, {}))
    whole: onnx.ModelProto = protos[0]
    for value in (*whole.graph.input, *whole.graph.output):
        others = [_value(each, value.name) for each in protos[1:]]
        _name_dims(value, others, base, names)
    del whole.graph.value_info[:]
    _open_shapes(whole, protos[1:], names, program.name)
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
    names: Sequence[str],
    called: str,
) -> None:
    """Lets the shapes that Reshape is given have -1 where they hold a length that stays open.

    :raises GlensideError: something else holds one.
    """
    from onnx import numpy_helper

    users = {
        name: node
        for node in whole.graph.node
        for position, name in enumerate(node.input)
        if node.op_type == "Reshape" and position == 1
    }
    kept = {each.name: each for each in whole.graph.initializer}
    there = [{each.name: each for each in other.graph.initializer} for other in others]
    for name, tensor in kept.items():
        differing = [
            each[name]
            for each in there
            if name in each and each[name].SerializeToString() != tensor.SerializeToString()
        ]
        if not differing:
            continue
        value = numpy_helper.to_array(tensor)
        moved: set[int] = set()
        for each in differing:
            other = numpy_helper.to_array(each)
            if other.shape == value.shape and value.ndim == 1:
                moved |= {*map(int, np.flatnonzero(other != value))}
        node = users.get(name)
        if node is None or len(moved) != 1 or -1 in value.tolist():
            raise _built_in(called, name, names)
        opened = value.copy()
        opened[moved.pop()] = -1
        tensor.CopyFrom(numpy_helper.from_array(opened, name))
    for position, node in enumerate(whole.graph.node):
        for other in others:
            found = other.graph.node
            same = len(found) == len(whole.graph.node) and found[position] == node
            if not same:
                raise _built_in(called, f"{node.op_type} {node.name or node.output[0]!r}", names)
    if any(list(other.functions) != list(whole.functions) for other in others):
        raise _built_in(called, "a function", names)


def _built_in(called: str, what: str, names: Sequence[str]) -> GlensideError:
    return GlensideError(
        f"the export of {called} has {', '.join(names)} built in ({what}): export one size, "
        "program.at(...).to_onnx()"
    )
