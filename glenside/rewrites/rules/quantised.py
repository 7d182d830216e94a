"""Rules that bring quantised products to units which multiply 8-bit integers.

A quantised value comes as ``int32(q) - int32(z)``, q of 8 bits and z its zero point, moved about
(padded, cut into windows, regrouped) before it meets the other operand. What it is made of is an
analysis: :data:`NARROW`, :data:`centred` and :data:`scaled` say it of every class, and follow it
through data movement. Products of such values are then products of the 8-bit integers themselves
and sums over single operands::

    sum (x - zx) (w - zw) = sum x w - zx sum (w - zw) - zw sum x

Integers wrap around, so this holds to the bit whatever overflows. Units that only take signed
integers get unsigned ones less 128, as their zero points. Products of floats that stand for such
integers, ``(sx a) (sw b) = (sx sw) (a b)``, are exact in real numbers and better than what floats
would add up, but not the same bits.
"""

# egglog reads the signatures; there are no bodies.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from egglog import (
    Fact,
    RewriteOrRule,
    String,
    Vec,
    eq,
    function,
    i64,
    relation,
    rule,
    set_,
    union,
    var,
    vars_,
)

from glenside.rewrites.rules.im2col import excess_axes
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, drop, ints, lengths, product, take

WIDE = "int32"
SIGNED, UNSIGNED = "int8", "uint8"
SHIFT = 128
"""From unsigned integers of 8 bits to signed ones."""

DEEPEST = (2**31 - 1) // 255**2
"""Products of differences of 8-bit integers that int32 holds the sum of, whatever they are."""


@function(merge=lambda old, _: old, egg_fn="narrow_signed")
def narrow_signed(x: Access) -> Access:
    """``q`` of int8 where ``x = int32(q)``."""


@function(merge=lambda old, _: old, egg_fn="narrow_unsigned")
def narrow_unsigned(x: Access) -> Access:
    """``q`` of uint8 where ``x = int32(q)``."""


NARROW = {SIGNED: narrow_signed, UNSIGNED: narrow_unsigned}
# Two functions rather than one and a dtype: a query that asks for the dtype of two operands tries
# all pairs of operands that have it.


@function(merge=lambda old, _: old, egg_fn="centred")
def centred(x: Access) -> Vec[Access]:
    """``(q, z)`` of one 8-bit dtype where ``x = int32(q) - int32(z)``.

    z has the axes of x, its length along each being that of x or 1.
    """


@function(merge=lambda old, _: old, egg_fn="scaled")
def scaled(x: Access) -> Vec[Access]:
    """``(a, s)`` where ``x = float32(a) * s``, a being int32 and s as z of :func:`centred`."""


# One making is kept of each class, so that the analysis ends; queries read it from these, since
# what they take out of a list is compared late.
centred_as = relation("centred_as", Access, Access, Access, egg_fn="centred_as")
"""x, q and z of :func:`centred`."""

scaled_as = relation("scaled_as", Access, Access, Access, egg_fn="scaled_as")
"""x, a and s of :func:`scaled`."""

small = relation("small", Access, egg_fn="small")
"""Of magnitude 255 at most: what is narrow or centred."""


# --- how values are put together ----------------------------------------------------------------


def _ones(v: Vec[i64]) -> Vec[i64]:
    return v.map(lambda _: i64(1))


def _fold(name: str, a: Access, b: Access, rank: Any) -> Access:
    """Two accesses of the same lengths combined, the first ``rank`` axes outer."""
    return a.access(0).pair(b.access(0)).compute(name, NO_DTYPE).access(rank)


def _shifted(q: Access, shape: Vec[i64], rank: Any) -> Access:
    """Unsigned as signed, 128 less."""
    by = Access.constant(str(SHIFT), shape, WIDE)
    return _fold("sub", q.cast(WIDE), by, rank).cast(SIGNED)


# --- what values are made of ----------------------------------------------------------------------

Beside = tuple[Callable[[Access], Access], Callable[[Access], tuple[Fact, ...]]]
"""What becomes of a v that has lengths of 1 in places, and the conditions on it."""


@dataclass(frozen=True)
class _Move:
    """Data movement ``whole = moved(x)``, and the ways in which a v beside x follows it."""

    name: str
    moved: Callable[[Access], Access]
    beside: tuple[Beside, ...]


def _always(_: Access) -> tuple[Fact, ...]:
    return ()


OUTER, ITEM = vars_("outer item", Vec[i64])
"""What data is moved to, as far as that is asked for."""


