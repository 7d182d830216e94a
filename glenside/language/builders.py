"""Functions that build terms, one for each operator, and the few phrases everybody writes.

All raise :class:`glenside.errors.ShapeError` at once when the operands do not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glenside.errors import ShapeError
from glenside.language.shape import AccessType, Shape
from glenside.language.term import Term, make


def tensor(name: str, shape: Sequence[int], dtype: str = "float32") -> Term:
    """A named array; all axes outer."""
    return make("tensor", name=name, shape=shape, dtype=dtype)


def leaf(name: str, of: AccessType) -> Term:
    """A named array of that type."""
    return access(tensor(name, of.shape, of.dtype), of.split)


def constant(value: float, shape: Sequence[int] = (), dtype: str = "float32") -> Term:
    """An array filled with ``value``; all axes outer."""
    return make("constant", value=value, shape=shape, dtype=dtype)


def access(x: Term, split: int) -> Term:
    """``x`` with its first ``split`` axes outer."""
    return _unless_same(make("access", [x], split=split), x)


def transpose(x: Term, permutation: Sequence[int]) -> Term:
    """Axes permuted as by ``numpy.transpose``; the split position stays."""
    return make("transpose", [x], permutation=permutation)


def cart_prod(a: Term, b: Term, batch: int = 0) -> Term:
    """``((g, p), (i)) x ((g, q), (i)) -> ((g, p, q), (2, i))``, ``batch`` axes g shared."""
    return make("cart_prod", [a, b], batch=batch)


def pair(a: Term, b: Term) -> Term:
    """``((o), (i)), ((o), (i)) -> ((o), (2, i))``."""
    return make("pair", [a, b])


def windows(
    x: Term, shape: Sequence[int], stride: Sequence[int], dilation: Sequence[int] | None = None
) -> Term:
    """Sliding windows over all item axes: ``((o), (d...)) -> ((o, w...), (k...))``."""
    return make("windows", [x], shape=shape, stride=stride, dilation=dilation)


def slice_(x: Term, axis: int, low: int, high: int, step: int = 1) -> Term:
    """Positions ``low``, ``low + step``, ... below ``high`` of one axis."""
    return make("slice", [x], axis=axis, low=low, high=high, step=step)


def concat(axis: int, *parts: Term) -> Term:
    """Parts joined along ``axis``; more than two become left-nested binary terms."""
    if not parts:
        raise ShapeError("concat needs at least one part")
    result = parts[0]
    for part in parts[1:]:
        result = make("concat", [result, part], axis=axis)
    return result


def pad(
    x: Term,
    axis: int,
    before: int,
    after: int,
    value: str | float = "zero",
    interior: int = 0,
) -> Term:
    """One axis padded with ``"zero"``, ``"lowest"`` or a number; nothing to pad gives ``x``."""
    padded = make("pad", [x], value=value, axis=axis, before=before, after=after, interior=interior)
    return _unless_same(padded, x)


def squeeze(x: Term, axis: int) -> Term:
    """An axis of length 1 removed."""
    return make("squeeze", [x], axis=axis)


def unsqueeze(x: Term, axis: int) -> Term:
    """An axis of length 1 inserted; at or before the split it joins the outer axes."""
    return make("unsqueeze", [x], axis=axis)


def broadcast(x: Term, shape: Sequence[int]) -> Term:
    """Axes of length 1 repeated to ``shape``; no change gives ``x``."""
    return _unless_same(make("broadcast", [x], shape=shape), x)


def flatten(x: Term) -> Term:
    """Outer axes become one, item axes become one."""
    return make("flatten", [x])


def reshape(x: Term, outer: Sequence[int], item: Sequence[int] = ()) -> Term:
    """Each part reshaped by itself; no change gives ``x``."""
    return _unless_same(make("reshape", [x], outer=outer, item=item), x)


def gather(x: Term, indices: Term, axis: int) -> Term:
    """``numpy.take(x, indices, axis)``."""
    return make("gather", [x, indices], axis=axis)


def cast(x: Term, dtype: str) -> Term:
    """Elements converted to ``dtype``; no change gives ``x``."""
    return _unless_same(make("cast", [x], dtype=dtype), x)


def where(condition: Term, a: Term, b: Term) -> Term:
    """Elements of ``a`` where ``condition`` holds, else of ``b``."""
    return make("where", [condition, a, b])


def compute(function: str, x: Term, accumulate: str | None = None) -> Term:
    """``function`` applied to each item of ``x``; sums and products formed in ``accumulate``."""
    return make("compute", [x], function=function, accumulate=accumulate)


def call(unit: str, parameters: Sequence[int], *operands: Term, batch: int = 0) -> Term:
    """One invocation of an accelerator unit; one for each position on ``batch`` shared axes."""
    return make("call", operands, unit=unit, parameters=parameters, batch=batch)


def blocked(
    unit: str,
    parameters: Sequence[int],
    a: Term,
    b: Term,
    batch: int = 0,
    accumulate: str | None = None,
) -> Term:
    """``compute(dot, cart_prod(a, b, batch))`` tiled onto a unit; items have one axis."""
    return make(
        "blocked", [a, b], unit=unit, parameters=parameters, batch=batch, accumulate=accumulate
    )


def host_op(
    operator: str,
    operands: Sequence[Term],
    shape: Sequence[int],
    dtype: str = "float32",
    *,
    domain: str = "",
    version: int = 1,
    output: int = 0,
    attributes: str = "{}",
) -> Term:
    """An ONNX operator that onnxruntime computes; see ``glenside.language.host``."""
    given: Mapping[str, Any] = {
        "operator": operator,
        "shape": shape,
        "dtype": dtype,
        "domain": domain,
        "version": version,
        "output": output,
        "attributes": attributes,
    }
    return make("host_op", operands, **given)


def _unless_same(changed: Term, x: Term) -> Term:
    """``x`` where ``changed`` has its type: for these operators nothing has changed then."""
    return x if changed.type == x.type else changed


# --- phrases ------------------------------------------------------------------------------------


def outer_only(x: Term) -> Term:
    """``x`` with every axis outer: the form in which a whole tensor is passed on."""
    return access(x, x.type.rank)


def item_only(x: Term) -> Term:
    """``x`` as a single item."""
    return access(x, 0)


def broadcast_to(x: Term, shape: Sequence[int]) -> Term:
    """NumPy broadcasting: axes are added in front, then lengths 1 repeated. All axes outer."""
    x = outer_only(x)
    for _ in range(len(shape) - x.type.rank):
        x = unsqueeze(x, 0)
    return broadcast(x, shape)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape NumPy would broadcast to; raises :class:`ShapeError` naming the shapes."""
    rank = max(map(len, shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        lengths = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        if len(lengths) > 1:
            raise ShapeError(f"shapes {', '.join(map(str, shapes))} do not broadcast together")
        result.append(lengths.pop() if lengths else 1)
    return tuple(result)


def elementwise(function: str, *operands: Term) -> Term:
    """A map or fold over whole tensors with NumPy broadcasting; all axes of the result outer."""
    if not operands:
        raise ShapeError(f"{function} needs at least one operand")
    if len(operands) == 1:
        return outer_only(compute(function, item_only(operands[0])))
    shape = broadcast_shapes(*(x.shape for x in operands))
    spread = [item_only(broadcast_to(x, shape)) for x in operands]
    result = spread[0]
    for other in spread[1:]:
        result = compute(function, pair(result, other))
    return outer_only(result)
