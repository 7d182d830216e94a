"""Lowered TIR expressions in a :class:`~glenside.codegen.text.dialects.Dialect`.

Vectors are computed lane by lane: what is a vector is loaded, stored and named as one, and each
language needs no more of them than a type, the making of one and its lanes. What an expression
binds (``Let``, vectors) becomes statements before the one it stands in; those of an operand that
is computed only under a condition stand in a branch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from glenside.codegen.text.dialects import INSIDE, OUTSIDE, Dialect
from glenside.errors import TargetError

ATOM, UNARY, TIMES, PLUS, SHIFT, COMPARE, BITS, AND, OR, CHOICE = range(9, -1, -1)
"""How tightly a text holds together; a looser operand stands in parentheses. Bits and shifts always
do: how C ranks them is not what one expects."""

Said = tuple[str, int]
"""A text and how tightly it holds together."""
Steps = Generator[tuple[Any, int | None], Said, Said]
"""Yields operands with the lane that is wanted; is sent their texts; returns its own."""

_INFIX = {
    "Add": ("+", PLUS, PLUS, TIMES),
    "Sub": ("-", PLUS, PLUS, TIMES),
    "Mul": ("*", TIMES, TIMES, UNARY),
    "Div": ("/", TIMES, TIMES, UNARY),
    "Mod": ("%", TIMES, TIMES, UNARY),
    "FloorDiv": ("/", TIMES, TIMES, UNARY),
    "FloorMod": ("%", TIMES, TIMES, UNARY),
    "LShift": ("<<", SHIFT, UNARY, UNARY),
    "RShift": (">>", SHIFT, UNARY, UNARY),
    "BitwiseAnd": ("&", BITS, UNARY, UNARY),
    "BitwiseOr": ("|", BITS, UNARY, UNARY),
    "BitwiseXor": ("^", BITS, UNARY, UNARY),
    "EQ": ("==", COMPARE, PLUS, PLUS),
    "NE": ("!=", COMPARE, PLUS, PLUS),
    "LT": ("<", COMPARE, PLUS, PLUS),
    "LE": ("<=", COMPARE, PLUS, PLUS),
    "GT": (">", COMPARE, PLUS, PLUS),
    "GE": (">=", COMPARE, PLUS, PLUS),
}
"""Operators: their sign, how tightly they hold, and how tightly operands must. Positions are never
negative where a floored division is left: TVM makes others of the rest."""
_JOINED = {"And": ("&&", AND, ""), "Or": ("||", OR, "!")}
"""What may leave its second operand uncomputed: sign, tightness, and what stands before the first
one where it asks for the second."""
_NARROW = {"int8", "int16", "uint8", "uint16"}
"""What C computes in ``int``, so that results have to be brought back."""
_WRAPPING = {"Add", "Sub", "Mul", "LShift"}
_OPERATORS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "nearbyint": "rint", "fabs": "fabs"}
"""Functions that TIR has operators for, as C's library calls them; of others it says that name."""


def element(dtype: str) -> str:
    """The dtype of one lane."""
    return dtype.partition("x")[0]


def lanes(dtype: str) -> int:
    """How many numbers a value of a dtype is."""
    return int(dtype.partition("x")[2] or 1)


def bytes_of(dtype: str) -> int:
    """How many bytes a number of a dtype, or one lane of a vector, takes."""
    return int("".join(c for c in element(dtype) if c.isdigit()) or 8) // 8


def held(said: Said, least: int) -> str:
    """A text as an operand that has to hold together so tightly."""
    return said[0] if said[1] >= least else f"({said[0]})"