def _moves(x: Access) -> Iterator[_Move]:
    a, low, high, step, n = vars_("a low high step n", i64)
    k, stride, dilation, p, s, t = vars_("k stride dilation p s t", Vec[i64])
    fill = var("fill", String)

    def alike(name: str, moved: Callable[[Access], Access]) -> _Move:
        return _Move(name, moved, ((moved, _always),))

    def one_along(v: Access) -> tuple[Fact, ...]:
        return (eq(lengths(v)[a]).to(i64(1)),)

    def one_item(v: Access) -> tuple[Fact, ...]:
        return (eq(product(v.item)).to(i64(1)),)

    def same(v: Access) -> Access:
        return v

    yield alike("access", lambda y: y.access(n))
    yield alike("transpose", lambda y: y.transpose(p))
    yield alike("squeeze", lambda y: y.squeeze(a))
    yield alike("unsqueeze", lambda y: y.unsqueeze(a))
    yield _Move("broadcast", lambda y: y.broadcast(p), ((same, _always),))
    yield _Move("slice", lambda y: y.slice(a, low, high, step), ((same, one_along),))
    yield _Move(
        "windows",
        lambda y: y.windows(k, stride, dilation),
        ((lambda v: v.windows(_ones(k), _ones(k), _ones(k)), one_item),),
    )
    yield _Move("flatten", lambda y: y.flatten(), tuple(_regrouped(x)))
    split_first: Beside = (
        # The first axis in two, as filters are grouped.
        lambda v: v.reshape(take(s, 2).append(_ones(drop(s, 2))), ints()),
        lambda v: (
            eq(s.length()).to(x.outer.length() + 1),
            eq(drop(s, 2)).to(drop(x.outer, 1)),
            eq(v.outer[0]).to(x.outer[0]),
            eq(product(drop(v.outer, 1))).to(i64(1)),
            eq(v.item.length()).to(i64(0)),
            eq(t.length()).to(i64(0)),
        ),
    )
    yield _Move("reshape", lambda y: y.reshape(s, t), (*_regrouped(x), split_first))
    # Zero stands for zero, but for what is centred: see there.
    yield _Move(_PAD, lambda y: y.pad(fill, a, low, high, step), ((same, one_along),))


_PAD = "pad"


def _regrouped(x: Access) -> Iterator[Beside]:
    """Each part of v has the lengths of x, or 1 everywhere."""

    def way(all_outer: bool, all_item: bool) -> Beside:
        def facts(v: Access) -> tuple[Fact, ...]:
            return (
                eq(v.outer).to(x.outer) if all_outer else eq(product(v.outer)).to(i64(1)),
                eq(v.item).to(x.item) if all_item else eq(product(v.item)).to(i64(1)),
            )

        outer = OUTER if all_outer else _ones(OUTER)
        item = ITEM if all_item else _ones(ITEM)
        return lambda v: v.reshape(outer, item), facts

    for all_outer in (False, True):
        for all_item in (False, True):
            yield way(all_outer, all_item)


@functools.cache
def makings(shift: bool) -> tuple[RewriteOrRule, ...]:
    """The analysis; always the same objects.

    :param shift: unsigned integers become signed ones.
    """
    return (*_common(), *_unsigned(shift))


@functools.cache
def _common() -> tuple[RewriteOrRule, ...]:
    """What does not depend on it: rules of both kinds of units may stand in one e-graph."""
    return (*_origins(), *_through_moves(), *_through_padding(), *_operands())


def _origins() -> Iterator[RewriteOrRule]:
    q, z, a, b, whole = vars_("q z a b whole", Access)
    n = var("n", i64)
    t, v = vars_("t v", Vec[i64])
    value = var("value", String)
    found = var("found", Vec[Access])
    for fact, read in ((centred, centred_as), (scaled, scaled_as)):
        yield rule(eq(found).to(fact(a)), eq(q).to(found[0]), eq(z).to(found[1])).then(
            read(a, q, z)
        )
    for dtype in (SIGNED, UNSIGNED):
        yield rule(
            eq(whole).to(q.cast(WIDE)), eq(q.dtype).to(String(dtype)), name=f"narrow: {dtype}"
        ).then(set_(NARROW[dtype](whole)).to(q), small(whole))
    yield _less_zero(SIGNED, "as they are")
    for factor, one, kind in (
        (b.broadcast(v), b, "spread"),
        (Access.constant(value, v, "float32"), Access.constant(value, t, "float32"), "number"),
    ):
        yield rule(
            eq(whole).to(_fold("mul", a.cast("float32"), factor, n)),
            eq(a.dtype).to(String(WIDE)),
            eq(v).to(lengths(a)),
            eq(t).to(_ones(v)),
            name=f"scaled: {kind}",
        ).then(set_(scaled(whole)).to(Vec(a.access(n), one.access(n))))


