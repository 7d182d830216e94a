"""One TIR function for each kernel, in logical shapes and without a schedule.

Kernels are tensor expressions, so any of TVM's schedulers can work on them. What a kernel reads is
a function of the index (``glenside.codegen.lower``); nothing between is materialised.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glenside.codegen import scalars
from glenside.codegen.lower import Lowering
from glenside.language import Term
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS, UNSIGNED

Expr = Any
Index = list[Any]


class _Expressions(Lowering):
    """Index functions whose values are written out wherever they are used.

    Tensor expressions with names bound inside of them defeat TVM's schedulers; expressions are
    small enough (see ``cutting``), and LLVM finds what is common to them.
    """

    def scoped(self, build: Callable[[], Expr]) -> Expr:
        return build()

    def name(self, value: Expr, dtype: str) -> Expr:
        return value

    def value(self, term: Term, index: Index) -> Expr:
        return self.access(term).load(index)

    def _compute(self, term: Term) -> Callable[[Index], Expr]:
        child = term.children[0]
        if term["function"] not in ("shift_left", "shift_right") or child.dtype not in UNSIGNED:
            return super()._compute(term)
        at = child.type.split

        def shifted(index: Index) -> Expr:
            slices = [
                self.value(child, [*index[:at], k, *index[at:]]) for k in range(child.item[0])
            ]
            return functools.reduce(
                lambda a, b: _shift(a, b, child.dtype, term["function"]), slices
            )

        return shifted


def _shift(a: Expr, b: Expr, dtype: str, function: str) -> Expr:
    """A shift of unsigned integers, 0 from the width on.

    TVM's simplifier fails on an unsigned comparison that holds where the same one is tested again,
    so the amount is masked instead of tested.
    """
    from tvm import tirx

    width = np.dtype(dtype).itemsize * 8
    amount = tirx.bitwise_and(b, tirx.const(width - 1, dtype))
    value = getattr(tirx, function)(a, amount)
    return tirx.Select(tirx.LT(b, tirx.const(width, dtype)), value, tirx.const(0, dtype))


def build_kernel(term: Term, leaves: Sequence[Term], numbers: Mapping[Term, Any]) -> Any:
    """The TIR function that computes ``term``: parameters are ``leaves`` in order, then the result.

    :param numbers: leaves below ``term`` that are one number throughout; not among ``leaves``.
    """
    from tvm import te

    lowering = _Expressions(lambda term: None, numbers, _no_buffer)
    placeholders = []
    for position, leaf in enumerate(leaves):
        placeholder = te.placeholder(leaf.shape, leaf.dtype, f"in{position}")
        placeholders.append(placeholder)
        lowering.give(leaf, _reader(placeholder, leaf.dtype))
    result = _compute(term, lowering)
    if term.dtype == "bfloat16":
        # Elsewhere, its values are float32: TVM's own rounding loses NaN.
        values = result
        result = _stage(term.shape, lambda index: values(*index).astype("bfloat16"), "bits")
    return te.create_prim_func([*placeholders, result])


def _written_out(value: Any) -> Any:
    """The expression without the names that rounding to bfloat16 introduces."""
    import tvm_ffi
    from tvm import tirx

    def body(let: Any) -> Expr:
        held = (tirx.Var, lambda variable: let.value if variable.same_as(let.var) else variable)
        return tvm_ffi.structural_map(let.body, held)

    return (
        tvm_ffi.structural_map(value, (tirx.Let, body)) if isinstance(value, tirx.Expr) else value
    )


def _no_buffer(term: Term) -> Any:
    raise AssertionError(term)


def _reader(tensor: Any, dtype: str) -> Callable[[Index], Expr]:
    if dtype == "bfloat16":
        return lambda index: tensor(*index).astype("float32")
    return lambda index: tensor(*index)


def _compute(term: Term, lowering: _Expressions) -> Any:
    if term.op == "compute":
        function = FUNCTIONS[term["function"]]
        if function.kind == "vector":
            return _softmax(term, lowering)
        if term["function"] in ("argmax", "argmin"):
            return _arg_extreme(term, lowering)
        if function.kind == "reduce":
            return _reduction(term, lowering)
    return _stage(term.shape, lambda index: lowering.access(term).load(index), "out")


def _stage(shape: Sequence[int], element: Callable[[Index], Expr], name: str) -> Any:
    from tvm import te, tirx

    def body(*index: Any) -> Expr:
        value = _written_out(element(list(index)))
        # A tuple is what a reduction with two results gives.
        return value if isinstance(value, tirx.Expr | tuple | list) else tirx.convert(value)

    return te.compute(tuple(shape), body, name)


def _reduction(term: Term, lowering: _Expressions) -> Any:
    """A sum, product, extreme or inner product of every item."""
    from tvm import te

    (child,) = term.children
    name = term["function"]
    pairs, item = (child.item[0], child.item[1:]) if name == "dot" else (0, child.item)
    dtype = "uint8" if term.dtype == "bool" else term.dtype
    inner = scalars.wide(dtype)
    step = {"dot": "sum", "mean": "sum"}.get(name, name)

    def read(index: Index) -> Expr:
        value = _converted(lowering.access(child).load(index), child.dtype, dtype)
        return scalars.convert(value, dtype, inner)

    def element(index: Index, place: Index) -> Expr:
        if name != "dot":
            return read([*index, *place])
        result = read([*index, 0, *place])
        for k in range(1, pairs):
            result = result * read([*index, k, *place])
        return result

    reducer = te.comm_reducer(
        lambda a, b: scalars.accumulate(step, a, b, inner),
        lambda _: scalars.identity(step, inner),
        name=step,
    )
    axes = [te.reduce_axis((0, length), f"r{k}") for k, length in enumerate(item)]

    def total(index: Index) -> Expr:
        value = element(index, list(axes))
        return reducer(value, axis=axes) if axes else value

    def final(value: Expr) -> Expr:
        if name == "mean":
            value = value / scalars.const(math.prod(item), inner)
        return scalars.convert(value, inner, term.dtype)

    if not axes:
        return _stage(term.shape, lambda index: final(total(index)), "out")
    if inner == term.dtype and name != "mean":
        return _stage(term.shape, total, "out")
    totals = _stage(term.shape, total, "total")
    return _stage(term.shape, lambda index: final(totals(*index)), "out")


def _converted(value: Expr, source: str, target: str) -> Expr:
    from tvm import tirx

    if isinstance(value, tirx.IntImm) and source != "bool":
        # TVM refuses to convert a number that does not fit.
        return scalars.const(np.array(value.value, source).astype(target).item(), target)
    return scalars.convert(value, source, target)


def _softmax(term: Term, lowering: _Expressions) -> Any:
    """Softmax of the items, each shifted by its maximum."""
    from tvm import te

    (child,) = term.children
    dtype = scalars.wide(term.dtype)
    length = child.item[0]

    def read(index: Index) -> Expr:
        return scalars.convert(lowering.access(child).load(index), child.dtype, dtype)

    def reduce(step: str, element: Callable[[Index], Expr], name: str) -> Any:
        reducer = te.comm_reducer(
            lambda a, b: scalars.accumulate(step, a, b, dtype),
            lambda _: scalars.identity(step, dtype),
            name=step,
        )
        k = te.reduce_axis((0, length), "k")
        return _stage(child.outer, lambda i: reducer(element([*i, k]), axis=[k]), name)

    top = reduce("max", read, "top")
    powers = _stage(
        term.shape, lambda i: scalars.apply("exp", read(i) - top(*i[:-1]), dtype), "powers"
    )
    total = reduce("sum", lambda i: powers(*i), "total")
    return _stage(
        term.shape,
        lambda i: scalars.convert(powers(*i) / total(*i[:-1]), dtype, term.dtype),
        "out",
    )


def _arg_extreme(term: Term, lowering: _Expressions) -> Any:
    """Position of the first extreme element; a NaN counts as extreme."""
    from tvm import te, tirx

    (child,) = term.children
    greater = term["function"] == "argmax"
    dtype = scalars.value_dtype(child.dtype)

    def combine(a: Any, b: Any) -> tuple[Expr, Expr]:
        (here, known), (there, new) = a, b
        wins = tirx.GT(new, known) if greater else tirx.LT(new, known)
        same = tirx.EQ(new, known)
        if dtype in FLOATS:
            old, fresh = scalars.is_nan(known, dtype), scalars.is_nan(new, dtype)
            wins = tirx.Or(
                tirx.And(fresh, tirx.Not(old)), tirx.And(wins, tirx.Not(tirx.Or(old, fresh)))
            )
            same = tirx.Or(same, tirx.And(old, fresh))
        none = tirx.const(0, "int64")
        # Position -1 marks the start value, which any element replaces.
        wins = tirx.Or(wins, tirx.And(same, tirx.LT(there, here)))
        wins = tirx.And(tirx.GE(there, none), tirx.Or(tirx.LT(here, none), wins))
        return tirx.Select(wins, there, here), tirx.Select(wins, new, known)

    def start(_: str, __: str) -> tuple[Expr, Expr]:
        return tirx.const(-1, "int64"), scalars.identity("max" if greater else "min", dtype)

    reducer = te.comm_reducer(combine, start, name=term["function"])
    k = te.reduce_axis((0, child.item[0]), "k")
    best = _stage(
        child.outer,
        lambda i: reducer((k.var.astype("int64"), lowering.access(child).load([*i, k])), axis=[k]),
        "best",
    )
    return _stage(term.shape, lambda i: best[0](*i), "out")
