"""Looking up terms and patterns."""

import pytest

from glenside.errors import TextError
from glenside.language import builders, parse
from glenside.rewrites import contains, matches, saturate
from glenside.rewrites.engine.query import contains_all
from glenside.rewrites.rules.im2col import IM2COL

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


def graph_of(*roots):
    return saturate(roots, []).egraph


def number_of(pattern: str, *roots) -> int:
    return len(list(matches(graph_of(*roots), pattern)))


@pytest.mark.parametrize(
    ("value", "same", "other"),
    [
        (float("nan"), ["nan"], ["0", "inf"]),
        (-1.0, ["-1", "-1.0", "-1e0"], ["1", "nan"]),
        (0.0, ["0", "0.0"], ["-0.0", "1"]),
        (-0.0, ["-0.0"], ["0.0", "0"]),
        (float("-inf"), ["-inf"], ["inf", "lowest"]),
    ],
)
def test_numbers_of_every_spelling(value: float, same: list[str], other: list[str]) -> None:
    x = builders.access(builders.tensor("x", (3,)), 0)
    root = builders.pad(x, 0, 1, 1, value)
    scalar = builders.constant(value, (), "float32")
    for word in same:
        assert number_of(f"(pad {word} ?axis ?before ?after ?x)", root) == 1
        assert number_of(f"(scalar {word})", scalar) == 1
    for word in other:
        assert number_of(f"(pad {word} ?axis ?before ?after ?x)", root) == 0
    assert number_of("(scalar ?v)", scalar) == 1
    assert number_of("(scalar ?v)", builders.constant(value, (2,), "float32")) == 0


def test_options_that_have_their_default_are_found_too() -> None:
    assert found("(windows ?k ?s :dilation (1 1 1) ?x)")
    assert not found("(windows ?k ?s :dilation (2 1 1) ?x)")
    total = builders.compute("sum", builders.access(IMAGE, 0))
    assert number_of("(compute sum :accumulate float32 ?x)", total) == 1
    assert number_of("(compute sum :accumulate float64 ?x)", total) == 0
    product = builders.cart_prod(builders.access(IMAGE, 1), builders.access(IMAGE, 1))
    assert number_of("(cart-prod ?a ?b :batch 0)", product) == 1
    assert number_of("(cart-prod :batch 1 ?a ?b)", product) == 0


def test_names_are_quoted_where_they_must_be() -> None:
    for name in ("a b", "?x", "(", "7", "%0", ":batch"):
        tensor = builders.tensor(name, (2,))
        assert number_of(f'(access ?n (tensor "{name}"))', builders.access(tensor, 0)) == 1
        assert number_of('(access ?n (tensor "other"))', builders.access(tensor, 0)) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(access 1 ?x ?y)", "access takes 1 operands, got 2"),
        ("(transpose 10 ?x)", r"transpose: permutation must be .* such as \(1 2\), got '10'"),
        ("(cart-prod ?x ?y :batch)", "option :batch lacks its value"),
        ("(windows ?k ?s :dilatation (2) ?x)", "option :dilatation is unknown or given twice"),
        ("(access ?n :batch 1 ?x)", "there are: none"),
        ("(pad one 0 1 1 ?x)", "pad: value must be"),
        ("(access)", "access: split is missing"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_told(text: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        found(text)


@pytest.mark.parametrize(
    "text", ["", "(a) (b)", "x", "()", "(no-such ?x)", "(access)", "(access q ?x)"]
)
def test_what_is_not_a_pattern_is_told(text: str) -> None:
    with pytest.raises(TextError):
        found(text)


def test_a_term_is_a_pattern() -> None:
    assert found(str(WINDOWS))
    assert parse(str(WINDOWS)) is WINDOWS
