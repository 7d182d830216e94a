"""Random programs on which a given rule has something to do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from glenside.language import Term, builders
from glenside.rewrites import Saturation, rule_named
from glenside.rewrites.soundness import check_program
from tests.strategies import environment, shapes

Draw = Callable[[st.SearchStrategy[Any]], Any]


_DTYPES = ("int32", "int8", "uint8", "float64")
"""Integers wrap, floats are small halves: sums are exact in any order."""


def dtypes() -> st.SearchStrategy[str]:
    return st.sampled_from(_DTYPES)


def leaf(outer: Sequence[int], item: Sequence[int], dtype: str, name: str = "x") -> Term:
    """A tensor with these outer and item axes."""
    return builders.access(builders.tensor(name, (*outer, *item), dtype), len(outer))


def same_size(shape: Sequence[int]) -> st.SearchStrategy[tuple[int, ...]]:
    """Other shapes with as many elements: factors merged, split and mixed with ones."""
    size = math.prod(shape)
    if size == 0:
        return st.just(tuple(shape)) | st.just((0,)) | st.just((2, 0))
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    two = st.sampled_from(divisors).map(lambda d: (d, size // d))
    ones = st.lists(st.just(1), max_size=2).map(tuple)
    one = [(size,)] if size != 1 else [(), (1,)]
    return st.tuples(ones, two | st.sampled_from(one) | st.just(tuple(shape)), ones).map(
        lambda parts: tuple(itertools.chain(*parts))
    )


@st.composite
def products(
    draw: Draw, item: st.SearchStrategy[tuple[int, ...]] | None = None, rest: int = 3
) -> Term:
    """A ``cart_prod`` of two tensors, with any batch and at most ``rest`` outer axes beside it."""
    dtype, batch = draw(dtypes()), draw(shapes(most=2))
    items = draw(shapes(most=3) if item is None else item)
    left = leaf(batch + draw(shapes(most=rest)), items, dtype, "a")
    right = leaf(batch + draw(shapes(most=rest)), items, dtype, "b")
    return builders.cart_prod(left, right, len(batch))


@st.composite
def dots(draw: Draw, product: st.SearchStrategy[Term]) -> Term:
    """A product summed up, in its dtype or another."""
    return builders.compute("dot", draw(product), draw(st.none() | dtypes()))


@st.composite
def reshaped(draw: Draw, terms: st.SearchStrategy[Term], keep: int = 0) -> Term:
    """A term reshaped; the first ``keep`` item axes stay."""
    x = draw(terms)
    kept = x.item[:keep]
    outer, rest = draw(same_size(x.outer)), draw(same_size(x.item[keep:]))
    return builders.reshape(x, outer, kept + rest)


@st.composite
def tensors(draw: Draw) -> Term:
    """A tensor split anywhere."""
    return leaf(draw(shapes(most=3)), draw(shapes(most=3)), draw(dtypes()))


def check(term: Term, *names: str) -> Saturation:
    """Explores ``term`` with the rules of these names; all that is found must be equal."""
    rules = [rule_named(name) for name in names]
    return check_program([term], rules, environment([term]), iter_limit=10, node_limit=5_000)
