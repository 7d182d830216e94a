"""Expressions of ONNX operators, as functions declare them: ``Log(Add(Exp(x), 1))``."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from glenside.errors import GlensideError
from glenside.exporters.onnx.graph import Graph, Value
from glenside.language.shape import HALVES

_TESTS = frozenset(["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf"])
"""Operators whose results are bool, whatever they are given."""


@dataclass(frozen=True)
class Expression:
    """``text`` is calls of ONNX operators, by name, over names of operands and numbers; the name
    alone is the operator applied to the operands. ``result``: the dtype of the whole where it is
    not that of the operands."""

    text: str
    result: str | None = None

    def apply(self, g: Graph, **operands: Value) -> Value:
        """Its nodes; what occurs again in the text is computed once.

        :raises GlensideError: the text is something else.
        """
        text = self.text
        if text.isidentifier():
            text = f"{text}({', '.join(operands)})"
            return _Writer(g, self.text, operands).value(_parsed(text))
        # What is rounded to a half in between would lose what the expression is to keep.
        dtype = next(iter(operands.values())).dtype
        work = "float32" if dtype in HALVES else dtype
        wide = {name: g.cast(value, work) for name, value in operands.items()}
        done = _Writer(g, self.text, wide).value(_parsed(text))
        return done if self.result else g.cast(done, dtype)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as problem:
        raise _malformed(text) from problem


def _malformed(text: str) -> GlensideError:
    return GlensideError(
        f"{text} is no expression of ONNX operators: it takes calls such as Log(Add(x, 1)) over "
        "x, or a and b, and numbers"
    )


class _Writer:
    def __init__(self, graph: Graph, text: str, operands: dict[str, Value]) -> None:
        self.graph, self.text = graph, text
        self.done: dict[str, Value] = dict(operands)

    def value(self, tree: ast.expr) -> Value:
        """The value of a call or a name."""
        key = ast.unparse(tree)
        if key not in self.done:
            if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
                raise _malformed(self.text)
            self.done[key] = self._applied(tree.func.id, [self._operand(a) for a in tree.args])
        return self.done[key]

    def _operand(self, tree: ast.expr) -> Value | float:
        try:
            number = ast.literal_eval(tree)
        except ValueError:
            return self.value(tree)
        if not isinstance(number, int | float):
            raise _malformed(self.text)
        return number

    def _applied(self, operator: str, operands: list[Value | float]) -> Value:
        if operator == "Where":
            condition, a, b = operands
            if not isinstance(condition, Value):
                raise _malformed(self.text)
            return self.graph.where(condition, a, b)
        return self.graph.apply(operator, *operands, result="bool" if operator in _TESTS else None)
