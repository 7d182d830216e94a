"""Proves the cases of a rule, one after the other."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.proofs import pointwise
from glenside.rewrites.soundness.proofs.limits import BOUND, HIGHEST_BOUND, SECONDS, Budget, Spent
from glenside.rewrites.soundness.proofs.reader import Case, Reading, read
from glenside.rewrites.soundness.proofs.refuting import refute
from glenside.rewrites.soundness.proofs.search import (
    ENDLESS,
    Found,
    Instance,
    Search,
    definitions,
    prove_union,
    whole_operands,
)


@dataclass(frozen=True)
class Outcome:
    """What the proofs of all cases came to."""

    cases: int
    found: Found
    bound: int
    seconds: float


def prove_cases(rule: Rule, bound: int = BOUND, seconds: float = SECONDS) -> Outcome:
    """Proves each case of a rule; ends at the first that is refuted."""
    start = time.process_time()
    reading = read(rule)
    budget = Budget.of(seconds)
    total, highest, spent = Found(), bound, False
    for number, case in enumerate(reading.cases):
        try:
            found, used = _matched(reading, case, bound, budget)
        except Spent as problem:
            found, used, spent = Found(open=[str(problem)]), bound, True
        if found.bounded:
            highest = max(highest, used)
        found.open = [f"case {number}: {each}" for each in found.open]
        total.add(found)
        if total.refutation is not None or spent:
            break
    return Outcome(len(reading.cases), total, highest, time.process_time() - start)


def _matched(reading: Reading, case: Case, bound: int, budget: Budget) -> tuple[Found, int]:
    """Proves a case, with more axes where it matches nothing that has few."""
    for more in range(bound, max(bound, HIGHEST_BOUND) + 1):
        found = _case(reading, case, more, budget)
        if found.proved or found.open or found.refutation is not None:
            return found, more
        if not found.bounded:
            break
    # From what never holds anything follows.
    found.open.append("it never matches")
    return found, more


def _case(reading: Reading, case: Case, bound: int, budget: Budget) -> Found:
    refuting = functools.partial(refute, reading.rule)
    search = functools.partial(Search, reading, case, bound, budget, _goals, refuting)
    defined = definitions(case)
    if pointwise.applies(case, defined) and pointwise.prove(case, defined, budget):
        return Found(proved=1)
    general = whole_operands(case)
    # First of any operands of their types; only if that fails, of what they are.
    if general:
        found = search(general=general).run()
        if found.proved and not found.open and found.refutation is None:
            return found
    found = search().run()
    return search(alongside=False).run() if found.open == [ENDLESS] else found


def _goals(instance: Instance) -> None:
    for left, right in instance.case.unions:
        prove_union(instance, left, right)
