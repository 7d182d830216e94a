"""Terms as functions from an index to a TIR expression.

Inside a kernel nothing is materialised: every term below the kernel's result is an
:class:`Access` whose ``load(index)`` gives the element at a logical index. Transformers of what
lies in memory stay strided views (no division in any address); where a view cannot express one,
and for everything that computes, the index function is composed. Sharing inside an expression is
kept with ``Let``, so an expression never grows beyond the program it was built from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glenside.codegen import scalars
from glenside.codegen.loops import all_of, current_lanes, declare
from glenside.codegen.program.kinds import is_tuple_only
from glenside.codegen.views import View, move_view
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import VIEWS, fill_value
from glenside.language.shape import FLOATS, SIGNED, Shape
from glenside.language.term import Term

Expr = Any
Index = list[Any]
Load = Callable[[Index], Expr]

MOST_WRITTEN_OUT = 16
"""Named values in an expression, each counted as often as it occurs when names are written out.

TVM's simplifier does write them out: a value that is used twice in what is used twice, and so on,
takes it exponential time, and such are chains of maxima. What is larger goes through a cell of
memory, which it does not look through and which compilers keep in a register."""


class Access:
    """An array that a kernel can read: a strided view of a buffer, or a function of the index."""

    def __init__(self, term: Term, load: Load, view: View | None = None, buffer: Any = None):
        self.term, self.load, self.view, self.buffer = term, load, view, buffer


class Lowering:
    """Gives the accesses of the terms of one kernel.

    ``stored(term)`` is the view of a term that lies in memory (else None), ``constants`` holds the
    terms that are one number throughout, ``buffer(term)`` yields the TIR buffer of a stored term
    and is called when the kernel first reads it.
    """

    def __init__(
        self,
        stored: Callable[[Term], View | None],
        constants: Mapping[Term, Any],
        buffer: Callable[[Term], Any],
    ) -> None:
        self._stored, self._constants, self._buffer = stored, constants, buffer
        self._known: dict[Term, Access] = {}
        self._given: dict[Term, Load] = {}
        self._scopes: list[list[tuple[Any, Expr]]] = []
        self._named: list[dict[Any, Any]] = []
        self._cells: list[bool] = []
        self._sizes: dict[Any, int] = {}
        self._largest = 0
        self._held: set[Any] = set()
        self.vectorised = True

    def give(self, term: Term, load: Load) -> None:
        """From now on ``term`` is read through ``load``."""
        self._given[term] = load
        self._known.clear()

    # --- sharing ----------------------------------------------------------------------------

    def scoped(self, build: Callable[[], Expr]) -> Expr:
        """The expression ``build`` makes, with the names it introduced bound around it."""
        from tvm import tirx

        self._scopes.append([])
        self._named.append({})
        self._cells.append(False)
        result = build()
        self._cells.pop()
        self._named.pop()
        for variable, value in reversed(self._scopes.pop()):
            result = tirx.Let(variable, value, result)
        return result

    def statement(self, build: Callable[[], Expr], finish: Callable[[Expr], Any]) -> Any:
        """The statement ``finish(value)`` for the value ``build`` makes, its names bound before.

        In a vectorised body names are bound by ``Let``, since TVM's vectoriser mistypes statements
        that bind, and all kept in cells, one a lane, where an expression of lets would grow beyond
        :data:`MOST_WRITTEN_OUT`. In a scalar body they are bound by statements, since its analyzer
        fails on an integer ``Let`` that it meets under two different conditions.
        """
        from tvm import tirx

        if self.vectorised:
            self._largest = 0
            value = self.scoped(build)
            if self._largest <= MOST_WRITTEN_OUT:
                return finish(value)
        self._scopes.append([])
        self._named.append({})
        self._cells.append(True)
        lanes = current_lanes()
        end = finish(build())
        self._cells.pop()
        self._named.pop()
        bound = []
        for cell, value in self._scopes.pop():
            if isinstance(cell, tirx.Var) and not tirx.is_buffer_var(cell):
                bound.append(tirx.Bind(cell, value))
            elif lanes is not None:
                lanes.cells.append(cell)
                bound.append(tirx.BufferStore(cell, value, [lanes.position]))
            else:
                bound += [tirx.AllocBuffer(cell), tirx.BufferStore(cell, value, [_expr(0)])]
        return tirx.SeqStmt([*bound, end]) if bound else end

    def only_floats(self, term: Term) -> bool:
        """Whether all that is read and computed for ``term`` is floating point.

        TVM's analyzer fails on names of integer vectors, so only such kernels are vectorised here;
        the others are left to LLVM's own vectoriser.
        """
        return self._only(term, FLOATS)

    def vectorisable(self, term: Term) -> bool:
        """Whether a vectorised body can compute ``term``: only floats, and no bfloat16, whose
        roundings have to be kept in cells (:meth:`name`)."""
        return self._only(term, tuple(dtype for dtype in FLOATS if dtype != "bfloat16"))

    def _only(self, term: Term, dtypes: Sequence[str]) -> bool:
        """Whether all that is read and computed for ``term`` is of these dtypes."""
        seen, stack = {term}, [term]
        while stack:
            top = stack.pop()
            if top.dtype not in dtypes:
                return False
            for child in self._operands(top):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        return True

    def name(self, value: Expr, dtype: str) -> Expr:
        """A variable holding ``value``; small expressions are returned as they are."""
        from tvm import tirx

        # TVM's vectoriser cannot bind bools; they are cheap to repeat.
        small = isinstance(value, tirx.Var | tirx.FloatImm | tirx.IntImm) or self._in_cell(value)
        if not self._scopes or small or dtype == "bool":
            return value
        if len(self._scopes) > 1 and dtype not in FLOATS:
            return value  # Inside a guard there are only lets, which integers do not bear.
        kept = scalars.value_dtype(dtype)
        written_out = self._written_out(value)
        if self._cells[-1:] == [True] and (
            dtype not in FLOATS
            or dtype == "bfloat16"
            or self.vectorised
            or written_out > MOST_WRITTEN_OUT
        ):
            # A cell of memory, which compilers keep in a register: TVM's simplifier takes integer
            # variables apart, without end for a chain of products, and writes out what is rounded
            # to bfloat16 at each of its uses, of which there are five a rounding.
            lanes = current_lanes()
            if lanes is not None:
                cell = declare("t", lanes.width, kept, local=True)
                at = lanes.position
            else:
                cell = tirx.decl_buffer((1,), kept, name="t", scope="local", layout=None)
                at = _expr(0)
            self._held.add(cell)
            self._scopes[-1].append((cell, value))
            return tirx.BufferLoad(cell, [at])
        variable = tirx.Var("t", kept)
        self._sizes[variable] = written_out
        self._largest = max(self._largest, written_out)
        self._scopes[-1].append((variable, value))
        return variable

    def _in_cell(self, value: Expr) -> bool:
        """Whether ``value`` is what a cell of :meth:`name` holds."""
        return type(value).__name__ == "TensorLoad" and value.source in self._held

    def _written_out(self, value: Expr) -> int:
        """How many named values ``value`` uses once every name in it is written out."""
        import tvm_ffi
        from tvm import tirx

        total = 1

        def count(variable: Any) -> None:
            nonlocal total
            total += self._sizes.get(variable, 0)

        tvm_ffi.structural_walk(value, (tirx.Var, count))
        return total

    def value(self, term: Term, index: Index) -> Expr:
        """The element of ``term`` at ``index``, as a variable that is shared within the scope."""
        key = (term, *map(_index_key, index))
        for names in reversed(self._named):
            if key in names:
                return names[key]
        result = self.name(self.access(term).load(index), term.dtype)
        if self._named:
            # The index expressions are kept: their identity is part of the key.
            self._named[-1][key] = result
            self._named[-1][("keep", *key)] = index
        return result

    # --- accesses ---------------------------------------------------------------------------

    def access(self, term: Term) -> Access:
        found = self._known.get(term)
        if found is None:
            # Bottom-up and by a loop: chains may be long.
            pending = [term]
            while pending:
                top = pending[-1]
                missing = [c for c in self._operands(top) if c not in self._known]
                if missing:
                    pending.extend(missing)
                    continue
                pending.pop()
                if top not in self._known:
                    self._known[top] = self._build(top)
            found = self._known[term]
        return found

    def is_leaf(self, term: Term) -> bool:
        known = term in self._given or term in self._constants
        return known or self._stored(term) is not None

    def _operands(self, term: Term) -> tuple[Term, ...]:
        return () if self.is_leaf(term) else term.children

    def _build(self, term: Term) -> Access:
        if term in self._given:
            return Access(term, self._given[term])
        if term in self._constants:
            value = scalars.const(self._constants[term], term.dtype)
            return Access(term, lambda index: value)
        stored = self._stored(term)
        if stored is not None:
            return self._from_memory(term, stored, self._buffer(term))
        if term.op in VIEWS:
            below = self._known[term.children[0]]
            view = move_view(term, below.view) if below.view is not None else None
            if view is not None:
                return self._from_memory(term, view, below.buffer)
            return Access(term, self._moved(term, below))
        return Access(term, getattr(self, f"_{term.op}")(term))

    def _from_memory(self, term: Term, view: View, buffer: Any) -> Access:
        def load(index: Index) -> Expr:
            return read(buffer, view.address(index), term.dtype)

        return Access(term, load, view, buffer)

    def _moved(self, term: Term, below: Access) -> Load:
        child = term.children[0]
        source = below.load
        match term.op:
            case "access":
                return source
            case "transpose":
                order = term["permutation"]

                def transposed(index: Index) -> Expr:
                    old: Index = [None] * len(order)
                    for k, axis in enumerate(order):
                        old[axis] = index[k]
                    return source(old)

                return transposed
            case "squeeze":
                axis = term["axis"]
                return lambda index: source([*index[:axis], 0, *index[axis:]])
            case "unsqueeze":
                axis = term["axis"]
                return lambda index: source([*index[:axis], *index[axis + 1 :]])
            case "broadcast":
                lengths = child.shape
                return lambda index: source(
                    [0 if n == 1 else i for i, n in zip(index, lengths, strict=True)]
                )
            case "slice":
                axis, low, step = term["axis"], term["low"], term["step"]
                return lambda index: source(
                    [i * step + low if k == axis else i for k, i in enumerate(index)]
                )
            case "flatten" | "reshape":
                return lambda index: source(reindex(index, term.shape, child.shape))
            case "windows":
                split, count = child.type.split, len(term["shape"])
                stride = term["stride"]
                dilation = term["dilation"] or (1,) * count
                return lambda index: source(
                    [
                        *index[:split],
                        *(
                            index[split + k] * stride[k] + index[split + count + k] * dilation[k]
                            for k in range(count)
                        ),
                    ]
                )
            case "pad":
                return self._padded(term, source)
        raise AssertionError(term.op)

    def _padded(self, term: Term, source: Load) -> Load:
        from tvm import tirx

        axis, before, step = term["axis"], term["before"], term["interior"] + 1
        length = term.children[0].shape[axis]
        reach = (length - 1) * step + 1 if length else 0
        after = term.shape[axis] - before - reach
        fill = scalars.const(fill_value(term["value"], term.dtype), term.dtype)

        def load(index: Index) -> Expr:
            position = index[axis]
            inside = []
            if length == 0:
                return fill
            if before:
                inside.append(tirx.GE(_expr(position), before))
            if after:
                inside.append(tirx.LT(_expr(position), before + reach))
            place = position - before if before else position
            if step > 1:
                inside.append(tirx.EQ(tirx.floormod(_expr(place), step), 0))
                place = tirx.floordiv(_expr(place), step)
            condition = all_of(inside)
            if condition is None:
                return source(index)
            old = [place if k == axis else i for k, i in enumerate(index)]
            return tirx.if_then_else(condition, self.scoped(lambda: source(old)), fill)

        return load

    def _concat(self, term: Term) -> Load:
        from tvm import tirx

        axis = term["axis"]
        left, right = (self._known[child] for child in term.children)
        length = term.children[0].shape[axis]

        def load(index: Index) -> Expr:
            after = [i - length if k == axis else i for k, i in enumerate(index)]
            if isinstance(index[axis], int):
                return left.load(index) if index[axis] < length else right.load(after)
            if length == 0:
                return right.load(after)
            if length == term.shape[axis]:
                return left.load(index)
            return tirx.if_then_else(
                tirx.LT(index[axis], length),
                self.scoped(lambda: left.load(index)),
                self.scoped(lambda: right.load(after)),
            )

        return load

    def _tuple(self, position: Any, one: Callable[[], Expr], two: Callable[[], Expr]) -> Expr:
        from tvm import tirx

        if isinstance(position, int):
            return one() if position == 0 else two()
        return tirx.if_then_else(tirx.EQ(position, 0), self.scoped(one), self.scoped(two))

    def _pair(self, term: Term) -> Load:
        left, right = term.children
        at = left.type.split

        def load(index: Index) -> Expr:
            rest = [*index[:at], *index[at + 1 :]]
            return self._tuple(
                index[at], lambda: self.value(left, rest), lambda: self.value(right, rest)
            )

        return load

    def _cart_prod(self, term: Term) -> Load:
        left, right = term.children
        batch, at, first = term["batch"], term.type.split, left.type.split

        def load(index: Index) -> Expr:
            item = index[at + 1 :]
            return self._tuple(
                index[at],
                lambda: self.value(left, [*index[:first], *item]),
                lambda: self.value(right, [*index[:batch], *index[first:at], *item]),
            )

        return load

    def _gather(self, term: Term) -> Load:
        from tvm import tirx

        data, indices = term.children
        axis, length, count = term["axis"], data.shape[term["axis"]], indices.type.rank

        def load(index: Index) -> Expr:
            position = self.value(indices, index[axis : axis + count]).astype("int32")
            if indices.dtype in SIGNED:
                position = tirx.Select(tirx.LT(position, 0), position + length, position)
            # The interpreter refuses positions outside; here they must only not read elsewhere.
            position = tirx.max(tirx.min(position, length - 1), 0)
            position = self.name(position, "int32")
            return self.access(data).load([*index[:axis], position, *index[axis + count :]])

        return load

    def _cast(self, term: Term) -> Load:
        child = term.children[0]
        return lambda index: scalars.convert(self.value(child, index), child.dtype, term.dtype)

    def _where(self, term: Term) -> Load:
        from tvm import tirx

        condition, one, two = term.children
        if term.dtype == "bool":
            return lambda index: tirx.NE(
                tirx.Select(
                    self.value(condition, index),
                    self.value(one, index).astype("uint8"),
                    self.value(two, index).astype("uint8"),
                ),
                scalars.const(0, "uint8"),
            )
        return lambda index: tirx.Select(
            self.value(condition, index), self.value(one, index), self.value(two, index)
        )

    def _compute(self, term: Term) -> Load:
        function = FUNCTIONS[term["function"]]
        child = term.children[0]
        at = child.type.split
        if function.kind == "map":
            return lambda index: scalars.apply(function.name, self.value(child, index), child.dtype)
        if function.kind == "fold":

            def fold(index: Index) -> Expr:
                slices = [
                    self.value(child, [*index[:at], k, *index[at:]]) for k in range(child.item[0])
                ]
                result = slices[0]
                for other in slices[1:]:
                    result = scalars.combine(function.name, result, other, child.dtype, self.name)
                    if len(slices) > 2:
                        result = self.name(result, term.dtype)
                return result

            return fold
        assert function.kind == "reduce" and is_tuple_only(term), term
        return lambda index: self._reduce_tuple(term, index)

    def _reduce_tuple(self, term: Term, index: Index) -> Expr:
        """A reduction over nothing but the tuple axis, written out."""
        child, name = term.children[0], term["function"]
        inner = scalars.wide(term.dtype)
        step = "prod" if name == "dot" else "sum" if name == "mean" else name
        result = scalars.identity(step, inner)
        for k in range(child.item[0]):
            value = scalars.convert(self.value(child, [*index, k]), child.dtype, term.dtype)
            value = scalars.convert(value, term.dtype, inner)
            result = self.name(
                value if k == 0 else scalars.accumulate(step, result, value, inner), inner
            )
        if name == "mean":
            result = scalars.mean(result, child.item[0], inner)
        return scalars.convert(result, inner, term.dtype)


def read(buffer: Any, address: Any, dtype: str) -> Expr:
    """One element of a buffer."""
    from tvm import tirx

    return scalars.loaded(tirx.BufferLoad(buffer, [_expr(address)]), dtype)


def write(buffer: Any, address: Any, value: Expr, dtype: str) -> Any:
    """A store of one element."""
    from tvm import tirx

    return tirx.BufferStore(buffer, scalars.stored(value, dtype), [_expr(address)])


def reindex(index: Sequence[Any], new: Shape, old: Shape) -> Index:
    """A row-major index into shape ``new`` as one into shape ``old`` of equal size."""
    flat: Any = 0
    for position, length in zip(index, new, strict=True):
        flat = position if isinstance(flat, int) and flat == 0 else flat * length + position
    result: Index = []
    for length in reversed(old[1:]):
        result.append(flat % length)
        flat = flat // length
    if old:
        result.append(flat)
    return result[::-1]


def _expr(value: Any) -> Any:
    from tvm import tirx

    return tirx.const(value, "int32") if isinstance(value, int) else value


def _index_key(position: Any) -> Any:
    return position if isinstance(position, int) else id(position)
