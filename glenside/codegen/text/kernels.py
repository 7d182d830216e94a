"""Lowered kernels in a :class:`~glenside.codegen.text.dialects.Dialect`: statements, and what a
text begins with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.codegen.text.dialects import OUTSIDE, Dialect
from glenside.codegen.text.expressions import Expressions, bytes_of, element, lanes, scope
from glenside.errors import TargetError


@dataclass(frozen=True)
class Scratch:
    """Memory that a kernel works in and is given: ``size`` numbers."""

    dtype: str
    size: int


@dataclass(frozen=True)
class Printed:
    """The text of a kernel; it takes its function's parameters, then ``given``, and in checked text
    a pointer to an integer."""

    text: str
    needs: frozenset[str]
    """Names of the dialect's helpers that have to be defined before it."""
    given: tuple[Scratch, ...]
    accesses: tuple[str, ...]
    """What the numbers of accesses mean in checked text; 1 is the first."""


def print_kernel(
    name: str,
    function: Any,
    dialect: Dialect,
    block: Sequence[int] = (1, 1, 1),
    constant: Callable[[str], bool] = lambda name: False,
) -> Printed:
    """A function that :func:`~glenside.codegen.text.lowering.lowered` has made.

    :param block: threads of a group.
    :param constant: whether what the parameter of a name points to never changes.
    :raises TargetError: the language has no word for a part of it.
    """
    return _Kernel(dialect).printed(name, function, block, constant)


def preamble(needs: Iterable[str], dialect: Dialect) -> str:
    """The definitions that kernels need, each once."""
    wanted = set(needs)
    return "".join(text for name, text in dialect.helpers.items() if name in wanted)


