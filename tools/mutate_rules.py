"""Judge every rule that ships without each of its conditions, and check in what they are for.

With names of rules, only those are judged anew. ``tools/prove_rules.py`` puts the list into
docs/rules.md.
"""

import argparse
import os
import sys
from collections import Counter

from glenside.rewrites.ruleset import all_rules
from glenside.rewrites.soundness.proofs import mutation, parallel


def main() -> None:
    """Judge, then write the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", nargs="*", help="names; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--examples", type=int, default=30)
    given = parser.parse_args()
    rules = all_rules()
    chosen = rules.only(*given.rules) if given.rules else rules
    known = {rule.name: [] for rule in rules}
    for each in mutation.read_list():
        known.get(each.rule, []).append(each)

    def judged(rule):
        return mutation.conditions(rule, examples=given.examples)

    for rule, found in zip(chosen, parallel.each(judged, list(chosen), given.jobs), strict=True):
        known[rule.name] = found
        told = Counter(each.verdict for each in found)
        print(f"{rule.name}: {dict(told)}", file=sys.stderr, flush=True)
        mutation.write_list(each for rows in known.values() for each in rows)


if __name__ == "__main__":
    main()
