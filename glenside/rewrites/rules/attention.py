"""Rules that bring attention to the form in which units take it: ``softmax(q kᵀ) v`` of one batch.

Several batch axes become one (``merge-batch-axes``), which leaves a reshape between the product and
the softmax; a scale stands there too; and a single matrix has no batch at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, ints, lengths, take


def _softmax(x: Access) -> Access:
    return x.compute("softmax", NO_DTYPE)


def _softmaxes() -> Any:
    from glenside.rewrites.soundness.programs import reshaped_softmaxes

    return reshaped_softmaxes()


@rewrite_rule("softmax-out-of-reshape", exact=True, programs=_softmaxes)
def softmax_out_of_reshape() -> Iterator[RewriteOrRule]:
    """``softmax [o|n]X -> [o|n](softmax X)`` where X has items of the same length n.

    Also where a reshape of the whole array stands there that keeps its last axis. An empty one says
    nothing of the axes before it.
    """
    x, whole = vars_("x whole", Access)
    s, t, own = vars_("s t own", Vec[i64])
    rank, last = vars_("rank last", i64)
    yield rule(eq(whole).to(_softmax(x.reshape(s, t))), eq(t).to(x.item)).then(
        union(whole).with_(_softmax(x).reshape(s, t))
    )
    yield rule(
        eq(whole).to(_softmax(x.reshape(s, ints()).access(rank))),
        eq(s.length()).to(rank + 1),
        eq(own).to(x.outer),
        eq(x.item.length()).to(i64(0)),
        eq(last).to(own.length() - 1),
        eq(s[rank]).to(own[last]),
        s[rank] > 0,
        eq(t).to(take(s, rank)),
    ).then(union(whole).with_(_softmax(x.access(last)).reshape(t, ints(s[rank]))))


def _scaled() -> Any:
    from glenside.rewrites.soundness.programs import scaled_attention

    return scaled_attention()


@rewrite_rule("scale-into-product", exact=False, programs=_scaled)
def scale_into_product() -> Iterator[RewriteOrRule]:
    """``dot(X × Y) * c -> dot((X * c) × Y)`` for a number c, where a softmax follows; ``/`` too."""
    x, y, z, whole = vars_("x y z whole", Access)
    n, g, split = vars_("n g split", i64)
    shape, v, of_z = vars_("shape v of_z", Vec[i64])
    dtype, value = vars_("dtype value", String)
    product = x.cart_prod(y, g).compute("dot", dtype).access(0)
    single = z.reshape(_ones(shape), ints()).broadcast(shape)
    forms: tuple[tuple[list[Fact], Access, Access], ...] = (
        ([], Access.constant(value, v, dtype), Access.constant(value, shape, dtype)),
        (
            [eq(of_z).to(z.outer), eq(of_z).to(_ones(of_z)), eq(z.item.length()).to(i64(0))],
            z.broadcast(v),
            single,
        ),
    )
    for facts, old, new in forms:
        scale, left = old.access(0), x.access(0)
        for function, found, made in (
            ("mul", product.pair(scale), left.pair(new.access(0))),
            ("mul", scale.pair(product), new.access(0).pair(left)),
            ("div", product.pair(scale), left.pair(new.access(0))),
        ):
            scaled = made.compute(function, NO_DTYPE).access(split)
            yield rule(
                eq(whole).to(found.compute(function, NO_DTYPE)),
                _softmax(whole.access(n)),
                eq(dtype).to(x.dtype),
                eq(shape).to(lengths(x)),
                eq(split).to(x.outer.length()),
                *facts,
            ).then(union(whole).with_(scaled.cart_prod(y, g).compute("dot", dtype).access(0)))


def _ones(shape: Vec[i64]) -> Vec[i64]:
    return shape.map(lambda n: n.min(1).max(1))


def _attention() -> Any:
    from glenside.rewrites.soundness.programs import scaled_attention

    return scaled_attention()


@rewrite_rule("attention-as-batch", exact=True, programs=_attention)
def attention_as_batch() -> Iterator[RewriteOrRule]:
    """``softmax(q kᵀ) v`` of matrices, as a batch of one."""
    q, k, v, whole = vars_("q k v whole", Access)
    first, second = vars_("first second", String)
    outer = var("outer", Vec[i64])
    shapes = {each: vars_(f"outer_{each} item_{each}", Vec[i64]) for each in "qkv"}
    found: list[Fact] = []
    batch = []
    for name, each in zip("qkv", (q, k, v), strict=True):
        s, t = shapes[name]
        found += [eq(s).to(each.outer), eq(t).to(each.item)]
        found += [eq(s.length()).to(i64(1)), eq(t.length()).to(i64(1))]
        batch.append(each.reshape(ints(1).append(s), t))
    scores = q.cart_prod(k, 0).compute("dot", first).access(1)
    batched = batch[0].cart_prod(batch[1], 1).compute("dot", first).access(2)
    made = _softmax(batched).cart_prod(batch[2], 1).compute("dot", second)
    yield rule(
        eq(whole).to(_softmax(scores).cart_prod(v, 0).compute("dot", second)),
        *found,
        eq(outer).to(whole.outer),
    ).then(union(whole).with_(made.reshape(outer, ints())))


ATTENTION = RuleSet(
    "attention", (softmax_out_of_reshape(), scale_into_product(), attention_as_batch())
)
"""Attention over one batch, its scale in the queries."""
