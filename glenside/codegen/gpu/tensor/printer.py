"""TIR expressions of floating point in the kernels of matrix units.

Half floats, bfloat16 too, are held in ``float`` variables and rounded where TIR rounds to them, so
the text needs no arithmetic on halves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.text.dialects import CUDA
from glenside.codegen.text.expressions import ATOM, UNARY, Expressions, Said, Steps
from glenside.errors import TargetError
from glenside.language.shape import FLOATS

_FLOATS = replace(
    CUDA,
    types={
        "float16": "float",
        "float32": "float",
        "int32": "int",
        "uint8": "unsigned char",  # As bools lie in memory.
        "bool": "bool",
    },
    infinity="INFINITY",
    nan="NAN",
    bits_of={("float32", "int32"): "bits({value})"},
)
_TAKEN = {"row", "place", "values", "k", "bits", "number", "rounded"}
"""What the kernels around call something else."""


class Unprintable(Exception):
    """The expression has a part that has no form here; other kernels compute it."""


@dataclass(frozen=True)
class Value:
    """The text of an expression, and the statements that have to stand before it."""

    before: tuple[str, ...]
    text: str
    mentions: frozenset[str]
    """The variables that occur in it."""


def print_expression(
    expression: Any,
    names: Mapping[Any, str],
    buffer: Callable[[Any], str],
    fetched: Callable[[Any], str | None] = lambda load: None,
    rounds: bool = True,
) -> Value:
    """The text.

    :param names: what variables are called.
    :param buffer: what the pointer to a buffer is called.
    :param fetched: what the element that a load reads is called, where that was read before.
    :param rounds: False leaves what is computed in halves as it is, in float32: for values that are
        never stored.
    :raises Unprintable: a part has no form here.
    """
    printer = _Floats(names, buffer, fetched, rounds)
    try:
        text = printer.text(expression)
    except TargetError as problem:
        raise Unprintable(str(problem)) from problem
    return Value(tuple(printer.lines), text, frozenset(printer.mentions))


def print_position(
    expression: Any, names: Mapping[Any, str], buffer: Callable[[Any], str]
) -> Value:
    """Likewise of a position, which needs no statements before it."""
    made = print_expression(expression, names, buffer)
    if made.before:
        raise Unprintable("a position that binds names")
    return made


def linear(expression: Any) -> dict[str, int] | None:
    """The factors of an integer expression's variables by name, its constant at ``""``; None where
    it is no sum of variables times numbers."""
    from tvm import tirx

    total: dict[str, int] = {"": 0}
    stack = [(expression, 1)]
    while stack:
        e, factor = stack.pop()
        kind = type(e).__name__
        if isinstance(e, tirx.IntImm):
            total[""] += factor * int(e.value)
        elif isinstance(e, tirx.Var):
            total[str(e.name)] = total.get(str(e.name), 0) + factor
        elif kind in ("Add", "Sub"):
            stack += [(e.a, factor), (e.b, factor if kind == "Add" else -factor)]
        elif kind == "Mul" and isinstance(e.b, tirx.IntImm):
            stack.append((e.a, factor * int(e.b.value)))
        elif kind == "Mul" and isinstance(e.a, tirx.IntImm):
            stack.append((e.b, factor * int(e.a.value)))
        else:
            return None
    return total


class _Floats(Expressions):
    def __init__(
        self,
        names: Mapping[Any, str],
        buffer: Callable[[Any], str],
        fetched: Callable[[Any], str | None],
        rounds: bool,
    ) -> None:
        super().__init__(_FLOATS)
        self.names = {hash(variable): name for variable, name in names.items()}
        self.taken = {*names.values(), *_TAKEN}
        self.buffer, self.fetched = buffer, fetched
        self.rounds = rounds
        self.mentions: set[str] = set()

    def _leaf(self, e: Any) -> Said | None:
        said = super()._leaf(e)
        if said is not None:
            self.mentions.add(said[0])
        return said

    def pointed(self, buffer: Any) -> str:
        return self.buffer(buffer)

    def _float(self, value: float, dtype: str) -> Said:
        return super()._float(value, "float32")

    def _infix(self, e: Any, lane: int | None) -> Steps:
        if type(e).__name__ in ("FloorDiv", "FloorMod") and str(e.ty) in FLOATS:
            raise Unprintable(type(e).__name__)
        said = yield from super()._infix(e, lane)
        return self._rounded(said) if str(e.ty) == "float16" else said

    def _rounded(self, said: Said) -> Said:
        return (f"rounded({said[0]})", ATOM) if self.rounds else said

    def _cast(self, inner: Said, source: str, target: str) -> Said:
        if target == "float16" and source != "float16":
            return self._rounded(inner)
        if (source, target) == ("float16", "float32"):
            return inner
        self.type_of(source)
        return super()._cast(inner, source, target)

    def _load(self, e: Any, lane: int | None) -> Steps:
        if str(e.ty) == "uint8":
            at = yield e.indices[0], None
            return self.element_at(e.source, at), ATOM
        if str(e.ty) not in ("float16", "float32"):
            raise Unprintable(f"elements of {e.ty}")
        return (yield from self._number(e))

    def _number(self, e: Any) -> Steps:
        # What stands in a branch may not be read before.
        known = None if self.branches else self.fetched(e)
        if known is None:
            at = yield e.indices[0], None
            known = self.element_at(e.source, at)
        return f"number({known})", ATOM

    def _let(self, e: Any, lane: int | None) -> Steps:
        exact = scalars.unrounded(e)
        if exact is None:
            return (yield from super()._let(e, lane))
        inner = yield exact, None
        return (f"rounded_bfloat({inner[0]})", ATOM) if self.rounds else inner

    def _call(self, e: Any, lane: int | None) -> Steps:
        loaded = scalars.unloaded(e)
        if loaded is not None:
            return (yield from self._number(loaded))
        return (yield from super()._call(e, lane))

    def _bits(self, inner: Said, source: str, target: str) -> Said:
        form = self.dialect.bits_of.get((source, target))
        if form is None:
            raise Unprintable(f"bits of {source} as {target}")
        return form.format(value=inner[0]), UNARY
