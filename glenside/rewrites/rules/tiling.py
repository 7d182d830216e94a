"""Ready rule sets that bring products to the size of an array, tile by tile, and end soon.

The rules of ``padding.py`` and ``blocking.py`` move one cut or one padding of one operand at a
time. On both axes at once that finds every order and every half-padded form: a product of 20 x 27 x
37 in tiles of 16 x 16 takes 49,000 e-nodes. Here a product changes as a whole and in one order:
both operands are padded to multiples; rows, then columns are split until they are those of one
tile; only then the depth is. Ranges are halved at a multiple of the tile, so that the number of
passes grows with the logarithm of the number of tiles, that of e-nodes with the number itself.

:func:`tile_to` gives the sets for an array. A ``blocked`` product (``tensorize.py``) says the same
in one node: that is how large networks are tiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import (
    RewriteOrRule,
    String,
    Vec,
    eq,
    i64,
    i64Like,
    rule,
    union,
    var,
    vars_,
)

from glenside.errors import GlensideError
from glenside.rewrites.rules.blocking import drop_identity_slice, merge_slices
from glenside.rewrites.rules.im2col import IM2COL, excess_axes
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.matrices import MATRICES
from glenside.rewrites.rules.tensorize import systolic_tile
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access


def _products() -> Any:
    from glenside.rewrites.soundness.programs import batched_products

    return batched_products()


def _at_least_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise GlensideError(f"{name} must be at least 1, got {size}")


class _Product:
    """``dot(X ×g Y)`` of matrices: g shared axes, rows or one row without an axis, columns."""

    def __init__(self) -> None:
        self.x, self.y, self.whole = vars_("x y whole", Access)
        s, t, s2 = vars_("s t s2", Vec[i64])
        self.dtype = var("dtype", String)
        self.g, self.depth, self.columns = vars_("g depth columns", i64)
        self.facts = (
            eq(self.whole).to(self.of(self.x, self.y)),
            eq(s).to(self.x.outer),
            eq(t).to(self.x.item),
            eq(s2).to(self.y.outer),
            eq(excess_axes(s, t, self.g)).to(i64(0)),
            eq(s2.length()).to(self.g + 1),
            eq(self.depth).to(t[0]),
            eq(self.columns).to(s2[self.g]),
            self.depth > 0,
            self.columns > 0,
        )
        self.has_rows = eq(s.length()).to(self.g + 1)
        self.rows = s[self.g]
        self.x_depth, self.y_depth = s.length(), self.g + 1
        """The axes of the depth, in x and in y."""
        self.result_columns = s.length()
        """The axis of the columns in the result."""

    def of(self, x: Access, y: Access) -> Access:
        return x.cart_prod(y, self.g).compute("dot", self.dtype)

    def becomes(self, other: Access) -> Any:
        return union(self.whole).with_(other)


def _halves(x: Access, axis: i64Like, middle: i64, length: i64) -> tuple[Access, Access]:
    return x.slice(axis, 0, middle, 1), x.slice(axis, middle, length, 1)


@rewrite_rule("pad-product", exact=False, example=(2, 2), programs=_products)
def pad_product(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> dot(pad X × pad Y)[0..n]``

    with zeros behind, the depth to a multiple of the rows of an array and the columns to one of its
    columns. Zeros along the depth add nothing; columns too many are cut off.
    """
    _at_least_one(rows=rows, columns=columns)
    p = _Product()
    deeper, wider = vars_("deeper wider", i64)
    facts = (
        *p.facts,
        eq(deeper).to((rows - p.depth % rows) % rows),
        eq(wider).to((columns - p.columns % columns) % columns),
    )
    deep = p.x.pad("zero", p.x_depth, 0, deeper, 0), p.y.pad("zero", p.y_depth, 0, deeper, 0)

    def cut(wide: Access) -> Access:
        return wide.slice(p.result_columns, 0, p.columns, 1)

    yield rule(*facts, deeper > 0, eq(wider).to(i64(0))).then(p.becomes(p.of(*deep)))
    yield rule(*facts, eq(deeper).to(i64(0)), wider > 0).then(
        p.becomes(cut(p.of(p.x, p.y.pad("zero", p.g, 0, wider, 0))))
    )
    yield rule(*facts, deeper > 0, wider > 0).then(
        p.becomes(cut(p.of(deep[0], deep[1].pad("zero", p.g, 0, wider, 0))))
    )