def _less_zero(dtype: str, how: str, shift: bool = False) -> RewriteOrRule:
    """Less a zero point that is spread over the axes along which it has length 1."""
    q, z, a, b, whole = vars_("q z a b whole", Access)
    n = var("n", i64)
    s, t, v = vars_("s t v", Vec[i64])
    parts = q.access(n), z.access(n)
    if shift:
        parts = _shifted(q, s, n), _shifted(z, t, n)
    return rule(
        eq(whole).to(_fold("sub", a, b.broadcast(v), n)),
        eq(q).to(NARROW[dtype](a)),
        eq(z).to(NARROW[dtype](b)),
        eq(s).to(lengths(q)),
        eq(t).to(lengths(z)),
        name=f"centred: {dtype} {how}",
    ).then(set_(centred(whole)).to(Vec(*parts)), small(whole))


def _unsigned(shift: bool) -> Iterator[RewriteOrRule]:
    if not shift:
        yield _less_zero(UNSIGNED, "as they are")
        return
    yield _less_zero(UNSIGNED, "as signed", shift=True)
    q, whole = vars_("q whole", Access)
    n = var("n", i64)
    s, v = vars_("s v", Vec[i64])
    less = Access.constant(str(-SHIFT), v, SIGNED).access(n)
    yield rule(
        eq(whole).to(q.cast(WIDE)),
        eq(q.dtype).to(String(UNSIGNED)),
        eq(s).to(lengths(q)),
        eq(v).to(_ones(s)),
        eq(n).to(q.outer.length()),
        name="centred: no zero point, as signed",
    ).then(set_(centred(whole)).to(Vec(_shifted(q, s, n), less)))


def _through_moves() -> Iterator[RewriteOrRule]:
    x, q, v, whole = vars_("x q v whole", Access)
    for move in _moves(x):
        at = eq(whole).to(move.moved(x)), eq(OUTER).to(whole.outer), eq(ITEM).to(whole.item)
        zero = [eq(var("fill", String)).to(String("zero"))] if move.name == _PAD else []
        for dtype, narrow in NARROW.items():
            yield rule(
                *at, *zero, eq(q).to(narrow(x)), name=f"narrow: {move.name} of {dtype}"
            ).then(set_(narrow(whole)).to(move.moved(q)), small(whole))
        for fact, read, name in (
            (centred, centred_as, "centred"),
            (scaled, scaled_as, "scaled"),
        ):
            if fact is centred and move.name == _PAD:
                continue
            for number, (beside, facts) in enumerate(move.beside):
                grown: list[Any] = [small(whole)] if fact is centred else []
                yield rule(
                    *at,
                    *zero,
                    read(x, q, v),
                    *facts(v),
                    name=f"{name}: {move.name} {number}",
                ).then(set_(fact(whole)).to(Vec(move.moved(q), beside(v))), *grown)


def _through_padding() -> Iterator[RewriteOrRule]:
    """The padding stands for zero, so it holds the zero point."""
    x, q, z, whole = vars_("x q z whole", Access)
    a, before, after, inside, n = vars_("a before after inside n", i64)
    s = var("s", Vec[i64])
    dtype = var("dtype", String)
    yield rule(
        eq(whole).to(x.pad("zero", a, before, after, inside)),
        centred_as(x, q, z),
        eq(dtype).to(z.dtype),
        eq(lengths(z)[a]).to(i64(1)),
        eq(s).to(lengths(whole)),
        eq(n).to(whole.outer.length()),
        name="centred: padded",
    ).then(
        set_(centred(whole)).to(
            Vec(_fold("add", whole, z.cast(WIDE).broadcast(s), n).cast(dtype), z)
        ),
        small(whole),
    )


# Operands of products, as matrices or batches of them. What a rule asks of one is gathered in one
# fact: a query over many facts about both would try all operands with all others.

plain_operand = relation("plain_operand", Access, Access, String, Vec[i64], egg_fn="plain_operand")
"""``x = int32(q)``: x, q, the dtype of q, the outer lengths of x."""

centred_operand = relation(
    "centred_operand",
    Access,
    Access,
    String,
    Vec[i64],
    Access,
    Vec[i64],
    egg_fn="centred_operand",
)
"""``x = int32(q) - int32(z)``: likewise, and z and its outer lengths; it is one number an item."""

scaled_operand = relation(
    "scaled_operand", Access, Access, Vec[i64], Access, Vec[i64], egg_fn="scaled_operand"
)
"""``x = float32(a) * s``, a small: x, a, the outer lengths of x, s and its outer lengths."""


