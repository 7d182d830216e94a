"""Rules for linear layers: a product of matrices and a bias, as units take them.

A layer comes as ``add(pair(dot(X × W), bias))``, the bias spread over the rows, on whatever side,
with or without a reshape in between, or without a bias. ``flex-linear`` matches the first form; the
other rules bring the others to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.language.shape import FLOATS, INTEGERS
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, drop, ints, permute

RANKS = range(2, 6)
"""Ranks of the reshapes through which a bias moves."""


def _add(x: Access, y: Access, rank: int) -> Access:
    """Both as one item, added, all axes outer again."""
    return x.access(0).pair(y.access(0)).compute("add", NO_DTYPE).access(rank)


def spread(bias: Access, rank: int, shape: Vec[i64]) -> tuple[Access, Access]:
    """A vector along the last of ``rank`` axes, in two forms: where all the others are 1 it is not
    broadcast."""
    for _ in range(rank - 1):
        bias = bias.unsqueeze(0)
    return bias.broadcast(shape), bias


def vector(bias: Access, length: i64) -> Fact:
    """Holds of a vector: all axes are outer, and there is one of that length."""
    return eq(bias.outer.append(ints(-1), bias.item)).to(ints(length, -1))


M, N = vars_("m n", i64)


def _matrices(x: Access, w: Access, dtype: String) -> tuple[Fact, ...]:
    """``((M), (K))`` and ``((N), (K))``, multiplied in their own dtype."""
    return (
        eq(dtype).to(x.dtype),
        eq(x.outer.length()).to(i64(1)),
        eq(x.item.length()).to(i64(1)),
        eq(w.outer.length()).to(i64(1)),
        eq(M).to(x.outer[0]),
        eq(N).to(w.outer[0]),
    )


def _layers() -> Any:
    from glenside.rewrites.soundness.programs import linear_layers

    return linear_layers()


@rewrite_rule("bias-out-of-reshape", exact=True, programs=_layers)
def bias_out_of_reshape() -> Iterator[RewriteOrRule]:
    """``[s|]D + b -> [s|](D + b)`` for a product D of matrices, where s keeps its last axis.

    Both times b goes along the last axis.
    """
    x, b, whole = vars_("x b whole", Access)
    dtype = var("dtype", String)
    s, v, rows = vars_("s v rows", Vec[i64])
    made = x.compute("dot", dtype)
    for rank in RANKS:
        for bias in spread(b, rank, v):
            yield rule(
                eq(whole).to(_add(made.reshape(s, ints()), bias, rank)),
                eq(rows).to(x.outer),
                eq(rows.length()).to(i64(2)),
                eq(s.length()).to(i64(rank)),
                eq(s[rank - 1]).to(rows[1]),
                vector(b, rows[1]),
            ).then(union(whole).with_(_add(made, spread(b, 2, rows)[0], 2).reshape(s, ints())))


@rewrite_rule("add-to-bias-add", exact=True, programs=_layers)
def add_to_bias_add() -> Iterator[RewriteOrRule]:
    """``b + X -> X + b`` for a vector b along the last axis, as a bias is added."""
    x, b, whole = vars_("x b whole", Access)
    v = var("v", Vec[i64])
    for rank in RANKS:
        for bias in spread(b, rank, v):
            yield rule(
                eq(whole).to(bias.access(0).pair(x).compute("add", NO_DTYPE)),
                vector(b, b.outer[0]),
            ).then(union(whole).with_(x.pair(bias.access(0)).compute("add", NO_DTYPE)))


def _spread_rows() -> Any:
    from glenside.rewrites.soundness.programs import spread_rows

    return spread_rows()


@rewrite_rule("row-as-vector", exact=True, programs=_spread_rows)
def row_as_vector() -> Iterator[RewriteOrRule]:
    """``X -> unsqueeze_0 squeeze_0 X`` for a row that is spread over rows, as a bias may come."""
    x = var("x", Access)
    v = var("v", Vec[i64])
    yield rule(
        x.broadcast(v),
        eq(x.outer.length()).to(i64(2)),
        eq(x.outer[0]).to(i64(1)),
        eq(x.item.length()).to(i64(0)),
    ).then(union(x).with_(x.squeeze(0).unsqueeze(0)))


@rewrite_rule("drop-squeeze-of-unsqueeze", exact=True)
def drop_squeeze_of_unsqueeze() -> Iterator[RewriteOrRule]:
    """``squeeze_a unsqueeze_a X -> X``, the split being where it was."""
    x, whole = vars_("x whole", Access)
    a = var("a", i64)
    yield rule(
        eq(whole).to(x.unsqueeze(a).squeeze(a)), eq(whole.outer.length()).to(x.outer.length())
    ).then(union(whole).with_(x))


def _row_biases() -> Any:
    from glenside.rewrites.soundness.programs import row_biases

    return row_biases()


@rewrite_rule("bias-of-rows", exact=True, programs=_row_biases)
def bias_of_rows() -> Iterator[RewriteOrRule]:
    """``([s|]D)^p + b -> ([s|](D' + b)^(1 0))^p`` for a product ``D = dot(X × W)`` of matrices,
    ``D' = dot(W × X)`` and a vector b along the rows of D, which s keeps as its first axis.

    So the bias of a convolution comes to stand as that of a linear layer. What spreads b over all
    axes is an array of any rank with just one axis that is longer than 1.
    """
    x, w, b, whole = vars_("x w b whole", Access)
    s, p, v, order = vars_("s p v order", Vec[i64])
    dtype = var("dtype", String)
    product = x.cart_prod(w, 0).compute("dot", dtype)
    layer = _add(
        w.cart_prod(x, 0).compute("dot", dtype),
        spread(b.reshape(ints(M), ints()), 2, ints(N, M))[0],
        2,
    ).transpose(ints(1, 0))
    matrices = (
        eq(M).to(x.outer[0]),
        eq(N).to(w.outer[0]),
        M + N > 2,  # Of one number it would be turned for ever.
        *(eq(length).to(i64(1)) for y in (x, w) for length in (y.outer.length(), y.item.length())),
    )
    for found, made, rows in (
        (product, layer, ints(M, 1)),
        (product.reshape(s, ints()), layer.reshape(s, ints()), ints(M).append(_ones(s))),
        (
            product.reshape(s, ints()).transpose(p),
            layer.reshape(s, ints()).transpose(p),
            permute(ints(M).append(_ones(s)), p),
        ),
    ):
        shaped = () if found is product else (eq(s[0]).to(M),)
        for bias in (b.broadcast(v), b):
            sides = found.access(0), bias.access(0)
            for first, second in (sides, sides[::-1]):
                yield rule(
                    eq(whole).to(first.pair(second).compute("add", NO_DTYPE)),
                    *matrices,
                    *shaped,
                    eq(order).to(rows),
                    eq(b.outer.append(ints(-1), b.item)).to(order.append(ints(-1))),
                ).then(union(whole).with_(made.access(0)))


def _ones(shape: Vec[i64]) -> Vec[i64]:
    """As many 1 as there are axes behind the first."""
    return drop(shape, 1).map(lambda n: n.min(1).max(1))


@rewrite_rule("zero-bias", exact=False)
def zero_bias() -> Iterator[RewriteOrRule]:
    """``dot(X × W) -> dot(X × W) + 0`` for matrices."""
    x, w, whole = vars_("x w whole", Access)
    dtype = var("dtype", String)
    for name in (*FLOATS, *INTEGERS):
        zero = Access.constant("0.0" if name in FLOATS else "0", ints(N), name)
        bias = zero.unsqueeze(0).broadcast(ints(M, N))
        yield rule(
            eq(whole).to(x.cart_prod(w, 0).compute("dot", dtype)),
            *_matrices(x, w, dtype),
            eq(dtype).to(String(name)),
        ).then(union(whole).with_(_add(whole, bias, 2)))


LINEAR = RuleSet(
    "linear",
    (
        bias_out_of_reshape(),
        bias_of_rows(),
        add_to_bias_add(),
        row_as_vector(),
        drop_squeeze_of_unsqueeze(),
    ),
)
"""Brings linear layers to the form in which units take them."""
