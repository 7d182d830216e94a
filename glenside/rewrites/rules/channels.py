"""Rules for convolutions over data whose channels come last: they are said with channels first.

Units see windows of channels first. Filters and windows are transposed alike, which changes no sum
of products; padding moves below the transposition, where units look for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, ints

TO_FIRST = (0, 3, 1, 2)
"""Of ``((n) (h w c))``: channels to the front of the item."""

NHWC = (0, 2, 3, 1)
"""Of a result (N O h w): filters last."""


def _convolutions() -> Any:
    from glenside.rewrites.soundness.programs import channels_last

    return channels_last()


@rewrite_rule("channels-first", exact=False, programs=_convolutions)
def channels_first() -> Iterator[RewriteOrRule]:
    """``dot(W × squeeze_3 windows_(kh kw C),(sh sw 1) X) -> (dot(W' × squeeze_1
    windows_(C kh kw),(1 sh sw) X')^(1 0 2 3))^(1 0 2 3)`` where W' and X' have their channels, the
    last item axis, in front.

    Likewise with the operands the other way round: the result (N h w O) is that in NCHW,
    transposed. Windows go over all channels C. Padding of X is put onto X'.
    """
    w, x, y, whole = vars_("w x y whole", Access)
    kernel, stride, dilation, of_x = vars_("kernel stride dilation of_x", Vec[i64])
    dtype = var("dtype", String)
    order = ints(*TO_FIRST)
    looks = x.windows(kernel, stride, dilation).squeeze(3)
    facts: tuple[Fact, ...] = (
        eq(x.outer.length()).to(i64(1)),
        eq(of_x).to(x.item),
        eq(of_x.length()).to(i64(3)),
        eq(kernel[2]).to(of_x[2]),
        eq(dilation[2]).to(i64(1)),
        eq(w.outer.length()).to(i64(1)),
        eq(w.item.length()).to(i64(3)),
    )

    def first(channels: i64 | int, sizes: Vec[i64]) -> Vec[i64]:
        return ints(channels, sizes[0], sizes[1])

    for found, moved in _data(x, y, order):
        seen = moved.windows(
            first(kernel[2], kernel), first(1, stride), first(1, dilation)
        ).squeeze(1)
        filters = w.access(4).transpose(order).access(1)
        result = filters.cart_prod(seen, 0).compute("dot", dtype)
        nchw = result.transpose(ints(1, 0, 2, 3))
        for old, back in ((w.cart_prod(looks, 0), (1, 0, 2, 3)), (looks.cart_prod(w, 0), NHWC)):
            yield rule(eq(whole).to(old.compute("dot", dtype)), *found, *facts).then(
                union(whole).with_(nchw.transpose(ints(*back)))
            )


def _data(x: Access, y: Access, order: Vec[i64]) -> Iterator[tuple[tuple[Fact, ...], Access]]:
    """Ways in which the data may be padded, and the same with channels first."""
    yield (), x.access(4).transpose(order).access(1)

    def padded(of: Access, axis: int, name: str) -> Access:
        a, b, c = vars_(f"before_{name} after_{name} inside_{name}", i64)
        return of.pad(var(f"fill_{name}", String), axis, a, b, c)

    turned = y.access(4).transpose(order)
    for axes in ((1,), (2,), (1, 2), (2, 1)):
        found, moved = y, turned
        for axis in axes:
            found = padded(found, axis, f"{axis}")
        for axis in sorted(axes):
            moved = padded(moved, axis + 1, f"{axis}")
        # Where both are filled alike it is the same in which order they are padded.
        alike = (eq(var("fill_1", String)).to(var("fill_2", String)),) if axes == (2, 1) else ()
        yield (eq(x).to(found.access(1)), *alike), moved.access(1)


CHANNELS = RuleSet("channels", (channels_first(),))
"""Convolutions with channels first, wherever they are."""
