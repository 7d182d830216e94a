"""Proves rules, each at most once: verdicts are kept on disk."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass

from glenside.errors import GlensideError
from glenside.rewrites.ruleset import Rule, RuleSet, as_ruleset
from glenside.rewrites.soundness.proofs.limits import BOUND, EXAMPLES, SECONDS
from glenside.rewrites.soundness.proofs.verdicts import Proved, Refuted, Sampled, Verdict


def require_solver() -> None:
    """:raises GlensideError: Z3 is not there."""
    if importlib.util.find_spec("z3") is None:
        raise GlensideError("proving rules needs Z3: pip install 'glenside[prove]'")


def prove(
    rule: object,
    *,
    bound: int = BOUND,
    seconds: float = SECONDS,
    examples: int = EXAMPLES,
    keep: bool = True,
) -> Verdict:
    """Whether a rule is sound, for all sizes of what it is applied to.

    :param rule: a rule of ours or of egglog, or a rule set of one.
    :param bound: ranks up to which proofs go that do not hold for all.
    :param seconds: of computing, after which the rule counts as sampled; much less is usual, and
        what is proved depends on counts, not on the time it takes.
    :param examples: programs on which it is tried then; needs Hypothesis, unless there are none.
    :param keep: take the verdict from disk if it is there, and leave it there.
    :raises GlensideError: Z3 is not installed, or that is no single rule.
    """
    (verdict,) = prove_all(_one(rule), bound=bound, seconds=seconds, examples=examples, keep=keep)
    return verdict


def check_proved(rule: object, **options: float) -> Proved:
    """Likewise, for tests: gives the proof.

    :raises AssertionError: the rule is refuted or only sampled; says why.
    """
    verdict = prove(rule, examples=0, **options)  # type: ignore[arg-type]
    if not isinstance(verdict, Proved):
        raise AssertionError(f"{verdict.rule} is {verdict.verdict}: {verdict.detail}")
    return verdict


def prove_all(
    rules: object,
    *,
    bound: int = BOUND,
    seconds: float = SECONDS,
    examples: int = EXAMPLES,
    keep: bool = True,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
    proved: Callable[[Verdict], None] | None = None,
) -> list[Verdict]:
    """The verdicts of several rules, in their order.

    :param jobs: processes.
    :param progress: called with (rule, rules done, rules in all).
    :param proved: called with each verdict as it is found.
    """
    require_solver()
    from glenside.rewrites.soundness.proofs import cache, parallel

    ruleset = as_ruleset(rules)
    limits = _Limits(bound, seconds, examples)
    found: dict[int, Verdict] = {}
    if keep:
        known, keys = cache.read(), cache.keys(ruleset.rules, bound, examples)
        found = {number: known[key] for number, key in enumerate(keys) if key in known}
        for verdict in found.values():
            if proved:
                proved(verdict)
    missing = [(number, rule) for number, rule in enumerate(ruleset) if number not in found]
    judged = parallel.each(functools.partial(_verdict, limits), [r for _, r in missing], jobs)
    if progress and missing:
        progress(missing[0][1].name, len(found), len(ruleset.rules))
    for (number, rule), verdict in zip(missing, judged, strict=True):
        found[number] = verdict
        if keep:
            cache.add(keys[number], verdict)
        if progress:
            progress(rule.name, len(found), len(ruleset.rules))
        if proved:
            proved(verdict)
    return [found[number] for number in range(len(ruleset.rules))]


@dataclass(frozen=True)
class _Limits:
    bound: int
    seconds: float
    examples: int


def _one(rule: object) -> RuleSet:
    ruleset = as_ruleset(rule)
    if len(ruleset.rules) != 1:
        raise GlensideError(f"one rule was expected, {ruleset.name} has {len(ruleset.rules)}")
    return ruleset


def _verdict(limits: _Limits, rule: Rule) -> Verdict:
    from glenside.rewrites.soundness.proofs.cases import prove_cases
    from glenside.rewrites.soundness.proofs.zeros import FINITE

    outcome = prove_cases(rule, limits.bound, limits.seconds)
    found = outcome.found
    if found.refutation is not None:
        refuted = found.refutation
        return Refuted(rule.name, refuted.program, refuted.reason, outcome.seconds)
    steps = tuple(sorted(found.steps))
    if not found.open and rule.exact and steps:
        found.open.append(f"it is marked exact, but its proof {' and '.join(steps)}")
    if not found.open and FINITE in steps and not rule.finite:
        found.open.append(f"it is not marked finite, but its proof {FINITE}")
    if not found.open:
        ranks = outcome.bound if found.bounded else None
        return Proved(rule.name, ranks, steps, found.proved, outcome.seconds)
    return _sampled(rule, limits, found.open, outcome.seconds)


def _sampled(rule: Rule, limits: _Limits, obligations: list[str], spent: float) -> Verdict:
    """Tried on programs, which may still refute it."""
    start = time.process_time()
    if limits.examples:
        from glenside.rewrites.soundness.judging import judge

        (judged,) = judge(rule, examples=limits.examples)
        if judged.counterexample is not None:
            found = judged.counterexample
            seconds = spent + time.process_time() - start
            return Refuted(rule.name, found.program, found.reason, seconds)
    return Sampled(rule.name, obligations[0], len(obligations), spent)
