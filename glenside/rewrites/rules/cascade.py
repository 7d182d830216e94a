"""Rules that take a cascade of reductions apart, so that it needs one pass over what it reads.

A softmax, and what is multiplied with it, is a cascade: a maximum, a sum of powers that uses it, a
product that uses both. Four laws, none of which knows of the others, bring it to a form whose parts
see one block of the reduced axis each and leave no more than a few numbers a row behind:

- a softmax says which cascade it is (``softmax-as-cascade``);
- what does not depend on the reduced axis leaves the reduction (``factor-out-of-sum``,
  ``factor-out-of-product``);
- a reduction is one of the reductions of blocks (``reduce-in-blocks``; for a ``dot`` this is
  ``partial-sums`` of ``parallel.py``);
- a power is taken against another reference (``rebase-power``):
  ``exp(x - m) = exp(x - r) * exp(r - m)``.

With the maximum of its block as the reference, what is computed of a block depends on that block
alone. That is the algebra of Milakov and Gimelshein, "Online normalizer calculation for softmax"
(2018), and of Dao et al., "FlashAttention" (NeurIPS 2022). All of it holds of real numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS
from glenside.rewrites.rules.parallel import partial_sums
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, drop, ints, take

_WIDE = ("float32", "float64")
"""Dtypes in which a softmax is computed as they are; the others are widened."""


def _ones(shape: Vec[i64]) -> Vec[i64]:
    return shape.map(lambda n: n.min(1).max(1))


def _along(row: Access, outer: Vec[i64], shape: Vec[i64]) -> Access:
    """``((o), ())`` repeated along one item axis; ``shape`` has all axes of the result."""
    return row.reshape(outer, ints(1)).broadcast(shape)


def _fold(function: str, x: Access, y: Access) -> Access:
    return x.pair(y).compute(function, NO_DTYPE)


def _map(function: str, x: Access) -> Access:
    return x.compute(function, NO_DTYPE)


def _rows() -> Any:
    from glenside.rewrites.soundness.programs import softmaxes_of_rows

    return softmaxes_of_rows()


@rewrite_rule("softmax-as-cascade", exact=False, programs=_rows)
def softmax_as_cascade() -> Iterator[RewriteOrRule]:
    """``softmax X -> exp(X - m) / s`` with ``m = max X`` and ``s = sum exp(X - m)``.

    Of halves it is computed in float32, and rounded once.
    """
    x, whole = vars_("x whole", Access)
    outer, shape = vars_("outer shape", Vec[i64])
    dtype = var("dtype", String)
    for name in FLOATS:
        wide = x if name in _WIDE else x.cast("float32")
        inner = name if name in _WIDE else "float32"
        top = _along(_map("max", wide), outer, shape)
        powers = _map("exp", _fold("sub", wide, top))
        total = _along(powers.compute("sum", inner), outer, shape)
        made = _fold("div", powers, total)
        yield rule(
            eq(whole).to(_map("softmax", x)),
            eq(dtype).to(x.dtype),
            eq(dtype).to(String(name)),
            eq(outer).to(x.outer),
            eq(shape).to(x.outer.append(x.item)),
        ).then(union(whole).with_(made if name in _WIDE else made.cast(name)))


def _factors() -> Any:
    from glenside.rewrites.soundness.programs import sums_with_factors

    return sums_with_factors()


def _scaled(x: Access, factor: Access) -> Iterator[tuple[str, Access, bool]]:
    """How an access may be multiplied by a factor: the function, the term, and whether the factor
    comes first."""
    yield "mul", _fold("mul", x, factor), False
    yield "mul", _fold("mul", factor, x), True
    yield "div", _fold("div", x, factor), False


def _of_rows(x: Access, f: Access, outer: Vec[i64]) -> tuple[Fact, ...]:
    """One axis is reduced, and there is a factor for each row."""
    return (
        eq(outer).to(x.outer),
        eq(x.item.length()).to(i64(1)),
        eq(outer).to(f.outer),
        eq(f.item.length()).to(i64(0)),
    )


def _divides(function: str, dtype: String) -> Iterator[tuple[Fact, ...]]:
    """Of integers a quotient is cut off, so that it may not leave a sum."""
    if function == "mul":
        yield ()
        return
    for name in FLOATS:
        yield (eq(dtype).to(String(name)),)


@rewrite_rule("factor-out-of-sum", exact=False, programs=_factors)
def factor_out_of_sum() -> Iterator[RewriteOrRule]:
    """``sum(X * f) -> sum(X) * f`` where f does not depend on the axis of the sum; ``/`` too."""
    x, f, whole = vars_("x f whole", Access)
    outer, shape = vars_("outer shape", Vec[i64])
    dtype = var("dtype", String)
    for function, scaled, first in _scaled(x, _along(f, outer, shape)):
        total = x.compute("sum", dtype)
        made = (f, total) if first else (total, f)
        for facts in _divides(function, dtype):
            yield rule(
                eq(whole).to(scaled.compute("sum", dtype)),
                eq(dtype).to(x.dtype),
                *_of_rows(x, f, outer),
                *facts,
            ).then(union(whole).with_(_fold(function, *made)))


def _products() -> Any:
    from glenside.rewrites.soundness.programs import products_with_factors

    return products_with_factors()


@rewrite_rule("factor-out-of-product", exact=False, programs=_products)
def factor_out_of_product() -> Iterator[RewriteOrRule]:
    """``dot((X * f) × Y) -> dot(X × Y) * f`` where f does not depend on the reduced axis; ``/``
    too, also where the scaled rows come in another order, ``(X * f)^p``."""
    x, y, f, whole = vars_("x y f whole", Access)
    outer, own, shape, p, result = vars_("outer own shape p result", Vec[i64])
    g, rank = vars_("g rank", i64)
    dtype = var("dtype", String)
    for function, scaled, first in _scaled(x, _along(f, outer, shape)):
        common = (
            eq(dtype).to(x.dtype),
            *_of_rows(x, f, outer),
            eq(result).to(whole.outer),
            eq(own).to(_ones(drop(y.outer, g))),
        )
        moved = (eq(rank).to(outer.length()), eq(p[rank]).to(rank))  # The item stays where it is.
        for rows, plain, factor, lengths, more in (
            (scaled, x, f, outer, ()),
            (
                scaled.transpose(p),
                x.transpose(p),
                f.transpose(take(p, rank)),
                take(p, rank).map(lambda axis: outer[axis]),
                moved,
            ),
        ):
            product = plain.cart_prod(y, g).compute("dot", dtype)
            spread = factor.reshape(lengths.append(own), ints()).broadcast(result)
            made = (spread, product) if first else (product, spread)
            for facts in _divides(function, dtype):
                yield rule(
                    eq(whole).to(rows.cart_prod(y, g).compute("dot", dtype)),
                    *common,
                    *more,
                    *facts,
                ).then(union(whole).with_(_fold(function, *made)))


def _reductions() -> Any:
    from glenside.rewrites.soundness.programs import reductions_of_rows

    return reductions_of_rows()


@rewrite_rule("reduce-in-blocks", exact=False, example=("max", 2), programs=_reductions)
def reduce_in_blocks(function: str, parts: int) -> Iterator[RewriteOrRule]:
    """``f X -> f(f of each block of X)`` for a reduction f along one axis, in so many blocks.

    It ends: what is left of the axis is shorter.
    """
    known = FUNCTIONS.get(function)
    if known is None or known.step is None:
        raise GlensideError(
            f"reduce-in-blocks takes a reduction such as max or sum, got {function!r}"
        )
    if parts < 2:
        raise GlensideError(f"reduce-in-blocks takes at least 2 blocks, got {parts}")
    x, whole = vars_("x whole", Access)
    outer, item = vars_("outer item", Vec[i64])
    n, rank = vars_("n rank", i64)
    dtype = var("dtype", String)
    blocks = x.reshape(outer, ints(parts, n / parts)).access(rank + 1)
    again = dtype if known.accumulates else NO_DTYPE
    yield rule(
        eq(whole).to(x.compute(function, again)),
        eq(outer).to(x.outer),
        eq(item).to(x.item),
        eq(item.length()).to(i64(1)),
        eq(n).to(item[0]),
        eq(rank).to(outer.length()),
        n > parts,
        eq(n % parts).to(i64(0)),
    ).then(
        union(whole).with_(blocks.compute(function, again).access(rank).compute(function, again))
    )


def _powers() -> Any:
    from glenside.rewrites.soundness.programs import powers_in_blocks

    return powers_in_blocks()


@rewrite_rule("rebase-power", exact=False, programs=_powers, finite=True)
def rebase_power() -> Iterator[RewriteOrRule]:
    """``exp(X - m) -> exp(X - r) * exp(r - m)`` in blocks of a row, where r is the maximum of the
    block and both are asked for."""
    x, m, r, whole, blocks = vars_("x m r whole blocks", Access)
    outer, shape, s, t, rows, block = vars_("outer shape s t rows block", Vec[i64])
    k = var("k", i64)
    powers = _map("exp", _fold("sub", x, _along(m, outer, shape)))
    own = _map("exp", _fold("sub", blocks, _along(r, rows, block)))
    reference = m.reshape(outer.append(ints(1)), ints()).broadcast(rows)
    factor = _map("exp", _fold("sub", r, reference))
    yield rule(
        eq(whole).to(powers.reshape(s, t).access(k)),
        eq(blocks).to(x.reshape(s, t).access(k)),
        eq(r).to(_map("max", blocks)),
        eq(outer).to(x.outer),
        eq(s).to(outer),
        eq(t.length()).to(i64(2)),
        eq(k).to(s.length() + 1),
        eq(rows).to(s.append(ints(t[0]))),
        eq(block).to(s.append(t)),
    ).then(union(whole).with_(_fold("mul", own, _along(factor, rows, block))))


def cascade(parts: int) -> RuleSet:
    """The laws with reductions in so many blocks."""
    return RuleSet(
        "cascade",
        (
            softmax_as_cascade(),
            factor_out_of_sum(),
            factor_out_of_product(),
            reduce_in_blocks("max", parts),
            reduce_in_blocks("sum", parts),
            partial_sums(parts),
            rebase_power(),
        ),
    )


CASCADE = cascade(2)
"""The laws, a row in two blocks."""