def _operands() -> Iterator[RewriteOrRule]:
    x, y, q, z = vars_("x y q z", Access)
    g = var("g", i64)
    s, t, v = vars_("s t v", Vec[i64])
    dtype = var("dtype", String)
    for side, product_of in (("left", x.cart_prod(y, g)), ("right", y.cart_prod(x, g))):
        matrix = (
            product_of,
            eq(s).to(x.outer),
            eq(t).to(x.item),
            eq(excess_axes(s, t, g)).to(i64(0)),
        )
        for name, narrow in NARROW.items():
            yield rule(*matrix, eq(q).to(narrow(x)), name=f"operand: {name}, {side}").then(
                plain_operand(x, q, String(name), s)
            )
        one_an_item = eq(product(z.item)).to(i64(1)), eq(v).to(z.outer)
        yield rule(
            *matrix,
            centred_as(x, q, z),
            *one_an_item,
            eq(dtype).to(q.dtype),
            name=f"operand: centred, {side}",
        ).then(centred_operand(x, q, dtype, s, z, v))
        yield rule(
            *matrix,
            scaled_as(x, q, z),
            *one_an_item,
            small(q),
            t[0] <= DEEPEST,
            name=f"operand: scaled, {side}",
        ).then(scaled_operand(x, q, s, z, v))


@functools.cache
def meanings(deepest: int = DEEPEST) -> tuple[RewriteOrRule, ...]:
    """What the facts about operands say of values: each would follow from these equations.

    :param deepest: the most elements of a row of :data:`scaled_operand`.
    """
    x, q, z = vars_("x q z", Access)
    n, k = vars_("n k", i64)
    s, t, v, w = vars_("s t v w", Vec[i64])
    dtype = var("dtype", String)
    row = eq(t).to(x.item), eq(t.length()).to(i64(1))
    whole = (eq(s).to(x.outer), eq(n).to(q.outer.length()), eq(w).to(lengths(q)), *row)
    beside = (
        eq(v).to(z.outer),
        eq(z.outer.length()).to(n),
        eq(product(z.item)).to(i64(1)),
    )
    return (
        rule(eq(x).to(q.cast(WIDE)), eq(dtype).to(q.dtype), eq(s).to(x.outer), *row).then(
            plain_operand(x, q, dtype, s)
        ),
        rule(
            eq(x).to(_fold("sub", q.cast(WIDE), z.cast(WIDE).broadcast(w), n)),
            eq(dtype).to(q.dtype),
            eq(dtype).to(z.dtype),
            *whole,
            *beside,
        ).then(centred_operand(x, q, dtype, s, z, v)),
        rule(
            eq(x).to(_fold("mul", q.cast("float32"), z.broadcast(w), n)),
            eq(q.dtype).to(String(WIDE)),
            eq(z.dtype).to(String("float32")),
            small(q),
            eq(k).to(t[0]),
            k <= deepest,
            *whole,
            *beside,
        ).then(scaled_operand(x, q, s, z, v)),
    )


# --- the rules ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    """One operand of a product: ``int32(q)``, less ``int32(z)`` where there is a zero point."""

    name: str
    less: bool

    def __post_init__(self) -> None:
        write = object.__setattr__
        for part in ("x", "q", "z"):
            write(self, part, var(f"{part}_{self.name}", Access))
        for part in ("outer", "zeros"):
            write(self, part, var(f"{part}_{self.name}", Vec[i64]))

    x: Access = field(init=False)
    q: Access = field(init=False)
    z: Access = field(init=False)
    outer: Vec[i64] = field(init=False)
    zeros: Vec[i64] = field(init=False)
    """The outer lengths of z."""

    def fact(self, dtype: str) -> Fact:
        known = (self.x, self.q, String(dtype), self.outer)
        if self.less:
            return centred_operand(*known, self.z, self.zeros)
        return plain_operand(*known)


def _beside(of: Vec[i64], other: Vec[i64], g: i64, left: bool) -> Vec[i64]:
    """Outer lengths of an operand as those of the product, 1 where the other one's stand."""
    own, gone = drop(of, g), _ones(drop(other, g))
    return take(of, g).append(own, gone) if left else take(of, g).append(gone, own)


def _combined(a: Access, v: Vec[i64], b: Access, w: Vec[i64], rank: i64) -> Access:
    """``a * b`` of lengths v and w, each spread to where its own is 1.

    The longer one, but none where one of them is none: nothing beside one is nothing.
    """
    shape = rank.range().map(lambda i: v[i].max(w[i]) * v[i].min(w[i]).min(1))
    left, right = (each.reshape(of, ints()).broadcast(shape) for each, of in ((a, v), (b, w)))
    return _fold("mul", left, right, rank)


