"""An exploration as a table that grows with it, for terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from glenside.errors import ExtractionError

if TYPE_CHECKING:
    from glenside.explore.record import Record, Snapshot

TOP = 3
"""Rules that are named for each pass."""
SHOWN = 2
"""Parts of a cost that are shown: those that decide."""
PRICED = 20_000
"""E-nodes beyond which only the last pass is priced: it takes much longer than growing does."""


def watch(exploration: Record, console: Any, until: str | None = None) -> bool:
    """Runs to the end, or until a pattern is found, and shows every pass as it is done.

    On a terminal the table is there from the first pass on; elsewhere it is printed at the end.

    :returns: whether the pattern was found.
    :raises TextError: ``until`` is no pattern.
    """
    found = until is not None and exploration.contains(until)
    costs = [_best(exploration)]
    try:
        with _shown(console) as show:
            while not found and (snapshot := exploration.step()) is not None:
                costs.append(_best(exploration) if snapshot.nodes <= PRICED else "...")
                show(table(exploration, costs))
                found = until is not None and exploration.contains(until)
        costs[-1] = _best(exploration)
    finally:  # Also what was done up to Ctrl-C.
        console.print(table(exploration, costs))
    return found


@contextmanager
def _shown(console: Any) -> Iterator[Callable[[Any], None]]:
    """Shows what it is given in place of what was shown before; nothing where no terminal is."""
    from rich.live import Live

    if not console.is_terminal:
        yield lambda each: None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda each: live.update(each, refresh=True)


def table(exploration: Record, costs: list[str]) -> Any:
    """The passes so far, with what the best program cost after each."""
    from rich.table import Table
    from rich.text import Text

    title = f"{exploration.model.name} for {exploration.target}"
    result = Table(title=Text(title, style="bold"))
    for column in ("pass", "e-nodes", "e-classes", "matches", "ms"):
        result.add_column(column, justify="right")
    parts = next(iter(exploration.cost_models.values()), None)
    named = ", ".join(getattr(parts, "components", ())[:SHOWN])
    result.add_column(f"best cost: {named}" if named else "best cost")
    result.add_column("top rules")
    for snapshot, cost in zip(exploration.snapshots, costs, strict=False):
        result.add_row(
            str(snapshot.iteration),
            f"{snapshot.nodes:,}",
            f"{snapshot.classes:,}",
            f"{snapshot.matches:,}",
            f"{snapshot.seconds * 1e3:,.1f}",
            Text(cost),
            Text(_rules(snapshot)),
        )
    return result


def _rules(snapshot: Snapshot) -> str:
    found = sorted(snapshot.rules, key=lambda each: -each.matches)
    return ", ".join(f"{each.rule} {each.matches:,}" for each in found[:TOP] if each.matches)


def _best(exploration: Record) -> str:
    try:
        cost = exploration.best_cost()
    except ExtractionError:
        return "none"
    return ", ".join(f"{value:,.4g}" for value in cost[:SHOWN])