@rewrite_rule("split-rows", exact=True, example=(1,), programs=_products)
def split_rows(stream: int, rows: int = 1, columns: int = 1) -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> dot(X[0..h] × Y) ++ dot(X[h..] × Y)`` where there are more rows than that.

    h is a multiple of ``stream``; the last tile may be smaller.

    :param rows, columns: of the array; what they do not divide is padded before it is split.
    """
    _at_least_one(stream=stream, rows=rows, columns=columns)
    p = _Product()
    n, middle = vars_("n middle", i64)
    first, second = _halves(p.x, p.g, middle, n)
    yield rule(
        *p.facts,
        p.has_rows,
        eq(n).to(p.rows),
        n > stream,
        eq(p.depth % rows).to(i64(0)),
        eq(p.columns % columns).to(i64(0)),
        eq(middle).to(((n + stream - 1) / stream + 1) / 2 * stream),
    ).then(p.becomes(p.of(first, p.y).concat(p.of(second, p.y), p.g)))


@rewrite_rule("split-columns", exact=True, example=(1,), programs=_products)
def split_columns(columns: int, stream: int = 0, rows: int = 1) -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> dot(X × Y[0..h]) ++ dot(X × Y[h..])`` for a multiple of ``columns`` columns.

    :param stream: products of more rows than this are left to ``split-rows``; 0 leaves none.
    :param rows: of the array; a depth that they do not divide is padded before it is split.
    """
    _at_least_one(columns=columns, rows=rows)
    p = _Product()
    middle = var("middle", i64)
    first, second = _halves(p.y, p.g, middle, p.columns)
    for few in _few_rows(p, stream):
        yield rule(
            *p.facts,
            *few,
            p.columns > columns,
            eq(p.columns % columns).to(i64(0)),
            eq(p.depth % rows).to(i64(0)),
            eq(middle).to((p.columns / columns + 1) / 2 * columns),
        ).then(p.becomes(p.of(p.x, first).concat(p.of(p.x, second), p.result_columns)))


@rewrite_rule("split-depth", exact=False, example=(1, 2), programs=_products)
def split_depth(rows: int, columns: int, stream: int = 0) -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> sum(pair(dot(X[0..h] × Y[0..h]), dot(X[h..] × Y[h..])))``

    for a multiple of ``rows`` along the depth, where the columns are those of one tile.

    :param stream: as for ``split-columns``.
    """
    _at_least_one(rows=rows, columns=columns)
    p = _Product()
    middle = var("middle", i64)
    left = _halves(p.x, p.x_depth, middle, p.depth)
    right = _halves(p.y, p.y_depth, middle, p.depth)
    parts = [p.of(*both) for both in zip(left, right, strict=True)]
    for few in _few_rows(p, stream):
        yield rule(
            *p.facts,
            *few,
            p.columns <= columns,
            p.depth > rows,
            eq(p.depth % rows).to(i64(0)),
            eq(middle).to((p.depth / rows + 1) / 2 * rows),
        ).then(p.becomes(parts[0].pair(parts[1]).compute("sum", p.dtype)))


def _few_rows(p: _Product, stream: int) -> Iterator[tuple[Any, ...]]:
    """At most ``stream`` rows, in the cases of a rule; any number where it is 0."""
    if stream < 0:
        raise GlensideError(f"stream must be at least 0, got {stream}")
    if not stream:
        yield ()
        return
    yield (eq(p.x_depth).to(p.g),)
    yield p.has_rows, p.rows <= stream


def tile_to(rows: int, columns: int, *, stream: int = 0) -> list[RuleSet]:
    """Rule sets that bring every product of a program to calls of one array, tile by tile.

    Convolutions are brought to matrices first. Stages: 0 matrices; 1 padding; 2 splitting; 3 the
    array. Each ends by itself, all of them together too.

    :param rows, columns: of the array ``systolic-array (rows columns)``.
    :param stream: most rows that pass through it at once; 0 for any number.
    """
    splits = [split_rows(stream, rows, columns)] if stream else []
    splits += [split_columns(columns, stream, rows), split_depth(rows, columns, stream)]
    return [
        *(RuleSet(each.name, each.rules, stage=0) for each in (IM2COL, LAYOUT, MATRICES)),
        RuleSet("tiling-padding", (pad_product(rows, columns),), stage=1),
        RuleSet("tiling-splits", (*splits, merge_slices(), drop_identity_slice()), stage=2),
        RuleSet("tiling-calls", (systolic_tile(rows, columns),), stage=3, mapping=True),
    ]
