"""Rules that merge and move layout changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.language import Term, builders, make
from glenside.rewrites import StopReason, contains
from glenside.rewrites.rules.layout import LAYOUT, MOVES
from glenside.rewrites.soundness import check_program
from tests.effort import FEW
from tests.rewrites.instances import Draw, check, leaf, reshaped, tensors
from tests.strategies import environment, terms


@FEW
@given(reshaped(reshaped(tensors())))
def test_merge_reshapes(term: Term) -> None:
    result = check(term, "merge-reshapes")
    if term.op == term.children[0].op == "reshape":
        x = term.children[0].children[0]
        assert result.rules["merge-reshapes"] > 0
        merged = builders.reshape(x, term.outer, term.item)
        assert contains(result.egraph, merged) == result.egraph.roots[0]


@FEW
@given(reshaped(tensors().map(builders.flatten)))
def test_merge_reshapes_takes_flatten_for_a_reshape(term: Term) -> None:
    result = check(term, "merge-reshapes")
    if term.op == "reshape":
        x = term.children[0].children[0]
        merged = builders.reshape(x, term.outer, term.item)
        assert contains(result.egraph, merged) == result.egraph.roots[0]


@FEW
@given(reshaped(tensors()).filter(lambda x: x.op == "reshape"))
def test_flatten_of_reshape(x: Term) -> None:
    term = builders.flatten(x)
    result = check(term, "flatten-of-reshape")
    kept = builders.flatten(x.children[0]).type == term.type
    assert (result.rules["flatten-of-reshape"] > 0) == kept


@FEW
@given(tensors())
def test_drop_identity_flatten(x: Term) -> None:
    term = builders.flatten(x)
    result = check(term, "drop-identity-flatten")
    assert (result.rules["drop-identity-flatten"] > 0) == (term.type == x.type)


@st.composite
def accesses(draw: Draw) -> Term:
    x = draw(tensors())
    for _ in range(2):
        x = builders.access(x, draw(st.integers(0, x.type.rank)))
    return x


@FEW
@given(accesses())
def test_merge_accesses(term: Term) -> None:
    result = check(term, "merge-accesses")
    if term.children and term.op == term.children[0].op == "access":
        assert result.rules["merge-accesses"] > 0
        merged = builders.access(term.children[0].children[0], term.type.split)
        assert contains(result.egraph, merged) == result.egraph.roots[0]


@st.composite
def transposes(draw: Draw, times: int) -> Term:
    x = draw(tensors())
    for _ in range(times):
        x = builders.transpose(x, draw(st.permutations(range(x.type.rank))))
    return x


@FEW
@given(transposes(2))
def test_merge_transposes(term: Term) -> None:
    result = check(term, "merge-transposes")
    assert result.rules["merge-transposes"] > 0
    assert len(result.egraph.classes[result.egraph.roots[0]]) >= 2


@FEW
@given(tensors())
def test_drop_identity_transpose(x: Term) -> None:
    result = check(builders.transpose(x, range(x.type.rank)), "drop-identity-transpose")
    assert result.rules["drop-identity-transpose"] > 0
    assert contains(result.egraph, x) == result.egraph.roots[0]


@FEW
@given(tensors().filter(lambda x: x.type.rank > 1), st.data())
def test_other_transposes_stay(x: Term, data: st.DataObject) -> None:
    identity = list(range(x.type.rank))
    order = data.draw(st.permutations(identity).filter(lambda order: list(order) != identity))
    result = check(builders.transpose(x, order), "drop-identity-transpose")
    assert result.rules["drop-identity-transpose"] == 0


@FEW
@given(tensors(), st.data())
def test_cancel_transposes(x: Term, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(x.type.rank)))
    inverse = sorted(range(x.type.rank), key=order.__getitem__)
    term = builders.transpose(builders.transpose(x, order), inverse)
    result = check(term, "cancel-transposes")
    assert result.rules["cancel-transposes"] > 0
    assert contains(result.egraph, x) == result.egraph.roots[0]


@FEW
@given(tensors(), st.data())
def test_access_out_of_transpose(x: Term, data: st.DataObject) -> None:
    split = data.draw(st.integers(0, x.type.rank).filter(lambda n: n != x.type.split))
    order = data.draw(st.permutations(range(x.type.rank)))
    result = check(builders.transpose(builders.access(x, split), order), "access-out-of-transpose")
    assert result.rules["access-out-of-transpose"] > 0


@FEW
@given(transposes(1).filter(lambda x: x.type.rank > 0), st.data())
def test_transpose_out_of_pad(x: Term, data: st.DataObject) -> None:
    widths = [data.draw(st.integers(0, 2)) for _ in range(2)]
    axis = data.draw(st.integers(0, x.type.rank - 1))
    value = data.draw(st.sampled_from(["zero", "lowest", 3]))
    term = builders.pad(x, axis, 1, *widths[:1], value, interior=widths[1])
    result = check(term, "transpose-out-of-pad")
    assert result.rules["transpose-out-of-pad"] > 0


@pytest.mark.parametrize("name", ["drop-identity-reshape", "drop-identity-access"])
def test_identities_that_other_rules_make_are_dropped(name: str) -> None:
    # The builders leave such terms out, so they only come from rules and from front ends.
    x = leaf((2, 3), (4,), "int32")
    if name == "drop-identity-reshape":
        term = make("reshape", [x], outer=x.outer, item=x.item)
    else:
        term = make("access", [x], split=2)
    result = check(term, name)
    assert result.rules[name] > 0
    assert contains(result.egraph, x) == result.egraph.roots[0]


TRANSFORMERS = ("access", "transpose", "reshape", "flatten", "squeeze", "unsqueeze", "pad", "pair")


@FEW
@given(terms(TRANSFORMERS, dtypes=("int32", "float64"), most=8))
def test_all_of_them_on_random_programs(term: Term) -> None:
    result = check_program([term], [LAYOUT, MOVES], environment([term]))
    assert result.stop_reason is StopReason.SATURATED
