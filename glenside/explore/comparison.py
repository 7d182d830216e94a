"""Two explorations beside each other: other rules, other limits, another version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glenside.errors import InputError
from glenside.explore.tables import TABLES, Row, frame, tables

if TYPE_CHECKING:
    from glenside.explore.record import Record

Run = Any
"""An exploration, the tables of one, or a file that ``glenside explore --json`` wrote."""


class Comparison:
    """Runs by name, with all their tables. ``comparison.plot()`` draws them into one picture.

    :param runs: at least two, by the name they are shown under.
    :raises InputError: there are fewer, or one of them is no exploration.
    """

    def __init__(self, runs: Mapping[str, Run]) -> None:
        if len(runs) < 2:
            raise InputError(f"a comparison takes at least two runs, got {len(runs)}")
        self._runs = {name: _tables(name, run) for name, run in runs.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """What the runs are called."""
        return tuple(self._runs)

    def rows(self, name: str) -> list[Row]:
        """One of :data:`~glenside.explore.tables.TABLES` of all runs, with a column ``run``."""
        if name not in TABLES:
            raise InputError(f"no table is called {name!r}: the tables are {', '.join(TABLES)}")
        return [{"run": run, **row} for run, found in self._runs.items() for row in found[name]]

    def table(self, name: str) -> Any:
        """:meth:`rows` as a pandas ``DataFrame``, or as they are without pandas."""
        return frame(self.rows(name))

    def summary(self) -> list[Row]:
        """One row a run: how it ended."""
        found = []
        for run, each in self._runs.items():
            last = each["iterations"][-1]
            costs = [row for row in each["costs"] if row["iteration"] == last["iteration"]]
            row = {
                "run": run,
                "iterations": last["iteration"],
                "nodes": last["nodes"],
                "classes": last["classes"],
                "matches": sum(one["matches"] for one in each["iterations"]),
                "seconds": sum(one["seconds"] for one in each["iterations"]),
            }
            found.append(row | {f"{c['cost_model']}: {c['part']}": c["cost"] for c in costs})
        return found

    def plot(self) -> Any:
        """Growth, best cost and matches of every run, in one Altair chart."""
        from glenside.explore.plots import comparison

        return comparison(self)

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self._runs)}>"


def compare(*runs: Run, names: Sequence[str] | None = None, **named: Run) -> Comparison:
    """Runs beside each other: ``compare(a, b)`` or ``compare(guarded=a, unguarded=b)``.

    :param runs: explorations, their tables, or files of tables.
    :param names: of ``runs``; A, B, ... by default.
    :raises InputError: fewer than two runs, names that do not fit, or what is no exploration.
    """
    called = [chr(ord("A") + k) for k in range(len(runs))] if names is None else list(names)
    if len(called) != len(runs):
        raise InputError(f"{len(runs)} runs have {len(called)} names")
    together = dict(zip(called, runs, strict=True))
    if len(together) != len(runs) or together.keys() & named.keys():
        raise InputError("every run needs a name of its own")
    return Comparison(together | named)


def _tables(name: str, run: Run) -> dict[str, list[Row]]:
    found: Any = run
    if isinstance(run, str | Path):
        try:
            found = json.loads(Path(run).read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            raise InputError(f"run {name}: {run} holds no tables: {problem}") from problem
        found = found.get("tables", found) if isinstance(found, dict) else found
    elif not isinstance(run, Mapping):
        exploration: Record = run
        if not hasattr(exploration, "snapshots"):
            raise InputError(f"run {name} is no exploration: {run!r}")
        found = tables(exploration)
    missing = [each for each in TABLES if not isinstance(found, Mapping) or each not in found]
    if missing:
        raise InputError(f"run {name} lacks the tables {', '.join(missing)}")
    return dict(found)
