"""Terms: hash-consed, immutable, of any depth."""

import copy
import dataclasses
import gc
import math
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.errors import ShapeError
from glenside.language import (
    OPERATORS,
    Term,
    builders,
    evaluate,
    make,
    map_terms,
    parse,
    rebuild,
    to_text,
    topological_order,
    trace,
)
from glenside.language import term as language_term
from tests.strategies import terms

x = builders.tensor("x", (2, 3))


def chain(length: int, start: Term = x) -> Term:
    """``length`` operators on top of each other."""
    term = start
    for _ in range(length // 2):
        term = builders.access(builders.compute("neg", term), 2 - term.type.split)
    return term


# --- sameness -----------------------------------------------------------------------------------


def test_terms_built_alike_are_the_same_object():
    first = builders.pair(builders.access(x, 1), builders.access(x, 1))
    second = builders.pair(builders.access(x, 1), builders.access(x, 1))
    assert first is second
    assert first == second
    assert len({first, second}) == 1


@pytest.mark.parametrize(
    "other",
    [
        builders.tensor("y", (2, 3)),
        builders.tensor("x", (3, 2)),
        builders.tensor("x", (2, 3), "float16"),
        builders.access(x, 1),
        builders.constant(0, (2, 3)),
    ],
    ids=str,
)
def test_terms_that_differ_anywhere_are_not_equal(other):
    assert other is not x
    assert other != x


def test_numbers_are_told_apart_by_their_bits_not_by_equality():
    assert builders.constant(0.0) is not builders.constant(-0.0)
    assert builders.constant(math.nan) is builders.constant(math.nan)
    assert builders.constant(1, (), "int8") is not builders.constant(1, (), "bool")
    t = builders.access(x, 1)
    assert builders.pad(t, 0, 1, 0, 0.0) is not builders.pad(t, 0, 1, 0, -0.0)
    assert builders.pad(t, 0, 1, 0, math.nan) is builders.pad(t, 0, 1, 0, math.nan)


def test_numpy_integers_and_names_give_the_same_term_as_pythons():
    shape = np.array([2, 3])
    assert builders.tensor(np.str_("x"), shape, np.dtype("float32")) is x
    assert builders.access(x, np.uint8(1)) is builders.access(x, 1)
    assert type(builders.tensor(np.str_("new"), (1,))["name"]) is str


def test_attributes_with_several_spellings_are_held_in_one():
    t = builders.access(x, 0)
    assert builders.windows(t, (1, 1), (1, 1), (1, 1))["dilation"] is None
    assert builders.compute("sum", t, "float32")["accumulate"] is None
    assert builders.constant(1)["value"].hex() == (1.0).hex()


# --- looking at a term --------------------------------------------------------------------------


def test_a_term_shows_its_parts():
    term = builders.slice_(builders.access(x, 1), 1, 0, 2)
    assert term.op == "slice"
    assert term["high"] == 2
    assert term.attributes == {"axis": 1, "low": 0, "high": 2, "step": 1}
    assert term.children == (builders.access(x, 1),)
    assert (term.outer, term.item, term.shape, term.dtype) == ((2,), (2,), (2, 2), "float32")
    assert str(term) == "(slice 1 0 2 (access 1 (tensor x (2 3))))"
    assert repr(term) == "<slice 1 0 2 1 : ((2) (2)) float32>"


def test_an_unknown_attribute_is_named():
    with pytest.raises(KeyError, match="tensor has no attribute 'axis'"):
        x["axis"]


def test_a_term_is_not_taken_for_a_list_of_terms():
    with pytest.raises(TypeError, match="not iterable"):
        evaluate(x, {})


# --- immutability -------------------------------------------------------------------------------


def test_a_term_cannot_be_changed():
    for attribute in ("type", "children", "values", "operator", "anything"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(x, attribute, None)
        with pytest.raises(AttributeError, match="immutable"):
            delattr(x, attribute)
    with pytest.raises(TypeError, match="builders"):
        Term()


def test_copies_are_the_term_itself():
    assert copy.copy(x) is x
    assert copy.deepcopy([x])[0] is x


@given(terms())
def test_pickling_gives_the_same_term_back(term):
    assert pickle.loads(pickle.dumps(term)) is term


def test_threads_that_build_the_same_at_once_get_one_object():
    access, both = OPERATORS["access"], threading.Barrier(2)

    def infer(*given):
        both.wait()  # Both have looked it up by now, and neither has found it.
        return access.infer(*given)

    slow = dataclasses.replace(access, infer=infer)
    leaf = builders.tensor("raced", (2, 3))
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: language_term._intern(slow, (1,), (leaf,)), range(2))
    assert one is two is builders.access(leaf, 1)


def test_pickling_outlives_the_term():
    term = builders.access(builders.tensor("odd name\n\"'\\", (1,), "int8"), 0)
    text, data = to_text(term), pickle.dumps(term)
    del term
    gc.collect()
    assert to_text(pickle.loads(data)) == text


# --- making -------------------------------------------------------------------------------------


def test_make_checks_operator_operands_and_attributes():
    with pytest.raises(ShapeError, match="no operator is called 'frobnicate'; there are tensor"):
        make("frobnicate")
    with pytest.raises(ShapeError, match="pair takes 2 operands, got 1"):
        make("pair", [x])
    with pytest.raises(ShapeError, match="access: attribute split is missing"):
        make("access", [x])
    with pytest.raises(ShapeError, match="access has no attribute axis, depth"):
        make("access", [x], split=1, depth=2, axis=3)
    with pytest.raises(ShapeError, match="pair: operands are terms, got str"):
        make("pair", [x, "x"])


def test_rebuild_keeps_operator_and_attributes():
    y = builders.tensor("y", (4, 5))
    assert rebuild(builders.access(x, 1), [y]) is builders.access(y, 1)
    term = builders.access(x, 1)
    assert rebuild(term, term.children) is term
    assert rebuild(term, list(term.children)) is term
    with pytest.raises(ShapeError, match="access takes 1 operands, got 0"):
        rebuild(term, [])
    with pytest.raises(ShapeError, match="access 1 of"):
        rebuild(term, [builders.tensor("s", ())])


def test_map_terms_works_bottom_up():
    y = builders.tensor("y", (2, 3))
    term = builders.pair(builders.access(x, 1), builders.access(x, 1))
    new = map_terms([term], lambda old, children: y if old is x else rebuild(old, children))
    assert new[term] is builders.pair(builders.access(y, 1), builders.access(y, 1))
    assert len(new) == 3


# --- walking ------------------------------------------------------------------------------------


def test_children_come_before_parents_and_everything_once():
    shared = builders.access(x, 1)
    term = builders.pair(shared, builders.compute("neg", shared))
    order = topological_order([term, shared, term])
    assert order == [x, shared, builders.compute("neg", shared), term]


@given(st.lists(terms(), max_size=3))
def test_topological_order_is_one(roots):
    order = topological_order(roots)
    position = {term: i for i, term in enumerate(order)}
    assert len(position) == len(order)
    assert all(position[c] < position[t] for t in order for c in t.children)
    assert set(roots) <= set(order)


def test_a_dag_is_walked_in_its_own_size_not_its_trees():
    term = builders.tensor("s", (), "float64")
    for _ in range(200):
        term = builders.compute("add", builders.pair(term, term))
    assert len(topological_order([term])) == 401
    assert parse(to_text(term)) is term
    (result,) = evaluate([term], {"s": np.float64(1)})
    assert result == 2.0**200


# --- depth --------------------------------------------------------------------------------------


DEEP = 10_000


def test_a_deep_chain_goes_through_every_function():
    term = chain(DEEP)
    array = np.ones((2, 3), "float32")
    assert len(topological_order([term])) == DEEP + 1
    assert parse(to_text(term)) is term
    assert str(term).count("compute") == DEEP // 2
    assert repr(term).startswith("<access")
    assert hash(term) == hash(term)
    assert copy.deepcopy(term) is term
    assert pickle.loads(pickle.dumps(term)) is term
    assert map_terms([term], rebuild)[term] is term
    np.testing.assert_array_equal(evaluate([term], {"x": array})[0], array)
    assert sum(1 for _ in trace([term], {"x": array})) == DEEP + 1


def test_a_deep_chain_is_rebuilt_over_another_leaf():
    y = builders.tensor("y", (2, 3))
    new = map_terms([chain(DEEP)], lambda old, children: y if old is x else rebuild(old, children))
    assert new[chain(DEEP)] is chain(DEEP, y)


def test_terms_nobody_holds_are_freed_however_deep():
    leaf = builders.tensor("freed", (2, 3))
    top = chain(10 * DEEP, leaf)
    ends = [weakref.ref(leaf), weakref.ref(top), weakref.ref(top.children[0])]
    del leaf, top
    assert [end() for end in ends] == [None, None, None]


def test_a_freed_term_can_be_built_again():
    for _ in range(3):
        term = builders.tensor("again", (1,))
        seen = weakref.ref(term)
        assert builders.tensor("again", (1,)) is term
        del term
        assert seen() is None
