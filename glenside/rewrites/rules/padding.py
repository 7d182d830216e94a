"""Rules that pad accesses to multiples of a size, so that units of that size can take them.

``pad-then-slice`` says that an access is a padded one without its padding; the slice then moves
out, through products, until what is left inside is padded and nothing else. Out of the reduced axis
of a ``dot`` the slice vanishes: there the padding is zero, as is known (``known_zeros.py``), and
adds nothing to the sums. Out of the tuple axis it never moves, there zeros are factors.

Padding everything would go on for ever. Only matrices that are multiplied are padded, and outputs
of the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import (
    Fact,
    RewriteOrRule,
    String,
    Vec,
    eq,
    i64,
    ne,
    rule,
    union,
    var,
    vars_,
)

from glenside.errors import GlensideError
from glenside.rewrites.engine.known_zeros import known_zero, known_zeros
from glenside.rewrites.rules.im2col import excess_axes, root
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, lengths


def _padded_operands(x: Access) -> Iterator[tuple[Fact, ...]]:
    """Where ``x`` is padded: at the root, and as a matrix of a product that was not put together.

    A concatenation is left out: its parts are operands too.
    """
    inner, y = vars_("inner y", Access)
    g, split, b, low, high, step = vars_("g split b low high step", i64)
    v, w = vars_("v w", Vec[i64])
    fill, dtype = vars_("fill dtype", String)
    yield (root(x),)
    for form in (
        inner.access(split),
        inner.flatten(),
        inner.reshape(v, w),
        inner.transpose(v),
        inner.slice(b, low, high, step),
        inner.pad(fill, b, low, high, step),
    ):
        for product in (x.cart_prod(y, g), y.cart_prod(x, g)):
            matrix = eq(excess_axes(x.outer, x.item, 0)).to(i64(0))
            yield eq(x).to(form), product.compute("dot", dtype), matrix


@rewrite_rule("pad-then-slice", exact=True, example=(0, 3))
def pad_then_slice(
    axis: int, multiple: int | None = None, multiples_of: int | None = None, limit: int = 0
) -> Iterator[RewriteOrRule]:
    """``X -> pad(X, zero, a, 0, q)[a:0..dim]``

    With ``multiple`` the padded length is the next multiple of it, where dim is none; with
    ``multiples_of`` and ``limit`` it is each multiple above dim up to the limit.
    """
    size = multiples_of if multiple is None else multiple
    if size is None or None not in (multiple, multiples_of) or axis < 0 or size < 1:
        raise GlensideError(
            "pad-then-slice takes axis and either multiple or multiples-of and limit, all positive"
        )
    x, whole = vars_("x whole", Access)
    n, q, r = vars_("length q r", i64)
    if multiple is not None:
        missing = [((n % size > 0,), size - n % size)]
    else:
        missing = [((n < to,), to - n) for to in range(size, limit + 1, size)]
        # Padded from one multiple to the next is padded to that at once.
        twice = x.pad("zero", axis, 0, q, 0).pad("zero", axis, 0, r, 0)
        yield rule(eq(whole).to(twice)).then(union(whole).with_(x.pad("zero", axis, 0, q + r, 0)))
    for operand in _padded_operands(x):
        for needed, width in missing:
            yield rule(
                *operand, eq(n).to(lengths(x)[axis]), *needed, eq(q).to(i64(0) + width)
            ).then(union(x).with_(x.pad("zero", axis, 0, q, 0).slice(axis, 0, n, 1)))
    # It holds as well of padding that is there.
    yield rule(
        eq(whole).to(x.pad("zero", axis, 0, q, 0).slice(axis, 0, n, 1)),
        eq(n).to(lengths(x)[axis]),
    ).then(union(whole).with_(x))


@rewrite_rule("slice-out-of-pad", exact=True)
def slice_out_of_pad() -> Iterator[RewriteOrRule]:
    """``pad(X[a:l..h], b) -> pad(X, b)[a:l..h]`` for different axes a, b."""
    x, whole = vars_("x whole", Access)
    a, low, high, step = vars_("a low high step", i64)
    b, before, after, inside = vars_("b before after inside", i64)
    fill = var("fill", String)
    yield rule(
        eq(whole).to(x.slice(a, low, high, step).pad(fill, b, before, after, inside)),
        ne(a).to(b),
    ).then(union(whole).with_(x.pad(fill, b, before, after, inside).slice(a, low, high, step)))


@rewrite_rule("slice-out-of-cart-left", exact=True)
def slice_out_of_cart_left() -> Iterator[RewriteOrRule]:
    """``X[a:l..h] × Y -> (X × Y)[a:l..h]`` where a is an outer axis that is not shared."""
    x, y, whole = vars_("x y whole", Access)
    a, low, high, step, g = vars_("a low high step g", i64)
    yield rule(
        eq(whole).to(x.slice(a, low, high, step).cart_prod(y, g)), a >= g, a < x.outer.length()
    ).then(union(whole).with_(x.cart_prod(y, g).slice(a, low, high, step)))


@rewrite_rule("slice-out-of-cart-right", exact=True)
def slice_out_of_cart_right() -> Iterator[RewriteOrRule]:
    """``X × Y[a:l..h] -> (X × Y)[b:l..h]`` where a is an outer axis that is not shared.

    ``b`` is a behind the outer axes of X, those that are shared counted once.
    """
    x, y, whole = vars_("x y whole", Access)
    a, low, high, step, g, at = vars_("a low high step g at", i64)
    yield rule(
        eq(whole).to(x.cart_prod(y.slice(a, low, high, step), g)),
        a >= g,
        a < y.outer.length(),
        eq(at).to(a + x.outer.length() - g),
    ).then(union(whole).with_(x.cart_prod(y, g).slice(at, low, high, step)))


@rewrite_rule("slice-out-of-cart-batch", exact=True)
def slice_out_of_cart_batch() -> Iterator[RewriteOrRule]:
    """``X[a:l..h] × Y[a:l..h] -> (X × Y)[a:l..h]`` for a shared axis of equal length in both."""
    x, y, whole = vars_("x y whole", Access)
    a, low, high, step, g = vars_("a low high step g", i64)
    both = x.slice(a, low, high, step).cart_prod(y.slice(a, low, high, step), g)
    yield rule(eq(whole).to(both), a < g, eq(x.outer[a]).to(y.outer[a])).then(
        union(whole).with_(x.cart_prod(y, g).slice(a, low, high, step))
    )


@rewrite_rule("slice-out-of-cart-item", exact=True)
def slice_out_of_cart_item() -> Iterator[RewriteOrRule]:
    """``X[a:l..h] × Y[b:l..h] -> (X × Y)[c:l..h]``

    where a and b are the same axis of the items and X and Y are equally long on it.
    """
    x, y, whole = vars_("x y whole", Access)
    a, b, low, high, step, g, at = vars_("a b low high step g at", i64)
    both = x.slice(a, low, high, step).cart_prod(y.slice(b, low, high, step), g)
    yield rule(
        eq(whole).to(both),
        a >= x.outer.length(),
        eq(a - x.outer.length()).to(b - y.outer.length()),
        eq(lengths(x)[a]).to(lengths(y)[b]),
        eq(at).to(a + y.outer.length() - g + 1),
    ).then(union(whole).with_(x.cart_prod(y, g).slice(at, low, high, step)))


@rewrite_rule("slice-out-of-dot-outer", exact=True)
def slice_out_of_dot_outer() -> Iterator[RewriteOrRule]:
    """``dot(X[a:l..h]) -> (dot X)[a:l..h]`` where a is an outer axis."""
    x, whole = vars_("x whole", Access)
    a, low, high, step = vars_("a low high step", i64)
    dtype = var("dtype", String)
    yield rule(
        eq(whole).to(x.slice(a, low, high, step).compute("dot", dtype)), a < x.outer.length()
    ).then(union(whole).with_(x.compute("dot", dtype).slice(a, low, high, step)))


def _padded() -> Any:
    from glenside.rewrites.soundness.programs import padded_dots

    return padded_dots()


@rewrite_rule("slice-out-of-dot-zero", exact=False, analyses=known_zeros, programs=_padded)
def slice_out_of_dot_zero() -> Iterator[RewriteOrRule]:
    """``dot(X[a:l..h]) -> dot X`` where X is known to be zero outside ``l..h``

    and a is an item axis but the tuple axis, which is not empty: no factors make one.
    """
    x, whole = vars_("x whole", Access)
    a, low, high, from_, to, n = vars_("a low high from to n", i64)
    dtype = var("dtype", String)
    pattern = (
        eq(whole).to(x.slice(a, low, high, 1).compute("dot", dtype)),
        a > x.outer.length(),
        x.item[0] > 0,
        eq(n).to(lengths(x)[a]),
    )
    for before in ((eq(low).to(i64(0)),), (low > 0, known_zero(x, a, 0, to), to >= low)):
        for after in ((eq(high).to(n),), (high < n, known_zero(x, a, from_, n), from_ <= high)):
            yield rule(*pattern, *before, *after).then(union(whole).with_(x.compute("dot", dtype)))


PADDING = RuleSet(
    "padding",
    (
        slice_out_of_pad(),
        slice_out_of_cart_left(),
        slice_out_of_cart_right(),
        slice_out_of_cart_batch(),
        slice_out_of_cart_item(),
        slice_out_of_dot_outer(),
        slice_out_of_dot_zero(),
    ),
)
"""Carries slices outwards. It pads nothing by itself: add :func:`pad_then_slice`."""
