"""Rules that cut accesses into tiles and move the cuts outwards, through products (exploration by
slice and concat).

A split says ``X = X[0..w] ++ X[w..2w] ++ ...``; the ``concat-out-of-...`` rules carry the
concatenation out until products of single tiles are left, which a unit may take. Every tile is an
e-node, so this is for small sizes, and to check what ``blocked`` products stand for: those are how
large ones are tiled.

What is split ends: matrix-form accesses that are read or computed as a whole (``access``,
``flatten``, ``reshape``, ``pad``), accesses of tensors, and slices along other axes; never what has
been put together from parts. The tuple axis of a ``dot`` is no reduced axis: a concatenation along
it stays inside.
"""

from __future__ import annotations

from collections.abc import Iterator

from egglog import (
    Fact,
    RewriteOrRule,
    String,
    Vec,
    eq,
    i64,
    i64Like,
    ne,
    rule,
    union,
    var,
    vars_,
)

from glenside.errors import GlensideError
from glenside.rewrites.rules.im2col import excess_axes
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, index_of, lengths

AT_ONCE = 8
"""Tiles that ``split-into`` makes in one step; of more it first makes the last ones."""


def matrix_form(x: Access) -> Fact:
    """``((M), (K))`` or ``((), (K))``"""
    return eq(excess_axes(x.outer, x.item, 0)).to(i64(0))


# --- splitting -----------------------------------------------------------------------------------


def _wholes(x: Access, axis: int) -> Iterator[tuple[Fact, ...]]:
    """What ``x`` has to be to be split along ``axis``."""
    inner = var("inner", Access)
    split, b, low, high, step, after, inside = vars_("split b low high step after inside", i64)
    v, w = vars_("v w", Vec[i64])
    name, dtype = vars_("name dtype", String)
    yield eq(x).to(inner.access(split)), matrix_form(x)
    yield (eq(x).to(Access.tensor(name, v, dtype).access(split)),)
    yield eq(x).to(inner.flatten()), matrix_form(x)
    yield eq(x).to(inner.reshape(v, w)), matrix_form(x)
    yield eq(x).to(inner.pad(name, b, low, after, inside)), matrix_form(x)
    yield eq(x).to(inner.slice(b, low, high, step)), matrix_form(x), ne(b).to(i64(axis))


def _tiles(x: Access, axis: int, bounds: list[tuple[i64Like, i64Like]]) -> Access:
    """Slices of x, joined from the left."""
    first, *others = (x.slice(axis, low, high, 1) for low, high in bounds)
    for other in others:
        first = first.concat(other, axis)
    return first


def _positive(**parameters: int) -> None:
    for name, value in parameters.items():
        least = {"axis": 0, "above": 0, "parts": 2}.get(name, 1)
        if value < least:
            raise GlensideError(f"{name} must be at least {least}, got {value}")


@rewrite_rule("split-by", exact=True, example=(0, 2, 1))
def split_by(axis: int, parts: int, above: int) -> Iterator[RewriteOrRule]:
    """``X -> X[a:0..w] ++a X[a:w..2w] ++a ...``, equal parts, where X is longer than ``above``."""
    _positive(axis=axis, parts=parts, above=above)
    x = var("x", Access)
    n, w = vars_("length width", i64)
    bounds = [(w * i, w * (i + 1)) for i in range(parts)]
    for whole in _wholes(x, axis):
        yield rule(
            *whole,
            eq(n).to(lengths(x)[axis]),
            n > above,
            n > 0,
            eq(n % parts).to(i64(0)),
            eq(w).to(n / parts),
        ).then(union(x).with_(_tiles(x, axis, bounds)))


