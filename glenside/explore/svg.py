"""Small SVG pictures: what the drawings of terms are made of."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from glenside.errors import GlensideError

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
@media (prefers-color-scheme: dark) {
  text { fill: #e6eaf0; } .faint { fill: #9aa7b8; }
  .outer, .compute { fill: #17305a; stroke: #6cb0ff; } .item { fill: #4a3110; stroke: #f0a64b; }
  .leaf, .move { fill: #1b212a; stroke: #6b7686; } .call { fill: #40205a; stroke: #d59af5; }
  .host { fill: #5a1d1d; stroke: #f08a8a; }
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

    def path(self, d: str) -> None:
        """An edge."""
        self.parts.append(f'<path class="edge" d="{d}"/>')

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
            target.write_text(str(self) + "\n", encoding="utf-8")
        except OSError as problem:
            raise GlensideError(
                f"cannot write {target}: {problem.strerror or problem}"
            ) from problem
        return target
