"""An e-graph as a picture: classes hold the nodes that are equal, nodes point at classes.

A small one is drawn whole, the neighbourhood of a class always; a large one is summarised by
operator and by class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from glenside.errors import InputError
from glenside.explore.layout import MARGIN, Layout, layered
from glenside.explore.svg import Svg, bars, shortened
from glenside.language import Term
from glenside.language.operators import OPERATORS, TRANSFORMERS
from glenside.language.syntax import spell_value
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.query import Pattern, contains, matches

if TYPE_CHECKING:
    from glenside.explore.record import Record

MOST = 60
"""Classes of one drawing."""
LISTED = 12
"""Classes, and operators, that a summary names."""
MEMBERS = 6
"""Nodes of one class that are drawn."""
_WIDE, _HIGH, _GAP, _TITLE = 124.0, 36.0, 6.0, 17.0
_LETTERS = 18
"""Characters of a line in a box."""


def draw_egraph(
    egraph: Record | FrozenEGraph,
    *,
    around: int | str | Pattern | Term | None = None,
    hops: int = 1,
    most: int = MOST,
    by: Literal["operator", "class"] | None = None,
) -> Svg:
    """The e-graph as it is now.

    Of an exploration, nodes tell which rule brought them when they are pointed at, and those of the
    cheapest program are drawn in green.

    :param around: draw what is near a class: its number, a term in it, or a pattern, of which the
        first class that matches counts.
    :param hops: how far operands and users of that class are followed.
    :param most: classes to draw. An e-graph with more is summarised; of a neighbourhood the nearest
        are drawn, and it says how many are not.
    :param by: summarise, however small it is: how many nodes each ``operator`` has, or which
        ``class`` has the most members. A large one is told by both.
    :raises InputError: there is no such class.
    """
    from glenside.explore.chosen import chosen_nodes

    if by not in (None, "operator", "class"):
        raise InputError(f"an e-graph is summarised by 'operator' or 'class', not by {by!r}")
    if isinstance(egraph, FrozenEGraph):
        frozen, chosen, hints = egraph, set[tuple[int, ENode]](), dict[tuple[int, ENode], str]()
    else:
        frozen = egraph.egraph
        if around is None and (by or len(frozen.classes) > most):
            return _summary(frozen, by)
        chosen, hints = chosen_nodes(egraph), _hints(egraph)
    if around is not None:
        shown = _near(frozen, _find(egraph, frozen, around), hops)
        hidden = len(shown) - most
        return _drawing(frozen, sorted(shown[:most]), chosen, hints, hidden, shown[0])
    if by or len(frozen.classes) > most:
        return _summary(frozen, by)
    return _drawing(frozen, range(len(frozen.classes)), chosen, hints, 0, None)


def _find(
    given: Record | FrozenEGraph, egraph: FrozenEGraph, around: int | str | Pattern | Term
) -> int:
    if isinstance(around, int):
        if not 0 <= around < len(egraph.classes):
            raise InputError(f"there is no class {around}: they are 0 to {len(egraph.classes) - 1}")
        return around
    if isinstance(around, str) and not isinstance(given, FrozenEGraph):
        from glenside.explore.record import as_query

        around = as_query(around, given.model)
    if isinstance(around, Term):
        found = contains(egraph, around)
    else:
        found = next((number for number, _ in matches(egraph, around)), None)
    if found is None:
        raise InputError(f"the e-graph does not hold {around}")
    return found


def _near(egraph: FrozenEGraph, start: int, hops: int) -> list[int]:
    """Classes by how many steps they are away from one, operands or users."""
    users: dict[int, list[int]] = {}
    for number, nodes in enumerate(egraph.classes):
        for child in dict.fromkeys(child for node in nodes for child in node.children):
            users.setdefault(child, []).append(number)
    found = {start: None}
    ring = [start]
    for _ in range(hops):
        near = [
            each
            for at in ring
            for each in (
                *(child for node in egraph.classes[at] for child in node.children),
                *users.get(at, ()),
            )
        ]
        ring = [each for each in dict.fromkeys(near) if each not in found]
        found.update(dict.fromkeys(ring))
    return list(found)


def _hints(exploration: Record) -> dict[tuple[int, ENode], str]:
    from glenside.explore.history import LOADED

    history = exploration.history
    return {
        (number, node): "the program as loaded"
        if origin.rule == LOADED
        else f"brought by {origin.rule} in pass {origin.iteration}"
        for number, (nodes, origins) in enumerate(
            zip(history.egraph.classes, history.origins, strict=True)
        )
        for node, origin in zip(nodes, origins, strict=True)
    }


def _drawing(
    egraph: FrozenEGraph,
    shown: Sequence[int],
    chosen: set[tuple[int, ENode]],
    hints: Mapping[tuple[int, ENode], str],
    hidden: int,
    centre: int | None,
) -> Svg:
    at = {number: i for i, number in enumerate(shown)}
    drawn = [_members(egraph.classes[number], number, chosen) for number in shown]
    below = [
        list(dict.fromkeys(at[c] for node in nodes for c in node.children if c in at))
        for nodes in drawn
    ]
    sizes = []
    for number, nodes in zip(shown, drawn, strict=True):
        boxes = len(nodes) + (len(nodes) < len(egraph.classes[number]))
        letters = 6.6 * len(_name(egraph, number)) + 2 * _GAP
        width = max(boxes * (_WIDE + _GAP) + _GAP, letters)
        sizes.append((width, _TITLE + _HIGH + _GAP))
    layout = layered(below, sizes, [i for i, each in enumerate(below) if not each])
    picture = Svg(layout.width, layout.height)
    for i, number in enumerate(shown):
        x, y = layout.corners[i]
        kind = "class here" if number == centre else "class"
        picture.rect(x, y, *sizes[i], kind, rx="7")
        picture.text(x + _GAP, y + 13, _name(egraph, number), "faint")
    for i, nodes in enumerate(drawn):
        for k, node in enumerate(nodes):
            _edges(picture, layout, sizes, i, k, [at[c] for c in node.children if c in at])
    for i, (number, nodes) in enumerate(zip(shown, drawn, strict=True)):
        x, y = layout.corners[i]
        for k, node in enumerate(nodes):
            hint = hints.get((number, node), "")
            _box(picture, x + _GAP + k * (_WIDE + _GAP), y + _TITLE, node, hint, chosen, number)
        more = len(egraph.classes[number]) - len(nodes)
        if more:
            left = x + _GAP + len(nodes) * (_WIDE + _GAP)
            picture.text(left + _GAP, y + _TITLE + 22, f"{more} more members", "faint")
    if hidden > 0:
        picture.text(MARGIN, picture.height + 4, f"{hidden:,} more classes are as near", "faint")
        picture.height += 16
    return picture


def _members(
    nodes: Sequence[ENode], number: int, chosen: set[tuple[int, ENode]]
) -> Sequence[ENode]:
    """Those that are drawn: what is chosen for sure."""
    if len(nodes) <= MEMBERS:
        return nodes
    first = sorted(nodes, key=lambda node: (number, node) not in chosen)[: MEMBERS - 1]
    return [node for node in nodes if node in first]


def _name(egraph: FrozenEGraph, number: int) -> str:
    root = ", an output" if number in egraph.roots else ""
    return f"#{number} {egraph.types[number]}{root}"


def _edges(
    picture: Svg,
    layout: Layout,
    sizes: Sequence[tuple[float, float]],
    i: int,
    k: int,
    targets: Sequence[int],
) -> None:
    x, y = layout.corners[i]
    ax, ay = x + _GAP + k * (_WIDE + _GAP) + _WIDE / 2, y + _TITLE + _HIGH
    for target in dict.fromkeys(targets):
        tx, ty = layout.corners[target]
        width, height = sizes[target]
        bx = tx + width / 2
        if layout.layers[target] < layout.layers[i]:
            picture.path(f"M{ax:g} {ay:g}C{ax:g} {ay + 26:g} {bx:g} {ty - 26:g} {bx:g} {ty:g}")
        else:  # On a cycle: into the class from below.
            by = ty + height
            picture.path(
                f"M{ax:g} {ay:g}C{ax:g} {ay + 26:g} {bx:g} {by + 26:g} {bx:g} {by:g}", "cycle"
            )


def _box(
    picture: Svg,
    x: float,
    y: float,
    node: ENode,
    hint: str,
    chosen: set[tuple[int, ENode]],
    number: int,
) -> None:
    title, note = _label(node)
    kind = _kind(node) + (" chosen" if (number, node) in chosen else "")
    inner = Svg(0, 0)
    inner.rect(x, y, _WIDE, _HIGH, kind, rx="5")
    inner.text(x + _WIDE / 2, y + 15, shortened(title, _LETTERS), anchor="middle")
    inner.text(x + _WIDE / 2, y + 29, shortened(note, _LETTERS), "faint", anchor="middle")
    operands = " ".join(f"#{child}" for child in node.children)
    picture.group(f"{title} {note} {operands}".strip() + (f": {hint}" if hint else ""), inner.parts)


def _label(node: ENode) -> tuple[str, str]:
    """What it does, and its other attributes."""
    operator = OPERATORS[node.op]
    words = [
        spell_value(value)
        for attribute, value in zip(operator.attributes, node.values, strict=True)
        if not attribute.optional or value != attribute.default
    ]
    if node.op in ("compute", "call", "blocked", "host_op", "tensor"):
        return f"{words[0]}" if node.op != "blocked" else f"{words[0]} ...", " ".join(words[1:])
    return operator.spelling, " ".join(words)


def _kind(node: ENode) -> str:
    if node.op in ("call", "blocked"):
        return "call"
    if node.op == "host_op":
        return "host"
    if not node.children:
        return "leaf"
    return "move" if node.op in TRANSFORMERS else "compute"


def _summary(egraph: FrozenEGraph, by: str | None) -> Svg:
    count = f"{egraph.node_count:,} e-nodes in {len(egraph.classes):,} classes"
    parts = []
    if by in (None, "operator"):
        parts.append(bars(f"{count}, by operator", _operators(egraph)))
    if by in (None, "class"):
        parts.append(bars(f"{count}: classes with most members", _classes(egraph)))
    picture = Svg(sum(each.width for each in parts), max(each.height for each in parts))
    x = 0.0
    for each in parts:
        picture.place(each, x, 0)
        x += each.width
    return picture


def _operators(egraph: FrozenEGraph) -> list[tuple[str, str, int, str]]:
    nodes: Counter[tuple[str, str]] = Counter()
    classes: Counter[tuple[str, str]] = Counter()
    for members in egraph.classes:
        labels = [(_kind(node), _group(node)) for node in members]
        nodes.update(labels)
        classes.update(set(labels))
    order = sorted(nodes, key=lambda each: (-nodes[each], each))
    rows = [
        (kind, name, nodes[kind, name], f"in {classes[kind, name]:,} classes")
        for kind, name in order[:LISTED]
    ]
    rest = order[LISTED:]
    if rest:
        rows.append(("leaf", f"{len(rest)} others", sum(nodes[each] for each in rest), ""))
    return rows


def _group(node: ENode) -> str:
    """What is counted as one: operators, functions of compute, units."""
    if node.op in ("compute", "call", "blocked", "host_op"):
        return f"{OPERATORS[node.op].spelling} {node.values[0]}"
    return OPERATORS[node.op].spelling


def _classes(egraph: FrozenEGraph) -> list[tuple[str, str, int, str]]:
    order = sorted(range(len(egraph.classes)), key=lambda n: (-len(egraph.classes[n]), n))
    rows = []
    for number in order[:LISTED]:
        members = egraph.classes[number]
        said = Counter(_group(node) for node in members)
        words = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in said.most_common(3))
        kind = "call" if any(_kind(node) == "call" for node in members) else "move"
        rows.append((kind, f"#{number} {egraph.types[number]}", len(members), words))
    return rows
