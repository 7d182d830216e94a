"""Show what changed in the text of the golden kernels; with ``--update``, check it in.

The programs are in ``tests/codegen/golden/programs.py``, their texts beside it.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    """Prints the differences; 1 where there are any and they are not checked in."""
    sys.path.insert(0, str(ROOT))
    from tests.codegen.golden.programs import GOLDEN, path

    if arguments not in ([], ["--update"]):
        print("usage: python tools/golden.py [--update]", file=sys.stderr)
        return 2
    changed = 0
    for name, golden in GOLDEN.items():
        file, text = path(name), golden.text()
        known = file.read_text(encoding="utf-8") if file.exists() else ""
        if known == text:
            continue
        changed += 1
        lines = difflib.unified_diff(
            known.splitlines(), text.splitlines(), file.name, f"{file.name} now", lineterm=""
        )
        print("\n".join(lines))
        if arguments:
            file.write_text(text, encoding="utf-8")
    print(f"{changed} of {len(GOLDEN)} changed{' and updated' if changed and arguments else ''}")
    return int(changed > 0 and not arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
