"""The reference shows everything that is declared, and its examples are true."""

import numpy as np
import pytest

from glenside import errors
from glenside.hw_targets.registry import targets
from glenside.language import evaluate, topological_order
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import OPERATORS
from glenside.language.units import known_units, meaning
from glenside.rewrites.ruleset import all_rules
from glenside.rewrites.soundness.instances import environment
from tools.reference import examples, failures, frontends, language, rules
from tools.reference import targets as target_pages


def computed(root, env):
    """The value of a program, calls as the term that they stand for."""
    made = {}
    for term in topological_order([root]):
        made[term] = meaning(term, [made[child] for child in term.children])
    return evaluate([made[root]], env)[0]


def test_every_rule_has_an_example_and_no_other():
    assert examples.of_rules().keys() == {rule.name for rule in all_rules()}


@pytest.mark.parametrize("name", sorted(examples.of_rules()))
def test_both_sides_of_an_example_compute_the_same(name):
    before, after = examples.of_rules()[name]
    assert before is not after
    env = environment([before, after])
    want, got = computed(before, env), computed(after, env)
    assert (want.shape, want.dtype) == (got.shape, got.dtype)
    np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=1e-5, atol=1e-6)


def test_every_operator_and_function_is_on_a_page():
    made = language.pages()
    for operator in OPERATORS.values():
        assert f"## `{operator.spelling}`" in made["language/operators.md"]
        assert operator.summary.split(".")[0].split("`")[0] in made["language/operators.md"]
    for function in FUNCTIONS.values():
        assert f"| `{function.name}` |" in made["language/functions.md"]


def test_every_rule_is_in_one_family():
    found = [rule.name for family in rules.by_family().values() for rule in family]
    assert sorted(found) == sorted(rule.name for rule in all_rules())


def test_every_target_and_unit_is_on_a_page():
    made = target_pages.pages()
    for kind in targets():
        assert f"| `{kind.name}` |" in made["targets.md"]
    for unit in known_units():
        assert f"## {unit.name}\n" in made["units.md"]


def test_errors_and_onnx_operators():
    (page,) = failures.pages().values()
    for each in (errors.GlensideError, errors.UnsoundRewrite, errors.NotOptimised):
        assert f"## {each.__name__}\n" in page
    (page,) = frontends.pages().values()
    assert "| `Conv` | native |" in page
    assert "| `Gelu` | native |" in page
    assert "| `NonMaxSuppression` |" in page
