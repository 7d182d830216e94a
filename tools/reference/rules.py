"""Pages on the rewrite rules: each family one, with laws, conditions, proofs and examples."""

import importlib

from glenside.explore.program_drawing import draw_programs
from glenside.rewrites.ruleset import FAMILIES, Rule, all_rules, law_of
from glenside.rewrites.soundness.proofs import Proved, ledger
from tools.reference import examples
from tools.reference.text import folded, markdown, table, term

HEADER = """\
# Rewrite rules

Each rule is one law, sound wherever its conditions hold. *Exact* ones move data and keep every
bit; the others change the order in which numbers are added. How many are proved, and how:
[the list of proofs](../../rules.md).
"""

MOST = 4
"""Cases of a rule that are shown."""


def pages() -> dict[str, str]:
    """The index, a page for each family, and the pictures."""
    made: dict[str, str] = {}
    rows = []
    known = ledger.read()
    for family, rules in by_family().items():
        lines = [f"# {_title(family)}", "", markdown(_family_text(family)), ""]
        for rule in rules:
            verdict = known[rule.name].verdict if rule.name in known else None
            lines += _rule(rule, verdict, made)
            told = verdict.verdict if verdict else ""
            link = f"[{rule.name}]({family}.md#{_anchor(rule)})"
            rows.append((link, markdown(law_of(rule)), told))
        made[f"rules/{family}.md"] = "\n".join(lines)
    made["rules/index.md"] = "\n".join([HEADER, *table(("rule", "law", "verdict"), rows)]) + "\n"
    return made


def by_family() -> dict[str, list[Rule]]:
    """The rules that ship, by the file that defines them; units' own rules are one family."""
    found: dict[str, list[Rule]] = {family: [] for family in FAMILIES}
    for rule in all_rules():
        stem = rule.where.rpartition("/")[2].partition(".py")[0]
        found.setdefault(stem if stem in FAMILIES else "units", []).append(rule)
    return {family: rules for family, rules in found.items() if rules}


def _title(family: str) -> str:
    return f"Rules: {family.replace('_', ' ')}"


def _family_text(family: str) -> str | None:
    if family == "units":
        return (
            "Each unit brings the rule that finds it: what its declaration says it computes "
            "becomes a call, where sizes and dtypes are those it takes."
        )
    return importlib.import_module(f"glenside.rewrites.rules.{family}").__doc__


def _anchor(rule: Rule) -> str:
    return "".join(c if c.isalnum() or c == "-" else "-" for c in rule.name.lower()).strip("-")


def _rule(rule: Rule, verdict: object, made: dict[str, str]) -> list[str]:
    lines = [f"## {rule.name} {{: #{_anchor(rule)} }}", "", markdown(law_of(rule)), ""]
    told = ["exact" if rule.exact else "reassociating"]
    if isinstance(verdict, Proved):
        most = verdict.ranks
        ranks = "all ranks" if most is None else f"up to {most} + {most} axes"
        told.append(f"proved for all sizes, {ranks}, {verdict.numbers}")
    elif verdict is not None:
        told.append(f"{verdict.verdict}: {verdict.detail}")  # type: ignore[attr-defined]
    lines += [f"*{'; '.join(told)}*", ""]
    if rule.name in examples.of_rules():
        before, after = examples.of_rules()[rule.name]
        picture = f"rules/{_anchor(rule)}.svg"
        drawn = draw_programs({"before": before, "after": after}, transformers=True)
        made[picture] = str(drawn)
        lines += ["Before:", "", *term(before), "", "After:", "", *term(after), ""]
        lines += folded("As pictures", [f"![{rule.name}]({_anchor(rule)}.svg)"])
    few = rule.cases[:MOST]
    written = [line for case in few for line in [*str(case).splitlines(), ""]]
    title = "Its conditions, as egglog has them"
    if len(rule.cases) > MOST:
        title += f" (the first {MOST} of {len(rule.cases)} cases)"
    return lines + folded(title, ["```python", *written[:-1], "```"])
