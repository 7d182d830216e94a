"""ONNX forms of the operators: what each reads, and the nodes that compute it.

A :class:`Step` says which terms an operator's nodes read. Often these are not its children: a
``compute`` of a ``pair`` reads the two halves, a ``dot`` of a ``cart_prod`` is a matrix product of
its operands, elementwise operators read what a ``broadcast`` repeats. So pairs and products that
nothing else needs are never built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glenside.errors import GlensideError
from glenside.exporters.onnx.functions import REDUCTIONS, Fold, fold_form, map_form
from glenside.exporters.onnx.graph import Graph, Value
from glenside.exporters.onnx.kernels import KERNELS, working_dtype
from glenside.exporters.onnx.layers import layer
from glenside.exporters.onnx.steps import Program, Step
from glenside.language import Term
from glenside.language.operators import fill_value
from glenside.language.shape import Shape


def step(term: Term, program: Program) -> Step:
    """The step of any operator but leaves, accelerator calls and host operators.

    :raises GlensideError: the operator has no ONNX form.
    """
    if term.type.size == 0:
        return Step((), lambda g, _: g.constant(np.empty(term.shape, term.dtype), "empty"))
    known = layer(term, program)
    if known is not None:
        return known
    make = _STEPS.get(term.op)
    if make is None:
        raise GlensideError(f"{term.op} has no ONNX form (there are: {', '.join(_STEPS)})")
    return make(term, program)


# --- transformers -------------------------------------------------------------------------------


def _constant(term: Term, program: Program) -> Step:
    return Step((), lambda g, _: g.fill(term["value"], term.shape, term.dtype))


def _transpose(term: Term, program: Program) -> Step:
    return Step(term.children, lambda g, v: g.transpose(v[0], term["permutation"]))


def _broadcast(term: Term, program: Program) -> Step:
    return Step(term.children, lambda g, v: g.expand(v[0], term.shape))


def _slice(term: Term, program: Program) -> Step:
    bounds = (term["axis"], term["low"], term["high"], term["step"])
    return Step(term.children, lambda g, v: g.slice(v[0], *bounds))


def _gather(term: Term, program: Program) -> Step:
    return Step(term.children, lambda g, v: g.gather(v[0], v[1], term["axis"]))


def _concat(term: Term, program: Program) -> Step:
    axis, parts, head = term["axis"], [term.children[1]], term.children[0]
    # Left-nested concatenations are one.
    while head.op == "concat" and head["axis"] == axis and program.uses[head] == 1:
        parts.append(head.children[1])
        head = head.children[0]
    parts.append(head)
    reads = tuple(part for part in reversed(parts) if part.shape[axis])
    return Step(reads, lambda g, v: g.concat(v, axis))


def _pair(term: Term, program: Program) -> Step:
    at = term.type.split
    return Step(term.children, lambda g, v: g.stack(v, at))


def _cart_prod(term: Term, program: Program) -> Step:
    """The product itself, for whatever is not a ``dot``."""
    (x, y), batch = (child.type for child in term.children), term["batch"]
    full = term.outer + x.item
    left = x.outer + (1,) * (y.split - batch) + x.item
    right = x.outer[:batch] + (1,) * (x.split - batch) + y.outer[batch:] + y.item

    def emit(g: Graph, v: list[Value]) -> Value:
        halves = [g.expand(g.reshape(v[0], left), full), g.expand(g.reshape(v[1], right), full)]
        return g.stack(halves, len(term.outer))

    return Step(term.children, emit)


def _windows(term: Term, program: Program) -> Step:
    """Each item axis becomes (windows, window) in place, then the window axes go to the end."""
    x = term.children[0].type
    dilations = term["dilation"] or (1,) * len(term["shape"])
    plan = list(zip(x.item, term["shape"], term["stride"], dilations, strict=True))
    counts = term.outer[x.split :]

    def emit(g: Graph, v: list[Value]) -> Value:
        value, axis, shape = v[0], x.split, list(x.outer)
        for (length, size, stride, dilation), count in zip(plan, counts, strict=True):
            whole = count * size == length and (size == 1 or dilation == 1)
            if size == 1:
                # Only every stride-th position.
                value = g.slice(value, axis, 0, (count - 1) * stride + 1, stride)
                axis += 1
            elif whole and (count == 1 or stride == size):
                # The windows tile the axis.
                axis += 1
            else:
                starts = np.arange(count, dtype=np.int64)[:, np.newaxis] * stride
                positions = starts + np.arange(size, dtype=np.int64) * dilation
                value = g.gather(value, g.constant(positions, "windows"), axis)
                axis += 2
            shape += [count, size]
        value = g.reshape(value, shape)
        pairs = range(len(plan))
        windows = [x.split + 2 * i for i in pairs]
        return g.transpose(value, [*range(x.split), *windows, *(w + 1 for w in windows)])

    return Step(term.children, emit)


def _pad(term: Term, program: Program) -> Step:
    x, axis, inside = term.children[0], term["axis"], term["interior"]
    number = fill_value(term["value"], term.dtype)
    before, after = term["before"], term["after"]
    if not x.type.size:
        return Step((), lambda g, _: g.fill(number, term.shape, term.dtype))

    def emit(g: Graph, v: list[Value]) -> Value:
        value = v[0]
        length = value.shape[axis]
        if inside and length > 1:
            # Each element with its filling behind it is a row; the last one's is cut off.
            tall = (*value.shape[: axis + 1], 1, *value.shape[axis + 1 :])
            value = _padded(g, g.reshape(value, tall), axis + 1, 0, inside, number)
            dims = list(x.shape)
            dims[axis] = length * (inside + 1)
            value = g.slice(g.reshape(value, dims), axis, 0, dims[axis] - inside)
        return _padded(g, value, axis, before, after, number)

    return Step(term.children, emit)


def _padded(g: Graph, x: Value, axis: int, before: int, after: int, number: float) -> Value:
    def along(width: int) -> list[int]:
        return [width if each == axis else 0 for each in range(x.rank)]

    return g.pad(x, along(before), along(after), number)


# --- what computes ------------------------------------------------------------------------------


def _cast(term: Term, program: Program) -> Step:
    return Step(term.children, lambda g, v: g.cast(v[0], term.dtype))


def _where(term: Term, program: Program) -> Step:
    reads = tuple(program.compact(child) for child in term.children)

    def emit(g: Graph, v: list[Value]) -> Value:
        return g.expand(g.where(*v), term.shape)

    return Step(reads, emit)


def _compute(term: Term, program: Program) -> Step:
    x, name = term.children[0], term["function"]
    if not x.type.size:
        # Reductions of nothing: the neutral element, which NumPy tells.
        types, empty = (x.type,), np.empty(x.shape, x.dtype)
        with np.errstate(all="ignore"):
            number = term.operator.evaluate([empty], types, term.attributes).flat[0]
        return Step((), lambda g, _: g.fill(number, term.shape, term.dtype))
    if name == "dot":
        return _dot(term, program)
    if (form := map_form(name)) is not None:
        return Step((x,), lambda g, v: form(g, v[0]))
    if (combine := fold_form(name)) is not None:
        return _fold(term, program, combine)
    if name in REDUCTIONS:
        accumulate = term["accumulate"] or x.dtype
        split = x.type.split

        def reduce(g: Graph, v: list[Value]) -> Value:
            value = g.cast(v[0], accumulate)
            return value if x.type.rank == split else REDUCTIONS[name](g, value, split)

        return Step((x,), reduce)
    raise GlensideError(f"compute {name} has no ONNX form")


def _fold(term: Term, program: Program, combine: Fold) -> Step:
    slices = _slices(term.children[0], program)
    if not slices.halves:
        return _folded(term, slices.reads, lambda g, v: slices.take(g, v), combine)
    compact = [program.compact(each) for each in slices.reads]
    numbers = [_number(each, program) for each in compact]
    if all(each is not None for each in numbers):
        numbers = [None] * len(numbers)  # An operand has to say what is computed.
    reads = tuple(x for x, number in zip(compact, numbers, strict=True) if number is None)

    def operands(g: Graph, v: list[Value]) -> list[Value]:
        """A number is no array: runtimes know what to do with ``x / 2``."""
        values = iter(v)
        return [
            next(values) if number is None else g.scalar(number["value"], number.dtype)
            for number in numbers
        ]

    return _folded(term, reads, operands, combine)


def _folded(
    term: Term,
    reads: tuple[Term, ...],
    operands: Callable[[Graph, list[Value]], list[Value]],
    combine: Fold,
) -> Step:
    def emit(g: Graph, v: list[Value]) -> Value:
        result, *others = operands(g, v)
        for other in others:
            result = combine(g, result, other)
        return g.expand(result, term.shape)

    return Step(reads, emit)


def _number(term: Term, program: Program) -> Term | None:
    """The constant that a term is."""
    source = program.source[term]
    return source if source.op == "constant" and term.type.size else None


@dataclass(frozen=True)
class _Slices:
    """The slices of an access along its first item axis: terms of their own (``halves``) or not."""

    reads: tuple[Term, ...]
    halves: bool
    axis: int
    length: int

    def take(self, g: Graph, v: list[Value]) -> list[Value]:
        if self.halves:
            return v
        x, shape = v[0], v[0].shape[: self.axis] + v[0].shape[self.axis + 1 :]
        return [g.reshape(g.slice(x, self.axis, i, i + 1), shape) for i in range(self.length)]


def _slices(x: Term, program: Program) -> _Slices:
    source, at = program.source[x], x.type.split
    if source.op == "pair" and source.shape == x.shape and source.type.split == at:
        return _Slices(source.children, True, at, 2)
    return _Slices((x,), False, at, x.item[0])


def _dot(term: Term, program: Program) -> Step:
    x, dtype = term.children[0], term.dtype
    product = _product_below(x, program)
    if product is not None:
        cart_prod, changes = product
        a, b = cart_prod.children
        batch = cart_prod["batch"]

        def multiply(g: Graph, v: list[Value]) -> Value:
            splits = (a.type.split, b.type.split)
            result = g.reshape(_contract(g, v[0], v[1], splits, batch, dtype), cart_prod.outer)
            for change in reversed(changes):
                result = change(g, result)
            return result

        return Step((a, b), multiply)

    slices, outer = _slices(x, program), x.outer
    split = x.type.split

    def emit(g: Graph, v: list[Value]) -> Value:
        parts = [g.cast(each, dtype) for each in slices.take(g, v)]
        if len(parts) == 2 and len(x.item) > 1:
            # An inner product at every outer position.
            flat = _contract(g, parts[0], parts[1], (split, split), split, dtype)
            return g.reshape(flat, outer)
        result = parts[0]
        for part in parts[1:]:
            result = g.apply("Mul", result, part)
        return result if len(x.item) == 1 else REDUCTIONS["sum"](g, result, split)

    return Step(slices.reads, emit)


Change = Callable[[Graph, Value], Value]


def _product_below(x: Term, program: Program) -> tuple[Term, list[Change]] | None:
    """The ``cart_prod`` that ``x`` holds the pairs of, and how the outer axes of its ``dot`` were
    rearranged since, last change first; None when ``x`` is something else.

    A reshape or transpose above the product is one of its ``dot`` as long as the tuple axis stays
    first in the item and nothing crosses the split.
    """
    changes: list[Change] = []
    while x.item[:1] == (2,):
        source = program.source[x]
        if source.item[:1] != (2,) or math.prod(source.outer) != math.prod(x.outer):
            return None
        if source.outer != x.outer:
            changes.append(_reshaping(x.outer))
        if source.op == "cart_prod":
            return source, changes
        split = source.type.split
        order = source["permutation"] if source.op == "transpose" else ()
        if not order or sorted(order[:split]) != list(range(split)) or order[split] != split:
            return None
        changes.append(_permuting(order[:split]))
        x = source.children[0]
    return None


def _reshaping(shape: Shape) -> Change:
    return lambda g, v: g.reshape(v, shape)


def _permuting(order: Sequence[int]) -> Change:
    return lambda g, v: g.transpose(v, order)


def _contract(
    g: Graph, a: Value, b: Value, splits: tuple[int, int], batch: int, dtype: str
) -> Value:
    """``(g, p, i) . (g, q, i) -> (g, p, q)``, each of the four one axis; without g for batch 0."""
    groups = [math.prod(a.shape[:batch])] if batch else []
    p, q = (math.prod(v.shape[batch:s]) for v, s in zip((a, b), splits, strict=True))
    depth = math.prod(a.shape[splits[0] :])
    a, b = g.cast(a, dtype), g.cast(b, dtype)
    # What is summed in a wider dtype is rounded once, at the end.
    work = working_dtype("MatMul", dtype)
    a, b = g.cast(a, work), g.cast(b, work)
    if splits == (batch + 1, batch + 1) and a.rank == b.rank == batch + 2:
        if not batch and work in KERNELS["Gemm"]:
            return g.cast(g.gemm(a, b), dtype)
        lead = range(batch)
        columns = g.transpose(b, [*lead, batch + 1, batch])
        return g.cast(g.matmul(a, columns, [*a.shape[:-1], q]), dtype)
    if not batch and splits == (a.rank - 1, 1) and b.rank == 2:
        columns = g.transpose(b, [1, 0])
        return g.cast(g.matmul(a, columns, [*a.shape[:-1], q]), dtype)
    rows = g.reshape(a, [*groups, p, depth])
    columns = g.reshape(b, [*groups, q, depth])
    columns = g.transpose(columns, [0, 2, 1] if batch else [1, 0])
    return g.cast(g.matmul(rows, columns, [*groups, p, q]), dtype)


_STEPS: dict[str, Callable[[Term, Program], Step]] = {
    "constant": _constant,
    "transpose": _transpose,
    "cart_prod": _cart_prod,
    "pair": _pair,
    "windows": _windows,
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "broadcast": _broadcast,
    "gather": _gather,
    "cast": _cast,
    "where": _where,
    "compute": _compute,
}
