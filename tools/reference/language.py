"""Pages on the operators and functions of the language."""

import re

from glenside.explore.access_drawing import draw_access
from glenside.language import Term
from glenside.language.functions import FUNCTIONS, Function
from glenside.language.operators import OPERATORS, REQUIRED, Moves, Operator
from tools.reference import examples
from tools.reference.text import cell, folded, markdown, source, table, term

OPERATORS_HEADER = """\
# Operators

A program is a term of these operators. A value is an access pattern, `((outer axes) (item axes))`
with a dtype: outer axes are iterated over, items are computed on. Axis numbers count over both,
outer axes first. An operator that only *moves* data keeps every bit.

Arguments come before operands, in the order below; one with a default is written `:name value`.
"""

FUNCTIONS_HEADER = """\
# Functions of compute

`(compute f x)` applies `f` to each item of `x`. Its kind alone decides the shape:

| kind | item | meaning |
| --- | --- | --- |
| reduce | any → `()` | all elements of the item become one |
| fold | `(t, s...)` → `(s...)` | `t` slices along the first item axis combined, left ones first |
| map | `s` → `s` | every element by itself |
| vector | `(n)` → `(n)` | a whole item with one axis at once |
"""


def pages() -> dict[str, str]:
    """One page of operators, one of functions, and the pictures of the first."""
    made = {"language/functions.md": _functions()}
    lines = [OPERATORS_HEADER]
    for operator in OPERATORS.values():
        shown = examples.of_operators().get(operator.name)
        lines += _operator(operator, shown)
        if shown is not None and shown.children:
            for name, drawn in _drawn(operator, shown).items():
                made[name] = drawn
    made["language/operators.md"] = "\n".join(lines)
    return made


def _operator(operator: Operator, shown: Term | None) -> list[str]:
    lines = [f"## `{operator.spelling}`", "", markdown(operator.summary), ""]
    takes = {None: "any number of operands", 0: "no operand", 1: "one operand"}
    told = [takes.get(operator.arity, f"{operator.arity} operands")]
    if operator.moves is not None:
        told.append(f"moves data: {_moves(operator.moves)}")
    elif operator.exact:
        told.append("exact")
    lines += [f"*{'; '.join(told)}*", ""]
    if operator.attributes:
        rows = [
            (
                f"`{attribute.name}`",
                attribute.kind.value,
                "required" if attribute.default is REQUIRED else f"`{attribute.default}`",
            )
            for attribute in operator.attributes
        ]
        lines += [*table(("argument", "is", "default"), rows), ""]
    if shown is not None:
        lines += [*term(shown), ""]
        types = [*dict.fromkeys(f"`{child.type}`" for child in shown.children)]
        lines += [f"{', '.join(types)} → `{shown.type}`" if types else f"`{shown.type}`", ""]
        if shown.children:
            names = [path.rpartition("/")[2] for path in _drawn(operator, shown)]
            lines += [" ".join(f"![{name.removesuffix('.svg')}]({name})" for name in names), ""]
    return lines + folded("Its meaning in NumPy", source(operator.evaluate))


def _moves(moves: Moves) -> str:
    if moves is Moves.NOTHING:
        return "every element stays where it is, axes are renumbered"
    return ", ".join(re.sub("_", " ", each.name or "").lower() for each in moves)


def _drawn(operator: Operator, shown: Term) -> dict[str, str]:
    """Pictures of the first two operands and of the result, by path."""
    terms = [*dict.fromkeys((*shown.children[:2], shown))]
    return {
        f"language/{operator.name}_{n}.svg": str(draw_access(each)) for n, each in enumerate(terms)
    }


def _functions() -> str:
    lines = [FUNCTIONS_HEADER]
    head = ("function", "takes", "gives", "what holds of it", "ONNX", "C")
    for kind in dict.fromkeys(f.kind for f in FUNCTIONS.values()):
        of_kind = [f for f in FUNCTIONS.values() if f.kind == kind]
        lines += [f"## {kind}", "", *table(head, map(_row, of_kind)), ""]
        for function in of_kind:
            lines += folded(f"{function.name} in NumPy", source(function.numpy))
    return "\n".join(lines)


def _row(function: Function) -> tuple[str, ...]:
    holds = []
    if function.commutes:
        holds.append("commutes")
    if function.neutral is not None:
        holds.append(f"neutral: {function.neutral}")
    if function.exact:
        holds.append("rounds nothing")
    if function.monotone:
        holds.append("monotone")
    if function.bounds is not None:
        holds.append(f"between {function.bounds[0]:g} and {function.bounds[1]:g}")
    if function.accumulates:
        holds.append("sums in the dtype of `:accumulate`")
    names = (function.onnx or "", function.libm or "")
    return (
        f"`{function.name}`",
        ", ".join(function.domain),
        function.result or "the same",
        ", ".join(holds),
        *(f"`{cell(name)}`" if name else "" for name in names),
    )
