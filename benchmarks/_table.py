"""What every benchmark prints: a table for people, JSON for machines."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="where the figures go (default: not written)")
    return parser


def show(title: str, rows: Sequence[dict[str, Any]], json_path: Path | None = None) -> None:
    """Prints ``rows`` (same keys each) and writes them to ``json_path`` as JSON."""
    table = Table(title=title)
    columns = list(rows[0]) if rows else []
    for column in columns:
        numeric = all(isinstance(row[column], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    Console(width=max(160, Console().width)).print(table)
    if json_path is not None:
        record = {"benchmark": title, "machine": platform.processor(), "rows": list(rows)}
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(record, indent=2) + "\n")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