class Expressions:
    """Prints expressions; what has to be said before is appended to :attr:`lines`."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.lines: list[str] = []
        self.indent = ""
        self.names: dict[int, str] = {}
        """Variables and buffers, by identity."""
        self.bound: dict[int, str] = {}
        """What the present statement has bound before it, by the identity of variables or nodes."""
        self.branches = 0
        """How many conditions what is said at present is computed under."""
        self.taken: set[str] = set()
        self.calls: set[str] = set()
        """Functions of the text that were called."""
        self.kinds: set[str] = set()
        """Types that occur."""
        self.widest: dict[str, int] = {}
        """Bytes of the widest vectors that are accessed in a buffer, by its name."""
        self.loaded: list[str] = []
        """Elements that expressions read, in order."""
        self.read_by: dict[str, str] = {}
        """The element that a line reads, of lines that do no more."""
        self.accesses: list[str] = []
        """In checked text, what the numbers of accesses stand for."""

    # --- texts ------------------------------------------------------------------------------------

    def said(self, expression: Any, lane: int | None = None) -> Said:
        """The text of a number, or of one lane of a vector."""
        # Generators on a stack of one's own, since expressions may be deep.
        stack: list[Steps] = []
        sent: Said | None = self._leaf(expression)
        if sent is not None:
            return sent
        stack.append(self._steps(expression, lane))
        while True:
            try:
                # One that has not begun yet is sent None.
                child, at = stack[-1].send(sent)  # type: ignore[arg-type]
            except StopIteration as done:
                stack.pop()
                sent = done.value
                if not stack:
                    assert sent is not None
                    return sent
            else:
                sent = self._leaf(child)
                if sent is None:
                    stack.append(self._steps(child, at))

    def text(self, expression: Any, least: int = CHOICE, lane: int | None = None) -> str:
        """The same, as an operand that has to hold together so tightly."""
        return held(self.said(expression, lane), least)

    def whole(self, expression: Any) -> str:
        """The text of a value, which may be a vector."""
        dtype = str(expression.ty)
        if lanes(dtype) == 1:
            return self.text(expression)
        known = self.bound.get(hash(expression)) or self.names.get(hash(expression))
        if known is not None:
            return known
        kind = type(expression).__name__
        if kind == "TensorLoad":
            place = self._place(expression.source, expression.indices[0], lanes(dtype))
            if place is not None:
                return place
        if kind == "Call" and _operator(expression) == "if_then_else":
            self.said(expression, 0)
            return self.bound[hash(expression)]
        if kind == "Broadcast":
            value = self.text(expression.value)
            return self.vector(dtype, [value] * lanes(dtype))
        return self.vector(dtype, [self.text(expression, lane=k) for k in range(lanes(dtype))])

    def vector(self, dtype: str, values: Sequence[str]) -> str:
        """A vector of these values."""
        return self.dialect.vector_of.format(vector=self.type_of(dtype), values=", ".join(values))

    def lane(self, vector: str, lane: int) -> str:
        """One value of a vector that has a name."""
        return self.dialect.lane.format(vector=vector, lane=lane)

    def type_of(self, dtype: str) -> str:
        """The type of a dtype, which is noted down."""
        self.kinds.add(self.dialect.type_of(element(dtype)))
        if lanes(dtype) > 1:
            self.kinds.add("lanes")
        return self.dialect.type_of(dtype)

    # --- statements -------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """A line of text, indented as what is said at present."""
        self.lines.append(f"{self.indent}{line}" if line else "")

    def inside(self, body: Callable[[], None]) -> None:
        """What ``body`` says, one step further in."""
        outside, names, self.indent = self.indent, dict(self.names), f"{self.indent}  "
        body()
        self.indent, self.names = outside, names

    def named(self, wanted: str) -> str:
        """A name that is not taken yet, which it then is."""
        base = "".join(c if c.isalnum() else "_" for c in wanted) or "v"
        base = f"{base}_" if base in _RESERVED else base
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}_{number}"
        self.taken.add(name)
        return name

    def bind(self, name: str, value: Any) -> str:
        """Says that a new name, like the one given, stands for a value; returns it."""
        text = self.whole(value)
        made = self.named(name)
        self.say(f"const {self.type_of(str(value.ty))} {made} = {text};")
        return made

    # --- places -----------------------------------------------------------------------------------

    def pointed(self, buffer: Any) -> str:
        """What a buffer's first element is reached by."""
        return self.names[hash(buffer)]

    def element_at(self, buffer: Any, at: Said) -> str:
        """One element of a buffer."""
        return f"{self.pointed(buffer)}[{self._looked_at(buffer, at[0], 1)}]"

    def _place(self, buffer: Any, index: Any, count: int) -> str | None:
        """So many neighbours as a vector; None where they are none."""
        start = _start(index, count, lanes(str(buffer.dtype)))
        if start is None or count & (count - 1):
            return None
        name = self.pointed(buffer)
        self.widest[name] = max(self.widest.get(name, 0), bytes_of(str(buffer.dtype)) * count)
        kind = self.type_of(f"{element(str(buffer.dtype))}x{count}")
        space = self.dialect.spaces.get(scope(buffer), "")
        base, factor = start
        if type(base).__name__ == "IntImm":
            at = str(int(base) * factor), ATOM
        elif factor > 1:
            at = f"{self.text(base, UNARY)} * {factor}", TIMES
        else:
            at = self.said(base)
        if self.dialect.checked:
            at = self._looked_at(buffer, at[0], count), ATOM
        # Positions are added up first, in 32 bits.
        place = name if at[0] == "0" else f"({name} + {held(at, TIMES)})"
        return f"*({space}{kind}*){place}"

    def _looked_at(self, buffer: Any, at: str, count: int) -> str:
        """A position, of the first of ``count`` neighbours, checked where the dialect is."""
        if not self.dialect.checked:
            return at
        size = math.prod(int(n) for n in buffer.shape) * lanes(str(buffer.dtype)) - count + 1
        self.calls.add(INSIDE)
        self.accesses.append(f"{self.pointed(buffer)}[{at}]")
        return f"{INSIDE}({at}, {size}, {OUTSIDE}, {len(self.accesses)})"

    # --- expressions ------------------------------------------------------------------------------

    def _leaf(self, e: Any) -> Said | None:
        """The text of what has no operands."""
        kind = type(e).__name__
        if kind == "IntImm":
            return self._integer(int(e.value), str(e.ty))
        if kind == "FloatImm":
            return self._float(float(e.value), str(e.ty))
        if kind == "Var" and lanes(str(e.ty)) == 1:
            name = self.bound.get(hash(e)) or self.names.get(hash(e))
            if name is None:
                raise TargetError(f"{self.dialect.title}: nothing is called {e}")
            return name, ATOM
        return None

    def _integer(self, value: int, dtype: str) -> Said:
        if dtype == "bool":
            return str(bool(value)).lower(), ATOM
        end = self.dialect.literals.get(dtype, "")
        if dtype in ("int32", "int64") and value == -(1 << (int(dtype[3:]) - 1)):
            return f"{value + 1}{end} - 1{end}", PLUS  # C negates the number, which is too large.
        text = f"{value}{end}"
        if dtype in _NARROW:
            return f"({self.type_of(dtype)}){text}", UNARY
        return text, ATOM if value >= 0 else UNARY

    def _float(self, value: float, dtype: str) -> Said:
        kind = self.type_of(dtype)
        if math.isnan(value) or math.isinf(value):
            text = self.dialect.nan if math.isnan(value) else self.dialect.infinity
            text = text if dtype == "float32" else f"({kind}){text}"
            return f"-{text}" if value < 0 else text, UNARY
        # The fewest digits that read back.
        text = repr(value) if dtype == "float64" else str(np.float32(value))
        if dtype == "float16":
            return f"({kind}){text}{self.dialect.literals['float32']}", UNARY
        level = UNARY if text.startswith("-") else ATOM
        return f"{text}{self.dialect.literals.get(dtype, '')}", level

    def _steps(self, e: Any, lane: int | None) -> Steps:
        kind = type(e).__name__
        known = self.bound.get(hash(e)) or (self.names.get(hash(e)) if kind == "Var" else None)
        if known is not None and lane is not None:
            return self.lane(known, lane), ATOM
        if kind in _INFIX:
            return (yield from self._infix(e, lane))
        if kind in _JOINED:
            return (yield from self._joined(e, lane))
        if kind in ("Min", "Max"):
            left = yield e.a, lane
            right = yield e.b, lane
            sign = "<" if kind == "Min" else ">"
            one, other = held(left, PLUS), held(right, PLUS)
            return f"{one} {sign} {other} ? {one} : {other}", CHOICE
        if kind in ("Not", "BitwiseNot"):
            inner = yield e.a, lane
            said = f"{'!' if kind == 'Not' else '~'}{held(inner, UNARY)}", UNARY
            dtype = element(str(e.ty))
            return self._cast(said, "int32", dtype) if dtype in _NARROW else said
        if kind == "Select":
            parts = []
            for part in (e.condition, e.true_value, e.false_value):
                said = yield part, lane if lanes(str(part.ty)) > 1 else None
                parts.append(held(said, OR))
            return f"{parts[0]} ? {parts[1]} : {parts[2]}", CHOICE
        if kind == "Cast":
            inner = yield e.value, lane
            return self._cast(inner, element(str(e.value.ty)), element(str(e.ty)))
        if kind == "TensorLoad":
            return (yield from self._load(e, lane))
        if kind == "Let":
            return (yield from self._let(e, lane))
        if kind == "Broadcast":
            return (yield e.value, None)
        if kind == "Ramp":
            base = yield e.base, None
            step = yield e.stride, None
            more = "" if not lane else f" + {held(step, UNARY)} * {lane}"
            more = f" + {lane}" if lane and step[0] == "1" else more
            return f"{held(base, PLUS)}{more}", PLUS
        if kind == "Call":
            return (yield from self._call(e, lane))
        raise TargetError(f"{self.dialect.title} has no text for {kind} of TVM")

    def _infix(self, e: Any, lane: int | None) -> Steps:
        kind = type(e).__name__
        sign, level, first, second = _INFIX[kind]
        left = yield e.a, lane
        right = yield e.b, lane
        said = f"{held(left, first)} {sign} {held(right, second)}", level
        dtype = element(str(e.ty))
        if kind in _WRAPPING and dtype in _NARROW:
            return self._cast(said, "int32", dtype)
        return said

    def _cast(self, inner: Said, source: str, target: str) -> Said:
        if source == target:
            return inner
        if target == "bool":
            return f"{held(inner, PLUS)} != 0", COMPARE
        return f"({self.type_of(target)}){held(inner, UNARY)}", UNARY

    def _joined(self, e: Any, lane: int | None) -> Steps:
        sign, level, decides = _JOINED[type(e).__name__]
        begun = len(self.loaded)
        left = yield e.a, lane
        loaded = self.loaded[begun:]
        lines, bound = self.lines, dict(self.bound)
        self.lines = []
        right = yield e.b, lane
        more, self.lines, self.bound = self.lines, lines, bound
        if all(self.read_by.get(line) in loaded for line in more):
            self.lines += more  # It was read anyway.
        else:  # What was bound is computed only where it is asked for.
            name = self.named("both" if level == AND else "either")
            self.say(f"bool {name} = {left[0]};")
            self.say(f"if ({decides}{name}) {{")
            self.lines += [f"  {line}" for line in more]
            self.say(f"  {name} = {right[0]};")
            self.say("}")
            return name, ATOM

        def operand(said: Said) -> str:
            return said[0] if said[1] in (level, COMPARE) else held(said, UNARY)

        return f"{operand(left)} {sign} {operand(right)}", level

    def _load(self, e: Any, lane: int | None) -> Steps:
        if lane is None:
            at = yield e.indices[0], None
            text = self.element_at(e.source, at)
            self.loaded.append(text)
            return text, ATOM
        place = self._place(e.source, e.indices[0], lanes(str(e.ty)))
        if place is None:
            at = yield e.indices[0], lane
            return self.element_at(e.source, at), ATOM
        name = self.named("v")
        self.say(f"const {self.type_of(str(e.ty))} {name} = {place};")
        self.bound[hash(e)] = name
        return self.lane(name, lane), ATOM

    def _let(self, e: Any, lane: int | None) -> Steps:
        if hash(e.var) not in self.bound:
            dtype = str(e.value.ty)
            if lanes(dtype) > 1:
                text = self.whole(e.value)
            else:
                said = yield e.value, None
                text = said[0]
            name = self.named(str(e.var.name))
            self.say(f"const {self.type_of(dtype)} {name} = {text};")
            self.bound[hash(e.var)] = name
        return (yield e.body, lane)

    def _call(self, e: Any, lane: int | None) -> Steps:
        name, parts = _operator(e), list(e.args)
        dtype = element(str(e.ty))
        if name == "if_then_else":
            return (yield from self._chosen(e, lane))
        if name == "call_extern":
            called = str(parts[0].value)
            self.calls.add(called)
            texts = []
            for part in parts[1:]:
                said = yield part, None
                texts.append(said[0])
            return f"{called}({', '.join(texts)})", ATOM
        if name == "address_of":
            load = parts[0]
            at = yield load.indices[0], None
            at = self._looked_at(load.source, at[0], 1), ATOM if self.dialect.checked else at[1]
            return f"{self.pointed(load.source)} + {held(at, ATOM)}", PLUS
        if name == "tvm_storage_sync":
            return self.dialect.barrier, ATOM
        if name == "large_uint_imm":
            low, high = (int(part.value) for part in parts)
            return self._integer((high << 32) + low, dtype)
        if name == "reinterpret":
            inner = yield parts[0], lane
            source = element(str(parts[0].ty))
            if type(parts[0]).__name__ == "TensorLoad" and source.startswith("float"):
                # Looked at and used: read once, before what is decided by it.
                name = self.named("bits")
                text = self._bits(inner, source, dtype)[0]
                self.say(f"const {self.type_of(dtype)} {name} = {text};")
                self.read_by[self.lines[-1]] = inner[0]
                return name, ATOM
            return self._bits(inner, source, dtype)
        if name == "call_pure_extern":
            name, parts = str(parts[0].value), parts[1:]
            name = name.removesuffix("f") if dtype == "float32" else name
        elif name not in _OPERATORS:
            raise TargetError(f"{self.dialect.title} has no text for {e.op} of TVM")
        texts = []
        for part in parts:
            said = yield part, lane
            texts.append(said[0])
        function = self.dialect.function(_OPERATORS.get(name, name), dtype)
        return f"{function}({', '.join(texts)})", ATOM

    def _bits(self, inner: Said, source: str, target: str) -> Said:
        if source == target:
            return inner
        form = self.dialect.bits_of.get((source, target), self.dialect.bits)
        value = held(inner, UNARY) if form.endswith("{value}") else inner[0]
        of = {"source": self.type_of(source), "target": self.type_of(target)}
        return form.format(value=value, **of), UNARY

    def _chosen(self, e: Any, lane: int | None) -> Steps:
        """One of two values, of which only that one is computed."""
        condition, *values = e.args
        dtype = str(e.ty)
        test = yield condition, None
        branches: list[tuple[list[str], str]] = []
        lines, bound = self.lines, dict(self.bound)
        level = CHOICE if lane is not None else OR
        self.branches += 1
        for value in values:
            self.lines, self.bound = [], dict(bound)
            if lane is not None:
                text = self.whole(value)
            else:
                said = yield value, None
                text = held(said, level)
            branches.append((self.lines, text))
        self.lines, self.bound = lines, bound
        self.branches -= 1
        if lane is None and not any(more for more, _ in branches):
            return f"{held(test, OR)} ? {branches[0][1]} : {branches[1][1]}", CHOICE
        name = self.named("chosen")
        self.say(f"{self.type_of(dtype)} {name};")
        for start, (more, text) in zip((f"if ({test[0]}) {{", "} else {"), branches, strict=True):
            self.say(start)
            self.lines += [f"  {line}" for line in more]
            self.say(f"  {name} = {text};")
        self.say("}")
        if lane is None:
            return name, ATOM
        self.bound[hash(e)] = name
        return self.lane(name, lane), ATOM


def _operator(call: Any) -> str:
    """The name of what is called, without TVM's namespace."""
    return str(getattr(call.op, "name", call.op)).rpartition(".")[2]


def scope(buffer: Any) -> str:
    """The kind of memory that a buffer is in: ``global``, ``shared`` or ``local``."""
    return (str(buffer.scope()) or "global").partition(".")[0]


def _start(index: Any, count: int, step: int) -> tuple[Any, int] | None:
    """Where ``count`` neighbours begin, as an expression and a factor; None where they are none."""
    if type(index).__name__ != "Ramp":
        return (index, step) if step == count else None
    neighbours = step == 1 and type(index.stride).__name__ == "IntImm" and int(index.stride) == 1
    return (index.base, 1) if neighbours and int(index.lanes) == count else None


_WORDS = """
auto bool break case char class const constant continue default do double else enum extern float for
global goto half if inline int kernel lanes local long namespace new operator private register
restrict return short signed sizeof static struct switch template this typedef uint union unsigned
using void volatile while group_x group_y group_z local_x local_y local_z inside outside
"""
_RESERVED = frozenset(_WORDS.split())
"""What is not to be the name of a variable in any language."""
