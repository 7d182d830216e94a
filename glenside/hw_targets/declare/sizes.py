"""Arithmetic over size variables, written as in Python: ``T // 2``, ``tiles(K, 16)``, ``kh <= 7``.

``tiles(a, b)`` is how many tiles of b cover a. The same text is computed on integers here and on
egglog's integers by the mapping rule.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glenside.errors import TargetError

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""What a comparison means, for integers and what compares alike."""


@dataclass(frozen=True)
class Size:
    """An expression over size variables; ``names`` are those it uses, in order."""

    text: str
    names: tuple[str, ...]
    _tree: ast.expr = field(repr=False, compare=False)

    @staticmethod
    def parse(text: str) -> Size:
        """:raises TargetError: the text is no arithmetic over sizes."""
        return _size(_parse(text), text)

    @property
    def is_name(self) -> bool:
        """Whether it is one variable by itself."""
        return isinstance(self._tree, ast.Name)

    @property
    def is_number(self) -> bool:
        """Whether no variable is in it."""
        return not self.names

    def of(
        self, sizes: Mapping[str, Any], divide: Callable[[Any, Any], Any] = operator.floordiv
    ) -> Any:
        """Its value where variables have the values ``sizes``: integers, or what computes alike."""
        return _value(self._tree, sizes, divide)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Condition:
    """A comparison of two expressions."""

    text: str
    left: Size
    comparison: str
    right: Size

    @staticmethod
    def parse(text: str) -> tuple[Condition, ...]:
        """One condition for each comparison: ``1 <= kh <= 7`` has two.

        :raises TargetError: the text compares nothing.
        """
        tree = _parse(text)
        if not isinstance(tree, ast.Compare) or any(type(o) not in _COMPARISONS for o in tree.ops):
            raise TargetError(
                f"constraint {text!r} must compare sizes, as in 'T % 2 == 0' or 'K <= 1024'"
            )
        sides = [_size(each, text) for each in (tree.left, *tree.comparators)]
        pairs = zip(sides, tree.ops, sides[1:], strict=False)
        return tuple(
            Condition(text, left, _COMPARISONS[type(op)], right) for left, op, right in pairs
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The size variables it speaks of."""
        return tuple(dict.fromkeys(self.left.names + self.right.names))

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether it holds for these sizes; what cannot be divided does not."""
        try:
            return bool(HOLDS[self.comparison](self.left.of(sizes), self.right.of(sizes)))
        except ZeroDivisionError:
            return False


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise TargetError(f"{text!r} is no expression over sizes") from None


def _size(tree: ast.expr, text: str) -> Size:
    _check(tree, text)
    found = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    names = tuple(dict.fromkeys(name for name in found if name != "tiles"))
    return Size(ast.unparse(tree).replace(" ", ""), names, tree)


# Both walk as deep as a person wrote: recursion is safe here.


def _check(tree: ast.expr, text: str) -> None:
    match tree:
        case ast.Name() | ast.Constant(value=int()):
            pass
        case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC or isinstance(op, ast.FloorDiv):
            _check(left, text)
            _check(right, text)
        case ast.Call(func=ast.Name(id="tiles"), args=[a, b], keywords=[]):
            _check(a, text)
            _check(b, text)
        case _:
            raise TargetError(
                f"{ast.unparse(tree)!r} in {text!r} is no size: sizes are made of variables, "
                "integers, + - * // % and tiles(length, tile)"
            )


def _value(tree: ast.expr, sizes: Mapping[str, Any], divide: Callable[[Any, Any], Any]) -> Any:
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left, op, right):
            a, b = _value(left, sizes, divide), _value(right, sizes, divide)
            return divide(a, b) if isinstance(op, ast.FloorDiv) else _ARITHMETIC[type(op)](a, b)
        case ast.Call(args=[length, tile]):
            a, b = _value(length, sizes, divide), _value(tile, sizes, divide)
            return divide(a + b - 1, b)
    raise AssertionError(ast.dump(tree))
