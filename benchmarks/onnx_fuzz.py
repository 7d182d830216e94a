"""Mutated ONNX files against the importer, the interpreter and the compiler: how each ends.

Files come from small valid networks, ONNX's own tests and reported bugs; attributes, operands,
shapes, initializers, opsets, subgraphs and bytes are changed in them. Each file is imported and run
in a process of its own, one in fifty is compiled too, and the answer is compared with that of
onnxruntime, or of the reference implementation of ONNX where onnxruntime refuses the file.

  right                         the answer is the other's
  refused                       one of our errors, in one line, says what is wrong
  refused, onnxruntime answers  the same, but onnxruntime takes the file
  answered alone                onnxruntime refuses the file
  answered alone, invalid       and onnx.checker calls it invalid
  undefined                     answers differ in what ONNX leaves open
  unlike the reference          the reference differs, and onnxruntime refuses the file
  too large to run              it is imported, but running it takes too much memory or time
  WRONG, RAISED, CRASHED, HUNG  a wrong answer, another exception, a crash, a hang: never right

A case is its number: ``--seed N --count 1`` runs case N again.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # For tests.fuzz.

from _table import arguments, show

from tests.fuzz import judging, runner


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compile-every", type=int, default=50, help="0: nothing is compiled")
    parser.add_argument("--list", action="append", default=[], metavar="OUTCOME", help="show these")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    compiled = 0
    for case in runner.fuzz(options.seed, options.count, options.workers, options.compile_every):
        counts[case["word"]] += 1
        compiled += case["compiled"]
        if case["word"] in (*judging.BAD, *options.list):
            print(f"{case['number']}: {case['word']}: {case['detail']}")
            print(f"    {case['origin']}: {'; '.join(case['done'])}")
    rows = [{"outcome": word, "files": counts[word]} for word in judging.WORDS]
    rows.append({"outcome": "all", "files": counts.total()})
    rows.append({"outcome": "of them compiled", "files": compiled})
    show(f"Mutated ONNX files from {options.seed}", rows, options.json)
    return int(any(counts[word] for word in judging.BAD))


if __name__ == "__main__":
    sys.exit(main())
