"""The list of what is proved of the rules that ship, which is checked in beside this file.

Tests prove some of it again, and that the rules are those of the list: so a rule that was proved is
not changed into one that is not without anyone noticing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.proofs import fingerprint
from glenside.rewrites.soundness.proofs.reader import read as read_rule
from glenside.rewrites.soundness.proofs.verdicts import Verdict, from_data

FILE = Path(__file__).with_name("ledger.json")


@dataclass(frozen=True)
class Entry:
    """A verdict, and the hash of the rule of which it is."""

    rule: str
    fingerprint: str
    verdict: Verdict


def read() -> dict[str, Entry]:
    """What is known, by the names of rules."""
    if not FILE.exists():
        return {}
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return {row["rule"]: Entry(row["rule"], row.pop("fingerprint"), from_data(row)) for row in rows}


def write(rules: Iterable[Rule], found: Mapping[str, Verdict]) -> None:
    """Writes the verdicts of these rules; where there is none, the one on the list is kept."""
    known = read()
    rows = []
    for name, own in fingerprint.of_rules(rules).items():
        if name in found:
            verdict = found[name]
        elif name in known and known[name].fingerprint == own:
            verdict = known[name].verdict
        else:
            continue
        # Times differ from run to run, and the list is compared.
        data = {key: value for key, value in verdict.data().items() if key != "seconds"}
        rows.append({"fingerprint": own, **data})
    text = ",\n".join(json.dumps(row) for row in rows)
    FILE.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def verdict_of(rule: Rule) -> Verdict | None:
    """What the list says of a rule, if that is the one it knows."""
    entry = read().get(rule.name)
    if entry is None or entry.fingerprint != fingerprint.of_rule(read_rule(rule)):
        return None
    return entry.verdict
