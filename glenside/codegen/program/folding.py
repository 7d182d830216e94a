"""Pass: what depends on parameters alone is evaluated, once, when a program is compiled."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from glenside.codegen.program.record import Cut
from glenside.errors import InputError
from glenside.language import APART, builders, evaluate
from glenside.language.term import Term, topological_order

Array = np.ndarray[Any, Any]

_FREELY = 1 << 16
"""Elements up to which a folded value may be any multiple of what it was made from."""
_GROWTH = 4
"""Above that, how many times the elements of its parameters a folded value may have."""


def fold(cut: Cut) -> Cut:
    """Finds what is known before the program runs, and what is left to compute.

    :raises InputError: a ``tensor`` leaf is neither an input nor a parameter.
    """
    folding = _Folding(cut)
    order = tuple(live(cut.outputs, folding.arrays))
    return replace(cut, order=order, weights=folding.arrays, constants=folding.numbers)


def live(outputs: Sequence[Term], known: Container[Term]) -> list[Term]:
    """What is left to compute at run time, children first."""
    found: set[Term] = set()
    stack = [term for term in outputs if term not in known]
    while stack:
        term = stack.pop()
        if term not in found:
            found.add(term)
            stack.extend(child for child in term.children if child not in known)
    return [term for term in topological_order(outputs) if term in found]


class _Folding:
    """The folded part of a program.

    ``arrays`` holds the values that the rest of the program reads (views of the parameters where
    nothing but data movement was done), ``numbers`` those of them that are one number throughout.
    """

    def __init__(self, cut: Cut) -> None:
        self.arrays: dict[Term, Array] = {}
        self.numbers: dict[Term, Any] = {}
        self._inputs, self._params = cut.types, cut.params
        self._outputs = frozenset(cut.outputs)
        self._values: dict[Term, Array] = {}
        self._leaves: dict[Term, int] = {}  # Elements of the parameters below a term.
        self._done: set[Term] = set()  # Terms whose value is known, even if it was let go of.
        self._run(topological_order(cut.outputs))

    def _run(self, order: Sequence[Term]) -> None:
        self._users: dict[Term, list[Term]] = {}
        for term in order:
            for child in term.children:
                self._users.setdefault(child, []).append(term)
        self._left = {term: len(users) for term, users in self._users.items()}
        # A product is contracted, not built, so it is passed over and its operands are kept.
        self._products = {term.children[0] for term in order if _contracts(term)}
        for term in order:
            if term in self._products:
                continue
            value = self._value(term)
            if value is not None:
                self._values[term] = value
                self._done.add(term)
            for child in term.children:
                self._release(child)
        for term in self._outputs & self._values.keys():
            self.arrays[term] = self._values[term]
        self._values.clear()
        for term, value in self.arrays.items():
            steps = zip(value.strides, value.shape, strict=True)
            if value.size and all(stride == 0 or n == 1 for stride, n in steps):
                self.numbers[term] = value[(0,) * value.ndim].item()

    def _release(self, term: Term) -> None:
        """One user of ``term`` is done; after the last one its value is kept or let go of."""
        self._left[term] -= 1
        if self._left[term]:
            return
        if term in self._products:
            if all(user in self._done for user in self._users[term]):
                self._done.add(term)
            for operand in term.children:
                self._release(operand)
        elif term in self._values and term not in self._outputs:
            if any(user not in self._done for user in self._users[term]):
                self.arrays[term] = self._values[term]
            del self._values[term]

    def _value(self, term: Term) -> Array | None:
        if term.op == "tensor":
            return self._parameter(term)
        if term.op == "constant":
            self._leaves[term] = 1
            return term.operator.evaluate([], (), term.attributes)
        if term.op in APART:
            return None
        if _contracts(term):
            operands = [self._values.get(each) for each in term.children[0].children]
            a, b = operands
            if a is None or b is None:
                return None
            self._leaves[term] = term.type.size
            return _contract(term, a, b)
        if any(child not in self._values for child in term.children):
            return None
        self._leaves[term] = sum(self._leaves.get(child, _FREELY) for child in term.children)
        if term.type.size > max(_FREELY, _GROWTH * self._leaves[term]):
            return None
        arrays = [self._values[child] for child in term.children]
        types = tuple(child.type for child in term.children)
        return term.operator.evaluate(arrays, types, term.attributes)

    def _parameter(self, term: Term) -> Array | None:
        name = term["name"]
        if name not in self._params:
            if name not in self._inputs:
                raise InputError(f"tensor {name!r} is neither an input nor a parameter")
            return None
        array = np.asarray(self._params[name])
        if array.shape != term.shape or array.dtype.name != term.dtype:
            raise InputError(
                f"parameter {name!r} is {term.dtype} of shape {term.shape}, "
                f"got {array.dtype.name} of shape {array.shape}"
            )
        self._leaves[term] = term.type.size
        return array


def _contracts(term: Term) -> bool:
    if term.op != "compute" or term["function"] != "dot":
        return False
    return term.children[0].op == "cart_prod"


def _contract(term: Term, a: Array, b: Array) -> Array:
    pairs = term.children[0]
    left, right = (
        builders.access(builders.tensor(name, each.shape, each.dtype), each.type.split)
        for name, each in zip("ab", pairs.children, strict=True)
    )
    product = builders.cart_prod(left, right, pairs["batch"])
    dot = builders.compute("dot", product, term["accumulate"])
    return evaluate([dot], {"a": a, "b": b})[0]