def _products() -> Any:
    from glenside.rewrites.soundness.programs import quantised_products

    return quantised_products()


def _by_makings(shift: bool) -> dict[str, Any]:
    """What rules by this analysis have in common."""
    return {
        "analyses": lambda: makings(shift),
        "meanings": meanings,
        "programs": _products,
    }


def _expanded(shift: bool, less: tuple[bool, bool]) -> Iterator[RewriteOrRule]:
    x, y = _Side("x", less[0]), _Side("y", less[1])
    whole = var("whole", Access)
    g, rank = vars_("g rank", i64)
    outer = var("outer", Vec[i64])
    subtracted = []
    if x.less:
        # The other operand with its zero point taken off: so the two corrections never overlap.
        total, shape = y.x.compute("sum", WIDE), _beside(y.outer, x.outer, g, False)
        zero, ones = x.z.cast(WIDE), _beside(x.zeros, y.outer, g, True)
        subtracted.append(_combined(total, shape, zero, ones, rank))
    if y.less:
        total, shape = x.q.cast(WIDE).compute("sum", WIDE), _beside(x.outer, y.outer, g, True)
        zero, ones = y.z.cast(WIDE), _beside(y.zeros, x.outer, g, False)
        subtracted.append(_combined(total, shape, zero, ones, rank))
    pairs = [(SIGNED, SIGNED)]
    if not shift:
        pairs += [(UNSIGNED, UNSIGNED), (SIGNED, UNSIGNED), (UNSIGNED, SIGNED)]
    for left, right in pairs:
        query = (
            eq(whole).to(x.x.cart_prod(y.x, g).compute("dot", WIDE)),
            x.fact(left),
            y.fact(right),
            eq(outer).to(whole.outer),
            eq(rank).to(outer.length()),
        )
        if left == right:
            made = x.q.cart_prod(y.q, g).compute("dot", WIDE)
        else:
            made = x.q.cast(WIDE).cart_prod(y.q.cast(WIDE), g).compute("dot", WIDE)
        for each in subtracted:
            made = _fold("sub", made, each.broadcast(outer), rank)
        yield rule(*query).then(union(whole).with_(made))


@rewrite_rule("products-of-signed", exact=False, **_by_makings(True))
def products_of_signed() -> Iterator[RewriteOrRule]:
    """``dot((x - zx) × (w - zw)) -> dot(x × w) - zx sum(w - zw) - zw sum x``, x and w int8.

    Unsigned operands become signed first. To the bit, since integers wrap around.
    """
    for less in ((False, False), (True, False), (False, True), (True, True)):
        yield from _expanded(True, less)


@rewrite_rule("products-of-bytes", exact=False, **_by_makings(False))
def products_of_bytes() -> Iterator[RewriteOrRule]:
    """Likewise with operands as they are, signed or not, for units that multiply both."""
    for less in ((False, False), (True, False), (False, True), (True, True)):
        yield from _expanded(False, less)


@rewrite_rule("scale-out-of-dot", exact=False, **_by_makings(True))
def scale_out_of_dot() -> Iterator[RewriteOrRule]:
    """``dot((sx a) × (sw b)) -> (sx sw) dot(a × b)`` of floats, where a and b are differences of
    8-bit integers whose products int32 can add up."""
    x, y, whole = vars_("x y whole", Access)
    a, b, s, t = vars_("a b s t", Access)
    g, rank = vars_("g rank", i64)
    v, w, outer, left, right = vars_("v w outer left right", Vec[i64])
    dot = a.cart_prod(b, g).compute("dot", WIDE).cast("float32")
    scale = _combined(s, _beside(v, right, g, True), t, _beside(w, left, g, False), rank)
    yield rule(
        eq(whole).to(x.cart_prod(y, g).compute("dot", "float32")),
        scaled_operand(x, a, left, s, v),
        scaled_operand(y, b, right, t, w),
        eq(outer).to(whole.outer),
        eq(rank).to(outer.length()),
    ).then(union(whole).with_(_fold("mul", dot, scale.broadcast(outer), rank)))


SIGNED_PRODUCTS = RuleSet("quantised", (products_of_signed(), scale_out_of_dot()))
"""Quantised products for units that multiply signed integers."""

BYTE_PRODUCTS = RuleSet(
    "quantised", (products_of_bytes(), replace(scale_out_of_dot(), analyses=makings(False)))
)
"""Quantised products for units that also multiply unsigned integers."""
