"""How near an e-class comes to what a unit takes, and what is missing.

The forms of a unit's term are matched against the explored e-graph with their conditions dropped:
what differs is noted instead, and the match with the least of it is the nearest.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glenside.hw_targets.accelerator import Accelerator
from glenside.hw_targets.declare.forms import Form
from glenside.hw_targets.declare.sizes import Condition, Size
from glenside.hw_targets.declare.template import Node, Operand, OperandType, Template, parse
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import CALLS, Kind, Moves, transformers
from glenside.language.shape import AccessType
from glenside.language.units import find_unit
from glenside.rewrites import ENode, FrozenEGraph

BEAM = 4
"""Partial matches that are followed: the best ones."""

PLACES = 12
"""Classes that say the same in another layout, at most, in which the unit's term is looked for."""

STRUCTURE = 8
"""How much a part of the term weighs that is not there, beside its size; other misfits less."""

LAYOUT = transformers(Moves.REORDERS | Moves.DROPS)
"""Layout changes between a layer and the same in another layout; ``slice`` takes padding off."""

TOLD = 2
"""Differences that a reason names."""

ANCHORS = frozenset({"reduce", "vector"})
"""Kinds of functions by which a unit is considered: those that do its work."""


Anchored = tuple[Form, tuple[tuple[Node, int], ...], Node]


@dataclass(frozen=True)
class Wanted:
    """What a unit takes.

    ``forms``: each with the nodes, and which child of them, from its root down to the first
    function that does the work, the *anchor*, and that. A layer that computes the function of an
    anchor is a candidate. ``inner``: as many with a vector function further down (the softmax of
    attention) in place of the first: a candidate where all of the form that stands above is there.
    """

    unit: str
    operands: Mapping[str, OperandType]
    conditions: Sequence[Condition]
    dtypes: Sequence[str] | None
    forms: Sequence[Anchored]
    inner: Sequence[Anchored] = ()

    @property
    def functions(self) -> frozenset[str]:
        """What the anchors compute."""
        return frozenset(anchor["function"] for _, _, anchor in (*self.forms, *self.inner))


def wanted_by(unit: str, declared: object) -> list[Wanted]:
    """From a unit's declaration, or of one that multiplies matrices and batches of them; nothing
    of units that are declared otherwise."""
    if isinstance(declared, Accelerator):
        checked = declared._checked
        terms = [(checked.operands, declared._forms)]
        if declared._batched is not None:
            terms.append((declared._batched.operands, declared._forms_of_batch))
        return [
            Wanted(unit, operands, checked.conditions, declared.dtypes, *_anchored(forms))
            for operands, forms in terms
        ]
    if declared is not None or find_unit(unit).array is None:
        return []
    result = []
    for batch in ("", "B "):
        operands = {
            name: OperandType.parse(f"(({batch}{rows}) (K))")
            for name, rows in (("x", "M"), ("w", "N"))
        }
        product = f"(cart-prod {':batch 1' if batch else ''} ?x ?w)"
        form = Form(parse(f"(compute dot {product})"))
        result.append(Wanted(unit, operands, (), None, *_anchored([form])))
    return result


def _anchored(among: Sequence[Form]) -> tuple[list[Anchored], list[Anchored]]:
    """The forms with their first anchor, and with each vector function below it."""
    first: list[Anchored] = []
    inner: list[Anchored] = []
    for form in among:
        anchors = [
            (form, path, node)
            for path, node in _descend(form.template, ())
            if node.op == "compute" and FUNCTIONS[node["function"]].kind in ANCHORS
        ]
        first += anchors[:1]
        inner += [a for a in anchors[1:] if FUNCTIONS[a[2]["function"]].kind == "vector"]
    return first, inner


def _descend(
    template: Template, path: tuple[tuple[Node, int], ...]
) -> Iterator[tuple[tuple[tuple[Node, int], ...], Node]]:
    if isinstance(template, Node):
        yield path, template
        for i, child in enumerate(template.children):
            yield from _descend(child, (*path, (template, i)))


@dataclass(frozen=True)
class Misfit:
    """What is missing, and how much that weighs."""

    text: str
    weight: int


