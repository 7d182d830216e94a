"""How far proofs go.

What is proved must not depend on how busy a machine is: so the limits are counts, of the questions
that a proof asks and of the steps a solver takes for one. Seconds are only a net below them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

BOUND = 2
"""Axes in each list up to which ranks are enumerated, where they must be."""
HIGHEST_BOUND = 5
"""Likewise where a rule matches nothing below."""
QUESTIONS = 300_000
"""For one rule, about integers; most need a few hundred, none that is proved over two thirds."""
RESOURCES = 4_000_000
"""What a solver may spend on one question, in its own unit: about a second and a half."""
SECONDS = 240.0
"""Of computing, for one rule."""
EXAMPLES = 100
"""Random programs on which a rule is tried that is neither proved nor refuted."""


TOO_LONG = "it takes too long"


class Spent(Exception):
    """What there was for a rule is spent."""


@dataclass
class Budget:
    """What is left for one rule."""

    questions: float = QUESTIONS
    deadline: float = float("inf")
    """As :func:`time.process_time` counts."""

    @classmethod
    def of(cls, seconds: float, questions: float = QUESTIONS) -> Budget:
        """From now on."""
        return cls(questions, time.process_time() + seconds)

    def spend(self) -> None:
        """One more question; raises :class:`Spent`."""
        self.questions -= 1
        if self.questions < 0:
            raise Spent("it takes too many questions")
        if time.process_time() > self.deadline:
            raise Spent(TOO_LONG)
