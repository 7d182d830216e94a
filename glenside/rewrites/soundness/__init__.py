"""Whether rules are sound: judged on programs of every kind, drawn at random or written for a rule.

:func:`check_sound` and :func:`check_fires` need Hypothesis.
"""

from glenside.rewrites.soundness.judging import (
    Counterexample,
    NeverFired,
    Verdict,
    check_fires,
    check_program,
    check_sound,
    evaluate_classes,
    judge,
    same,
)

__all__ = [
    "Counterexample",
    "NeverFired",
    "Verdict",
    "check_fires",
    "check_program",
    "check_sound",
    "evaluate_classes",
    "judge",
    "same",
]
