"""That a program equals the model it was made from, by the rules that made them equal.

The rules are applied once more, from nothing, to an e-graph that holds both programs and nothing
else; where the two end up in one class they are equal if each rule is sound, for an e-graph equates
only what rules equate and what is made alike of equals. Then rules are left out one by one, as long
as that stays so: what is left is what the program hinges on, each with its law and with what is
known of it.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from glenside.errors import GlensideError
from glenside.explain.records import RuleStep
from glenside.language import Term
from glenside.rewrites import Applied, RuleSet
from glenside.rewrites.engine.egraph import EGraph
from glenside.rewrites.ruleset import Rule, law_of
from glenside.rewrites.soundness.proofs.ledger import verdict_of
from glenside.rewrites.soundness.proofs.proving import prove
from glenside.rewrites.soundness.proofs.verdicts import Proved, Refuted, Verdict

_SECONDS = 30.0
"""For proving a rule that is not on the list."""
SLACK = 3
"""How many times larger than the e-graph of the exploration the repetition may become."""


@dataclass(frozen=True)
class RuleUsed:
    """A rule that the equality hinges on.

    ``verdict`` is ``proved``, ``refuted``, or ``sampled`` where only random programs speak for the
    rule;
    ``holds`` says for what it is proved. ``to_the_bit``: both sides hold the same bits, else sums
    are rearranged. ``law`` is what the rule says.
    """

    rule: str
    verdict: str
    holds: str
    to_the_bit: bool
    law: str
    finite: bool = False
    """Whether it takes numbers to be finite."""
    ranks: int | None = None
    """Outer and item axes up to which it is proved; None: any number."""

    @property
    def proved(self) -> bool:
        """Whether it is more than sampled."""
        return self.verdict == "proved"


@dataclass(frozen=True)
class ProgramProof:
    """The chain of rules from a model to a program.

    ``steps`` are the applications, in order; ``rules`` what is applied. ``minimal``: without any
    one of the rules the repetition does not end in the program; else nobody had time to find out.
    """

    model: str
    target: str
    steps: tuple[RuleStep, ...]
    rules: tuple[RuleUsed, ...]
    minimal: bool
    changed: tuple[str, ...] = ()
    """What was done to the model before, which no rule says: precision, quantising."""

    @property
    def proved(self) -> bool:
        """Whether every rule is, for any number of axes."""
        return not self.sampled and not self.bounded

    @property
    def bounded(self) -> tuple[str, ...]:
        """The rules that are proved, but up to a number of axes that programs may exceed."""
        return tuple(each.rule for each in self.rules if each.proved and each.ranks is not None)

    @property
    def sampled(self) -> tuple[str, ...]:
        """The rules that are not proved."""
        return tuple(each.rule for each in self.rules if not each.proved)

    @property
    def refuted(self) -> tuple[str, ...]:
        """The rules of which a program shows that they are false."""
        return tuple(each.rule for each in self.rules if each.verdict == "refuted")

    @property
    def finite(self) -> tuple[str, ...]:
        """The rules that take numbers to be finite."""
        return tuple(each.rule for each in self.rules if each.finite)

    @property
    def rearranging(self) -> tuple[str, ...]:
        """The rules that hold for real numbers and wrapping integers, not to the bit of floats."""
        return tuple(each.rule for each in self.rules if not each.to_the_bit)

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {**asdict(self), "proved": self.proved}

    def __str__(self) -> str:
        before = f" (after {' and '.join(self.changed)})" if self.changed else ""
        head = f"{self.model} on {self.target}{before}"
        if not self.steps:
            return f"{head}: the program is the model as it was imported"
        lines = [f"{head}: equal by {len(self.steps)} steps of {len(self.rules)} rules"]
        width = max(len(str(step)) for step in self.steps)
        known = {each.rule: each for each in self.rules}
        for step in self.steps:
            lines.append(f"  {step!s:<{width}}  {known[step.rule].law}".rstrip())
        lines.append("rules:")
        width = max(len(each.rule) for each in self.rules)
        for each in self.rules:
            how = f"{each.verdict}: {each.holds}" if each.holds else each.verdict
            lines.append(f"  {each.rule:<{width}}  {how}")
        if not self.minimal:
            lines.append("there was no time to find out whether fewer rules would do")
        if self.finite:
            lines.append(f"numbers are taken to be finite by {', '.join(self.finite)}")
        lines.append(self._verdict())
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.refuted:
            return f"wrong: rules that are false ({', '.join(self.refuted)})"
        if self.sampled:
            return f"not proved: rules that are only sampled ({', '.join(self.sampled)})"
        if self.bounded:
            return f"proved, but for axes beyond those of these rules ({', '.join(self.bounded)})"
        if self.rearranging:
            return f"proved, but for the order of sums ({', '.join(self.rearranging)})"
        return "proved, to the bit"


def prove_program(
    model: str,
    target: str,
    imported: Sequence[Term],
    extracted: Sequence[Term],
    rules: Sequence[RuleSet],
    steps: Sequence[Applied],
    nodes: int,
    *,
    seconds: float,
) -> ProgramProof:
    """The proof that two programs are equal, output by output.

    :param steps: those of the exploration by ``rules``, which ended with so many e-``nodes``.
    :param seconds: for leaving out rules that are not needed.
    :raises GlensideError: repeating the steps does not make them equal.
    """
    ends = time.perf_counter() + seconds
    replay = _Replay(imported, extracted, rules, steps, SLACK * (nodes + 1000))
    names = list(dict.fromkeys(step.rule.name for step in steps))
    done = replay.run(names)
    if done is None:
        raise GlensideError(
            f"{model}: repeating the {len(steps)} steps of the exploration does not lead to the "
            "program: is it of other rules, or of another release?"
        )
    needed = list(dict.fromkeys(step.rule.name for step in done))
    minimal = True
    for name in reversed(needed.copy()):
        if time.perf_counter() > ends:
            minimal = False
            break
        fewer = [each for each in needed if each != name]
        shorter = replay.run(fewer)
        if shorter is not None:
            needed, done = fewer, shorter
    by_name = {step.rule.name: step.rule for step in done}
    return ProgramProof(
        model,
        target,
        tuple(RuleStep(step.rule.name, step.iteration) for step in done),
        tuple(_used(rule) for rule in by_name.values()),
        minimal,
    )


def _used(rule: Rule) -> RuleUsed:
    verdict = verdict_of(rule) or _proved_now(rule)
    law = law_of(rule)
    if not isinstance(verdict, Proved):
        told = verdict.verdict if isinstance(verdict, Refuted) else "sampled"
        return RuleUsed(rule.name, told, "", rule.exact, law, rule.finite)
    exact = not verdict.steps
    return RuleUsed(rule.name, "proved", verdict.holds, exact, law, rule.finite, verdict.ranks)


def _proved_now(rule: Rule) -> Verdict | None:
    """A rule that does not ship, or has other parameters than the one on the list: it is proved
    where there is a solver. The verdict is kept."""
    if importlib.util.find_spec("z3") is None:
        return None
    return prove(rule, seconds=_SECONDS, examples=0)


@dataclass(frozen=True)
class _Replay:
    """Repeats an exploration, with some of its rules, until both programs are one."""

    imported: Sequence[Term]
    extracted: Sequence[Term]
    rules: Sequence[RuleSet]
    steps: Sequence[Applied]
    nodes: int

    def run(self, names: Collection[str]) -> list[Applied] | None:
        """The steps that changed something until the programs were equal; None if they never are.

        :param names: rules to apply; the others are left out.
        """
        pairs = list(zip(self.imported, self.extracted, strict=True))
        if all(a is b for a, b in pairs):
            return []
        egraph = EGraph([rule for each in self.rules for rule in each])
        try:
            egraph.load(list(dict.fromkeys((*self.imported, *self.extracted))))
            done: list[Applied] = []
            for step in self.steps:
                if step.rule.name not in names or not egraph.apply(step.rule).changed:
                    continue
                done.append(step)
                if egraph.are_equal(pairs):
                    return done
                if egraph.size()[0] > self.nodes:
                    return None
            return None
        finally:
            egraph.close()
