"""The ways in which a unit's term may stand in a program.

Programs never hold what changes nothing (padding by 0, a broadcast of one row), add in either
order, multiply filters with what they see or the other way round, and leave out a bias of zero.
Layout changes at the edges of the term belong to the unit, not to the program: they are taken off
and undone around the call, where they meet the program's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from glenside.hw_targets.declare.sizes import Size
from glenside.hw_targets.declare.template import (
    Node,
    Operand,
    OperandType,
    Template,
    nodes,
    operands,
)
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import OPERATORS, TRANSFORMERS, Moves

MANY = 6
"""Places at which all combinations of variations are looked for."""

_UNADDING = frozenset(name for name in TRANSFORMERS if not OPERATORS[name].may(Moves.ADDS))
"""Transformers whose results have no elements but their operands'."""

UNDONE = frozenset({"transpose", "access"})
"""Layout changes whose inverse needs no sizes."""


@dataclass(frozen=True)
class Unchanged:
    """Holds where a node that was left out would change nothing: its axes are those of ``below``,
    or, for a ``pad``, its widths are zero."""

    node: Node
    below: Template | None = None


@dataclass(frozen=True)
class Form:
    """One way: what to look for, and what to undo.

    ``leaves`` and ``root``: the layout changes taken off an operand and the result, the outermost
    first. ``absent``: operands that are not there, for which the call gets their default.
    """

    template: Template
    conditions: tuple[Unchanged, ...] = ()
    absent: frozenset[str] = frozenset()
    leaves: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    root: tuple[Node, ...] = ()
    changes: int = 0
    """In how many places it differs from the term as declared."""

    def leaf(self, name: str, declared: OperandType) -> tuple[list[Size], int]:
        """Axes and split of what stands for an operand in the form."""
        axes, split = list(declared.axes), declared.split
        for change in reversed(self.leaves.get(name, ())):
            if change.op == "access":
                split = int(change["split"].text)
            else:
                axes = [axes[int(at.text)] for at in change["permutation"]]
        return axes, split


def forms(
    template: Template, splits: dict[Template, int], defaults: Mapping[str, float]
) -> list[Form]:
    """All forms of a unit's term; of a term with many variations, those that differ from it in at
    most one place.

    :param splits: how many outer axes each part of the term has; forms add their own parts to it.
    """
    result: dict[tuple[str, frozenset[str], bool], Form] = {}
    for each in dict.fromkeys((template, _as_imported(template, splits))):
        _collect(each, splits, defaults, result)
    return list(result.values())


def _collect(
    template: Template,
    splits: dict[Template, int],
    defaults: Mapping[str, float],
    result: dict[tuple[str, frozenset[str], bool], Form],
) -> None:
    places = sum(isinstance(part, Node) and _varies(part, defaults) for part in nodes(template))
    most = places if places <= MANY else 1
    for form in _expand(template, splits, defaults, most):
        if form.absent.intersection(operands(form.template)):
            continue  # What is left out at one place stands at another: it is not its default.
        result.setdefault((show(form.template), form.absent, False), form)
        without = _without_layout(form, splits)
        if without.root or without.leaves:
            result.setdefault((show(without.template), form.absent, True), without)


def _as_imported(template: Template, splits: dict[Template, int]) -> Template:
    """The term as front ends write it: numbers that are spread are constants of that shape, and
    functions of elements have the whole of their operands as one item."""
    if isinstance(template, Operand):
        return template
    below = tuple(_as_imported(child, splits) for child in template.children)
    first = below[0] if below else None
    if isinstance(first, Node) and first.op == "constant":
        shape: tuple[Size, ...] | None = None
        if template.op == "broadcast":
            shape = template["shape"]
        elif template.op == "unsqueeze" and template["axis"].is_number:
            at = int(template["axis"].of({}))
            shape = (*first["shape"][:at], Size.parse("1"), *first["shape"][at:])
        if shape is not None:
            made = Node(first.operator, (first["value"], shape, first["dtype"]), ())
            splits[made] = len(shape)
            return made
    if _of_elements(template) and splits[template]:
        return _of_one_item(template, below, splits)
    if below == template.children:
        return template
    changed = template.over(*below)
    splits[changed] = splits[template]
    return changed


def _of_elements(node: Node) -> bool:
    """Whether each element is computed by itself, whatever the split."""
    if node.op != "compute":
        return False
    kind = FUNCTIONS[node["function"]].kind
    return kind == "map" or (kind == "fold" and bool(_pair(node)))


