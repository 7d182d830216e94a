"""Rules that cut accesses into tiles and carry the cuts outwards."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.language import Term, builders, topological_order
from glenside.rewrites import FrozenEGraph, RuleSet, StopReason, contains, matches, rule_named
from glenside.rewrites.rules.blocking import AT_ONCE, BLOCKING, split_into
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.tensorize import systolic
from glenside.rewrites.soundness import check_program
from tests.effort import FEW
from tests.rewrites.instances import Draw, check, dtypes, leaf, tensors
from tests.strategies import environment, lengths, shapes

AXES = st.integers(0, 5)


def fires(term: Term, name: str) -> FrozenEGraph:
    result = check(term, name)
    assert result.stop_reason is StopReason.SATURATED
    assert result.rules[name] > 0
    return result.egraph


def stays(term: Term, name: str) -> None:
    assert check(term, name).rules[name] == 0


def whole(x: Term, name: str) -> None:
    """What x is made of may be split, itself it is not."""
    assert not at_root(check(x, name).egraph, "(concat ?a ?x ?y)")


def at_root(egraph: FrozenEGraph, pattern: str) -> bool:
    return any(matches(egraph, pattern, egraph.roots))


def joined(
    draw: Draw,
    outer: Sequence[int],
    item: Sequence[int],
    dtype: str,
    axis: int,
    name: str = "x",
    first: int | None = None,
) -> Term:
    """A concatenation along ``axis`` of two tensors, the first as long as asked for."""
    parts = []
    for i in range(2):
        shape = [*outer, *item]
        shape[axis] = draw(lengths()) if i or first is None else first
        parts.append(leaf(shape[: len(outer)], shape[len(outer) :], dtype, f"{name}{i}"))
    return builders.concat(axis, *parts)


@st.composite
def concats(draw: Draw) -> Term:
    outer, item = draw(shapes(most=3)), draw(shapes(most=3))
    assume(outer + item)
    axis = draw(AXES) % len(outer + item)
    return joined(draw, outer, item, draw(dtypes()), axis)


# --- splits --------------------------------------------------------------------------------------


@st.composite
def matrices(draw: Draw) -> Term:
    """What is split: a tensor's access, or a matrix in one of the forms that are."""
    outer, item, dtype = draw(shapes(most=1)), draw(shapes(1, 1)), draw(dtypes())
    x = leaf(outer, item, dtype)
    match draw(st.integers(0, 3)):
        case 0:
            return builders.access(builders.tensor("t", (*draw(shapes(1, 3)), 4), dtype), 1)
        case 1:
            return builders.flatten(leaf((*outer, 2), (*item, 3), dtype))
        case 2:
            return builders.pad(x, x.type.rank - 1, 1, 2)
        case _:
            return builders.reshape(leaf((1, *outer), (*item, 1), dtype), outer or (1,), item)


@pytest.mark.parametrize(("axis", "parts", "above"), [(0, 2, 0), (1, 3, 2), (0, 4, 3)])
@FEW
@given(x=matrices())
def test_split_by(axis: int, parts: int, above: int, x: Term) -> None:
    assume(axis < x.type.rank)
    name = f"split-by(axis={axis},parts={parts},above={above})"
    n = x.shape[axis]
    if n > above and n % parts == 0 and n:
        egraph = fires(x, name)
        width = n // parts
        tiles = [builders.slice_(x, axis, i * width, (i + 1) * width) for i in range(parts)]
        assert contains(egraph, builders.concat(axis, *tiles)) == egraph.roots[0]
    else:
        whole(x, name)


@pytest.mark.parametrize(("axis", "size"), [(0, 1), (1, 2), (0, 3)])
@FEW
@given(x=matrices())
def test_split_into(axis: int, size: int, x: Term) -> None:
    assume(axis < x.type.rank)
    name = f"split-into(axis={axis},size={size})"
    n = x.shape[axis]
    if n > size and n % size == 0:
        tiles = [builders.slice_(x, axis, low, low + size) for low in range(0, n, size)]
        egraph = fires(x, name)
        assert contains(egraph, builders.concat(axis, *tiles)) == egraph.roots[0]
    else:
        whole(x, name)


@pytest.mark.parametrize("count", [AT_ONCE, AT_ONCE + 1, 2 * AT_ONCE - 1, 5 * AT_ONCE])
def test_split_into_many_is_nested_from_the_left(count: int) -> None:
    x = leaf((2 * count,), (3,), "int32")
    egraph = fires(x, "split-into(axis=0,size=2)")
    tiles = [builders.slice_(x, 0, low, low + 2) for low in range(0, 2 * count, 2)]
    assert contains(egraph, builders.concat(0, *tiles)) == egraph.roots[0]


@pytest.mark.parametrize(("axis", "width"), [(0, 1), (1, 2)])
@FEW
@given(x=matrices())
def test_split_once(axis: int, width: int, x: Term) -> None:
    assume(axis < x.type.rank)
    name = f"split-once(axis={axis},width={width})"
    (fires if x.shape[axis] > width else whole)(x, name)