@rewrite_rule("split-into", exact=True, example=(0, 2))
def split_into(axis: int, size: int) -> Iterator[RewriteOrRule]:
    """``X -> X[a:0..w] ++a X[a:w..2w] ++a ...`` of parts that are ``size`` long."""
    _positive(axis=axis, size=size)
    x, y = vars_("x y", Access)
    n = var("length", i64)
    for each in _wholes(y, axis):
        # The access itself, or what a step before has left of it at the front.
        for pattern, length in (
            ((eq(x).to(y),), eq(n).to(lengths(y)[axis])),
            ((eq(x).to(y.slice(axis, 0, n, 1)),), n > size),
        ):
            fits = (*each, *pattern, length, eq(n % size).to(i64(0)))
            for count in range(2, AT_ONCE + 1):
                bounds: list[tuple[i64Like, i64Like]] = [
                    (i * size, (i + 1) * size) for i in range(count)
                ]
                yield rule(*fits, eq(n).to(i64(count * size))).then(
                    union(x).with_(_tiles(y, axis, bounds))
                )
            front = n - (AT_ONCE - 1) * size
            bounds = [(0, front)]
            bounds += [(front + i * size, front + (i + 1) * size) for i in range(AT_ONCE - 1)]
            yield rule(*fits, n > AT_ONCE * size).then(union(x).with_(_tiles(y, axis, bounds)))


@rewrite_rule("split-once", exact=True, example=(0, 1))
def split_once(axis: int, width: int) -> Iterator[RewriteOrRule]:
    """``X -> X[a:0..w] ++a X[a:w..]``"""
    _positive(axis=axis, width=width)
    x = var("x", Access)
    n = var("length", i64)
    for whole in _wholes(x, axis):
        yield rule(*whole, eq(n).to(lengths(x)[axis]), n > width).then(
            union(x).with_(_tiles(x, axis, [(0, width), (width, n)]))
        )


@rewrite_rule("split-half", exact=True, example=(0, 1))
def split_half(axis: int, above: int) -> Iterator[RewriteOrRule]:
    """A tensor into two equal halves, if it is longer than ``above``."""
    _positive(axis=axis, above=above)
    x = var("x", Access)
    v = var("v", Vec[i64])
    name, dtype = vars_("name dtype", String)
    n, w = vars_("length width", i64)
    yield rule(
        eq(x).to(Access.tensor(name, v, dtype)),
        eq(n).to(v[axis]),
        n > above,
        n > 0,
        eq(n % 2).to(i64(0)),
        eq(w).to(n / 2),
    ).then(union(x).with_(_tiles(x, axis, [(0, w), (w, n)])))


# --- slices --------------------------------------------------------------------------------------


@rewrite_rule("drop-identity-slice", exact=True)
def drop_identity_slice() -> Iterator[RewriteOrRule]:
    """``X[a:0..n] -> X`` where n is its length."""
    x, whole = vars_("x whole", Access)
    a, n = vars_("a n", i64)
    yield rule(eq(whole).to(x.slice(a, 0, n, 1)), eq(n).to(lengths(x)[a])).then(
        union(whole).with_(x)
    )


@rewrite_rule("merge-slices", exact=True)
def merge_slices() -> Iterator[RewriteOrRule]:
    """``X[a:l0..h0][a:l1..h1] -> X[a:l0+l1..l0+h1]``, with steps multiplied."""
    x, whole = vars_("x whole", Access)
    a, l0, h0, e0, l1, h1, e1 = vars_("a l0 h0 e0 l1 h1 e1", i64)
    low, high, step, n = vars_("low high step n", i64)
    pattern = eq(whole).to(x.slice(a, l0, h0, e0).slice(a, l1, h1, e1))
    merged = (
        pattern,
        l1 < h1,
        eq(low).to(l0 + l1 * e0),
        eq(high).to(l0 + (h1 - 1) * e0 + 1),
        eq(step).to(e0 * e1),
        eq(n).to(lengths(x)[a]),
    )
    kept_out = low + (n - high) + (step - 1)
    yield rule(*merged, kept_out > 0).then(union(whole).with_(x.slice(a, low, high, step)))
    yield rule(*merged, eq(kept_out).to(i64(0))).then(union(whole).with_(x))
    # The inner slice may step over where an empty one would start.
    yield rule(pattern, eq(l1).to(h1)).then(union(whole).with_(x.slice(a, l0, l0, 1)))


