"""What :func:`glenside.explore_hardware` tells: time against area."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glenside.errors import GlensideError, InputError
from glenside.files import Json

if TYPE_CHECKING:
    import altair

PLOT_SUFFIXES = (".html", ".png", ".svg")


@dataclass(frozen=True)
class HardwarePoint:
    """The fastest hardware within an area."""

    area: float
    """The budget, in multipliers."""
    used: float
    """Area of the units."""
    units: Mapping[str, int]
    """The units to build, as targets, and how many calls each gets."""
    cycles: float
    """Of the whole program, with DMA and the host's work."""
    optimal: bool
    """Whether it was proved that no choice of candidates within the area takes fewer cycles in this
    e-graph, nor as many with less area."""

    @property
    def target(self) -> str:
        """For :func:`glenside.optimize`, with cost model ``cycles``; ``cpu`` without units."""
        return "+".join(self.units) or "cpu"


@dataclass(frozen=True)
class HardwareFront:
    """Points by area, the first without any unit; printing it shows a table."""

    model: str
    candidates: Mapping[str, float]
    """Area of each."""
    points: tuple[HardwarePoint, ...]
    clock: float
    """Cycles per second."""
    nodes: int
    """E-nodes when exploration stopped."""
    stop_reason: str
    """Why exploration stopped."""
    seconds: float
    """That all took."""
    failure: str | None = None
    """What went wrong in rewriting: then no unit is given any work, and a warning said so."""

    @property
    def pareto(self) -> tuple[HardwarePoint, ...]:
        """The points that are faster than all that use less area."""
        front: list[HardwarePoint] = []
        for point in self.points:
            if not front or point.cycles < front[-1].cycles:
                front.append(point)
        return tuple(front)

    def to_json(self) -> dict[str, Json]:
        """All of it as one JSON object."""
        points = [
            {**dataclasses.asdict(point), "target": point.target, "pareto": point in self.pareto}
            for point in self.points
        ]
        return {**dataclasses.asdict(self), "points": points}

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=100, color_system=None).print(self)
        return text.getvalue()

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        caption = f"{len(self.candidates)} candidates in one e-graph of {self.nodes:,} e-nodes"
        if self.failure is not None:
            caption = f"not rewritten: {self.failure}; {caption}"
        table = Table(
            title=Text(f"{self.model}: time against area", style="bold"),
            caption=Text(f"{caption} ({self.stop_reason}), {self.seconds:.1f} s"),
        )
        for name in ("area", "used", "cycles", "ms", "speed-up"):
            table.add_column(name, justify="right")
        table.add_column("units: calls")
        table.add_column("proved")
        front = self.pareto
        for point in self.points:
            units = "\n".join(f"{unit}: {calls}" for unit, calls in point.units.items())
            cells = (
                f"{point.area:,g}",
                f"{point.used:,g}",
                f"{point.cycles:,.0f}",
                f"{point.cycles / self.clock * 1e3:,.3f}",
                f"{self.points[0].cycles / point.cycles:.2f}" if point.cycles else "",
                units or "none",
                "optimal" if point.optimal else "no",
            )
            table.add_row(*map(Text, cells), style="bold" if point in front else "dim")
        return table

    def plot(self) -> altair.LayerChart:
        """The front as an Altair chart.

        :raises GlensideError: Altair is not installed.
        """
        try:
            import altair as alt
        except ImportError as problem:
            raise _missing("altair") from problem
        front = self.pareto
        rows = [
            {
                "area": point.used,
                "cycles": point.cycles,
                "units": ", ".join(point.units) or "none",
                "proved": "optimal" if point.optimal else "not proved",
            }
            for point in front
        ]
        areas = sorted({point.used for point in front})
        # Areas are powers of two, mostly: a scale of their logarithms that has a zero.
        scale = alt.Scale(type="symlog", constant=min(filter(None, areas), default=1.0))
        base = alt.Chart(alt.Data(values=rows), title=f"{self.model}: time against area").encode(
            x=alt.X("area:Q", title="area (multipliers)", scale=scale, axis=alt.Axis(values=areas)),
            y=alt.Y("cycles:Q", title="cycles", scale=alt.Scale(zero=False)),
            tooltip=["units:N", "area:Q", "cycles:Q", "proved:N"],
        )
        line = base.mark_line(interpolate="step-after", color="#4c78a8")
        points = base.mark_point(filled=True, size=70, opacity=1).encode(
            color=alt.Color("proved:N", title=None)
        )
        names = base.mark_text(align="left", angle=330, dx=8, dy=-4).encode(text="units:N")
        return (line + points + names).properties(width=560, height=340)

    def save_plot(self, path: str | Path) -> None:
        """Writes the chart; the suffix says how: ``.svg``, ``.png`` or ``.html``.

        :raises GlensideError: what draws it is not installed, or the file cannot be written.
        """
        path = Path(path)
        check_plot_path(path)
        chart = self.plot()
        try:
            import vl_convert  # noqa: F401  (Altair calls it.)
        except ImportError as problem:
            raise _missing("vl-convert-python") from problem
        from glenside.explore.plots import write_chart

        try:
            write_chart(chart, path)
        except OSError as problem:
            raise InputError(f"cannot write {path}: {problem.strerror}") from problem


def check_plot_path(path: Path) -> None:
    """:raises InputError: charts are not written so."""
    if path.suffix not in PLOT_SUFFIXES:
        raise InputError(f"{path}: charts are written as {', '.join(PLOT_SUFFIXES)}; name it so")


def _missing(package: str) -> GlensideError:
    return GlensideError(f"drawing the front needs {package}: pip install 'glenside[explore]'")