def _of_one_item(node: Node, below: tuple[Template, ...], splits: dict[Template, int]) -> Node:
    """A function of elements, of operands that are one item each."""

    def accessed(x: Template, split: int) -> Node:
        made = Node(OPERATORS["access"], (Size.parse(str(split)),), (x,))
        splits[made] = split
        return made

    (operand,) = below
    if isinstance(operand, Node) and operand.op == "pair":
        inner = operand.over(*(accessed(each, 0) for each in operand.children))
        splits[inner] = 0
    else:
        inner = accessed(operand, 0)
    computed = node.over(inner)
    splits[computed] = 0
    return accessed(computed, splits[node])


def show(template: Template) -> str:
    """The template as text."""
    if isinstance(template, Operand):
        return f"?{template.name}"
    words = []
    for value in template.values:
        if isinstance(value, tuple):
            words.append(f"({' '.join(map(str, value))})")
        elif value is not None:
            words.append(str(value))
    return f"({' '.join([template.operator.spelling, *words, *map(show, template.children)])})"


# As deep as a person wrote: recursion is safe here.


def _expand(
    template: Template, splits: dict[Template, int], defaults: Mapping[str, float], most: int
) -> list[Form]:
    """The forms with at most ``most`` changes."""
    if isinstance(template, Operand):
        return [Form(template)]
    result = []
    for below in itertools.product(
        *(_expand(c, splits, defaults, most) for c in template.children)
    ):
        changes = sum(each.changes for each in below)
        if changes > most:
            continue
        node = template.over(*(each.template for each in below))
        splits[node] = splits[template]
        conditions = tuple(c for each in below for c in each.conditions)
        absent = frozenset[str]().union(*(each.absent for each in below))
        if _changes_nothing(node, splits):
            result.append(Form(node.children[0], conditions, absent, changes=changes))
            continue
        result.append(Form(node, conditions, absent, changes=changes))
        changes += 1
        if changes > most:
            continue
        if _may_change_nothing(node):
            child = node.children[0]
            unchanged = (*conditions, _unchanged(node, child))
            result.append(Form(child, unchanged, absent, changes=changes))
        if _commutes(node):
            swapped = _swapped(node, splits)
            result.append(Form(swapped, conditions, absent, changes=changes))
        if _unlike_factors(node):
            turned = _turned(node, splits)
            result.append(Form(turned, conditions, absent, changes=changes))
        for kept, gone in _neutral(node, defaults):
            without = absent.union(operands(gone))
            result.append(Form(kept, conditions, without, changes=changes))
    return [_merged(form, splits) for form in result]


def _varies(node: Node, defaults: Mapping[str, float]) -> bool:
    return (
        _may_change_nothing(node)
        or _commutes(node)
        or _unlike_factors(node)
        or any(_neutral(node, defaults))
    )


def _pair(node: Node) -> tuple[Template, ...]:
    """The two operands of a fold of a pair; none if it is something else."""
    below = node.children[0] if node.op == "compute" else None
    return below.children if isinstance(below, Node) and below.op == "pair" else ()


def _commutes(node: Node) -> bool:
    sides = _pair(node)
    same = bool(sides) and show(sides[0]) == show(sides[1])
    return bool(sides) and FUNCTIONS[node["function"]].commutes and not same


def _swapped(node: Node, splits: dict[Template, int]) -> Node:
    pair = node.children[0]
    assert isinstance(pair, Node)
    turned = pair.over(*reversed(pair.children))
    splits[turned] = splits[pair]
    result = node.over(turned)
    splits[result] = splits[node]
    return result


def _factors(node: Node) -> tuple[Template, ...]:
    """The two operands of a product; none if it is something else."""
    below = node.children[0] if node.op == "compute" and node["function"] == "dot" else None
    return below.children if isinstance(below, Node) and below.op == "cart_prod" else ()


def _unlike_factors(node: Node) -> bool:
    """Whether it is a product in which the operands cannot simply be taken for each other."""
    return any(not isinstance(_below_layout(each), Operand) for each in _factors(node))


def _below_layout(template: Template) -> Template:
    while isinstance(template, Node) and template.op in UNDONE:
        template = template.children[0]
    return template