@rewrite_rule("slice-through-transpose", exact=True)
def slice_through_transpose() -> Iterator[RewriteOrRule]:
    """``(X^p)[a:l..h] -> (X[p_a:l..h])^p``"""
    x, whole = vars_("x whole", Access)
    p = var("p", Vec[i64])
    a, low, high, step, at = vars_("a low high step at", i64)
    yield rule(eq(whole).to(x.transpose(p).slice(a, low, high, step)), eq(at).to(p[a])).then(
        union(whole).with_(x.slice(at, low, high, step).transpose(p))
    )


@rewrite_rule("slice-of-concat", exact=True)
def slice_of_concat() -> Iterator[RewriteOrRule]:
    """``(X ++c Y)[a:l..h]`` as slices of X, of Y or of both; what is kept whole is not sliced."""
    x, y, whole = vars_("x y whole", Access)
    a, c, low, high, step = vars_("a c low high step", i64)
    n, m, first = vars_("n m first", i64)
    pattern = eq(whole).to(x.concat(y, c).slice(a, low, high, step))
    yield rule(pattern, ne(a).to(c)).then(
        union(whole).with_(x.slice(a, low, high, step).concat(y.slice(a, low, high, step), c))
    )
    same = (pattern, eq(a).to(c), eq(n).to(lengths(x)[a]), eq(m).to(lengths(y)[a]))
    again = step - 1

    left = low + (n - high) + again
    yield rule(*same, high <= n, left > 0).then(union(whole).with_(x.slice(a, low, high, step)))
    yield rule(*same, high <= n, eq(left).to(i64(0))).then(union(whole).with_(x))

    right = (low - n) + (n + m - high) + again
    yield rule(*same, low >= n, right > 0).then(
        union(whole).with_(y.slice(a, low - n, high - n, step))
    )
    yield rule(*same, low >= n, eq(right).to(i64(0))).then(union(whole).with_(y))

    # The first position in Y, counted from its start, keeps to the step.
    across = (
        *same,
        low < n,
        n < high,
        eq(first).to(low + (n - low + again) / step * step - n),
        first < high - n,
    )
    out_left, out_right = low + again, first + (n + m - high) + again
    parts_left = ((out_left > 0, x.slice(a, low, n, step)), (eq(out_left).to(i64(0)), x))
    parts_right = (
        (out_right > 0, y.slice(a, first, high - n, step)),
        (eq(out_right).to(i64(0)), y),
    )
    for is_left, part_left in parts_left:
        for is_right, part_right in parts_right:
            yield rule(*across, is_left, is_right).then(
                union(whole).with_(part_left.concat(part_right, a))
            )


# --- concatenations move out ---------------------------------------------------------------------


@rewrite_rule("concat-out-of-transpose", exact=True)
def concat_out_of_transpose() -> Iterator[RewriteOrRule]:
    """``(X ++a Y)^p -> X^p ++a' Y^p`` where ``p[a'] = a``."""
    x, y, whole = vars_("x y whole", Access)
    p = var("p", Vec[i64])
    a, at = vars_("a at", i64)
    yield rule(eq(whole).to(x.concat(y, a).transpose(p)), eq(at).to(index_of(p, a))).then(
        union(whole).with_(x.transpose(p).concat(y.transpose(p), at))
    )


@rewrite_rule("concat-out-of-access", exact=True)
def concat_out_of_access() -> Iterator[RewriteOrRule]:
    """``(X ++a Y)@n -> X@n ++a Y@n``"""
    x, y, whole = vars_("x y whole", Access)
    a, n = vars_("a n", i64)
    yield rule(eq(whole).to(x.concat(y, a).access(n))).then(
        union(whole).with_(x.access(n).concat(y.access(n), a))
    )


@rewrite_rule("concat-out-of-cart-left", exact=True)
def concat_out_of_cart_left() -> Iterator[RewriteOrRule]:
    """``(X ++a Y) × Z -> (X × Z) ++a (Y × Z)`` where a is an outer axis that is not shared."""
    x, y, z, whole = vars_("x y z whole", Access)
    a, g = vars_("a g", i64)
    yield rule(eq(whole).to(x.concat(y, a).cart_prod(z, g)), a >= g, a < x.outer.length()).then(
        union(whole).with_(x.cart_prod(z, g).concat(y.cart_prod(z, g), a))
    )