@pytest.mark.parametrize(("axis", "above"), [(0, 0), (1, 3)])
@FEW
@given(shape=shapes(2, 3), dtype=dtypes())
def test_split_half(axis: int, above: int, shape: tuple[int, ...], dtype: str) -> None:
    n = shape[axis]
    fits = n > above and n % 2 == 0 and n > 0
    x = builders.tensor("x", shape, dtype)
    (fires if fits else stays)(x, f"split-half(axis={axis},above={above})")


def test_both_axes_are_split_and_it_ends() -> None:
    x = leaf((12,), (8,), "int32")
    rules = [rule_named(f"split-into(axis={axis},size=2)") for axis in (0, 1)]
    result = check_program([x], [*rules, BLOCKING], environment([x]))
    assert result.stop_reason is StopReason.SATURATED
    tile = builders.slice_(builders.slice_(x, 0, 2, 4), 1, 4, 6)
    assert contains(result.egraph, tile) is not None


@pytest.mark.parametrize(
    "name", ["split-by(axis=0,parts=1,above=2)", "split-into(axis=0,size=0)", "split-once(0,0)"]
)
def test_sizes_that_split_nothing_are_refused(name: str) -> None:
    with pytest.raises(GlensideError, match="must be at least"):
        rule_named(name)


# --- slices --------------------------------------------------------------------------------------


@st.composite
def sliced(draw: Draw, terms: st.SearchStrategy[Term], axis: int | None = None) -> Term:
    x = draw(terms.filter(lambda x: x.type.rank > 0))
    axis = draw(AXES) % x.type.rank if axis is None else axis
    low = draw(st.integers(0, x.shape[axis]))
    high = draw(st.integers(low, x.shape[axis]))
    return builders.slice_(x, axis, low, high, draw(st.sampled_from((1, 1, 2, 3))))


@FEW
@given(tensors().filter(lambda x: x.type.rank > 0), AXES)
def test_drop_identity_slice(x: Term, axis: int) -> None:
    axis %= x.type.rank
    egraph = fires(builders.slice_(x, axis, 0, x.shape[axis]), "drop-identity-slice")
    assert contains(egraph, x) == egraph.roots[0]


@FEW
@given(sliced(tensors()), st.data())
def test_merge_slices(x: Term, data: st.DataObject) -> None:
    fires(data.draw(sliced(st.just(x), x["axis"])), "merge-slices")


@FEW
@given(sliced(tensors()), st.data())
def test_slices_along_different_axes_stay(x: Term, data: st.DataObject) -> None:
    term = data.draw(sliced(st.just(x)))
    if term["axis"] != x["axis"]:
        stays(term, "merge-slices")


@FEW
@given(tensors().filter(lambda x: x.type.rank > 0), st.data())
def test_slice_through_transpose(x: Term, data: st.DataObject) -> None:
    turned = builders.transpose(x, data.draw(st.permutations(range(x.type.rank))))
    fires(data.draw(sliced(st.just(turned))), "slice-through-transpose")


@FEW
@given(sliced(concats()))
def test_slice_of_concat(term: Term) -> None:
    x = term.children[0]
    result = check(term, "slice-of-concat")
    # A step may jump over all that the second has.
    n, low, high = x.children[0].shape[x["axis"]], term["low"], term["high"]
    if term["axis"] != x["axis"] or not low < n < high or (n - low) % term["step"] == 0:
        assert result.rules["slice-of-concat"] > 0


# --- concatenations move out ---------------------------------------------------------------------


@FEW
@given(concats(), st.data())
def test_concat_out_of_transpose(x: Term, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(x.type.rank)))
    egraph = fires(builders.transpose(x, order), "concat-out-of-transpose")
    parts = [builders.transpose(each, order) for each in x.children]
    moved = builders.concat(order.index(x["axis"]), *parts)
    assert contains(egraph, moved) == egraph.roots[0]


@FEW
@given(concats(), st.data())
def test_concat_out_of_access(x: Term, data: st.DataObject) -> None:
    split = data.draw(st.integers(0, x.type.rank).filter(lambda n: n != x.type.split))
    egraph = fires(builders.access(x, split), "concat-out-of-access")
    assert at_root(egraph, f"(concat {x['axis']} ?x ?y)")


