"""Small SVG pictures: what the drawings of terms are made of."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from glenside.errors import GlensideError
from glenside.files import write_text

STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1c2430; }
.faint { fill: #5b6675; font-size: 11px; }
.edge { fill: none; stroke: #8a94a3; stroke-width: 1.2; }
.outer { fill: #dbe7fb; stroke: #1a5fcc; }
.item { fill: #fdebd3; stroke: #b45309; }
.window { fill: #b45309; fill-opacity: 0.35; stroke: #b45309; stroke-width: 2; }
.leaf { fill: #eef1f5; stroke: #8a94a3; }
.move { fill: #ffffff; stroke: #8a94a3; }
.compute { fill: #dbe7fb; stroke: #1a5fcc; }
.call { fill: #efdcf9; stroke: #8e2bbf; stroke-width: 2.5; }
.host { fill: #fde2e2; stroke: #c02626; }
.class { fill: #f6f7f9; stroke: #8a94a3; stroke-dasharray: 4 3; }
.here { stroke: #1c2430; stroke-width: 2; }
.chosen { stroke: #0c6b36; stroke-width: 2.5; }
.cycle { stroke-dasharray: 3 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6eaf0; } .faint { fill: #9aa7b8; }
  .outer, .compute { fill: #17305a; stroke: #6cb0ff; } .item { fill: #4a3110; stroke: #f0a64b; }
  .leaf, .move { fill: #1b212a; stroke: #6b7686; } .call { fill: #40205a; stroke: #d59af5; }
  .host { fill: #5a1d1d; stroke: #f08a8a; } .class { fill: #12161c; stroke: #6b7686; }
  .here { stroke: #e6eaf0; } .chosen { stroke: #5fd08c; }
}
"""


@dataclass(repr=False)
class Svg:
    """A picture; notebooks show it, :meth:`save` writes it. Sizes are in pixels."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, kind: str, **more: str) -> None:
        """A rectangle of one of the kinds in :data:`STYLE`."""
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
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img"><style>{STYLE}</style>'
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
