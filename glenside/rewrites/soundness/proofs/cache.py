"""Verdicts on disk: a rule is not proved again until it, a unit it calls or the prover changes.

They stand in ``$GLENSIDE_PROOFS``, by default ``~/.cache/glenside/proofs.json``. The file is only a
convenience: one that cannot be read counts as empty, one that cannot be written is let be.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.proofs import fingerprint
from glenside.rewrites.soundness.proofs.limits import TOO_LONG
from glenside.rewrites.soundness.proofs.verdicts import Sampled, Verdict, from_data

VARIABLE = "GLENSIDE_PROOFS"
_MOST = 2_000


def user_file() -> Path:
    """Where verdicts are kept."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "glenside" / "proofs.json"


def keys(rules: Sequence[Rule], bound: int, examples: int) -> list[str]:
    """Under which the verdicts of rules are filed.

    :param examples: programs on which rules are tried that are neither proved nor refuted.
    """
    found = fingerprint.of_rules(rules)
    prover = fingerprint.of_prover()
    return [f"{rule.name} {found[rule.name]} {prover} {bound} {examples}" for rule in rules]


def read() -> dict[str, Verdict]:
    """All that are kept."""
    found: dict[str, Verdict] = {}
    for each, data in _load().items():
        with contextlib.suppress(KeyError, TypeError):
            found[each] = from_data(data)
    return found


def add(key: str, verdict: Verdict) -> None:
    """Keeps a verdict, unless it may be another one on a machine that is less busy."""
    if isinstance(verdict, Sampled) and TOO_LONG in verdict.obligation:
        return
    data = _load()
    data.pop(key, None)
    data[key] = verdict.data()
    file = user_file()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(dict(list(data.items())[-_MOST:])), encoding="utf-8")
        part.replace(file)


def _load() -> dict[str, dict[str, object]]:
    try:
        data = json.loads(user_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
