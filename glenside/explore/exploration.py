"""An exploration as users hold it: the record, and all ways to look at it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from glenside.errors import InputError
from glenside.explore.page import widget, write_page
from glenside.explore.plots import overview
from glenside.explore.record import Record
from glenside.explore.tables import TABLES, frame, rows, tables
from glenside.files import Json

if TYPE_CHECKING:
    import altair
    import anywidget
    import pandas


class Exploration(Record):
    """A :class:`~glenside.explore.record.Record` with its tables, charts and page."""

    def tables(self) -> dict[str, list[dict[str, Json]]]:
        """All that was recorded, as tidy tables: see :mod:`glenside.explore.tables`."""
        return tables(self)

    def to_json(self) -> dict[str, Json]:
        """Model, target, stop reason, failure and all tables as one JSON object."""
        return {
            "model": self.model.name,
            "target": self.target,
            "stop_reason": self.stop_reason.value if self.stop_reason else None,
            "failure": self.failure,
            "tables": cast(Json, self.tables()),
        }

    def table(self, name: str) -> pandas.DataFrame | list[dict[str, Json]]:
        """One of :meth:`tables` as a pandas ``DataFrame``, or a list of rows without pandas.

        :raises InputError: there is no such table.
        """
        if name not in TABLES:
            raise InputError(f"no table is called {name!r}: the tables are {', '.join(TABLES)}")
        return frame(rows(self, name))

    def write_html(self, path: str | Path) -> Path:
        """Writes the interactive page: see :mod:`glenside.explore.page`."""
        return write_page(self, path)

    def widget(self) -> anywidget.AnyWidget:
        """The interactive view for a notebook."""
        return widget(self)

    def plot(self) -> altair.VConcatChart:
        """All charts in one picture: see :mod:`glenside.explore.plots`."""
        return overview(self)
