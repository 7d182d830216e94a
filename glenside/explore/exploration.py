"""An exploration as users hold it: the record, and all ways to look at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from glenside.errors import InputError
from glenside.explore.page import widget, write_page
from glenside.explore.plots import overview
from glenside.explore.record import Record
from glenside.explore.tables import TABLES, frame, rows, tables


class Exploration(Record):
    """A :class:`~glenside.explore.record.Record` with its tables, charts and page."""

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """All that was recorded, as tidy tables: see :mod:`glenside.explore.tables`."""
        return tables(self)

    def to_json(self) -> dict[str, Any]:
        """Model, target, stop reason, failure and all tables as one JSON object."""
        return {
            "model": self.model.name,
            "target": self.target,
            "stop_reason": self.stop_reason.value if self.stop_reason else None,
            "failure": self.failure,
            "tables": self.tables(),
        }

    def table(self, name: str) -> Any:
        """One of :meth:`tables` as a pandas ``DataFrame``, or a list of rows without pandas.

        :raises InputError: there is no such table.
        """
        if name not in TABLES:
            raise InputError(f"no table is called {name!r}: the tables are {', '.join(TABLES)}")
        return frame(rows(self, name))

    def write_html(self, path: str | Path) -> Path:
        """Writes the interactive page: see :mod:`glenside.explore.page`."""
        return write_page(self, path)

    def widget(self) -> Any:
        """The interactive view for a notebook."""
        return widget(self)

    def plot(self) -> Any:
        """All charts in one picture: see :mod:`glenside.explore.plots`."""
        return overview(self)
