"""Reductions over axes, sums along one, and order."""

from __future__ import annotations

import math
from collections.abc import Callable

from glenside.errors import ShapeError
from glenside.frontends.lowering import phrases
from glenside.frontends.lowering.axes import axes_of
from glenside.frontends.lowering.ordering import best_places, sorted_by
from glenside.frontends.lowering.phrases import elementwise, reduce
from glenside.frontends.lowering.places import gather_elements
from glenside.frontends.lowering.running import running
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders

Dims = tuple[int, ...] | int | None


def axes_from(dim: Dims, rank: int, empty_is_all: bool = True) -> list[int]:
    """Axes to reduce, in order; none given means all."""
    given = (dim,) if isinstance(dim, int) else dim
    if given is None or (not given and empty_is_all):
        return list(range(rank))
    if rank == 0:
        return []  # Axis 0 of a scalar is there for PyTorch.
    return sorted(axes_of(given, rank))


def _over(function: str, x: Term, dim: Dims, keepdim: bool) -> Term:
    axes = axes_from(dim, x.type.rank)
    return reduce(function, x, axes, keepdim) if axes else x


def _accumulating(function: str) -> Callable[..., Term]:
    def apply(
        node: Node, x: Term, dim: Dims = None, keepdim: bool = False, dtype: str | None = None
    ) -> Term:
        return _over(function, builders.cast(x, node.dtype), dim, keepdim)

    return apply


for _name in ("sum", "mean", "prod"):
    operator(_name)(_accumulating(_name))


def _extreme(function: str) -> Callable[..., Term]:
    def apply(x: Term, dim: Dims = None, keepdim: bool = False) -> Term:
        return _over(function, x, dim, keepdim)

    return apply


operator("amax")(_extreme("max"))
operator("amin")(_extreme("min"))


def _extreme_and_place(function: str) -> Callable[..., Term | tuple[Term, Term]]:
    def apply(
        x: Term, dim: int | None = None, keepdim: bool = False, other: Term | None = None
    ) -> Term | tuple[Term, Term]:
        """The extreme of all elements; or along one axis, with the first place it stands at."""
        if other is not None:
            raise ShapeError("takes one tensor")
        if dim is None:
            return _over(function, x, None, keepdim)
        values = _over(function, x, dim, keepdim)
        return values, _place(f"arg{function}", x, dim, keepdim)

    return apply


for _name in ("max", "min"):
    operator(_name)(_extreme_and_place(_name))


def _place(function: str, x: Term, dim: int | None, keepdim: bool) -> Term:
    if not x.type.rank:
        return builders.constant(0, (), "int64")
    if x.dtype == "bool":
        x = builders.cast(x, "int8")
    if dim is not None:
        return phrases.position(function, x, axes_from(dim, x.type.rank), keepdim)
    return phrases.position(function, x, list(range(x.type.rank)), keepdim)


def _position(function: str) -> Callable[..., Term]:
    def apply(x: Term, dim: int | None = None, keepdim: bool = False) -> Term:
        return _place(function, x, dim, keepdim)

    return apply


for _name in ("argmax", "argmin"):
    operator(_name)(_position(_name))


@operator("any")
def any_(node: Node, x: Term, dim: Dims = None, keepdim: bool = False) -> Term:
    """Whether an element is not 0."""
    return builders.cast(_logical("max", x, dim, keepdim), node.dtype)


@operator("all")
def all_(node: Node, x: Term, dim: Dims = None, keepdim: bool = False) -> Term:
    """Whether no element is 0."""
    return builders.cast(_logical("min", x, dim, keepdim), node.dtype)


def _logical(function: str, x: Term, dim: Dims, keepdim: bool) -> Term:
    flags = builders.cast(x, "bool")
    # Here an empty list names no axis, where it names all for sums.
    axes = axes_from(dim, x.type.rank, empty_is_all=False)
    return reduce(function, flags, axes, keepdim) if axes else flags


def _moments(root: bool, both: bool) -> Callable[..., Term | tuple[Term, Term]]:
    def apply(
        x: Term,
        dim: Dims = None,
        keepdim: bool = False,
        unbiased: bool = True,
        correction: float | None = 1,
    ) -> Term | tuple[Term, Term]:
        """The mean square of what remains when the mean is taken off."""
        axes = axes_from(dim, x.type.rank)
        count = math.prod(x.shape[axis] for axis in axes)
        less = (1 if correction is None else correction) if unbiased else 0
        mean = reduce("mean", x, axes, True) if axes else x
        squares = phrases.square(phrases.sub(x, mean))
        total = reduce("sum", squares, axes, keepdim) if axes else squares
        left = max(count - less, 0)
        scale = 1 / left if left else math.inf
        variance = phrases.mul(total, scale)
        result = elementwise("sqrt", variance) if root else variance
        if not both:
            return result
        return result, mean if keepdim or not axes else reduce("mean", x, axes, False)

    return apply


for _name, _root, _both in (
    ("var", False, False), ("std", True, False), ("var_mean", False, True),
    ("std_mean", True, True),
):  # fmt: skip
    operator(_name)(_moments(_root, _both))


@operator("logsumexp")
def logsumexp(node: Node, x: Term, dim: Dims, keepdim: bool = False) -> Term:
    """``log(sum(exp(x)))``, formed so that nothing overflows."""
    x = builders.cast(x, node.dtype)
    axes = axes_from(dim, x.type.rank)
    if not axes:
        return x
    most = reduce("max", x, axes, True)
    # The difference of two infinities of one sign is no number.
    level = elementwise("is_inf", most)
    base = phrases.select(level, 0, most)
    total = reduce("sum", elementwise("exp", phrases.sub(x, base)), axes, keepdim)
    shift = base if keepdim else reduce("max", base, axes, False)
    return phrases.add(elementwise("log", total), shift)


def _scan(product: bool) -> Callable[..., Term]:
    def apply(node: Node, x: Term, dim: int, dtype: str | None = None) -> Term:
        x = builders.cast(x, node.dtype)
        return running(x, dim % x.type.rank, product, False, False) if x.type.rank else x

    return apply


operator("cumsum")(_scan(False))
operator("cumprod")(_scan(True))


@operator("sort")
def sort(
    node: Node, x: Term, dim: int = -1, descending: bool = False, stable: bool | None = None
) -> tuple[Term, Term]:
    """The elements along an axis in order, and where they stood; equal ones in their order."""
    del stable
    if not x.type.rank:
        return x, builders.constant(0, (), "int64")
    axis = dim % x.type.rank
    if x.dtype == "bool":
        values, places = sorted_by(node, builders.cast(x, "int8"), axis, not descending)
        return builders.cast(values, "bool"), places
    return sorted_by(node, x, axis, not descending)


@operator("topk")
def topk(
    node: Node, x: Term, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Term, Term]:
    """The ``k`` greatest (or least) elements along an axis, best first, and where they stand."""
    del sorted
    axis = dim % x.type.rank
    if not k:
        empty = builders.slice_(x, axis, 0, 0)
        return empty, builders.cast(empty, "int64")
    found = best_places(node, x, axis, k, largest)
    return gather_elements(node, x, found, axis), found