class _Kernel(Expressions):
    """One kernel's statements."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.positions: dict[str, str] = {}
        self.seen: Counter[int] = Counter()
        """How often variables occur, by identity; once where they are bound."""
        self.read: set[int] = set()
        self.written: set[int] = set()
        """Buffers, by identity."""
        self.aliases: dict[int, int] = {}
        self.arrays: list[Callable[[], None]] = []
        """What says the arrays of a kernel."""
        self.given: list[tuple[Any, str]] = []

    def printed(
        self, name: str, function: Any, block: Sequence[int], constant: Callable[[str], bool]
    ) -> Printed:
        dialect = self.dialect
        self._survey(function.body)
        parameters = list(function.params)
        for each in parameters:
            self.names[hash(each)] = self.named(str(each.name))
        self.indent = "  "
        self._statement(function.body)
        for declare in self.arrays:
            declare()
        body, self.lines = self.lines, []
        if dialect.begins and dialect.begins not in self.calls:
            self.calls.add(dialect.begins)
            self.say(f"{dialect.begins}();")
        for position in dialect.positions:
            if position in self.positions:
                called, value = dialect.positions[position]
                self.say(f"const int {called} = {value};")
        declared = [self._parameter(each, constant(str(each.name))) for each in parameters]
        declared += [
            self._pointer(str(buffer.dtype), called, False, True) for buffer, called in self.given
        ]
        if dialect.checked:
            declared.append(self._pointer("int32", OUTSIDE, False, False))
        x, y, z = block
        head = dialect.head.format(
            name=name, parameters=", ".join(declared), x=x, y=y, z=z, threads=x * y * z
        )
        text = "\n".join([f"{head} {{", *self.lines, *body, "}", ""])
        needs = self.calls | self.kinds
        given = tuple(Scratch(element(str(b.dtype)), _size(b)) for b, _ in self.given)
        return Printed(text, frozenset(needs), given, tuple(self.accesses))

    # --- what is used and how ---------------------------------------------------------------------

    def _survey(self, body: Any) -> None:
        import tvm_ffi
        from tvm import ir, tirx

        def load(node: Any) -> None:
            kind = type(node).__name__
            if kind == "Var":
                self.seen[hash(node)] += 1
            elif kind == "TensorLoad":
                self.read.add(hash(node.source))

        def store(node: Any) -> None:
            kind = type(node).__name__
            if kind == "BufferStore":
                self.written.add(hash(node.buffer))
            elif kind == "DeclBuffer":
                self.aliases[hash(node.buffer)] = hash(_aliased(node))

        tvm_ffi.structural_walk(body, [(ir.Expr, load), (tirx.Stmt, store)])
        for group in (self.read, self.written):
            for alias, buffer in self.aliases.items():
                if alias in group:
                    group.add(buffer)

    def _parameter(self, buffer: Any, constant: bool) -> str:
        read, written = hash(buffer) in self.read, hash(buffer) in self.written
        alone = constant or self.dialect.reads_once or not read
        return self._pointer(str(buffer.dtype), self.names[hash(buffer)], not written, alone)

    def _pointer(self, dtype: str, name: str, only_read: bool, alone: bool) -> str:
        return self.dialect.pointer.format(
            const="const " if only_read else "",
            type=self.type_of(element(dtype)),
            restrict=self.dialect.restrict if alone else "",
            name=name,
        )

    # --- statements -------------------------------------------------------------------------------

    def _statement(self, s: Any) -> None:
        kind = type(s).__name__
        handler = getattr(self, f"_{kind.lower()}", None)
        if handler is None:
            raise TargetError(f"{self.dialect.title} has no text for {kind} of TVM")
        self.bound = {}
        handler(s)

    def _seqstmt(self, s: Any) -> None:
        for each in s.seq:
            self._statement(each)

    def _attrstmt(self, s: Any) -> None:
        if str(s.attr_key) == "thread_extent":
            position = str(s.node.thread_tag)
            self.names[hash(s.node.var)] = self.dialect.positions[position][0]
            if self.seen[hash(s.node.var)] > 1:
                self.positions[position] = position
        self._statement(s.body)

    def _for(self, s: Any) -> None:
        first, count = self.said(s.min), self.said(s.extent)
        end = count[0] if first[0] == "0" else str(int(s.min) + int(s.extent))
        if str(s.kind) == _UNROLLED and self.dialect.unroll:
            self.say(self.dialect.unroll)
        name = self.named(str(s.loop_var.name))
        self.names[hash(s.loop_var)] = name
        kind = self.type_of(str(s.loop_var.ty))
        self.say(f"for ({kind} {name} = {first[0]}; {name} < {end}; ++{name}) {{")
        self.inside(lambda: self._statement(s.body))
        self.say("}")

    def _ifthenelse(self, s: Any) -> None:
        self.say(f"if ({self.text(s.condition)}) {{")
        self.inside(lambda: self._statement(s.then_case))
        if s.else_case is not None:
            self.say("} else {")
            self.inside(lambda: self._statement(s.else_case))
        self.say("}")

    def _bind(self, s: Any) -> None:
        if self.seen[hash(s.var)] > 1:
            self.names[hash(s.var)] = self.bind(str(s.var.name), s.value)

    def _evaluate(self, s: Any) -> None:
        if type(s.value).__name__ == "Call":
            self.say(f"{self.text(s.value)};")

    def _allocbuffer(self, s: Any) -> None:
        buffer = s.buffer
        name = self.names[hash(buffer)] = self.named(str(buffer.name))
        size, dtype = _size(buffer), element(str(buffer.dtype))
        kind = self.type_of(dtype)
        if str(buffer.scope()) == "shared.dyn":
            self.say(f"{self.dialect.dynamic.format(name=_DYNAMIC)};")
            self.say(f"{kind}* const {name} = ({kind}*){_DYNAMIC};")
            return
        most = self.dialect.most_array
        if most is not None and size * bytes_of(dtype) > most:
            self.given.append((buffer, name))
            return
        shared = scope(buffer) == "shared"
        least = int(buffer.data_alignment) if shared else bytes_of(dtype)
        line, indent = len(self.lines), self.indent
        self.lines.append("")

        def declare() -> None:  # Once it is known what is accessed.
            made = self.dialect.array.format(
                shared=self.dialect.shared if shared else "",
                type=kind,
                name=name,
                size=size,
                aligned=max(least, self.widest.get(name, 0)),
            )
            self.lines[line] = f"{indent}{made};"

        self.arrays.append(declare)

    def _declbuffer(self, s: Any) -> None:
        """Another view of memory that has a name."""
        other = _aliased(s)
        name, offset = self.names[hash(other)], int(s.buffer.elem_offset or 0)
        dtype = element(str(s.buffer.dtype))
        if dtype != element(str(other.dtype)) or offset:
            space = self.dialect.spaces.get(scope(s.buffer), "")
            kind = f"{space}{self.type_of(dtype)}*"
            place = f"{name}"
            name = self.named(str(s.buffer.name))
            self.say(f"{kind} const {name} = ({kind}){place}{f' + {offset}' if offset else ''};")
        self.names[hash(s.buffer)] = name

    def _bufferstore(self, s: Any) -> None:
        buffer, index, dtype = s.buffer, s.indices[0], str(s.value.ty)
        count = lanes(dtype)
        if count == 1:
            value = self.text(s.value)
            self.say(f"{self.element_at(buffer, self.said(index))} = {value};")
            return
        place = self._place(buffer, index, count)
        if place is not None:
            self.say(f"{place} = {self.whole(s.value)};")
            return
        value = self.bind("v", s.value)
        for lane in range(count):
            at = self.element_at(buffer, self.said(index, lane))
            self.say(f"{at} = {self.lane(value, lane)};")


_DYNAMIC = "dynamic_local"
"""Local memory whose size the launch says: the same bytes for every kernel of a text."""
_UNROLLED = "3"
"""TVM's number of loops that are to be written out."""


def _aliased(declared: Any) -> Any:
    """The buffer whose memory another one is a view of."""
    data = declared.data
    return data.args[0] if type(data).__name__ == "Call" else data


def _size(buffer: Any) -> int:
    return math.prod(int(n) for n in buffer.shape) * lanes(str(buffer.dtype))