@dataclass(frozen=True)
class _Match:
    """A match so far: what stands for operands and parts, and what does not fit."""

    operands: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[int, int] = field(default_factory=dict)
    """Classes of parts of the template, by their identity."""
    sizes: tuple[tuple[str, Size, int], ...] = ()
    """Expressions, what they must be, and where."""
    misfits: tuple[Misfit, ...] = ()

    @property
    def weight(self) -> int:
        return sum(each.weight for each in self.misfits)

    def but(self, text: str, weight: int) -> _Match:
        return dataclasses.replace(self, misfits=(*self.misfits, Misfit(text, weight)))

    def of_structure(self) -> _Match:
        """With the parts that are missing alone, where some are: rules bring the rest to its form
        (several batch axes, say) once they see the whole."""
        missing = tuple(each for each in self.misfits if each.weight >= STRUCTURE)
        return dataclasses.replace(self, misfits=missing or self.misfits)


class Nearest:
    """Looks units' terms up in one e-graph."""

    def __init__(self, egraph: FrozenEGraph) -> None:
        self.egraph = egraph
        self._users: dict[int, list[tuple[int, ENode]]] = {}
        for number, nodes in enumerate(egraph.classes):
            for node in nodes:
                for child in dict.fromkeys(node.children):
                    self._users.setdefault(child, []).append((number, node))

    def misfits(
        self, at: int, function: str, units: Sequence[Wanted]
    ) -> tuple[str, list[str]] | None:
        """The unit that comes nearest to the computation of ``function`` in a class, and what
        differs, weightiest first; nothing if it fits. None where no unit does that work, and no
        more of what one does is there."""
        best: tuple[int, str, tuple[Misfit, ...]] | None = None
        places = list(self._places(at, function))
        for wanted in units:
            for entry in (*wanted.forms, *wanted.inner):
                if entry[2]["function"] != function:
                    continue
                for place in places:
                    found = self._form(wanted, *entry, place, whole=entry in wanted.inner)
                    if entry in wanted.inner and found is not None:
                        found = found.of_structure()
                    if found is not None and (best is None or found.weight < best[0]):
                        best = found.weight, wanted.unit, found.misfits
        if best is None:
            return None
        told = sorted(best[2], key=lambda each: -each.weight)
        return best[1], list(dict.fromkeys(each.text for each in told))[:TOLD]

    def _places(self, at: int, function: str) -> Iterator[int]:
        """The classes below ``at`` that compute ``function``, with layout changes in between."""
        queue, seen = [at], {at}
        for number in queue:
            nodes = self.egraph.classes[number]
            if any(n.op == "compute" and n.values[0] == function for n in nodes):
                yield number
            for node in nodes:
                if node.op in LAYOUT:
                    (child,) = node.children
                    if child not in seen and len(seen) < PLACES:
                        seen.add(child)
                        queue.append(child)

    def _form(
        self,
        wanted: Wanted,
        form: Form,
        path: tuple[tuple[Node, int], ...],
        anchor: Node,
        place: int,
        *,
        whole: bool,
    ) -> _Match | None:
        """The best match of a form whose anchor is computed in the class ``place``; None where
        something of it is missing above, if the ``whole`` must be there."""
        tops = [place]
        missing: Node | None = None
        rest = list(path)
        while rest and missing is None:
            node, child = rest[-1]
            above = [
                number
                for top in tops
                for number, user in self._users.get(top, ())
                if _same_kind(node, user) and user.children[child] == top
            ]
            if above:
                tops = list(dict.fromkeys(above))[:BEAM]
                rest.pop()
            else:
                missing = node
        if missing is not None and whole:
            return None
        template: Template = form.template
        if missing is not None:
            template = path[len(rest)][0] if len(rest) < len(path) else anchor
        tried = [
            self._checked(match, wanted, form)
            for top in tops
            for match in self._match(template, top, _Match())
        ]
        best = min(tried, key=lambda match: match.weight)
        if missing is not None:
            # All of the term that stands above is missing, and layout changes are no news.
            weight = STRUCTURE + _size(form.template) - _size(template)
            what = next((n["function"] for n, _ in reversed(rest) if n.op == "compute"), None)
            what = what or missing.operator.spelling
            last = next((n["function"] for n, _ in path[len(rest) :] if n.op == "compute"), None)
            best = best.but(f"no {what} follows the {last or anchor['function']}", weight)
        return best

    # --- matching, as deep as a person wrote ------------------------------------------------------

    def _match(self, template: Template, at: int, match: _Match) -> list[_Match]:
        """The best ways to match a template in a class."""
        if isinstance(template, Operand):
            known = match.operands.get(template.name, at)
            if known != at:
                return [match.but(f"two different operands stand for {template.name}", 4)]
            return [dataclasses.replace(match, operands={**match.operands, template.name: at})]
        match = dataclasses.replace(match, parts={**match.parts, id(template): at})
        found: list[_Match] = []
        for node in self.egraph.classes[at]:
            if _same_kind(template, node):
                begun = [self._attributes(template, node, match)]
                for child, below in zip(template.children, node.children, strict=True):
                    begun = [each for m in begun for each in self._match(child, below, m)]
                    begun = sorted(begun, key=lambda m: m.weight)[:BEAM]
                found += begun
        if not found:
            return [self._differs(template, at, match)]
        return sorted(found, key=lambda m: m.weight)[:BEAM]

    def _differs(self, template: Node, at: int, match: _Match) -> _Match:
        """Notes what a class has in place of a part of the term."""
        weight, given = STRUCTURE + _size(template), self.egraph.types[at]
        if (
            template.op == "windows"
            and len(template["shape"]) == 1
            and template["shape"][0].is_number
        ):
            (length,), (stride,) = (
                _values(template[name], {}) or (1,) for name in ("shape", "stride")
            )
            count = math.prod(given.item)
            if count < length or (count - length) % stride:
                text = f"windows of {length} do not cover an item of {count} elements"
                return match.but(text, weight - 1)
        there = dict.fromkeys(
            node.values[0] if node.op == "compute" else node.op.replace("_", "-")
            for node in self.egraph.classes[at]
            if node.op not in CALLS | {"flatten", "reshape"}
        )
        wanted = template["function"] if template.op == "compute" else template.operator.spelling
        has = "/".join(there) or "reshape"
        return match.but(f"it takes {wanted} where the layer has {has} {given}", weight)

    def _attributes(self, template: Node, node: ENode, match: _Match) -> _Match:
        what = template.operator.spelling
        for attribute, value, given in zip(
            template.operator.attributes, template.values, node.values, strict=True
        ):
            where = f"{what}: {attribute.name}"
            if template.op == "cart_prod":
                (wanted,) = _values((value,), {}) or (given,)
                if wanted != given:
                    text = f"it takes products with {wanted} batch axes, the layer has {given}"
                    match = match.but(text, 4)
            elif attribute.kind is Kind.INT:
                match = _equal(match, where, (value,), (given,))
            elif attribute.kind is Kind.INTS:
                # The dilation of windows is left out where it is one.
                given = (1,) * len(node.values[0]) if given is None else given
                value = (Size.parse("1"),) * len(given) if value is None else value
                match = _equal(match, where, value, given)
            elif attribute.name == "accumulate":
                if FUNCTIONS[template["function"]].accumulates:
                    own = value or self.egraph.types[node.children[0]].dtype
                    if given not in (own, None):
                        match = match.but(f"sums are formed in {own}, not in {given}", 1)
            elif value != given and attribute.kind is not Kind.NUMBER:
                match = match.but(f"{where} must be {value}, is {given}", 2)
        return match

    # --- conditions -------------------------------------------------------------------------------

    def _checked(self, match: _Match, wanted: Wanted, form: Form) -> _Match:
        """With what the operands' types and the conditions do not allow."""
        dtypes: dict[str, None] = {}
        others: dict[tuple[str, str], list[str]] = {}
        for name, declared in wanted.operands.items():
            if name in match.operands:
                given = self.egraph.types[match.operands[name]]
                match = self._operand(match, form, name, declared, given)
                if declared.dtype is None:
                    dtypes[given.dtype] = None
                elif declared.dtype != given.dtype:
                    others.setdefault((given.dtype, declared.dtype), []).append(name)
        for (is_, must_be), names in others.items():
            match = match.but(f"dtype {is_} of {', '.join(names)} is not {must_be}", 1)
        if wanted.dtypes is not None:
            for dtype in dtypes:
                if dtype not in wanted.dtypes:
                    among = ", ".join(wanted.dtypes)
                    match = match.but(f"dtype {dtype} is not among {among}", 1)
        elif len(dtypes) > 1:
            match = match.but(f"operands are of the dtypes {' and '.join(dtypes)}", 1)
        sizes: dict[str, int] = {}
        match = _solve(match, sizes)
        for unchanged in form.conditions:
            node = unchanged.node
            if unchanged.below is None:
                widths = tuple(node[name] for name in ("before", "after", "interior"))
                for size in widths:
                    if size.is_name:
                        sizes.setdefault(size.text, 0)
            elif id(unchanged.below) in match.parts:
                given = self.egraph.types[match.parts[id(unchanged.below)]]
                lengths = node["shape"] if node.op == "broadcast" else node["outer"] + node["item"]
                if _values(lengths, sizes) not in (given.shape, None):
                    text = f"it takes a {node.operator.spelling} where the layer has {given}"
                    match = match.but(text, 3)
        for condition in wanted.conditions:
            known = {name: sizes[name] for name in condition.names if name in sizes}
            if len(known) == len(condition.names) and not condition.holds(known):
                which = ", ".join(f"{name} = {value}" for name, value in known.items())
                match = match.but(f"{condition.text} fails for {which}", 1)
        return match

    def _operand(
        self, match: _Match, form: Form, name: str, declared: OperandType, given: AccessType
    ) -> _Match:
        axes, split = form.leaf(name, declared)
        if (split, len(axes)) != (given.split, len(given.shape)):
            outer, item = (" ".join(map(str, part)) for part in (axes[:split], axes[split:]))
            return match.but(f"{name} must be (({outer}) ({item})), is {given}", 2)
        more = ((f"{name}", axis, length) for axis, length in zip(axes, given.shape, strict=True))
        return dataclasses.replace(match, sizes=(*match.sizes, *more))


