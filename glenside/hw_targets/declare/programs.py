"""Random programs on which a unit's rewrite is checked: its term at random sizes, sometimes with
one thing changed, so that the conditions are tried as well. Needs Hypothesis."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.hw_targets.declare.forms import Form
from glenside.hw_targets.declare.samples import samples
from glenside.hw_targets.declare.sizes import Condition, Size
from glenside.hw_targets.declare.template import Node, Operand, OperandType, Template, build
from glenside.language import Term, builders
from glenside.language.functions import FUNCTIONS
from glenside.language.term import map_terms, rebuild

Draw = Callable[[st.SearchStrategy[Any]], Any]


def programs(
    forms: Sequence[Form],
    operands: Mapping[str, OperandType],
    names: Sequence[str],
    conditions: Sequence[Condition],
    dtypes: Sequence[str],
) -> st.SearchStrategy[Term]:
    """One form of the term, over operands that are tensors."""

    @st.composite
    def program(draw: Draw) -> Term:
        form = draw(st.integers(0, len(forms) - 1).map(forms.__getitem__))
        dtype = draw(st.sampled_from(list(dtypes)))
        sizes = _sizes(draw, form, names, conditions)
        leaves = {}
        for name, declared in operands.items():
            axes, split = form.leaf(name, declared)
            leaf = builders.tensor(name, [axis.of(sizes) for axis in axes], declared.dtype or dtype)
            leaves[name] = builders.access(leaf, split)
        core = form.template if draw(st.integers(0, 3)) else _changed(draw, form.template)
        try:
            term = build(core, sizes, leaves)
            for each in reversed(form.root):
                term = build(each.over(Operand("whole")), sizes, {"whole": term})
        except GlensideError:
            assume(False)
        return _shared(draw, term)

    return program()


def _sizes(
    draw: Draw, form: Form, names: Sequence[str], conditions: Sequence[Condition]
) -> Mapping[str, int]:
    """Sizes that mostly satisfy the declaration and this form of the term."""
    pads = [condition.node for condition in form.conditions if condition.below is None]
    fixed = {size.text: 0 for node in pads for size in _widths(node) if size.is_name}
    # Repeated lengths, and among them 1, are where one axis may be taken for another.
    length = st.sampled_from((2, 1, 2, 3, 4, 5))
    sizes = {name: fixed[name] if name in fixed else draw(length) for name in names}
    if all(c.holds(sizes) for c in conditions) or draw(st.booleans()):
        return sizes
    others = list(itertools.islice(samples(names, conditions, fixed), 8))
    assume(others)
    return draw(st.sampled_from(others))


def _widths(node: Node) -> tuple[Size, ...]:
    return node["before"], node["after"], node["interior"]


def _changed(draw: Draw, template: Template) -> Template:
    """One integer of the template changed, or two of a list exchanged, or in what it adds up."""
    if isinstance(template, Operand):
        return template
    places = [i for i, v in enumerate(template.values) if isinstance(v, Size | tuple) and v]
    if template.op == "compute" and FUNCTIONS[template["function"]].accumulates:
        places.append(template.operator.positions["accumulate"])
    where = draw(st.integers(0, len(places) + len(template.children) - 1))
    if where >= len(places):
        at = where - len(places)
        children = list(template.children)
        children[at] = _changed(draw, children[at])
        return template.over(*children)
    values = list(template.values)
    old = values[places[where]]
    if isinstance(old, tuple):
        entries = list(old)
        i, j = draw(st.integers(0, len(old) - 1)), draw(st.integers(0, len(old) - 1))
        entries[i], entries[j] = entries[j], entries[i]
        if i == j and template.op != "transpose":
            entries[i] = Size.parse(f"({old[i]}) + 1")
        values[places[where]] = tuple(entries)
    elif template.op == "compute":
        values[places[where]] = draw(st.sampled_from(("int64", "float32")))
    else:
        values[places[where]] = Size.parse(f"({old}) + {draw(st.sampled_from((1, 2)))}")
    return Node(template.operator, tuple(values), template.children)


def _shared(draw: Draw, term: Term) -> Term:
    """Sometimes one tensor in place of two of the same type."""
    if draw(st.integers(0, 3)):
        return term
    first: dict[Any, Term] = {}

    def change(old: Term, children: tuple[Term, ...]) -> Term:
        return first.setdefault(old.type, old) if old.op == "tensor" else rebuild(old, children)

    return map_terms([term], change)[term]
