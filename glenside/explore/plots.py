"""Charts of an exploration, drawn by Altair.

Each is an Altair chart: a notebook shows it, :func:`save` writes it as SVG, PNG, HTML or JSON.
"""

from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glenside.errors import GlensideError, InputError
from glenside.explore.tables import tables
from glenside.files import replacing

if TYPE_CHECKING:
    from glenside.explore.comparison import Comparison
    from glenside.explore.record import Record

Chart = Any

FORMATS = (".svg", ".png", ".html", ".json")
_WIDTH, _HEIGHT = 420, 220


def growth(exploration: Record, *, log: bool = False) -> Chart:
    """E-nodes and e-classes after every pass.

    :param log: on a logarithmic scale.
    """
    rows = [
        {"iteration": row["iteration"], "of": kind, "count": row[kind]}
        for row in tables(exploration)["iterations"]
        for kind in ("nodes", "classes")
    ]
    alt = _altair()
    return (
        alt.Chart(alt.Data(values=rows), title="Growth of the e-graph")
        .mark_line(point=True)
        .encode(
            x=_passes(alt),
            y=alt.Y("count:Q", title="count", scale=_scale(alt, log)),
            color=alt.Color("of:N", title=None, sort=["nodes", "classes"]),
            tooltip=["iteration:O", "of:N", alt.Tooltip("count:Q", format=",")],
        )
        .properties(width=_WIDTH, height=_HEIGHT)
    )


def growth_by_rule(exploration: Record) -> Chart:
    """The e-nodes after every pass, stacked by the rule that brought them."""
    alt = _altair()
    brought: dict[str, dict[int, int]] = defaultdict(dict)
    for (iteration, rule), nodes in exploration.history.nodes_by_rule.items():
        brought[rule][iteration] = nodes
    rows = []
    for rule, by_pass in brought.items():
        total = 0
        for snapshot in exploration.snapshots:
            total += by_pass.get(snapshot.iteration, 0)
            rows.append({"iteration": snapshot.iteration, "rule": rule, "nodes": total})
    order = sorted(brought, key=lambda rule: (min(brought[rule]), rule))
    return (
        alt.Chart(alt.Data(values=rows), title="E-nodes by the rule that brought them")
        .mark_bar()
        .encode(
            x=_passes(alt),
            y=alt.Y("nodes:Q", title="e-nodes", stack="zero"),
            color=alt.Color("rule:N", title="rule", sort=order),
            tooltip=["iteration:O", "rule:N", alt.Tooltip("nodes:Q", format=",")],
        )
        .properties(width=_WIDTH, height=_HEIGHT)
    )


def matches(exploration: Record) -> Chart:
    """How often every rule matched in every pass: a heat map. Rules that never did are left out."""
    alt = _altair()
    found = [row for row in tables(exploration)["rules"] if row["matches"]]
    order = list(dict.fromkeys(row["rule"] for row in found))
    base = alt.Chart(alt.Data(values=found), title="Matches of each rule").encode(
        x=_passes(alt),
        y=alt.Y("rule:N", title=None, sort=order),
        tooltip=["iteration:O", "rule:N", alt.Tooltip("matches:Q", format=","), "changed:N"],
    )
    cells = base.mark_rect().encode(
        color=alt.Color("matches:Q", scale=alt.Scale(type="symlog", scheme="blues"))
    )
    dark = f"datum.matches > {max((row['matches'] for row in found), default=0) ** 0.5}"
    numbers = base.mark_text(fontSize=10).encode(
        text=alt.Text("matches:Q", format=","),
        color=alt.condition(dark, alt.value("white"), alt.value("black")),
    )
    columns = max(len(exploration.snapshots), 3)
    return (cells + numbers).properties(width=min(60 * columns, 900), height=20 * len(order) + 20)


def phases(exploration: Record) -> Chart:
    """Where the time of every pass went: searching and applying, merging, rebuilding, types."""
    from glenside.explore.record import PHASES

    alt = _altair()
    rows = tables(exploration)["phases"]
    return (
        alt.Chart(alt.Data(values=rows), title="Time of each pass")
        .mark_bar()
        .encode(
            x=_passes(alt),
            y=alt.Y("seconds:Q", title="seconds", stack="zero"),
            color=alt.Color("phase:N", title=None, sort=list(PHASES)),
            order=alt.Order("position:Q"),
            tooltip=["iteration:O", "phase:N", alt.Tooltip("seconds:Q", format=".4f")],
        )
        .transform_calculate(position=f"indexof({list(PHASES)!r}, datum.phase)")
        .properties(width=_WIDTH, height=_HEIGHT)
    )


