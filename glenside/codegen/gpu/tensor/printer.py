"""TIR expressions of floating point as C++ expressions.

Half floats, bfloat16 too, are held in ``float`` variables and rounded where TIR rounds to them, so
the text needs no arithmetic on halves. A ``Let`` becomes a lambda that is called at once: what
stands in a branch of a condition is computed only there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from glenside.codegen import scalars
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS

_INFIX = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "FloorDiv": "/",
    "FloorMod": "%",
    "EQ": "==",
    "NE": "!=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "And": "&&",
    "Or": "||",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "LShift": "<<",
    "RShift": ">>",
}
_FUNCTIONS = {
    **{f"tirx.{f.libm}": f"{f.libm}f" for f in FUNCTIONS.values() if f.libm and f.kind == "map"},
    "tirx.nearbyint": "nearbyintf",
}
"""What TIR has operators for; all else of C's library is called there by its name in C."""
_TYPES = {"float16": "float", "float32": "float", "int32": "int", "bool": "bool"}


class Unprintable(Exception):
    """The expression has a part that has no form here; other kernels compute it."""


def print_expression(
    expression: Any,
    names: Mapping[Any, str],
    buffer: Callable[[Any], str],
    fetched: Callable[[Any], str | None] = lambda load: None,
) -> str:
    """The text.

    :param names: what variables are called.
    :param buffer: what the pointer to a buffer is called.
    :param fetched: what the element that a load reads is called, where that was read before.
    :raises Unprintable: a part has no form here.
    """
    # Generators on a stack of one's own, since expressions may be deep.
    printer = _Printer(dict(names), buffer, fetched)
    stack: list[Generator[Any, str, str]] = [printer.text(expression)]
    sent: str | None = None
    while True:
        try:
            child = stack[-1].send(sent)  # type: ignore[arg-type]
        except StopIteration as done:
            stack.pop()
            if not stack:
                return str(done.value)
            sent = done.value
        else:
            stack.append(printer.text(child))
            sent = None


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


class _Printer:
    def __init__(
        self,
        names: dict[Any, str],
        buffer: Callable[[Any], str],
        fetched: Callable[[Any], str | None],
    ) -> None:
        self.names, self.buffer, self.fetched = names, buffer, fetched
        self.branches = 0  # What stands in one may not be read before.

    def text(self, e: Any) -> Generator[Any, str, str]:
        from tvm import tirx

        kind = type(e).__name__
        if kind in _INFIX:
            if kind in ("FloorDiv", "FloorMod") and str(e.ty) in FLOATS:
                raise Unprintable(kind)
            left = yield e.a
            right = yield e.b
            return self._rounded(f"({left} {_INFIX[kind]} {right})", e)
        if kind in ("Min", "Max"):
            if str(e.ty) not in ("int32",):
                raise Unprintable(kind)
            left = yield e.a
            right = yield e.b
            return f"{kind.lower()}({left}, {right})"
        if isinstance(e, tirx.Var):
            for name, text in self.names.items():
                if name.same_as(e):
                    return text
            raise Unprintable(str(e))
        if isinstance(e, tirx.IntImm):
            return str(bool(e.value)).lower() if str(e.ty) == "bool" else str(int(e.value))
        if isinstance(e, tirx.FloatImm):
            return self._number(float(e.value))
        if kind == "Not":
            inner = yield e.a
            return f"(!{inner})"
        if kind == "Select":
            parts = []
            for part in (e.condition, e.true_value, e.false_value):
                text = yield part
                parts.append(text)
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        if kind == "Cast":
            inner = yield e.value
            source, target = str(e.value.ty), str(e.ty)
            self._type(source)
            if target == "float16":
                return f"rounded({inner})" if source != "float16" else inner
            if target == "float32" and source == "float16":
                return inner
            return f"({self._type(target)})({inner})"
        if kind == "TensorLoad":
            if str(e.ty) not in ("float16", "float32"):
                raise Unprintable(f"elements of {e.ty}")
            text = yield from self._load(e)
            return text
        if kind == "Let" and (exact := scalars.unrounded(e)) is not None:
            inner = yield exact
            return f"rounded_bfloat({inner})"
        if kind == "Let":
            declared = []
            while type(e).__name__ == "Let":
                value = yield e.value
                name = f"t{len(self.names)}"
                self.names[e.var] = name
                declared.append(f"const {self._type(str(e.value.ty))} {name} = {value};")
                e = e.body
            body = yield e
            return f"[&] {{ {' '.join(declared)} return {body}; }}()"
        if kind == "Call":
            text = yield from self._call(e)
            return text
        raise Unprintable(kind)

    def _load(self, e: Any) -> Generator[Any, str, str]:
        known = None if self.branches else self.fetched(e)
        if known is not None:
            return f"number({known})"
        at = yield e.indices[0]
        return f"number({self.buffer(e.source)}[{at}])"

    def _call(self, e: Any) -> Generator[Any, str, str]:
        name = str(getattr(e.op, "name", e.op))
        parts = list(e.args)
        if (held := scalars.unloaded(e)) is not None:
            text = yield from self._load(held)
            return text
        if name.endswith("call_pure_extern"):
            function, *parts = parts
            function = str(function.value)
            if str(e.ty) != "float32":
                raise Unprintable(function)
        elif name in _FUNCTIONS and str(e.ty) == "float32":
            function = _FUNCTIONS[name]
        else:
            function = ""
        texts = []
        for number, part in enumerate(parts):
            branch = name.endswith("if_then_else") and number > 0
            self.branches += branch
            text = yield part
            self.branches -= branch
            texts.append(text)
        if function:
            return f"{function}({', '.join(texts)})"
        if name.endswith("if_then_else"):
            return f"({texts[0]} ? {texts[1]} : {texts[2]})"
        if name.endswith("reinterpret"):
            source, target = str(parts[0].ty), str(e.ty)
            if (source, target) == ("float32", "int32"):
                return f"bits({texts[0]})"
        raise Unprintable(name)

    def _rounded(self, text: str, e: Any) -> str:
        return f"rounded({text})" if str(e.ty) == "float16" else text

    def _type(self, dtype: str) -> str:
        found = _TYPES.get(dtype)
        if found is None:
            raise Unprintable(dtype)
        return found

    def _number(self, value: float) -> str:
        if value != value or value in (float("inf"), float("-inf")):
            return {"nan": "NAN", "inf": "INFINITY", "-inf": "-INFINITY"}[str(value)]
        return f"{value!r}f"
