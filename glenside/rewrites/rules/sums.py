"""Rules for sums of linear layers: one product and one bias are left of them.

``x Wᵀ + h Rᵀ`` is one product of ``[x h]`` and ``[W R]``, biases are added up before they are
spread over rows, and what is taken of a layer over many steps is the layer of what is taken. So a
layer that a model writes in several parts becomes one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.rewrites.rules.linear import spread, vector
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access

STACKED = range(3, 5)
"""Ranks of layers over several steps."""


def _sums() -> Any:
    from glenside.rewrites.soundness.programs import sums_of_layers

    return sums_of_layers()


def _plus(x: Access, y: Access) -> Access:
    """The sum of two single items."""
    return x.pair(y).compute("add", NO_DTYPE)


def _product(name: str) -> tuple[Access, Access]:
    """A ``dot`` of matrices as one item, and one of its operands; the rest stays open."""
    x, y = vars_(f"x_{name} y_{name}", Access)
    return x.cart_prod(y, 0).compute("dot", var(f"dtype_{name}", String)).access(0), x


def _matrix(x: Access) -> tuple[Fact, Fact]:
    return eq(x.outer.length()).to(i64(1)), eq(x.item.length()).to(i64(1))


@rewrite_rule("sum-of-products", exact=False, programs=_sums)
def sum_of_products() -> Iterator[RewriteOrRule]:
    """``dot(X × W) + dot(Y × V) -> dot((X ++ Y) × (W ++ V))`` for matrices, items joined."""
    x, w, y, v, whole = vars_("x w y v whole", Access)
    dtype = var("dtype", String)
    first = x.cart_prod(w, 0).compute("dot", dtype)
    second = y.cart_prod(v, 0).compute("dot", dtype)
    made = x.concat(y, 1).cart_prod(w.concat(v, 1), 0).compute("dot", dtype)
    yield rule(
        eq(whole).to(_plus(first.access(0), second.access(0))),
        *(fact for each in (x, w, y, v) for fact in _matrix(each)),
        eq(dtype).to(x.dtype),
        eq(dtype).to(y.dtype),
    ).then(union(whole).with_(made.access(0)))


@rewrite_rule("merge-biases", exact=False, programs=_sums)
def merge_biases() -> Iterator[RewriteOrRule]:
    """``(D + b) + c -> D + (b + c)`` for a product D of matrices and vectors along the last axis.

    Likewise ``(D + b) + (E + c) -> (D + E) + (b + c)`` for two products.
    """
    b, c, whole = vars_("b c whole", Access)
    v = var("v", Vec[i64])
    n = var("n", i64)
    d, x = _product("d")
    e, y = _product("e")
    both = _plus(b.access(0), c.access(0)).access(1)
    for form in range(2):  # Of one row a bias is not broadcast.
        bias, first, second = (spread(each, 2, v)[form].access(0) for each in (both, b, c))
        facts = (eq(n).to(b.outer[0]), vector(b, n), vector(c, n), *_matrix(x))
        yield rule(eq(whole).to(_plus(_plus(d, first), second)), *facts).then(
            union(whole).with_(_plus(d, bias))
        )
        yield rule(
            eq(whole).to(_plus(_plus(d, first), _plus(e, second))), *facts, *_matrix(y)
        ).then(union(whole).with_(_plus(_plus(d, e), bias)))


@rewrite_rule("bias-out-of-sum", exact=False, programs=_sums)
def bias_out_of_sum() -> Iterator[RewriteOrRule]:
    """``(D + b) + E`` and ``E + (D + b)`` ``-> (D + E) + b`` for products D and E of matrices."""
    b, whole = vars_("b whole", Access)
    v = var("v", Vec[i64])
    d, x = _product("d")
    e, y = _product("e")
    for form in spread(b, 2, v):
        bias = form.access(0)
        layer = _plus(d, bias)
        for found, made in (
            (_plus(layer, e), _plus(d, e)),
            (_plus(e, layer), _plus(e, d)),
        ):
            yield rule(eq(whole).to(found), vector(b, b.outer[0]), *_matrix(x), *_matrix(y)).then(
                union(whole).with_(_plus(made, bias))
            )


def _steps() -> Any:
    from glenside.rewrites.soundness.programs import steps_of_layers

    return steps_of_layers()


@rewrite_rule("step-into-product", exact=True, programs=_steps)
def step_into_product() -> Iterator[RewriteOrRule]:
    """``squeeze_a dot(X × W)[a:l..h] -> dot(squeeze_a X[a:l..h] × W)`` for an outer axis a of X."""
    x, w, whole = vars_("x w whole", Access)
    dtype = var("dtype", String)
    a, low, high, step = vars_("a low high step", i64)
    product = x.cart_prod(w, 0).compute("dot", dtype)
    for found, made in (
        (product.slice(a, low, high, step), x.slice(a, low, high, step)),
        (product, x),
    ):
        yield rule(
            eq(whole).to(found.squeeze(a)),
            x.outer.length() >= 2,
            a < x.outer.length(),
        ).then(union(whole).with_(made.squeeze(a).cart_prod(w, 0).compute("dot", dtype)))


@rewrite_rule("step-into-bias-add", exact=True, programs=_steps)
def step_into_bias_add() -> Iterator[RewriteOrRule]:
    """``squeeze_a (X + b)[a:l..h] -> (squeeze_a X[a:l..h]) + b`` for a vector b along the last
    axis, which a is not."""
    x, b, whole = vars_("x b whole", Access)
    v = var("v", Vec[i64])
    a, low, high, step = vars_("a low high step", i64)
    for rank in STACKED:
        for form, fewer in zip(spread(b, rank, v), spread(b, rank - 1, v.remove(a)), strict=True):
            layer = _plus(x, form.access(0)).access(rank)
            plain = x.access(rank)
            for found, taken in (
                (layer.slice(a, low, high, step), plain.slice(a, low, high, step)),
                (layer, plain),
            ):
                yield rule(
                    eq(whole).to(found.squeeze(a)), vector(b, b.outer[0]), a < rank - 1
                ).then(
                    union(whole).with_(
                        _plus(taken.squeeze(a).access(0), fewer.access(0)).access(rank - 1)
                    )
                )


SUMS = RuleSet(
    "sums",
    (
        sum_of_products(),
        merge_biases(),
        bias_out_of_sum(),
        step_into_product(),
        step_into_bias_add(),
    ),
)
"""Makes one linear layer of several that are added, for one step of many."""