def best_cost(exploration: Record, cost_model: str | None = None) -> Chart:
    """What the cheapest program cost, against the size of the e-graph: whether exploring further
    is still worth it. One panel for each part of the cost.

    :param cost_model: one of the exploration's; its first by default.
    :raises InputError: it has none of that name.
    """
    alt = _altair()
    known = list(exploration.cost_models)
    name = known[0] if cost_model is None else cost_model
    if name not in known:
        raise InputError(f"no costs by {name!r} are recorded: there are {', '.join(known)}")
    rows = [row for row in tables(exploration)["costs"] if row["cost_model"] == name]
    parts = list(dict.fromkeys(row["part"] for row in rows))
    panels = [
        alt.Chart(alt.Data(values=[row for row in rows if row["part"] == part]), title=part)
        .mark_line(point=True, interpolate="step-after")
        .encode(
            x=alt.X("nodes:Q", title="e-nodes", scale=alt.Scale(zero=False)),
            y=alt.Y("cost:Q", title=None),
            tooltip=["iteration:O", alt.Tooltip("nodes:Q", format=","), "cost:Q"],
        )
        .properties(width=_WIDTH // 2, height=_HEIGHT // 2 + 30)
        for part in parts
    ]
    return alt.concat(*panels, columns=2, title=f"Best cost found ({name})")


def overview(exploration: Record) -> Chart:
    """All of the above in one picture."""
    alt = _altair()
    return alt.vconcat(
        alt.hconcat(growth(exploration), growth_by_rule(exploration)).resolve_scale(
            color="independent"
        ),
        alt.hconcat(phases(exploration), best_cost(exploration)).resolve_scale(color="independent"),
        matches(exploration),
    ).resolve_scale(color="independent")


def comparison(runs: Comparison) -> Chart:
    """Growth, seconds and best cost of several runs in one picture; no costs where there is no cost
    model by which all of them are priced."""
    alt = _altair()
    color = alt.Color("run:N", title=None, sort=list(runs.names))

    def lines(rows: list[dict[str, Any]], x: Any, y: str, title: str) -> Chart:
        return (
            alt.Chart(alt.Data(values=rows), title=title)
            .mark_line(point=True)
            .encode(x=x, y=alt.Y(f"{y}:Q", title=None), color=color, tooltip=["run:N", f"{y}:Q"])
            .properties(width=_WIDTH // 2 + 60, height=_HEIGHT)
        )

    iterations = runs.rows("iterations")
    total: dict[str, float] = defaultdict(float)
    for row in iterations:
        total[row["run"]] += row["seconds"]
        row["total"] = total[row["run"]]
    costs = runs.rows("costs")
    priced = [
        {(row["cost_model"], row["part"]) for row in costs if row["run"] == run}
        for run in runs.names
    ]
    # Only what all runs are priced by can be compared.
    first = [
        (row["cost_model"], row["part"])
        for row in costs
        if all((row["cost_model"], row["part"]) in each for each in priced)
    ][:1]
    costs = [row for row in costs if (row["cost_model"], row["part"]) in first]
    panels = [
        lines(iterations, _passes(alt), "nodes", "E-nodes"),
        lines(iterations, _passes(alt), "total", "Seconds"),
    ]
    if costs:
        x = alt.X("nodes:Q", title="e-nodes", scale=alt.Scale(zero=False))
        title = "Best cost: " + ", ".join(first[0])
        panels.append(lines(costs, x, "cost", title))
    return alt.hconcat(*panels, title=" against ".join(runs.names))


def save(chart: Chart, path: str | Path) -> Path:
    """Writes a chart; the ending of the name says how: .svg, .png, .html or .json.

    An HTML file holds all it needs and works without a network.

    :raises GlensideError: it cannot be written, or has another ending.
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InputError(f"{target}: a chart is written as {', '.join(FORMATS)}")
    try:
        write_chart(chart, target)
    except OSError as problem:
        raise GlensideError(f"cannot write {target}: {problem.strerror or problem}") from problem
    return target


def write_chart(chart: Chart, path: Path) -> None:
    """Replaces a file by the chart; a page holds all it needs.

    :raises OSError: it cannot be written.
    """
    kind = path.suffix.lower().removeprefix(".")
    with replacing(path) as file:
        if kind == "html":
            file.write(chart.to_html(inline=True).encode())
        elif kind == "png":
            chart.save(file, format=kind)
        else:
            made = io.StringIO()
            chart.save(made, format=kind)
            file.write(made.getvalue().encode())


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise GlensideError("charts need altair: pip install 'glenside[explore]'") from None
    return altair


def _passes(alt: Any) -> Any:
    return alt.X("iteration:O", title="pass", axis=alt.Axis(labelAngle=0))


def _scale(alt: Any, log: bool) -> Any:
    return alt.Scale(type="log" if log else "linear")
