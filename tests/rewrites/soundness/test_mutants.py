"""The soundness kit has teeth: the original's unsound rules, in our words, are found out.

Each lacks a condition that the rule which ships has. What makes it wrong stands in its docstring;
U1 to U10 number the faults that were found in the original.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, ne, rule, union, var, vars_
from hypothesis import strategies as st

from glenside.language import Term, builders
from glenside.rewrites import Rule, rule_named
from glenside.rewrites.engine.known_zeros import known_zero, known_zeros
from glenside.rewrites.engine.types import typed
from glenside.rewrites.rules.im2col import root
from glenside.rewrites.soundness import Counterexample, NeverFired, check_fires, check_sound
from glenside.rewrites.soundness.programs import convolutions, linear_layers
from glenside.rewrites.vocabulary import NO_DTYPE, Access, ints, lengths, take
from tests.effort import tries
from tests.rewrites.instances import Draw, dtypes, leaf
from tests.strategies import shapes

Cases = Callable[[], Iterator[RewriteOrRule]]
MUTANTS: dict[str, tuple[Rule, st.SearchStrategy[Term] | None]] = {}

x, y, w, b, whole = vars_("x y w b whole", Access)
s, t, v = vars_("s t v", Vec[i64])
a, low, high, n = vars_("a low high n", i64)
dtype = var("dtype", String)


def mutant(
    fault: str, programs: st.SearchStrategy[Term] | None = None, *, zeros: bool = False
) -> Callable[[Cases], Cases]:
    """Not registered as those that ship are: nobody else shall find them."""

    def define(cases: Cases) -> Cases:
        analyses = known_zeros() if zeros else ()
        name = f"{fault}-{cases.__name__.replace('_', '-')}"
        MUTANTS[name] = Rule(name, tuple(cases()), False, analyses), programs
        return cases

    return define


@mutant("U1")
def concat_out_of_dot_item() -> Iterator[RewriteOrRule]:
    """Out of the tuple axis too: a product of four becomes a sum of two products of two."""
    both = x.compute("dot", dtype).pair(y.compute("dot", dtype))
    yield rule(eq(whole).to(x.concat(y, a).compute("dot", dtype)), a >= x.outer.length()).then(
        union(whole).with_(both.compute("sum", dtype))
    )


@st.composite
def dots_over_padding(draw: Draw) -> Term:
    outer, item = draw(shapes(most=1)), tuple(draw(st.lists(st.integers(1, 3), min_size=1)))[:3]
    inside = leaf(outer, item, draw(dtypes()))
    axis = len(outer) + draw(st.integers(0, len(item) - 1))
    padded = builders.pad(inside, axis, 0, draw(st.integers(1, 2)))
    return builders.compute("dot", builders.slice_(padded, axis, 0, inside.shape[axis]))


@mutant("U2", dots_over_padding(), zeros=True)
def slice_out_of_dot_zero() -> Iterator[RewriteOrRule]:
    """Out of the tuple axis too: every dot of a padded tuple is zero."""
    yield rule(
        eq(whole).to(x.slice(a, 0, high, 1).compute("dot", dtype)),
        a >= x.outer.length(),
        known_zero(x, a, low, n),
        low <= high,
        eq(n).to(lengths(x)[a]),
    ).then(union(whole).with_(x.compute("dot", dtype)))


@mutant("U3a")
def reshape_out_of_dot() -> Iterator[RewriteOrRule]:
    """The tuple axis may change: other elements are multiplied."""
    yield rule(eq(whole).to(x.reshape(s, t).compute("dot", dtype)), x.item.length() >= 1).then(
        union(whole).with_(x.compute("dot", dtype).reshape(s, ints()))
    )


@mutant("U3b")
def regroup_out_of_dot() -> Iterator[RewriteOrRule]:
    """Elements may go from the outer part to the items and back: the result has another size."""
    yield rule(
        eq(whole).to(x.access(n).reshape(s, t).compute("dot", dtype)), x.item.length() >= 1
    ).then(union(whole).with_(x.compute("dot", dtype).reshape(s, ints())))


@st.composite
def maxima_of_rows(draw: Draw) -> Term:
    return builders.compute("max", leaf(draw(shapes(most=1)), (draw(st.integers(3, 9)),), "int32"))


@mutant("U4", maxima_of_rows())
def reassociate_max() -> Iterator[RewriteOrRule]:
    """Windows of 3 at every second place: the last of 6 elements is in none."""
    part = x.windows(ints(3), ints(2), ints(1)).compute("max", NO_DTYPE)
    yield rule(
        eq(whole).to(x.compute("max", NO_DTYPE)),
        eq(x.item.length()).to(i64(1)),
        eq(x.item[0] % 3).to(i64(0)),
        x.item[0] > 0,
        eq(n).to(x.outer.length()),
    ).then(union(whole).with_(part.access(n).compute("max", NO_DTYPE)))


@mutant("U5")
def regroup_out_of_max() -> Iterator[RewriteOrRule]:
    """Elements may go from the outer part to the items and back: the result has another size."""
    yield rule(eq(whole).to(x.access(n).reshape(s, t).compute("max", NO_DTYPE))).then(
        union(whole).with_(x.compute("max", NO_DTYPE).reshape(s, ints()))
    )


def biased(product: Access, bias: Access, rank: int) -> Access:
    sides = product.access(0).pair(bias.access(0))
    return sides.compute("add", NO_DTYPE).access(rank)


@mutant("U6", linear_layers())
def flex_linear() -> Iterator[RewriteOrRule]:
    """The bias may go along the rows, which shows where there are as many as columns."""
    unit = Access.call(Vec[Access](x, w, b), "flex-linear", Vec[i64].empty())
    rows, columns = vars_("rows columns", i64)
    for bias in (b.unsqueeze(0).broadcast(v), b.unsqueeze(1).broadcast(v)):
        yield rule(
            eq(whole).to(biased(x.cart_prod(w, 0).compute("dot", dtype), bias, 2)),
            eq(dtype).to(x.dtype),
            eq(rows).to(x.outer[0]),
            eq(columns).to(w.outer[0]),
            eq(x.outer.length() * w.outer.length() * x.item.length()).to(i64(1)),
            eq(b.outer[0]).to(columns),
        ).then(*typed(unit, ints(rows, columns), ints(), dtype), union(whole).with_(unit))


@st.composite
def reshaped_layers(draw: Draw) -> Term:
    rows, depth, columns = (draw(st.integers(1, 4)) for _ in range(3))
    sides = leaf((rows,), (depth,), "int32", "x"), leaf((columns,), (depth,), "int32", "w")
    product = builders.compute("dot", builders.cart_prod(*sides))
    size = rows * columns
    last = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
    product = builders.reshape(product, (1, size // last, last))
    return builders.elementwise("add", product, builders.tensor("b", (last,), "int32"))


@mutant("U7", reshaped_layers())
def bias_out_of_reshape() -> Iterator[RewriteOrRule]:
    """The reshape may break the rows: a bias of 3 on 6 units."""
    product = x.compute("dot", dtype)
    bias = b.unsqueeze(0).unsqueeze(0).broadcast(v)
    yield rule(
        eq(whole).to(biased(product.reshape(s, ints()), bias, 3)),
        eq(t).to(x.outer),
        eq(b.outer.length()).to(i64(1)),
    ).then(union(whole).with_(biased(product, b.unsqueeze(0).broadcast(t), 2).reshape(s, ints())))


@st.composite
def broadcast_sums(draw: Draw) -> Term:
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    matrix = builders.tensor("x", (rows, draw(st.sampled_from((1, columns)))), "int32")
    return builders.elementwise("add", matrix, builders.tensor("b", (columns,), "int32"))


@mutant("U8", broadcast_sums())
def add_to_bias_add() -> Iterator[RewriteOrRule]:
    """The matrix may be the one that is broadcast: (2 1) and a bias of 3."""
    bias = b.unsqueeze(0).broadcast(v)
    yield rule(eq(whole).to(biased(x.broadcast(v), bias, 2)), eq(t).to(x.outer)).then(
        union(whole).with_(biased(x, b.unsqueeze(0).broadcast(t), 2))
    )


@mutant("U9", convolutions(product_only=True))
def systolic_conv2d_im2col() -> Iterator[RewriteOrRule]:
    """Any shape of as many elements is taken for that of the result."""
    looks = x.access(1).windows(s, t, ints(1, 1, 1)).squeeze(1)
    product = w.access(1).flatten().cart_prod(looks.flatten(), 0).compute("dot", dtype)
    sizes = ints(1, 1, s[1], s[2], t[1], t[2])
    unit = Access.call(Vec[Access](w, x), "systolic-conv2d-im2col-nchw", sizes)
    yield rule(
        eq(whole).to(product.reshape(v, ints()).transpose(ints(1, 0, 2, 3))),
        eq(dtype).to(x.dtype),
    ).then(*typed(unit, ints(v[1], v[0], v[2], v[3]), ints(), dtype), union(whole).with_(unit))


@st.composite
def dots_of_clipped(draw: Draw) -> Term:
    inside = leaf((), (draw(st.integers(1, 2)), draw(st.integers(1, 3))), "int32")
    padded = builders.pad(inside, 1, 0, draw(st.integers(1, 2)))
    least = builders.constant(draw(st.integers(0, 1)), padded.shape, "int32")
    pair = builders.pair(padded, builders.access(least, 0))
    clipped = builders.compute("maximum", pair)
    return builders.compute("dot", builders.slice_(clipped, 1, 0, inside.shape[1]))


@mutant("U10", dots_of_clipped(), zeros=True)
def zeros_through_clip() -> Iterator[RewriteOrRule]:
    """What is known to be zero is taken to be so after clipping to at least 1."""
    clipped = x.pair(y).compute("maximum", NO_DTYPE)
    yield rule(
        eq(whole).to(clipped.slice(a, 0, high, 1).compute("dot", dtype)),
        a > x.outer.length(),
        known_zero(x, a, low, n),
        low <= high,
        eq(n).to(lengths(x)[a]),
    ).then(union(whole).with_(clipped.compute("dot", dtype)))


@st.composite
def pools(draw: Draw) -> Term:
    length = draw(st.integers(2, 4))
    images = [leaf((1,), (length,), "int32", name) for name in ("data", "x")]
    pooled = [builders.compute("max", builders.windows(each, (2,), (1,))) for each in images]
    return builders.elementwise("add", *pooled)


@mutant("max-pool", pools())
def lower_max_pool() -> Iterator[RewriteOrRule]:
    """Whatever is pooled is taken to be a tensor called data."""
    data = Access.tensor("data", v, dtype).access(1)
    yield rule(
        eq(whole).to(x.windows(s, t, ints(1)).compute("max", NO_DTYPE)),
        eq(v).to(lengths(x)),
        eq(dtype).to(x.dtype),
        eq(x.outer.length()).to(i64(1)),
    ).then(union(whole).with_(data.windows(s, t, ints(1)).compute("max", NO_DTYPE)))


# --- more ways to be wrong, of operators that the original does not have ------------------------


@mutant("batch")
def concat_out_of_cart_left() -> Iterator[RewriteOrRule]:
    """An axis that both operands share is cut in one of them."""
    yield rule(eq(whole).to(x.concat(y, a).cart_prod(w, n)), a < x.outer.length()).then(
        union(whole).with_(x.cart_prod(w, n).concat(y.cart_prod(w, n), a))
    )


@st.composite
def slices_of_slices(draw: Draw) -> Term:
    result = builders.tensor("x", (12,), "int32")
    for _ in range(2):
        low = draw(st.integers(0, 2))
        result = builders.slice_(result, 0, min(low, result.shape[0]), result.shape[0], 2)
    return result


@mutant("step", slices_of_slices())
def merge_slices() -> Iterator[RewriteOrRule]:
    """Steps are added up, not multiplied."""
    first, last, step, again = vars_("first last step again", i64)
    yield rule(
        eq(whole).to(x.slice(a, low, high, step).slice(a, first, last, again)), first < last
    ).then(
        union(whole).with_(
            x.slice(a, low + first * step, low + (last - 1) * step + 1, step + again - 1)
        )
    )


@st.composite
def items_cut_anywhere(draw: Draw) -> Term:
    sides = []
    for outer, name in ((2, "a"), (3, "b")):
        cut = draw(st.integers(1, 3))
        parts = [leaf((outer,), (n,), "int32", f"{name}{n}") for n in (cut, 4 - cut)]
        sides.append(builders.concat(1, *parts))
    return builders.cart_prod(*sides)


@mutant("cut-points", items_cut_anywhere())
def concat_out_of_cart_item() -> Iterator[RewriteOrRule]:
    """The operands may be cut at different points."""
    z = var("z", Access)
    at = var("at", i64)
    pattern = x.concat(y, a).cart_prod(w.concat(z, n), 0)
    yield rule(
        eq(whole).to(pattern),
        a >= x.outer.length(),
        eq(a - x.outer.length()).to(n - w.outer.length()),
        eq(at).to(a + w.outer.length() + 1),
    ).then(union(whole).with_(x.cart_prod(w, 0).concat(y.cart_prod(z, 0), at)))


# --- rules that ship, without what they ask of empty axes, items and strides ---------------------


def unguarded(shipped: str, *parameters: int) -> Callable[[Cases], Cases]:
    """A mutant of a rule that ships, tried on the programs on which that one is."""

    def define(cases: Cases) -> Cases:
        (one,) = rule_named(f"{shipped}({','.join(map(str, parameters))})")
        name = f"{shipped}-{cases.__name__.replace('_', '-')}"
        MUTANTS[name] = Rule(name, tuple(cases()), False, programs=one.programs), None
        return cases

    return define


@unguarded("reshape-out-of-dot")
def dot_of_empty_tuples() -> Iterator[RewriteOrRule]:
    """An empty tuple axis says nothing of those behind it: (0) is reshaped to (0 2)."""
    yield rule(
        eq(whole).to(x.reshape(s, t).compute("dot", dtype)),
        eq(v).to(x.item),
        eq(v[0]).to(t[0]),
    ).then(union(whole).with_(x.compute("dot", dtype).reshape(s, ints())))


def _softmax_out_of_reshape(*facts: Fact) -> Iterator[RewriteOrRule]:
    own = var("own", Vec[i64])
    yield rule(
        eq(whole).to(x.reshape(s, ints()).access(n).compute("softmax", NO_DTYPE)),
        eq(s.length()).to(n + 1),
        eq(own).to(x.outer),
        eq(a).to(own.length() - 1),
        eq(s[n]).to(own[a]),
        eq(t).to(take(s, n)),
        *facts,
    ).then(union(whole).with_(x.access(a).compute("softmax", NO_DTYPE).reshape(t, ints(s[n]))))


@unguarded("softmax-out-of-reshape")
def softmax_of_items() -> Iterator[RewriteOrRule]:
    """What is reshaped may have items: its last axis is not the one that is kept."""
    yield from _softmax_out_of_reshape(s[n] > 0)


@unguarded("softmax-out-of-reshape")
def softmax_of_nothing() -> Iterator[RewriteOrRule]:
    """The axis that is kept may be empty: then the others need not be as many."""
    yield from _softmax_out_of_reshape(eq(x.item.length()).to(i64(0)))


@unguarded("scale-into-product")
def scale_with_items() -> Iterator[RewriteOrRule]:
    """One number for all outer axes is not one number where there are items."""
    z = var("z", Access)
    shape, of_z, one = vars_("shape of_z one", Vec[i64])
    product = x.cart_prod(y, a).compute("dot", dtype).access(0)
    single = z.reshape(one, ints()).broadcast(shape)
    scaled = x.access(0).pair(single.access(0)).compute("mul", NO_DTYPE).access(high)
    yield rule(
        eq(whole).to(product.pair(z.broadcast(v).access(0)).compute("mul", NO_DTYPE)),
        whole.access(n).compute("softmax", NO_DTYPE),
        eq(dtype).to(x.dtype),
        eq(shape).to(lengths(x)),
        eq(one).to(shape.map(lambda each: each.min(1).max(1))),
        eq(high).to(x.outer.length()),
        eq(of_z).to(z.outer),
        eq(of_z).to(of_z.map(lambda each: each.min(1).max(1))),
    ).then(union(whole).with_(scaled.cart_prod(y, a).compute("dot", dtype).access(0)))


def _conv2d(form: str) -> tuple[Access, Access]:
    """Windows over some channels, and the unit."""
    sizes = ints(1, 1, s[1], s[2], t[1], t[2])
    unit = Access.call(Vec[Access](w, x), f"systolic-conv2d-{form}", sizes)
    return x.access(1).windows(s, t, ints(1, 1, 1)).squeeze(1), unit


@unguarded("systolic-conv2d-nchw", 1, 1)
def conv2d_of_some_channels() -> Iterator[RewriteOrRule]:
    """Windows of two channels of three are one, too, in steps of two."""
    looks, unit = _conv2d("nchw")
    product = w.access(1).cart_prod(looks, 0).compute("dot", dtype)
    yield rule(
        eq(whole).to(product.transpose(ints(1, 0, 2, 3))),
        eq(s.length()).to(i64(3)),
        eq(t.length()).to(i64(3)),
        eq(dtype).to(x.dtype),
        eq(v).to(whole.outer),
    ).then(*typed(unit, v, ints(), dtype), union(whole).with_(unit))


def _conv2d_im2col(*facts: Fact) -> Iterator[RewriteOrRule]:
    looks, unit = _conv2d("im2col-nchw")
    found, places = var("found", Access), var("places", Vec[i64])
    product = w.access(1).flatten().cart_prod(found.flatten(), 0).compute("dot", dtype)
    yield rule(
        eq(whole).to(product.reshape(v, ints()).transpose(ints(1, 0, 2, 3))),
        eq(found).to(looks),
        eq(s.length()).to(i64(3)),
        eq(t.length()).to(i64(3)),
        eq(dtype).to(x.dtype),
        eq(places).to(found.outer),
        eq(v).to(ints(v[0]).append(places)),
        *facts,
    ).then(
        *typed(unit, ints(places[0], v[0], places[1], places[2]), ints(), dtype),
        union(whole).with_(unit),
    )


@unguarded("systolic-conv2d-im2col-nchw", 1, 1)
def im2col_of_some_channels() -> Iterator[RewriteOrRule]:
    """As for the unit that does not form the windows itself."""
    yield from _conv2d_im2col(eq(lengths(w)).to(ints(v[0]).append(s)))


@unguarded("systolic-conv2d-im2col-nchw", 1, 1)
def im2col_of_other_filters() -> Iterator[RewriteOrRule]:
    """Flattened, filters of any axes are alike."""
    yield from _conv2d_im2col(eq(s[0]).to(lengths(x)[1]))


@pytest.mark.parametrize("name", MUTANTS)
def test_unsound_rules_are_found_out(name: str) -> None:
    made, programs = MUTANTS[name]
    with pytest.raises(Counterexample):
        check_sound(made, programs, smallest=False)


# --- rules that miss what they should find ------------------------------------------------------


@st.composite
def short(draw: Draw) -> Term:
    """An axis of at most 16, which fits the limit of 16 exactly."""
    return builders.tensor("x", (draw(st.integers(1, 15)), 2), "int32")


def swapped_guard() -> Rule:
    """U12: multiple and length stand the wrong way round in the guard."""
    multiple = limit = 16
    next_above = (multiple / n + 1) * n  # Should be (n / multiple + 1) * multiple.
    cases = (
        rule(
            root(x),
            eq(n).to(lengths(x)[0]),
            ne(n).to(i64(0)),
            next_above <= limit,
        ).then(union(x).with_(x.pad("zero", 0, 0, i64(limit) - n, 0).slice(0, 0, n, 1))),
    )
    return Rule("U12", cases, True)


def test_a_rule_that_misses_what_it_should_find_is_noticed() -> None:
    with pytest.raises(NeverFired):
        check_fires(swapped_guard(), short())
    (right,) = rule_named("pad-then-slice(axis=0,multiples-of=16,limit=16)")
    check_fires(right, short())


def test_on_the_same_programs_the_rules_that_ship_pass() -> None:
    shipped: list[tuple[str, st.SearchStrategy[Term] | None]] = [
        ("slice-out-of-dot-zero", dots_over_padding()),
        ("reassociate-max(3,2)", maxima_of_rows()),
        ("flex-linear", linear_layers()),
        ("bias-out-of-reshape", reshaped_layers()),
        ("concat-out-of-dot-item", None),
        ("merge-slices", slices_of_slices()),
        ("systolic-conv2d-im2col-nchw(1,1)", convolutions(product_only=True)),
    ]
    for name, programs in shipped:
        check_fires(rule_named(name), programs, examples=tries(30))
