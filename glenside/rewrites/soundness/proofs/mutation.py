"""Whether the conditions of a rule are needed: it is judged once more without each of them.

Without a condition that soundness rests on, a rule is refuted. Where it still is proved, the
condition only keeps it from firing where that is of no use: a **guard** against growth. What is
neither stays open, and says so.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from egglog import RewriteOrRule

from glenside.errors import GlensideError
from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.proofs.proving import prove
from glenside.rewrites.soundness.proofs.reader import Case, read
from glenside.rewrites.soundness.proofs.verdicts import Proved, Refuted

FILE = Path(__file__).with_name("conditions.json")
SECONDS = 20.0
"""Of computing, for one condition."""


@dataclass(frozen=True)
class Without:
    """What becomes of a rule without one of its conditions.

    ``verdict`` is ``needed`` (the rule is refuted without it), ``guard`` (it is proved) or
    ``open``; ``detail`` says by which program, or what stays open.
    """

    rule: str
    condition: str
    verdict: str
    detail: str = ""


def mutants(rule: Rule) -> Iterator[tuple[str, Rule]]:
    """Each condition of a rule, and the rule without it: of the first case that has it.

    A fact that binds what others speak of is no condition: without it egglog refuses the rule.
    """
    seen: set[str] = set()
    for number, (case, original) in enumerate(zip(rule.cases, read(rule).cases, strict=True)):
        for position in range(len(_body(case))):
            mutant = _without(rule, number, position)
            try:
                (mutated,) = read(mutant).cases
            except GlensideError:
                continue
            condition = _missing(original, mutated)
            if condition is not None and condition not in seen:
                seen.add(condition)
                yield condition, mutant


def conditions(
    rule: Rule, *, examples: int = 0, seconds: float = SECONDS, keep: bool = True
) -> list[Without]:
    """What each condition of a rule is for.

    :param examples: programs on which the rule is tried where the prover leaves it open.
    """
    found = []
    for condition, mutant in mutants(rule):
        verdict = prove(mutant, examples=examples, seconds=seconds, keep=keep)
        how = {"refuted": "needed", "proved": "guard"}.get(verdict.verdict, "open")
        detail = verdict.detail
        if isinstance(verdict, Refuted):
            detail = str(verdict.program)
        elif isinstance(verdict, Proved):
            detail = verdict.holds
        found.append(Without(rule.name, condition, how, " ".join(detail.split())[:200]))
    return found


def read_list() -> list[Without]:
    """What is checked in of the rules that ship."""
    if not FILE.exists():
        return []
    return [Without(**row) for row in json.loads(FILE.read_text(encoding="utf-8"))]


def write_list(found: Iterable[Without]) -> None:
    """Checks it in."""
    text = ",\n".join(json.dumps(dataclasses.asdict(each)) for each in found)
    FILE.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def _body(case: RewriteOrRule) -> tuple[object, ...]:
    return tuple(getattr(case.decl, "body", ()))


def _without(rule: Rule, number: int, position: int) -> Rule:
    case = rule.cases[number]
    body = _body(case)
    decl = dataclasses.replace(case.decl, body=body[:position] + body[position + 1 :])
    left_out = RewriteOrRule(case.__egg_decls__, decl)
    name = f"{rule.name} without {number}.{position}"
    return dataclasses.replace(rule, name=name, cases=(left_out,), where="")


def _missing(original: Case, mutated: Case) -> str | None:
    """The fact that a case lacks, as it is read."""
    kept = {_plain(str(fact)) for fact in mutated.facts}
    lost = [text for fact in original.facts if (text := _plain(str(fact))) not in kept]
    return lost[0] if len(lost) == 1 else None


def _plain(text: str) -> str:
    """Without what egglog puts before names, and its numbers of functions without a name."""
    text = text.replace("glenside_rewrites_vocabulary_", "").replace("Access.", "")
    return re.sub(r"_lambda_\d+", "_lambda", text).replace("(_", "(").replace(" _", " ").lstrip("_")


__all__ = ["Without", "conditions", "mutants", "read_list", "write_list"]
