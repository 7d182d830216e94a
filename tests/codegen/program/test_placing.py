"""Which parts of a concat are computed in place."""

from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X = b.tensor("x", (2, 3))
NEG, EXP = b.compute("neg", X), b.compute("exp", X)


def test_parts_have_their_place_in_the_whole():
    whole = b.concat(1, NEG, EXP)
    cut = after("placing", whole)
    assert {t: (p.whole, p.at) for t, p in cut.parts.items()} == {NEG: (whole, 0), EXP: (whole, 3)}
    assert not cut.copies


def test_an_input_is_copied():
    whole = b.concat(0, X, NEG)
    cut = after("placing", whole)
    assert cut.copies == {whole: ((X, 0),)}
    assert [*cut.parts] == [NEG]


def test_a_value_has_one_place():
    whole = b.concat(0, b.concat(0, NEG, EXP), NEG)
    cut = after("placing", whole)
    assert (cut.parts[NEG].whole, cut.parts[NEG].at) == (whole, 4)
    assert cut.copies == {whole.children[0]: ((NEG, 0),)}


def test_moves_on_the_way_are_undone():
    turned = b.transpose(NEG, (1, 0))
    cut = after("placing", b.concat(0, turned, b.tensor("y", (4, 2))))
    assert cut.parts[NEG].chain == (turned,)


def test_wholes_are_parts_of_wholes():
    inner = b.concat(1, NEG, EXP)
    outer = b.concat(0, inner, b.compute("tanh", b.tensor("y", (1, 6))))
    cut = after("placing", outer)
    assert (cut.parts[inner].whole, cut.parts[NEG].whole) == (outer, inner)


def test_parts_of_nothing_are_passed_over():
    nothing = b.compute("neg", b.tensor("e", (0, 3)))
    cut = after("placing", b.concat(0, nothing, NEG))
    assert [*cut.parts] == [NEG]
    assert cut.parts[NEG].at == 0
