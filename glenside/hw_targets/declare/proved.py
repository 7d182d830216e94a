"""The declarations that ship and of which every claim is proved.

Proving takes a tenth of a second for a unit and needs Z3, so it is not done each time they are
imported: ``tools/prove_rules.py`` writes the list, and tests prove what stands on it again.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from glenside.hw_targets.declare.checked import Declared
from glenside.hw_targets.declare.tiling import Tiling

FILE = Path(__file__).with_name("proved.json")


def fingerprint(a: Declared, tiling: Tiling) -> str:
    """A hash of all that claims of a declaration rest on."""
    roles = {name: (role.kind, role.axis) for name, role in tiling.roles.items()}
    parts = [
        sorted(a.operands.items()),
        a.computes,
        list(a.constraints),
        None if a.dtypes is None else list(a.dtypes),
        sorted(a.tile.items()),
        sorted(a.lanes.items()),
        sorted(roles.items()),
        sorted(tiling.lowest),
        list(tiling.padded),
    ]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@functools.cache
def shipped() -> frozenset[str]:
    """Those on the list."""
    try:
        return frozenset(json.loads(FILE.read_text(encoding="utf-8")))
    except OSError:
        return frozenset()


def write(found: Iterable[Declared]) -> None:
    """Puts declarations on the list, in place of what is there."""
    lines = ",\n".join(
        json.dumps(each) for each in sorted({fingerprint(a, a.tiling) for a in found})
    )
    FILE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