@st.composite
def products_of_concats(draw: Draw, where: str) -> Term:
    """A product where an operand is a concatenation along an axis of the kind ``where``."""
    dtype = draw(dtypes())
    batch = draw(shapes(1, 2) if where == "batch" else shapes(most=1))
    item = draw(shapes(1 if where == "item" else 0, 2))
    outers = [batch + draw(shapes(1 if where in ("left", "right") else 0, 2)) for _ in range(2)]
    g = len(batch)
    sides = []
    cut = draw(lengths())
    at = draw(AXES)
    for side, outer in enumerate(outers):
        n = len(outer)
        if where == "item":
            sides.append(joined(draw, outer, item, dtype, n + at % len(item), "ab"[side], cut))
        elif where == "batch":
            sides.append(joined(draw, outer, item, dtype, at % g, "ab"[side], cut))
        elif side == ("left", "right").index(where):
            sides.append(joined(draw, outer, item, dtype, g + at % (n - g), "ab"[side]))
        else:
            sides.append(leaf(outer, item, dtype, "ab"[side]))
    if where in ("item", "batch"):
        # Whatever was drawn, both have to be as long in all.
        second = sides[1].children[1]
        axis = sides[1]["axis"]
        shape = list(second.shape)
        shape[axis] = sides[0].shape[sides[0]["axis"]] - cut
        n = len(outers[1])
        last = leaf(shape[:n], shape[n:], dtype, "b1")
        sides[1] = builders.concat(axis, sides[1].children[0], last)
    return builders.cart_prod(*sides, batch=g)


@pytest.mark.parametrize("where", ["left", "right", "item", "batch"])
@FEW
@given(data=st.data())
def test_concat_out_of_cart(where: str, data: st.DataObject) -> None:
    term = data.draw(products_of_concats(where))
    egraph = fires(term, f"concat-out-of-cart-{where}")
    assert at_root(egraph, "(concat ?a (cart-prod ?x ?y) (cart-prod ?z ?u))")


@pytest.mark.parametrize("where", ["left", "right", "item", "batch"])
@FEW
@given(data=st.data())
def test_concat_out_of_cart_takes_no_other_axis(where: str, data: st.DataObject) -> None:
    other = data.draw(
        st.sampled_from([w for w in ("left", "right", "item", "batch") if w != where])
    )
    stays(data.draw(products_of_concats(other)), f"concat-out-of-cart-{where}")


def test_items_cut_at_different_points_stay() -> None:
    a = builders.concat(1, leaf((2,), (3,), "int32", "a"), leaf((2,), (2,), "int32", "b"))
    c = builders.concat(1, leaf((4,), (2,), "int32", "c"), leaf((4,), (3,), "int32", "d"))
    stays(builders.cart_prod(a, c), "concat-out-of-cart-item")


@st.composite
def dots_of_concats(draw: Draw, where: str) -> Term:
    outer, item = draw(shapes(where == "outer", 2)), draw(shapes(2 if where == "item" else 1, 3))
    n = len(outer)
    axis = {
        "outer": draw(AXES) % max(n, 1),
        "tuple": n,
        "item": n + 1 + draw(AXES) % max(len(item) - 1, 1),
    }[where]
    x = joined(draw, outer, item, draw(dtypes()), axis)
    return builders.compute("dot", x, draw(st.none() | dtypes()))


@FEW
@given(dots_of_concats("outer"))
def test_concat_out_of_dot_outer(term: Term) -> None:
    egraph = fires(term, "concat-out-of-dot-outer")
    assert at_root(egraph, "(concat ?a (compute dot ?x) (compute dot ?y))")
    stays(term, "concat-out-of-dot-item")


@FEW
@given(dots_of_concats("item"))
def test_concat_out_of_dot_item(term: Term) -> None:
    egraph = fires(term, "concat-out-of-dot-item")
    assert at_root(egraph, "(compute sum (pair (compute dot ?x) (compute dot ?y)))")
    stays(term, "concat-out-of-dot-outer")


@FEW
@given(dots_of_concats("tuple"))
def test_concat_of_the_tuple_axis_stays_inside_dot(term: Term) -> None:
    stays(term, "concat-out-of-dot-item")
    stays(term, "concat-out-of-dot-outer")


# --- together ------------------------------------------------------------------------------------


def tiled(size: int) -> list[RuleSet]:
    splits = tuple(split_into(axis, size) for axis in (0, 1))
    return [RuleSet("splits", splits), BLOCKING, LAYOUT, RuleSet("unit", (systolic(size, size),))]


def calls(term: Term) -> list[Term]:
    return [each for each in topological_order([term]) if each.op == "call"]


@pytest.mark.parametrize(("m", "k", "n"), [(4, 4, 4), (2, 6, 4), (3, 4, 2)])
def test_products_are_tiled_onto_an_array(m: int, k: int, n: int) -> None:
    from glenside.extraction import MaximiseOffload, extract

    a, b = leaf((m,), (k,), "int32", "a"), leaf((n,), (k,), "int32", "b")
    term = builders.compute("dot", builders.cart_prod(a, b))
    env = environment([term])
    result = check_program([term], tiled(2), env)
    assert result.stop_reason is StopReason.SATURATED
    (program,) = extract(result.egraph, MaximiseOffload()).terms
    assert {call["parameters"] for call in calls(program)} == {(2, 2)}
    assert len(calls(program)) == (k // 2) * (n // 2)
    assert not any(
        x.op == "compute" and x["function"] == "dot" for x in topological_order([program])
    )