def _turned(node: Node, splits: dict[Template, int]) -> Node:
    """The product with its operands in the other order, and the axes of the result put back."""
    product = node.children[0]
    assert isinstance(product, Node)
    first, second = product.children
    reversed_ = product.over(second, first)
    splits[reversed_] = splits[product]
    result = node.over(reversed_)
    splits[result] = splits[node]
    batch = int(product["batch"].text)
    own, others = splits[first] - batch, splits[second] - batch
    order = (
        *range(batch),
        *range(batch + others, batch + others + own),
        *range(batch, batch + others),
    )
    if order == tuple(range(len(order))):
        return result
    permutation = tuple(Size.parse(str(axis)) for axis in order)
    back = Node(OPERATORS["transpose"], (permutation,), (result,))
    splits[back] = splits[node]
    return back


def _neutral(node: Node, defaults: Mapping[str, float]) -> Iterator[tuple[Template, Template]]:
    """What is left of a fold where the other side is its neutral element, and that side."""
    sides = _pair(node)
    if not sides:
        return
    function = FUNCTIONS[node["function"]]
    for kept, gone in (sides, sides[::-1]) if function.commutes else (sides,):
        if function.neutral is not None and _is_default(gone, function.neutral, defaults):
            yield kept, gone


def _merged(form: Form, splits: dict[Template, int]) -> Form:
    """Accesses one above the other become one, as the builders and layout rules leave them."""
    top = form.template
    if isinstance(top, Node) and top.op == "access":
        child = top.children[0]
        if isinstance(child, Node) and child.op == "access":
            below = child.children[0]
            merged = top.over(below)
            splits[merged] = splits[top]
            same = _changes_nothing(merged, splits)
            template = below if same else merged
            return Form(template, form.conditions, form.absent, changes=form.changes)
    return form


def _changes_nothing(node: Node, splits: Mapping[Template, int]) -> bool:
    """Whatever the sizes."""
    if node.op == "access":
        return splits[node] == splits[node.children[0]]
    return node.op == "pad" and all(n.text == "0" for n in _widths(node))


def _may_change_nothing(node: Node) -> bool:
    """For some sizes."""
    if node.op == "pad":
        return not any(n.is_number and n.text != "0" for n in _widths(node))
    return node.op in ("broadcast", "reshape")


def _unchanged(node: Node, below: Template) -> Unchanged:
    if node.op == "pad":
        return Unchanged(node)
    while node.op == "broadcast" and isinstance(below, Node) and below.op == "access":
        below = below.children[0]  # Of the same lengths; the access may yet be merged away.
    return Unchanged(node, below)


def _widths(node: Node) -> tuple[Size, ...]:
    return node["before"], node["after"], node["interior"]


def _is_default(template: Template, value: int, defaults: Mapping[str, float]) -> bool:
    """Whether a part of the term is that value everywhere when its operands are the defaults."""
    parts = list(nodes(template))
    moved = all(isinstance(p, Operand) or p.op in _UNADDING for p in parts)
    names = operands(template)
    return moved and bool(names) and all(defaults.get(name) == value for name in names)


def _without_layout(form: Form, splits: dict[Template, int]) -> Form:
    needed = {id(each.below) for each in form.conditions if each.below is not None}
    root: list[Node] = []
    core = form.template
    while isinstance(core, Node) and core.op in UNDONE and id(core) not in needed:
        root.append(core)
        core = core.children[0]
    if isinstance(core, Operand):
        return form
    names = operands(core)
    leaves: dict[str, tuple[Node, ...]] = {}
    renewed: dict[int, Template] = {}

    def take_off(part: Template) -> Template:
        if isinstance(part, Operand):
            return part
        chain: list[Node] = []
        end: Template = part
        while isinstance(end, Node) and end.op in UNDONE and id(end) not in needed:
            chain.append(end)
            end = end.children[0]
        if isinstance(end, Operand) and names.count(end.name) == 1 and id(end) not in needed:
            leaves[end.name] = tuple(chain)
            return end
        below = tuple(map(take_off, part.children))
        if below == part.children:
            return part
        changed = part.over(*below)
        splits[changed] = splits[part]
        renewed[id(part)] = changed
        return changed

    core = take_off(core)
    conditions = tuple(
        Unchanged(each.node, renewed.get(id(each.below), each.below)) for each in form.conditions
    )
    return Form(core, conditions, form.absent, leaves, tuple(root), form.changes)
