"""Proves the cases of a rule, one after the other."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.proofs import pointwise
from glenside.rewrites.soundness.proofs.facts import OutOfTime
from glenside.rewrites.soundness.proofs.limits import BOUND, HIGHEST_BOUND, SECONDS
from glenside.rewrites.soundness.proofs.reader import Case, Reading, read
from glenside.rewrites.soundness.proofs.refuting import refute
from glenside.rewrites.soundness.proofs.search import (
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
    deadline = start + seconds
    total, highest = Found(), bound
    for number, case in enumerate(reading.cases):
        try:
            found, used = _matched(reading, case, bound, deadline)
        except OutOfTime:
            found, used = Found(open=[f"not shown in {seconds:g} seconds"]), bound
        if found.bounded:
            highest = max(highest, used)
        found.open = [f"case {number}: {each}" for each in found.open]
        total.add(found)
        if total.refutation is not None or time.process_time() > deadline:
            break
    return Outcome(len(reading.cases), total, highest, time.process_time() - start)


def _matched(reading: Reading, case: Case, bound: int, deadline: float) -> tuple[Found, int]:
    """Proves a case, with more axes where it matches nothing that has few."""
    for more in range(bound, max(bound, HIGHEST_BOUND) + 1):
        found = _case(reading, case, more, deadline)
        if found.proved or found.open or found.refutation is not None:
            return found, more
        if not found.bounded:
            break
    # From what never holds anything follows.
    found.open.append("it never matches")
    return found, more


def _case(reading: Reading, case: Case, bound: int, deadline: float) -> Found:
    refuting = functools.partial(refute, reading.rule)
    search = functools.partial(Search, reading, case, bound, deadline, _goals, refuting)
    defined = definitions(case)
    if pointwise.applies(case, defined) and pointwise.prove(case, defined, deadline):
        return Found(proved=1)
    general = whole_operands(case)
    # First of any operands of their types; only if that fails, of what they are.
    if general:
        found = search(general=general).run()
        if found.proved and not found.open and found.refutation is None:
            return found
    return search().run()


def _goals(instance: Instance) -> None:
    for left, right in instance.case.unions:
        prove_union(instance, left, right)
