"""The NumPy interpreter: the meaning every other way of running a program is held against.

It walks a program by a loop, frees values after their last use, and contracts a ``dot`` of a
``cart_prod`` as a matrix product without building the product (for VGG's second layer that array
would take 15 GB).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import GlensideError, InputError
from glenside.language.memory import require
from glenside.language.operators import TRANSFORMERS
from glenside.language.shape import FLOATS, HALVES, AccessType
from glenside.language.term import Term, topological_order

Array = np.ndarray[Any, Any]

_COPYING = frozenset({"concat", "gather", "pad", "pair"})
"""Transformers whose value is an array of its own; those of others may be views."""

_AT_ONCE = 1 << 25
"""Bytes of an operand that are laid out for a product at a time."""


@dataclass(frozen=True)
class _Product:
    """A ``cart_prod`` not yet built: its operands, how many outer axes they share, its type."""

    left: Array
    right: Array
    left_split: int
    right_split: int
    batch: int
    type: AccessType

    def build(self, term: Term) -> Array:
        arrays = [self.left, self.right]
        source = _product_below(term)
        types = tuple(child.type for child in source.children)
        built = source.operator.evaluate(arrays, types, source.attributes)
        return built.reshape(self.type.shape)

    def contract(self, accumulate: str) -> Array:
        """``dot`` of the product: ``(g, p, i) . (g, q, i) -> (g, p, q)``."""
        shared = self.left.shape[: self.batch]
        p = self.left.shape[self.batch : self.left_split]
        q = self.right.shape[self.batch : self.right_split]
        depth = math.prod(self.left.shape[self.left_split :])
        groups = math.prod(shared)

        def product(left: Array, right: Array) -> Array:
            left, right = (each.reshape(groups, -1, depth) for each in (left, right))
            return matrix_product(left, right.swapaxes(1, 2), accumulate)

        # Windows of an image are many times its size once they are laid out for a product, so
        # they are taken a few rows at a time.
        longer, rows = (self.left, p) if math.prod(p) > math.prod(q) else (self.right, q)
        needed = longer.size * max(longer.itemsize, np.dtype(accumulate).itemsize)
        if not (rows and self.type.size and depth) or needed <= _AT_ONCE:
            left = self.left.reshape(groups, math.prod(p), depth)
            right = self.right.reshape(groups, math.prod(q), depth).swapaxes(1, 2)
            return matrix_product(left, right, accumulate).reshape(self.type.outer)
        result = np.empty((groups, math.prod(p), math.prod(q)), accumulate)
        each = math.prod(rows[1:])
        count = max(1, _AT_ONCE * rows[0] // needed)
        for start in range(0, rows[0], count):
            some = longer[(*(slice(None),) * self.batch, slice(start, start + count))]
            at = slice(start * each, (start + count) * each)
            if longer is self.left:
                result[:, at] = product(some, self.right)
            else:
                result[:, :, at] = product(self.left, some)
        return result.reshape(self.type.outer)


def matrix_product(a: Array, b: Array, accumulate: str) -> Array:
    """``a @ b`` with operands cast to ``accumulate`` first; integers wrap around.

    Integer products run in floats where these are exact, since NumPy has no fast integer one;
    sums of 16-bit floats are formed in float32 and rounded once, as ``numpy.matmul`` does.
    """
    if accumulate in HALVES:
        a, b = a.astype(accumulate, copy=False), b.astype(accumulate, copy=False)
        return np.matmul(a.astype("float32"), b.astype("float32")).astype(accumulate)
    if accumulate not in FLOATS and a.size and b.size and a.dtype.kind in "iu":
        # Wrapping around is the same before and after, so the cast may wait.
        bound = a.shape[-1] * _magnitude(a) * _magnitude(b)
        if bound < 2**53:
            exact = "float32" if bound < 2**24 else "float64"
            product = np.matmul(a.astype(exact), b.astype(exact))
            return product.astype("int64").astype(accumulate)
    return np.matmul(a.astype(accumulate, copy=False), b.astype(accumulate, copy=False))


def _magnitude(array: Array) -> int:
    return max(abs(int(array.min())), abs(int(array.max())))


def _product_below(term: Term) -> Term:
    while term.op == "reshape":
        term = term.children[0]
    return term


def trace(terms: Sequence[Term], env: Mapping[str, Array]) -> Iterator[tuple[Term, Array]]:
    """The value of every term below ``terms``, in topological order.

    ``env`` holds the arrays of all ``tensor`` leaves by name. Products that are contracted are
    passed over, as they are never built.
    """
    for term, value in _walk(terms, env):
        if not isinstance(value, _Product):
            yield term, value


def evaluate(
    terms: Sequence[Term],
    env: Mapping[str, Array],
    progress: Callable[[int, int], None] | None = None,
) -> list[Array]:
    """The values of ``terms``, each of shape ``outer ++ item``.

    :param env: arrays of the ``tensor`` leaves by name, of the shapes and dtypes they declare.
    :param progress: called with (nodes done, nodes in all).
    :raises InputError: a tensor is missing or has another shape or dtype.
    """
    wanted = set(terms)
    results: dict[Term, Array] = {}
    total = len(topological_order(terms)) if progress else 0
    for done, (term, value) in enumerate(_walk(terms, env), 1):
        if term in wanted:
            results[term] = value.build(term) if isinstance(value, _Product) else value
        if progress:
            progress(done, total)
    arrays = []
    for term in terms:
        require(term.type.nbytes, f"{term.op}: a result of {term.type}")
        arrays.append(np.array(results[term], dtype=term.dtype, order="C"))
    return arrays


def _walk(
    terms: Sequence[Term], env: Mapping[str, Array]
) -> Iterator[tuple[Term, Array | _Product]]:
    order = topological_order(terms)
    uses: dict[Term, int] = {}
    for term in order:
        for child in term.children:
            uses[child] = uses.get(child, 0) + 1
    values: dict[Term, Array | _Product] = {}
    for term in order:
        operands = [values[child] for child in term.children]
        value = _apply(term, operands, env)
        values[term] = value
        yield term, value
        for child in term.children:
            uses[child] -= 1
            if not uses[child]:
                values.pop(child, None)
        if not uses.get(term):
            values.pop(term, None)


@np.errstate(all="ignore")
def _apply(
    term: Term, operands: list[Array | _Product], env: Mapping[str, Array]
) -> Array | _Product:
    if term.op == "tensor":
        return _look_up(term, env)
    if len(operands) == 1 and isinstance(operands[0], _Product):
        product = operands[0]
        if term.op == "compute" and term["function"] == "dot":
            require(term.type.nbytes, f"{term.op}: a value of {term.type}")
            return product.contract(term["accumulate"] or term.children[0].dtype)
        if term.op == "reshape" and term.item[:1] == (2,) and product.type.item[:1] == (2,):
            # The tuple axis stays in front, so the result is still a product.
            return _Product(
                product.left,
                product.right,
                product.left_split,
                product.right_split,
                product.batch,
                term.type,
            )
    arrays = [
        operand.build(child) if isinstance(operand, _Product) else operand
        for operand, child in zip(operands, term.children, strict=True)
    ]
    if term.op == "cart_prod":
        (a, b), (x, y) = arrays, term.children
        return _Product(a, b, x.type.split, y.type.split, term["batch"], term.type)
    types = tuple(child.type for child in term.children)
    moved = term.op == "reshape" and not arrays[0].flags.c_contiguous
    if moved or term.op in _COPYING or (term.children and term.op not in TRANSFORMERS):
        require(term.type.nbytes, f"{term.op}: a value of {term.type}")
    try:
        return term.operator.evaluate(arrays, types, term.attributes)
    except MemoryError as problem:
        raise GlensideError(
            f"{term.op}: a value of {term.type} takes {term.type.nbytes} bytes, "
            "more memory than there is"
        ) from problem


def _look_up(term: Term, env: Mapping[str, Array]) -> Array:
    name = term["name"]
    if name not in env:
        raise InputError(f"no value was given for tensor {name!r} of {term.type}")
    try:
        array = np.asarray(env[name])
    except ValueError as problem:  # Rows of different lengths.
        raise InputError(f"tensor {name!r}: not an array: {problem}") from None
    if array.shape != term.shape or array.dtype.name != term.dtype:
        raise InputError(
            f"tensor {name!r} is {term.dtype} of shape {term.shape}, "
            f"got {array.dtype.name} of shape {array.shape}"
        )
    return array