def _same_kind(template: Node, node: ENode) -> bool:
    """The same operator, and function if it computes."""
    return (
        node.op == template.op
        and len(node.children) == len(template.children)
        and (node.op != "compute" or node.values[0] == template["function"])
    )


def _size(template: Template) -> int:
    """Operators in a template."""
    below = template.children if isinstance(template, Node) else ()
    return isinstance(template, Node) + sum(map(_size, below))


def _equal(match: _Match, where: str, wanted: Sequence[Size], given: Sequence[int]) -> _Match:
    numbers = all(size.is_number for size in wanted)
    if len(wanted) != len(given) or (numbers and _values(wanted, {}) != tuple(given)):
        return match.but(f"{where} must be {_row(wanted)}, is {_row(given)}", 2)
    if numbers:
        return match
    more = ((where, size, value) for size, value in zip(wanted, given, strict=True))
    return dataclasses.replace(match, sizes=(*match.sizes, *more))


def _solve(match: _Match, sizes: dict[str, int]) -> _Match:
    """Finds out the sizes, and what contradicts itself."""
    for where, size, value in match.sizes:
        if size.is_name and sizes.setdefault(size.text, value) != value:
            text = f"{size.text} is {sizes[size.text]} but {value} in {where}"
            match = match.but(text, 1)
    for where, size, value in match.sizes:
        if not size.is_name and set(size.names) <= sizes.keys():
            (wanted,) = _values((size,), sizes) or (value,)
            if wanted != value:
                text = f"{where}: {size.text} must be {wanted}, is {value}"
                match = match.but(text, 1)
    return match


def _values(sizes: Sequence[Size], known: Mapping[str, int]) -> tuple[int, ...] | None:
    """What the expressions are; None where that is not known."""
    try:
        return tuple(int(size.of(known)) for size in sizes)
    except (KeyError, ZeroDivisionError):
        return None


def _row(entries: Sequence[Any]) -> str:
    return str(entries[0]) if len(entries) == 1 else f"({' '.join(map(str, entries))})"
