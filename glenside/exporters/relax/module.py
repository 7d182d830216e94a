"""Whole programs as Relax modules: a ``main`` that calls one TIR function for each kernel."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from glenside.errors import GlensideError
from glenside.exporters.relax.cutting import Cut, cut, plain_source
from glenside.exporters.relax.kernels import build_kernel
from glenside.exporters.relax.meanings import Spelled, spell_out
from glenside.language import AccessType, Term
from glenside.language.abstraction import MEANING, spell_function

Array = np.ndarray[Any, Any]


def to_relax(
    name: str,
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    outputs: Mapping[str, Term],
    names: Mapping[Term, str] | None = None,
) -> Any:
    """A program as a ``tvm.IRModule`` that ``tvm.compile`` builds for the Relax VM.

    Its function ``main`` takes the inputs in order and gives the output, or a tuple of them;
    parameters are constants. Kernels are unscheduled TIR functions in logical shapes. Accelerator
    invocations are such kernels too, named after their unit; what they compute is its meaning.
    The attribute ``glenside.meaning`` of a kernel holds the term, so that
    :func:`glenside.frontends.relax.import_relax` reads the module.

    :param inputs: types of the inputs, in order.
    :param params: arrays of the other tensors of the program.
    :param outputs: terms by output name.
    :param names: names that values shall have where possible.
    :raises GlensideError: the program has host operators, or a tensor that is neither an input nor
        a parameter.
    """
    if not outputs:
        raise GlensideError(f"{name} has no outputs")
    spelled = spell_out(list(outputs.values()))
    roots = [spelled.terms[term] for term in outputs.values()]
    pieces = cut(roots, [*spelled.units, *map(plain_source, spelled.operands)], params)
    for term in pieces.order:
        if term.op == "tensor" and inputs.get(term["name"]) != term.type:
            known = inputs.get(term["name"], "neither an input nor a parameter")
            raise GlensideError(f"tensor {term['name']!r} of {term.type} is {known}")
    called = {spelled.terms[t]: n for t, n in (names or {}).items() if t in spelled.terms}
    return _Writer(name, inputs, pieces, spelled, called).write(roots)


class _Writer:
    def __init__(
        self,
        name: str,
        inputs: Mapping[str, AccessType],
        pieces: Cut,
        spelled: Spelled,
        names: Mapping[Term, str],
    ) -> None:
        from tvm import relax

        self._name, self._pieces, self._spelled, self._names = name, pieces, spelled, names
        self._builder = relax.BlockBuilder()
        self._inputs = {
            each: relax.Var(spelled, relax.TensorType(type_.shape, type_.dtype))
            for (each, type_), spelled in zip(inputs.items(), _identifiers(inputs), strict=True)
        }
        self._values: dict[Term, Any] = {}
        self._numbers: dict[Term, Any] = {}
        for term, array in pieces.known.items():
            number = _number(array)
            if number is not None:
                self._numbers[term] = number

    def write(self, roots: list[Term]) -> Any:
        from tvm import relax

        builder = self._builder
        with builder.function("main", list(self._inputs.values())):
            with builder.dataflow():
                for term in self._pieces.order:
                    if term in self._pieces.kept:
                        self._values[term] = self._kernel(term)
                results = [self._output(term) for term in roots]
                whole = results[0] if len(results) == 1 else relax.Tuple(results)
                result = builder.emit_output(whole)
            builder.emit_func_output(result)
        module = builder.get()
        main = module["main"].with_attr("num_input", len(self._inputs))
        module.update_func(module.get_global_var("main"), main)
        return module.with_attr("glenside.name", self._name)

    def _kernel(self, term: Term) -> Any:
        from tvm import relax

        known = _empty_result(term)
        if known is not None:
            return self._constant(known)
        leaves, body = self._pieces.inside(term)
        numbers = dict(self._numbers)
        numbers.update({leaf: leaf["value"] for leaf in leaves if leaf.op == "constant"})
        read = [leaf for leaf in leaves if leaf not in numbers]
        function = build_kernel(term, read, numbers)
        stem = self._spelled.units.get(term) or self._names.get(term) or _kind(term)
        function = function.without_attr("global_symbol").with_attr(
            MEANING, spell_function(body, read, {t: numbers[t] for t in leaves if t in numbers})
        )
        variable = self._builder.add_func(function, _identifier(stem))
        call = relax.call_tir(
            variable,
            [self._value(leaf) for leaf in read],
            relax.TensorType(term.shape, term.dtype),
        )
        return self._builder.emit(call, _identifier(self._names.get(term, "v")))

    def _value(self, leaf: Term) -> Any:
        """The Relax expression that holds a leaf."""
        if leaf not in self._values:
            if leaf.op == "tensor" and leaf not in self._pieces.known:
                return self._inputs[leaf["name"]]
            array = self._pieces.known.get(leaf)
            if array is None:
                array = np.full(leaf.shape, leaf["value"], leaf.dtype)
            self._values[leaf] = self._constant(array)
        return self._values[leaf]

    def _constant(self, array: Array) -> Any:
        from tvm import relax

        if not array.size:
            # TVM cannot write out a constant without elements.
            return self._builder.emit(relax.op.zeros(array.shape, array.dtype.name))
        plain = np.ascontiguousarray(array).reshape(array.shape)
        return relax.const(plain, array.dtype.name)

    def _output(self, term: Term) -> Any:
        from tvm import relax

        if not term.type.size:
            return self._constant(np.zeros(term.shape, term.dtype))
        if term in self._pieces.known or term in self._values:
            return self._value(term)
        source = term
        while not self._pieces.is_leaf(source):
            source = source.children[0]
        value = self._value(source)
        if source.shape == term.shape:
            return value
        return self._builder.emit(relax.op.reshape(value, term.shape))


def _number(array: Array) -> Any:
    """The number that fills an array whose elements are all one in memory; else None."""
    shared = all(
        stride == 0 or length == 1
        for stride, length in zip(array.strides, array.shape, strict=True)
    )
    return array[(0,) * array.ndim].item() if shared and array.size else None


def _empty_result(term: Term) -> Array | None:
    """The value of a term that has no elements, or reduces none; None for all others."""
    if term.type.size == 0:
        return np.zeros(term.shape, term.dtype)
    if any(child.type.size == 0 for child in term.children) and term.op == "compute":
        (child,) = term.children
        nothing = np.zeros(child.shape, child.dtype)
        return np.asarray(term.operator.evaluate([nothing], (child.type,), term.attributes))
    return None


def _kind(term: Term) -> str:
    kind = term["function"] if term.op == "compute" else term.op
    return "_".join([kind, *map(str, term.shape)])


def _identifier(name: str) -> str:
    spelled = re.sub(r"\W", "_", name)
    return spelled if spelled[:1].isalpha() else f"v_{spelled}"


def _identifiers(names: Collection[str]) -> list[str]:
    """An identifier for each name, all different: callers of a module tell parameters by them."""
    taken = {name for name in names if _identifier(name) == name}
    found = []
    for name in names:
        spelled = stem = _identifier(name)
        count = 1
        while spelled != name and spelled in taken:
            spelled, count = f"{stem}_{count}", count + 1
        taken.add(spelled)
        found.append(spelled)
    return found
