"""Look for a small program for each rule that ships, and for what the rule makes of it.

Written to ``docs/rule_examples.json``, which the pages on rules show and the tests compute. With
names of rules, only those are looked at anew.
"""

import argparse
import json
import sys
from pathlib import Path

from glenside.language.syntax import to_text
from glenside.rewrites.ruleset import all_rules
from glenside.rewrites.soundness.examples import example_of

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "rule_examples.json"


def main() -> None:
    """Look, then write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", help="names; all by default")
    given = parser.parse_args()
    rules = all_rules()
    known = json.loads(EXAMPLES.read_text("utf-8")) if given.rules and EXAMPLES.exists() else {}
    for rule in rules.only(*given.rules) if given.rules else rules:
        found = example_of(rule)
        if found is None:
            sys.exit(f"{rule.name} did nothing in any program")
        print(rule.name, file=sys.stderr, flush=True)
        known[rule.name] = {"before": to_text(found.before), "after": to_text(found.after)}
    kept = {rule.name: known[rule.name] for rule in rules if rule.name in known}
    EXAMPLES.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