@rewrite_rule("concat-out-of-cart-right", exact=True)
def concat_out_of_cart_right() -> Iterator[RewriteOrRule]:
    """``Z × (X ++a Y) -> (Z × X) ++b (Z × Y)`` where a is an outer axis that is not shared.

    ``b`` is a behind the outer axes of Z, those that are shared counted once.
    """
    x, y, z, whole = vars_("x y z whole", Access)
    a, g, at = vars_("a g at", i64)
    yield rule(
        eq(whole).to(z.cart_prod(x.concat(y, a), g)),
        a >= g,
        a < x.outer.length(),
        eq(at).to(a + z.outer.length() - g),
    ).then(union(whole).with_(z.cart_prod(x, g).concat(z.cart_prod(y, g), at)))


@rewrite_rule("concat-out-of-cart-batch", exact=True)
def concat_out_of_cart_batch() -> Iterator[RewriteOrRule]:
    """``(X1 ++a X2) × (Y1 ++a Y2) -> (X1 × Y1) ++a (X2 × Y2)`` for a shared axis, cut alike."""
    x, x2, y, y2, whole = vars_("x x2 y y2 whole", Access)
    a, g = vars_("a g", i64)
    yield rule(
        eq(whole).to(x.concat(x2, a).cart_prod(y.concat(y2, a), g)),
        a < g,
        eq(x.outer[a]).to(y.outer[a]),
    ).then(union(whole).with_(x.cart_prod(y, g).concat(x2.cart_prod(y2, g), a)))


@rewrite_rule("concat-out-of-cart-item", exact=True)
def concat_out_of_cart_item() -> Iterator[RewriteOrRule]:
    """``(X1 ++a X2) × (Y1 ++b Y2) -> (X1 × Y1) ++c (X2 × Y2)``

    where a and b are the same axis of the items and X1 is as long on it as Y1.
    """
    x, x2, y, y2, whole = vars_("x x2 y y2 whole", Access)
    a, b, g, at = vars_("a b g at", i64)
    yield rule(
        eq(whole).to(x.concat(x2, a).cart_prod(y.concat(y2, b), g)),
        a >= x.outer.length(),
        eq(a - x.outer.length()).to(b - y.outer.length()),
        eq(lengths(x)[a]).to(lengths(y)[b]),
        eq(at).to(a + y.outer.length() - g + 1),
    ).then(union(whole).with_(x.cart_prod(y, g).concat(x2.cart_prod(y2, g), at)))


@rewrite_rule("concat-out-of-dot-outer", exact=True)
def concat_out_of_dot_outer() -> Iterator[RewriteOrRule]:
    """``dot(X ++a Y) -> dot X ++a dot Y`` where a is an outer axis."""
    x, y, whole = vars_("x y whole", Access)
    a = var("a", i64)
    dtype = var("dtype", String)
    yield rule(eq(whole).to(x.concat(y, a).compute("dot", dtype)), a < x.outer.length()).then(
        union(whole).with_(x.compute("dot", dtype).concat(y.compute("dot", dtype), a))
    )


@rewrite_rule("concat-out-of-dot-item", exact=False)
def concat_out_of_dot_item() -> Iterator[RewriteOrRule]:
    """``dot(X ++a Y) -> sum(pair(dot X, dot Y))`` where a is an item axis but the tuple axis."""
    x, y, whole = vars_("x y whole", Access)
    a = var("a", i64)
    dtype = var("dtype", String)
    both = x.compute("dot", dtype).pair(y.compute("dot", dtype))
    yield rule(eq(whole).to(x.concat(y, a).compute("dot", dtype)), a > x.outer.length()).then(
        union(whole).with_(both.compute("sum", dtype))
    )


BLOCKING = RuleSet(
    "blocking",
    (
        drop_identity_slice(),
        merge_slices(),
        slice_of_concat(),
        concat_out_of_access(),
        concat_out_of_transpose(),
        concat_out_of_cart_left(),
        concat_out_of_cart_right(),
        concat_out_of_cart_batch(),
        concat_out_of_cart_item(),
        concat_out_of_dot_outer(),
        concat_out_of_dot_item(),
    ),
)
"""Carries cuts outwards. It splits nothing by itself: add :func:`split_into` or another split."""
