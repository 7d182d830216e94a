"""Recurrent layers are found in their steps, and sums of linear layers are one layer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from glenside.language import Term
from glenside.rewrites import Rule, RuleSet, StopReason
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.linear import LINEAR
from glenside.rewrites.rules.recurrence import lstm
from glenside.rewrites.rules.steps import STEPS
from glenside.rewrites.rules.sums import SUMS
from glenside.rewrites.soundness import check_fires, check_program
from glenside.rewrites.soundness.programs import sums_of_layers, unrolled_lstms
from tests.effort import tries
from tests.strategies import environment

LSTM = [LAYOUT, LINEAR, SUMS, STEPS, RuleSet("lstm", (lstm("flex-lstm"),))]


@pytest.mark.parametrize("rule", [*SUMS, *STEPS, lstm("flex-lstm")], ids=lambda rule: rule.name)
def test_every_rule_is_sound_and_fires_on_what_it_looks_for(rule: Rule) -> None:
    check_fires(rule, examples=tries(15))


@settings(max_examples=tries(15))
@given(sums_of_layers())
def test_sums_together(term: Term) -> None:
    result = check_program([term], [LAYOUT, LINEAR, SUMS], environment([term]))
    assert result.stop_reason is StopReason.SATURATED


@settings(max_examples=tries(15))
@given(unrolled_lstms())
def test_lstm_together(term: Term) -> None:
    result = check_program([term], LSTM, environment([term]))
    assert result.stop_reason is StopReason.SATURATED
