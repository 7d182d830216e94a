"""Pass: one form of what can be written in several ways."""

from __future__ import annotations

from dataclasses import replace

from glenside.codegen.program.record import Cut
from glenside.language import builders
from glenside.language.functions import FUNCTIONS
from glenside.language.term import Term, map_terms, rebuild


def canonical(cut: Cut) -> Cut:
    """Brings every term to the form that later passes know, and notes what it was."""
    renamed = map_terms(cut.outputs, canonical_form)
    origin: dict[Term, Term] = {}
    for old, new in renamed.items():
        origin.setdefault(new, old)
    return replace(cut, outputs=tuple(renamed[term] for term in cut.outputs), origin=origin)


def canonical_form(term: Term, children: tuple[Term, ...]) -> Term:
    """The form the code generator knows: reshapes of a product moved to its operands.

    ``dot(reshape(cart_prod a b))`` that keeps the outer axes and the tuple axis is
    ``dot(cart_prod (reshape a) (reshape b))``; long folds become reductions.
    """
    term = rebuild(term, children)
    if term.op != "compute":
        return term
    name, (child,) = term["function"], term.children
    if name == "dot":
        shapes = []
        inner = child
        while inner.op == "reshape" and inner.children[0].item[:1] == inner.item[:1]:
            shapes.append(inner)
            inner = inner.children[0]
        if shapes and inner.op == "cart_prod" and shapes[0].item[:1] == (2,):
            a, b = inner.children
            item = shapes[0].item[1:]
            product = builders.cart_prod(
                builders.reshape(a, a.outer, item),
                builders.reshape(b, b.outer, item),
                inner["batch"],
            )
            dot = builders.compute("dot", product, term["accumulate"])
            return builders.reshape(dot, shapes[0].outer, ())
    reductions = [f.name for f in FUNCTIONS.values() if f.step == name]
    if reductions and child.item[0] > 8:
        split, rank = child.type.split, child.type.rank
        moved = [*range(split), *range(split + 1, rank), split]
        last = builders.access(builders.transpose(child, moved), rank - 1)
        return builders.access(builders.compute(reductions[0], last), split)
    return term
