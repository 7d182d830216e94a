"""Programs as graphs, results above, accelerator calls coloured.

Chains of transformers are one box unless asked otherwise, and of a large program only what it has
of each operator is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from glenside.errors import InputError
from glenside.explore.layout import MARGIN, layered
from glenside.explore.svg import Svg, bars, shortened
from glenside.language import Term, topological_order
from glenside.language.operators import CALLS, OPERATORS, TRANSFORMERS

MOST = 400
"""Boxes of one drawing."""
_WIDE, _HIGH = 150.0, 38.0
_LETTERS = 22
"""Characters of a line in a box."""


@dataclass
class _Box:
    title: str
    note: str
    kind: str
    hint: str
    below: list[int] = field(default_factory=list)


def draw_program(
    terms: Term | Iterable[Term],
    *,
    names: Mapping[Term, str] | None = None,
    transformers: bool = False,
    most: int = MOST,
) -> Svg:
    """A program as a graph: calls in violet, what computes in blue, leaves in grey.

    :param names: of values, as :attr:`glenside.Program.names` has them.
    :param transformers: every transformer has a box of its own.
    :param most: boxes; a larger program is drawn as a table of how many of each operator it has,
        with its calls by unit.
    """
    roots = [terms] if isinstance(terms, Term) else list(terms)
    boxes = _boxes(roots, names or {}, transformers)
    if len(boxes) > most:
        return _summary(roots)
    return _laid_out(boxes)


def draw_programs(programs: Mapping[str, Term | Iterable[Term]], **options: object) -> Svg:
    """Several programs side by side, such as ``{"before": ..., "after": ...}``.

    :raises InputError: there is none.
    """
    if not programs:
        raise InputError("no program to draw")
    drawn = {
        name: draw_program(terms, **options)  # type: ignore[arg-type]
        for name, terms in programs.items()
    }
    width = sum(each.width for each in drawn.values()) + MARGIN * (len(drawn) - 1)
    picture = Svg(width, max(each.height for each in drawn.values()) + 22)
    at = 0.0
    for name, each in drawn.items():
        picture.text(at + MARGIN, 16, name)
        picture.place(each, at, 22)
        at += each.width + MARGIN
    return picture


def _boxes(roots: Sequence[Term], names: Mapping[Term, str], transformers: bool) -> list[_Box]:
    order = topological_order(roots)
    uses = Counter(child for term in order for child in term.children)
    uses.update(roots)
    boxes: list[_Box] = []
    number: dict[Term, int] = {}
    for term in order:
        kind = _kind(term)
        below = list(dict.fromkeys(number[child] for child in term.children))
        if kind == "move" and not transformers and len(term.children) == 1:
            (child,) = below
            if boxes[child].kind == "move" and uses[term.children[0]] == 1:
                # One box for a chain of transformers.
                boxes[child].title = _joined(boxes[child].title)
                boxes[child].note = str(term.type)
                boxes[child].hint += f" → {term.op.replace('_', '-')}"
                number[term] = child
                continue
        name = names.get(term, "")
        hint = OPERATORS[term.op].spelling
        boxes.append(_Box(_title(term), name or str(term.type), kind, hint, below))
        number[term] = len(boxes) - 1
    return boxes


def _joined(title: str) -> str:
    count = int(title.split()[0]) if title[0].isdigit() else 1
    return f"{count + 1} transformers"


def _title(term: Term) -> str:
    if term.op == "compute":
        return str(term["function"])
    if term.op in CALLS:
        return str(term["unit"])
    if term.op == "host_op":
        return str(term["operator"])
    if term.op == "tensor":
        return str(term["name"])
    return term.op.replace("_", "-")


def _kind(term: Term) -> str:
    if term.op in CALLS:
        return "call"
    if term.op == "host_op":
        return "host"
    if not term.children:
        return "leaf"
    return "move" if term.op in TRANSFORMERS else "compute"


def _laid_out(boxes: Sequence[_Box]) -> Svg:
    leaves = [number for number, box in enumerate(boxes) if box.kind == "leaf"]
    layout = layered([box.below for box in boxes], [(_WIDE, _HIGH)] * len(boxes), leaves)
    picture = Svg(layout.width, layout.height)
    for (x, y), box in zip(layout.corners, boxes, strict=True):
        for each in box.below:
            bx, by = layout.corners[each]
            ax, ay, cx, cy = x + _WIDE / 2, y + _HIGH, bx + _WIDE / 2, by
            picture.path(f"M{ax:g} {ay:g}C{ax:g} {ay + 18:g} {cx:g} {cy - 18:g} {cx:g} {cy:g}")
    for (x, y), box in zip(layout.corners, boxes, strict=True):
        inner = Svg(0, 0)
        inner.rect(x, y, _WIDE, _HIGH, box.kind, rx="5")
        inner.text(x + _WIDE / 2, y + 16, shortened(box.title, _LETTERS), anchor="middle")
        inner.text(x + _WIDE / 2, y + 31, shortened(box.note, _LETTERS), "faint", anchor="middle")
        picture.group(f"{box.hint}: {box.title} {box.note}", inner.parts)
    return picture


def _summary(roots: Sequence[Term]) -> Svg:
    order = topological_order(roots)
    calls = Counter(_title(term) for term in order if _kind(term) == "call")
    computes = Counter(_title(term) for term in order if _kind(term) == "compute")
    moves = sum(_kind(term) == "move" for term in order)
    leaves = sum(_kind(term) == "leaf" for term in order)
    rows = [
        *(("call", name, count, "") for name, count in calls.most_common()),
        *(("compute", name, count, "") for name, count in computes.most_common()),
        ("move", "transformers", moves, ""),
        ("leaf", "tensors and constants", leaves, ""),
    ]
    return bars(f"{len(order):,} terms: too many to draw, so by what they are", rows)
