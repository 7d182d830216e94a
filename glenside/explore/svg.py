"""Small SVG pictures: what the drawings of terms are made of."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from glenside.errors import GlensideError
from glenside.files import write_text

SCOPE = "glenside-drawing"
"""The class of every picture: its style is of what is inside and of nothing else on a page."""

_COLOURS = {
    "ink": ("#1c2430", "#e6eaf0"),
    "faint": ("#5b6675", "#9aa7b8"),
    "line": ("#8a94a3", "#6b7686"),
    "blue": ("#1a5fcc", "#6cb0ff"),
    "on-blue": ("#dbe7fb", "#17305a"),
    "amber": ("#b45309", "#f0a64b"),
    "on-amber": ("#fdebd3", "#4a3110"),
    "violet": ("#8e2bbf", "#d59af5"),
    "on-violet": ("#efdcf9", "#40205a"),
    "red": ("#c02626", "#f08a8a"),
    "on-red": ("#fde2e2", "#5a1d1d"),
    "green": ("#0c6b36", "#5fd08c"),
    "box": ("#ffffff", "#1b212a"),
    "leaf": ("#eef1f5", "#1b212a"),
    "class": ("#f6f7f9", "#12161c"),
}
"""What is drawn with, in light and in dark."""

_KINDS = {
    "text": "font: 12px system-ui, sans-serif; fill: var(--ink)",
    ".faint": "fill: var(--faint); font-size: 11px",
    ".edge": "fill: none; stroke: var(--line); stroke-width: 1.2",
    ".outer": "fill: var(--on-blue); stroke: var(--blue)",
    ".item": "fill: var(--on-amber); stroke: var(--amber)",
    ".window": "fill: var(--amber); fill-opacity: 0.35; stroke: var(--amber); stroke-width: 2",
    ".leaf": "fill: var(--leaf); stroke: var(--line)",
    ".move": "fill: var(--box); stroke: var(--line)",
    ".compute": "fill: var(--on-blue); stroke: var(--blue)",
    ".call": "fill: var(--on-violet); stroke: var(--violet); stroke-width: 2.5",
    ".host": "fill: var(--on-red); stroke: var(--red)",
    ".class": "fill: var(--class); stroke: var(--line); stroke-dasharray: 4 3",
    ".here": "stroke: var(--ink); stroke-width: 2",
    ".chosen": "stroke: var(--green); stroke-width: 2.5",
    ".cycle": "stroke-dasharray: 3 3",
}
"""The kinds of shapes, and how each is drawn."""

_DARK = (
    "[data-jp-theme-light=false]",  # JupyterLab
    ".vscode-dark",
    "[data-md-color-scheme=slate]",  # Material for MkDocs
    "[data-theme=dark]",
)
"""Pages that are dark whatever the system prefers."""

_LIGHT = ("[data-jp-theme-light=true]", ".vscode-light", "[data-md-color-scheme=default]")


def _style() -> str:
    """A picture follows the page that it is in; on its own, or where that says nothing, the
    system."""

    def set_to(which: int) -> str:
        return "; ".join(f"--{name}: {pair[which]}" for name, pair in _COLOURS.items())

    def within(pages: Iterable[str]) -> str:
        return ", ".join(f"{page} .{SCOPE}" for page in pages)

    return "\n".join(
        [
            f".{SCOPE} {{ {set_to(0)} }}",
            f"@media (prefers-color-scheme: dark) {{ .{SCOPE} {{ {set_to(1)} }} }}",
            f"{within(_LIGHT)} {{ {set_to(0)} }}",
            f"{within(_DARK)} {{ {set_to(1)} }}",
            *(f".{SCOPE} {kind} {{ {how} }}" for kind, how in _KINDS.items()),
        ]
    )


STYLE = _style()


@dataclass(repr=False)
class Svg:
    """A picture; notebooks show it, :meth:`save` writes it. Sizes are in pixels."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, kind: str, **more: str) -> None:
        """A rectangle of one of the kinds of shapes: an access's ``outer``, a ``call``..."""
        self._add("rect", {"x": x, "y": y, "width": width, "height": height, "class": kind}, more)

    def text(self, x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> None:
        """A line of text whose baseline starts, ends or has its middle at a point."""
        escaped = html.escape(content)
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escaped}</text>'
        )

    def path(self, d: str, kind: str = "") -> None:
        """An edge."""
        self.parts.append(f'<path class="{f"edge {kind}".strip()}" d="{d}"/>')

    def group(self, title: str, parts: Iterable[str]) -> None:
        """Parts with a text that is shown when they are pointed at."""
        inside = "".join(parts)
        self.parts.append(f"<g><title>{html.escape(title)}</title>{inside}</g>")

    def place(self, other: Svg, x: float, y: float) -> None:
        """Another picture at a point of this one."""
        inside = "".join(other.parts)
        self.parts.append(f'<g transform="translate({x:g} {y:g})">{inside}</g>')

    def _add(self, tag: str, own: dict[str, object], more: dict[str, str]) -> None:
        named = " ".join(
            f'{k}="{v:g}"' if isinstance(v, int | float) else f'{k}="{v}"'
            for k, v in (own | more).items()
        )
        self.parts.append(f"<{tag} {named}/>")

    def __str__(self) -> str:
        width, height = round(self.width), round(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{SCOPE}" '
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
            f"<style>{STYLE}</style>"
            f"{''.join(self.parts)}</svg>"
        )

    def __repr__(self) -> str:
        return f"<Svg {round(self.width)}x{round(self.height)}>"

    def _repr_svg_(self) -> str:
        return str(self)

    def save(self, path: str | Path) -> Path:
        """Writes the picture as SVG.

        :raises GlensideError: the file cannot be written.
        """
        target = Path(path)
        try:
            write_text(target, str(self) + "\n")
        except OSError as problem:
            raise GlensideError(
                f"cannot write {target}: {problem.strerror or problem}"
            ) from problem
        return target


def bars(title: str, rows: Iterable[tuple[str, str, int, str]]) -> Svg:
    """Counts as bars: each row a kind, a name, the count, and what else there is to say."""
    rows = list(rows)
    left = 24 + 6.6 * max((len(name) for _, name, _, _ in rows), default=0)
    noted = max((len(f"{count:,}  {note}") for _, _, count, note in rows), default=0)
    longest = max((count for _, _, count, _ in rows), default=0)
    width = max(left + _BAR + 6.6 * noted + 16, 6.8 * len(title) + 28)
    picture = Svg(width, 24 * len(rows) + 40)
    picture.text(14, 20, title)
    for i, (kind, name, count, note) in enumerate(rows):
        y = 34 + 24 * i
        bar = max(_BAR * count / longest, 2)
        picture.text(14, y + 13, name)
        picture.rect(left, y, bar, 18, kind, rx="3")
        picture.text(left + bar + 8, y + 13, f"{count:,}  {note}".strip(), "faint")
    return picture


_BAR = 180.0


def shortened(text: str, most: int) -> str:
    """``text`` in so many characters, with an ellipsis where it had more."""
    return text if len(text) <= most else text[: most - 1] + "…"
