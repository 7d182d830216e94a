"""Looking up terms and patterns."""

import pytest

from glenside.errors import TextError
from glenside.language import builders, parse
from glenside.rewrites import contains, matches, saturate
from glenside.rewrites.im2col import IM2COL
from glenside.rewrites.query import contains_all

IMAGE = builders.tensor("x", (3, 8, 8))
WINDOWS = builders.windows(builders.access(IMAGE, 0), (3, 3, 3), (1, 1, 1))
EGRAPH = saturate([WINDOWS], [IM2COL]).egraph


def found(pattern: str) -> list[tuple[int, dict[str, object]]]:
    return list(matches(EGRAPH, pattern))


def test_terms_found_and_not_found() -> None:
    flat = builders.flatten(WINDOWS)
    assert contains(EGRAPH, WINDOWS) == EGRAPH.roots[0]
    assert contains(EGRAPH, builders.reshape(flat, (1, 6, 6), (3, 3, 3))) == EGRAPH.roots[0]
    assert contains(EGRAPH, builders.tensor("y", (3, 8, 8))) is None
    assert contains(EGRAPH, builders.flatten(flat)) is None
    assert contains_all(EGRAPH, [flat])[WINDOWS] == EGRAPH.roots[0]


def test_variables_stand_for_operands_and_attributes() -> None:
    ((number, binding),) = found("(reshape ?o ?i (flatten ?x))")
    assert number == binding["?x"] == EGRAPH.roots[0]
    assert binding["?o"] == (1, 6, 6)
    assert binding["?i"] == (3, 3, 3)


def test_a_variable_stands_for_the_same_everywhere() -> None:
    assert found("(windows ?k ?s ?x)")
    assert not found("(windows ?k ?k ?x)")
    assert not found("(reshape ?o ?o ?x)")


def test_attributes_are_compared() -> None:
    assert found("(windows (3 3 3) (1 1 1) (access 0 (tensor x (3 8 8))))")
    assert not found("(windows (3 3 3) (1 1 2) ?x)")
    assert found("(tensor x ?shape :dtype float32)")
    assert not found("(tensor x ?shape :dtype int8)")


def test_where_to_look_can_be_said() -> None:
    assert not list(matches(EGRAPH, "(tensor ?n ?s)", [EGRAPH.roots[0]]))


@pytest.mark.parametrize(
    "text", ["", "(a) (b)", "x", "()", "(no-such ?x)", "(access)", "(access q ?x)"]
)
def test_what_is_not_a_pattern_is_told(text: str) -> None:
    with pytest.raises(TextError):
        found(text)


def test_a_term_is_a_pattern() -> None:
    assert found(str(WINDOWS))
    assert parse(str(WINDOWS)) is WINDOWS
