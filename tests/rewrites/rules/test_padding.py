"""Rules that pad to multiples, and what is known to be zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.language import Term, builders, evaluate, topological_order
from glenside.rewrites import EGraph, StopReason, contains, matches, rule_named
from glenside.rewrites.rules.padding import PADDING, slice_out_of_dot_zero
from glenside.rewrites.rules.tensorize import systolic_blocked
from glenside.rewrites.soundness import check_program
from tests.effort import FEW, tries
from tests.rewrites.instances import Draw, check, dots, dtypes, leaf, products
from tests.strategies import STEPS, environment, leaves, shapes

AXES = st.integers(0, 5)


def fires(term: Term, name: str, pattern: str) -> None:
    """The rule finds a form like ``pattern`` and ends."""
    result = check(term, name)
    assert result.stop_reason is StopReason.SATURATED
    assert result.rules[name] > 0
    assert any(matches(result.egraph, pattern, result.egraph.roots))


def stays(term: Term, name: str) -> None:
    assert check(term, name).rules[name] == 0


# --- padding is introduced -----------------------------------------------------------------------

matrix_products = products(item=shapes(1, 1), rest=1)


@pytest.mark.parametrize(("axis", "multiple"), [(0, 3), (1, 4)])
@FEW
@given(term=dots(matrix_products))
def test_matrices_that_are_multiplied_are_padded(axis: int, multiple: int, term: Term) -> None:
    result = check(term, f"pad-then-slice(axis={axis},multiple={multiple})")
    assert result.stop_reason is StopReason.SATURATED
    for x in term.children[0].children:
        if x.op == "access" and x.type.split <= 1 and axis < x.type.rank:
            n = x.shape[axis]
            missing = -n % multiple
            padded = builders.slice_(builders.pad(x, axis, 0, missing), axis, 0, n)
            found = contains(result.egraph, padded)
            assert missing == 0 or found == contains(result.egraph, x)


def test_each_multiple_up_to_the_limit() -> None:
    x = leaf((5, 2), (), "int32")
    result = check(x, "pad-then-slice(axis=0,multiples-of=4,limit=13)")
    for to in (4, 8, 12, 16):
        padded = builders.slice_(builders.pad(x, 0, 0, max(to - 5, 1)), 0, 0, 5)
        assert (contains(result.egraph, padded) == result.egraph.roots[0]) == (to in (8, 12))
    assert result.stop_reason is StopReason.SATURATED


@pytest.mark.parametrize(("length", "multiple", "limit"), [(1, 16, 16), (1, 4, 4), (3, 2, 4)])
def test_a_multiple_that_is_the_limit_counts(length: int, multiple: int, limit: int) -> None:
    name = f"pad-then-slice(axis=0,multiples-of={multiple},limit={limit})"
    fires(leaf((length,), (), "int32"), name, "(slice 0 0 ?n (pad zero 0 0 ?q ?x))")


@given(st.integers(0, 9))
@FEW
def test_what_is_a_multiple_is_not_padded(length: int) -> None:
    name = "pad-then-slice(axis=0,multiple=3)"
    assert (check(leaf((length,), (2,), "int8"), name).rules[name] > 0) == (length % 3 > 0)


@pytest.mark.parametrize(
    "name",
    [
        "pad-then-slice(axis=0)",
        "pad-then-slice(axis=0,multiple=0)",
        "pad-then-slice(axis=0,multiple=4,multiples-of=4,limit=8)",
    ],
)
def test_padding_to_nothing_is_refused(name: str) -> None:
    with pytest.raises(GlensideError, match="takes axis and either"):
        rule_named(name)


# --- slices move out -----------------------------------------------------------------------------


@st.composite
def sliced(draw: Draw, x: Term, axis: int) -> Term:
    low = draw(st.integers(0, x.shape[axis]))
    high = draw(st.integers(low, x.shape[axis]))
    return builders.slice_(x, axis, low, high, draw(st.sampled_from((1, 1, 2))))


@FEW
@given(shapes(2, 4), AXES, AXES, dtypes(), st.data())
def test_slice_out_of_pad(
    shape: Sequence[int], a: int, b: int, dtype: str, data: st.DataObject
) -> None:
    a, b = a % len(shape), b % len(shape)
    x = data.draw(sliced(builders.tensor("x", shape, dtype), a))
    before, after, inside = (data.draw(st.integers(0, 2)) for _ in range(3))
    value = data.draw(st.sampled_from(("zero", "lowest", 3)))
    padded = builders.pad(x, b, before, after + 1, value, inside)
    if a == b:
        stays(padded, "slice-out-of-pad")
    else:
        fires(padded, "slice-out-of-pad", f"(slice {a} ?l ?h (pad ?v {b} ?n ?m ?x))")


@st.composite
def sliced_products(draw: Draw, where: str) -> Term:
    """A product of slices along an axis of the kind ``where``, of one or of both operands."""
    dtype = draw(dtypes())
    batch = draw(shapes(where == "batch", 2))
    item = draw(shapes(where == "item", 2))
    outers = [batch + draw(shapes(where in ("left", "right"), 2)) for _ in range(2)]
    g, at = len(batch), draw(AXES)
    sides = [leaf(outer, item, dtype, name) for outer, name in zip(outers, "ab", strict=True)]
    axes = [
        {
            "item": len(outer) + at % max(len(item), 1),
            "batch": at % max(g, 1),
        }.get(where, g + at % max(len(outer) - g, 1))
        for outer in outers
    ]
    if where in ("left", "right"):
        side = ("left", "right").index(where)
        sides[side] = draw(sliced(sides[side], axes[side]))
    else:
        first = draw(sliced(sides[0], axes[0]))
        sides[0] = first
        sides[1] = builders.slice_(sides[1], axes[1], first["low"], first["high"], first["step"])
    return builders.cart_prod(*sides, batch=g)


KINDS = ("left", "right", "item", "batch")


@pytest.mark.parametrize("where", KINDS)
@FEW
@given(data=st.data())
def test_slice_out_of_cart(where: str, data: st.DataObject) -> None:
    term = data.draw(sliced_products(where))
    fires(term, f"slice-out-of-cart-{where}", "(slice ?a ?l ?h (cart-prod ?x ?y))")


@pytest.mark.parametrize("where", KINDS)
@FEW
@given(data=st.data())
def test_slice_out_of_cart_takes_no_other_axis(where: str, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from([each for each in KINDS if each != where]))
    stays(data.draw(sliced_products(other)), f"slice-out-of-cart-{where}")


def test_items_of_which_different_parts_are_kept_stay() -> None:
    a = builders.slice_(leaf((2,), (5,), "int32", "a"), 1, 0, 3)
    for low, high, n in ((1, 4, 5), (0, 3, 4)):
        b = builders.slice_(leaf((4,), (n,), "int32", "b"), 1, low, high)
        stays(builders.cart_prod(a, b), "slice-out-of-cart-item")


@FEW
@given(shapes(1, 2), shapes(1, 3), AXES, dtypes(), st.data())
def test_slice_out_of_dot_outer(
    outer: Sequence[int], item: Sequence[int], at: int, dtype: str, data: st.DataObject
) -> None:
    x = data.draw(sliced(leaf(outer, item, dtype), at % len(outer)))
    fires(builders.compute("dot", x), "slice-out-of-dot-outer", "(slice ?a ?l ?h (compute dot ?x))")
    inner = data.draw(sliced(leaf(outer, item, dtype), len(outer)))
    stays(builders.compute("dot", inner), "slice-out-of-dot-outer")


# --- out of sums over zeros ----------------------------------------------------------------------

ZERO = "slice-out-of-dot-zero"


@FEW
@given(
    shapes(most=2),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 2),
    dtypes(),
    st.data(),
)
def test_slice_out_of_dot_zero(
    outer: Sequence[int],
    item: tuple[int, ...],
    at: int,
    dtype: str,
    data: st.DataObject,
) -> None:
    axis = len(outer) + at
    before, after = (data.draw(st.integers(0, 3)) for _ in range(2))
    x = builders.pad(leaf(outer, item, dtype), axis, before, after)
    low = data.draw(st.integers(0, before))
    high = data.draw(st.integers(before + item[at], x.shape[axis]))
    term = builders.compute("dot", builders.slice_(x, axis, low, high))
    result = check(term, ZERO)
    moved = contains(result.egraph, builders.compute("dot", x))
    # The tuple axis is left alone: its zeros are factors.
    assert (moved == result.egraph.roots[0]) == (at > 0)


@pytest.mark.parametrize("value", ["lowest", 3])
def test_padding_that_is_not_zero_stays(value: str | int) -> None:
    x = builders.pad(leaf((2,), (2, 3), "int32"), 2, 0, 1, value)
    stays(builders.compute("dot", builders.slice_(x, 2, 0, 3)), ZERO)


def test_a_slice_that_takes_more_than_zeros_away_stays() -> None:
    x = builders.pad(leaf((2,), (2, 3), "int32"), 2, 2, 2)
    for low, high in ((2, 4), (3, 7), (0, 4)):
        stays(builders.compute("dot", builders.slice_(x, 2, low, high)), ZERO)


def test_an_empty_tuple_makes_ones() -> None:
    x = builders.pad(leaf((2,), (0, 3), "int32"), 2, 0, 1)
    stays(builders.compute("dot", builders.slice_(x, 2, 0, 3)), ZERO)


def test_padding_in_two_steps_is_one_stretch() -> None:
    x = builders.pad(builders.pad(leaf((2,), (2, 3), "int32"), 2, 0, 2), 2, 0, 1)
    fires(
        builders.compute("dot", builders.slice_(x, 2, 0, 3)),
        ZERO,
        "(compute dot (pad ?v ?a ?b ?c ?x))",
    )


@pytest.mark.parametrize(("function", "kept"), [("relu", True), ("sqrt", True), ("exp", False)])
def test_functions_keep_zeros_that_map_zero_to_zero(function: str, kept: bool) -> None:
    x = builders.pad(leaf((2,), (2, 3), "float64"), 2, 0, 2)
    term = builders.compute("dot", builders.slice_(builders.compute(function, x), 2, 0, 3))
    assert (check(term, ZERO).rules[ZERO] > 0) == kept


def test_clip_does_not_keep_zeros() -> None:
    x = builders.pad(leaf((), (2, 3), "int32"), 1, 0, 2)
    one, six = (builders.access(builders.constant(v, x.shape, "int32"), 0) for v in (1, 6))
    clipped = builders.compute("maximum", builders.pair(x, one))
    clipped = builders.compute("minimum", builders.pair(clipped, six))
    stays(builders.compute("dot", builders.slice_(clipped, 1, 0, 3)), ZERO)


@st.composite
def programs_with_zeros(draw: Draw) -> Term:
    """Random operators over a tensor that is padded now and then."""
    dtype = draw(st.sampled_from(("int32", "int8", "float64", "bool")))
    steps = [step for name, step in STEPS.items() if name not in ("call", "host_op", "blocked")]
    term = draw(leaves(shape=draw(shapes(1, 3)), dtype=dtype))
    for _ in range(draw(st.integers(1, 6))):
        if term.shape and draw(st.booleans()):
            axis = draw(st.integers(0, term.type.rank - 1))
            widths = [draw(st.integers(0, 2)) for _ in range(3)]
            grown = builders.pad(term, axis, *widths[:2], "zero", interior=widths[2])
        else:
            grown = draw(st.sampled_from(steps))(draw, term)
        if grown.type.rank <= 6 and grown.type.size <= 2000:
            term = grown
    return term


def known_zeros_of(term: Term) -> list[tuple[Term, int, int, int]]:
    """Facts about the terms of a program."""
    egraph = EGraph([slice_out_of_dot_zero()])
    egraph.load([term])
    egg = egraph._egg
    tables = egg.freeze().functions
    terms = {number: each for each, number in egraph._numbers.items()}
    named: dict[object, list[Term]] = {}
    for row in tables["load_node"].rows:
        named.setdefault(row.output, []).append(terms[egg.value_to_i64(row.inputs[0])])
    facts = []
    for row in tables["known_zero"].rows:
        name, *numbers = row.inputs
        axis, low, high = map(egg.value_to_i64, numbers)
        facts += [(each, axis, low, high) for each in named.get(name, ())]
    egraph.close()
    return facts


@settings(max_examples=tries(60), deadline=None)
@given(programs_with_zeros())
def test_what_is_known_to_be_zero_is_zero(term: Term) -> None:
    facts = known_zeros_of(term)
    values = evaluate([each for each, *_ in facts], environment([term]))
    for (each, axis, low, high), value in zip(facts, values, strict=True):
        assert 0 <= axis < each.type.rank
        assert 0 <= low < high <= each.shape[axis]
        assert not np.any(np.take(value, range(low, high), axis) != 0), each


def known(term: Term) -> set[tuple[int, int, int]]:
    return {fact[1:] for fact in known_zeros_of(term) if fact[0] is term}


def test_zeros_go_along_with_the_axes() -> None:
    x = builders.pad(builders.tensor("x", (2, 3), "int32"), 1, 1, 2)
    ends = {(1, 0, 1), (1, 4, 6)}
    assert known(x) == ends
    assert known(builders.access(x, 1)) == ends
    assert known(builders.transpose(x, (1, 0))) == {(0, 0, 1), (0, 4, 6)}
    assert known(builders.unsqueeze(x, 0)) == {(2, 0, 1), (2, 4, 6)}
    assert known(builders.unsqueeze(x, 2)) == ends
    assert known(builders.squeeze(builders.unsqueeze(x, 0), 0)) == ends
    assert known(builders.slice_(x, 1, 0, 5)) == {(1, 0, 1), (1, 4, 5)}
    assert known(builders.slice_(x, 1, 1, 6, 2)) == {(1, 2, 3)}
    assert known(builders.slice_(x, 0, 0, 1)) == ends
    assert known(builders.concat(1, x, x)) == {(1, 0, 1), (1, 4, 7), (1, 4, 6), (1, 6, 7)} | {
        (1, 10, 12)
    }
    assert known(builders.broadcast(builders.slice_(x, 0, 0, 1), (5, 6))) == ends
    assert known(builders.cast(x, "float32")) == ends
    assert known(builders.pad(x, 0, 1, 0, "lowest")) == set()
    assert (0, 0, 1) in known(builders.pad(x, 0, 1, 0)) > ends


def test_a_product_keeps_the_zeros_of_both() -> None:
    sides = [
        builders.pad(leaf((n,), (3,), "int32", name), 1, 0, width)
        for n, name, width in ((2, "a", 2), (4, "b", 2))
    ]
    assert known(builders.cart_prod(*sides)) == {(3, 3, 5)}
    plain = leaf((4,), (5,), "int32", "c")
    assert known(builders.cart_prod(sides[0], plain)) == set()
    assert known(builders.compute("sum", builders.pad(plain, 0, 1, 0))) == {(0, 0, 1)}


def test_all_zero_is_known_along_every_axis() -> None:
    zero = builders.constant(0, (2, 3), "int32")
    assert known(zero) == {(0, 0, 2), (1, 0, 3)}
    assert known(builders.constant(1, (2, 3), "int32")) == set()


def test_facts_about_one_form_hold_for_all() -> None:
    """A slice of padding is known for what it is once its class has been found to be padded."""
    x = leaf((2,), (2, 3), "int32")
    rest = builders.slice_(builders.pad(x, 2, 0, 4), 2, 0, 5)
    term = builders.compute("dot", builders.slice_(rest, 2, 0, 3))
    result = check_program([term], [rule_named("merge-slices"), PADDING], environment([term]))
    root = result.egraph.roots[0]
    for padded in (builders.pad(x, 2, 0, 4), rest):
        assert contains(result.egraph, builders.compute("dot", padded)) == root


# --- together ------------------------------------------------------------------------------------


@settings(max_examples=tries(10), deadline=None)
@given(*[st.integers(1, 6)] * 3)
def test_products_of_any_size_fit_an_array(m: int, k: int, n: int) -> None:
    a, b = leaf((m,), (k,), "int32", "a"), leaf((n,), (k,), "int32", "b")
    term = builders.compute("dot", builders.cart_prod(a, b))
    rules = [rule_named(f"pad-then-slice(axis={axis},multiple=4)") for axis in (0, 1)]
    unit = rule_named(systolic_blocked(4, 4).name)
    result = check_program([term], [*rules, PADDING, unit], environment([term]))
    assert result.stop_reason is StopReason.SATURATED
    assert any(node.op == "blocked" for nodes in result.egraph.classes for node in nodes)
    assert result.nodes < 200


def test_other_terms_are_not_padded() -> None:
    x = builders.pad(builders.access(builders.tensor("x", (5, 7), "int32"), 1), 1, 1, 1)
    term = builders.compute("sum", builders.compute("relu", x))
    result = check(term, "pad-then-slice(axis=1,multiple=4)")
    assert result.nodes == len(topological_order([term]))
