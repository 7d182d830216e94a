"""Proves rules."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.proofs.facts import OutOfTime
from glenside.rewrites.soundness.proofs.reader import Case, Reading, read
from glenside.rewrites.soundness.proofs.refuting import Counterexample, refute
from glenside.rewrites.soundness.proofs.search import (
    Found,
    Instance,
    Search,
    prove_union,
    whole_operands,
)

BOUND = 2
"""Axes in each list up to which ranks are enumerated, where they must be."""
HIGHEST_BOUND = 5
"""Likewise where a rule matches nothing below."""
SECONDS = 120.0
"""For one rule."""


@dataclass(frozen=True)
class Outcome:
    """What the proofs of all cases came to."""

    cases: int
    found: Found
    bound: int
    seconds: float

    @property
    def counterexample(self) -> Counterexample | None:
        found: Counterexample | None = self.found.refutation
        return found


def prove_cases(rule: Rule, bound: int = BOUND, seconds: float = SECONDS) -> Outcome:
    """Proves each case of a rule."""
    reading = read(rule)
    start = time.process_time()
    deadline = start + seconds
    total, highest = Found(), bound
    for number, case in enumerate(reading.cases):
        try:
            found, used = _matched(reading, case, bound, deadline)
        except OutOfTime:
            found, used = Found(open=["out of time"]), bound
        if found.bounded:
            highest = max(highest, used)
        found.open = [f"case {number}: {each}" for each in found.open]
        total.add(found)
        if total.refutation is not None or time.process_time() > deadline:
            break
    return Outcome(len(reading.cases), total, highest, time.process_time() - start)


def _matched(reading: Reading, case: Case, bound: int, deadline: float) -> tuple[Found, int]:
    """Proves a case, with more axes where it matches nothing that has few."""
    for more in range(bound, HIGHEST_BOUND + 1):
        found = _case(reading, case, more, deadline)
        if found.proved or found.open or found.refutation is not None:
            return found, more
        if not found.bounded:
            break
    found.open.append("it never matched")
    return found, more


def _case(reading: Reading, case: Case, bound: int, deadline: float) -> Found:
    search = functools.partial(
        Search, reading, case, bound, deadline, _goals, functools.partial(refute, reading.rule)
    )
    general = whole_operands(case)
    # First of any operands of their types; only if that fails, of what they are.
    if general:
        found = search(general=general).run()
        if not found.open and found.refutation is None and found.proved:
            return found
    return search().run()


def _goals(instance: Instance) -> None:
    for left, right in instance.case.unions:
        prove_union(instance, left, right)


def outcomes(rules: Iterator[Rule]) -> Iterator[tuple[Rule, Outcome]]:
    """Those of several rules."""
    for rule in rules:
        yield rule, prove_cases(rule)
