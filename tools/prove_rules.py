"""Prove every rule that ships, and write the list that is checked in and the table of the docs.

With names of rules, only those are proved anew; the others keep their verdicts.
"""

import argparse
import math
import os
import sys
from collections import Counter
from pathlib import Path

from glenside.hw_targets import declarations
from glenside.hw_targets.declare import claims
from glenside.hw_targets.declare import proved as proved_units
from glenside.rewrites.ruleset import RuleSet, all_rules
from glenside.rewrites.soundness.proofs import Proved, Verdict, ledger, mutation, prove_all

TABLE = Path(__file__).resolve().parent.parent / "docs" / "rules.md"
HEADER = """\
# The rewrite rules, and what is proved of them

Written by `python tools/prove_rules.py`; [numerics.md](numerics.md) says what is taken of numbers.

A rule is **proved** if its two sides are equal for all sizes and dtypes, and for as many axes as
the column *ranks* says, outer and item ones of each operand and list. Rules with parameters are
proved for those in their names. Numbers are kept *to the bit*, or their sums are rearranged: then
it holds of real numbers, for which floats stand, and of integers, which wrap around. A rule is
**sampled** if an obligation stays open; random programs are all that speaks for it.
"""


def main() -> None:
    """Prove, then write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", help="names; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    rules = all_rules()
    chosen = rules.only(*given.rules) if given.rules else rules

    def proved(verdict: Verdict) -> None:
        print(f"{verdict.rule}: {verdict.verdict} {verdict.holds}", file=sys.stderr, flush=True)

    # What is checked in must not depend on how busy a machine is: counts are the limit, not time.
    found = prove_all(chosen, seconds=math.inf, jobs=given.jobs, examples=0, proved=proved)
    ledger.write(rules, {verdict.rule: verdict for verdict in found})
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text(table(rules), encoding="utf-8")


def table(rules: RuleSet) -> str:
    """The documentation."""
    known = ledger.read()
    verdicts = [known[rule.name].verdict for rule in rules if rule.name in known]
    counts = Counter(verdict.verdict for verdict in verdicts)
    everywhere = sum(isinstance(each, Proved) and each.ranks is None for each in verdicts)
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    lines = [HEADER, f"{len(verdicts)} rules: {told}; {everywhere} for all ranks.", ""]
    lines += ["| rule | verdict | ranks | numbers | the proof, or what stays open |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for verdict in verdicts:
        ranks = numbers = ""
        if isinstance(verdict, Proved):
            ranks = "all" if verdict.ranks is None else f"{verdict.ranks} + {verdict.ranks}"
            numbers = verdict.numbers
        detail = verdict.detail.replace("|", "\\|")[:200]
        lines.append(f"| {verdict.rule} | {verdict.verdict} | {ranks} | {numbers} | {detail} |")
    return "\n".join([*lines, *of_conditions(), *of_units(rules)]) + "\n"


CONDITIONS = """
## What conditions are for

`python tools/mutate_rules.py` judges each rule once more without each of its conditions. *Needed*:
the rule is refuted without it. *Guard*: it still is proved, so the condition only keeps it from
firing where that is of no use. *Open*: neither.
"""


def of_conditions() -> list[str]:
    """What was found of the conditions of rules."""
    rows = mutation.read_list()
    if not rows:
        return []
    told = Counter(each.verdict for each in rows)
    judged = len({each.rule for each in rows})
    counted = ", ".join(f"{count} {name}" for name, count in sorted(told.items()))
    lines = [CONDITIONS, f"{len(rows)} conditions of {judged} rules: {counted}.", ""]
    lines += ["| rule | needed | guards | open |", "| --- | --- | --- | --- |"]
    for rule in dict.fromkeys(each.rule for each in rows):
        own = [each for each in rows if each.rule == rule]
        needed = sum(each.verdict == "needed" for each in own)
        guards, left = (
            "; ".join(f"`{each.condition}`" for each in own if each.verdict == kind)
            for kind in ("guard", "open")
        )
        lines.append("| " + " | ".join([rule, str(needed), guards, left]) + " |")
    return lines


UNITS = """
## Units' own sizes

A call of any size runs in passes of the unit's own, edges padded. That this changes nothing is
argued on the structure of the unit's term when it is declared; here it is proved of what the term
means, for all sizes. That a unit computes what its rule takes from the program, defaults left out
and batches among it, is the rule above.
"""


def of_units(rules: RuleSet) -> list[str]:
    """What is proved of the declarations behind these rules."""
    units = {unit.name: unit for unit in declarations.of_rules(rules)}
    told = {name: claims.prove_claims(unit) for name, unit in units.items()}
    verdicts = [each for found in told.values() for each in found]
    proved_units.write(
        units[name] for name, found in told.items() if all(isinstance(v, Proved) for v in found)
    )
    proved = sum(isinstance(each, Proved) for each in verdicts)
    lines = [UNITS, f"{proved} of {len(verdicts)} claims are proved.", ""]
    lines += ["| unit | claim | verdict | numbers |", "| --- | --- | --- | --- |"]
    for each in verdicts:
        unit, _, claim = each.rule.partition(": ")
        numbers = each.numbers if isinstance(each, Proved) else each.detail
        lines.append(f"| {unit} | {claim} | {each.verdict} | {numbers} |")
    return lines


if __name__ == "__main__":
    main()
