"""Random well-typed terms over every operator, for Hypothesis.

``terms()`` grows a term from a leaf, one operator at a time; second operands are made to fit. The
axes have length 0, 1, 2 and odd lengths, the dtypes are all there are. ``environment(roots)`` gives
arrays for the tensors of such terms (those that hold indices stay inside what they index).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from glenside.language import DTYPES, FUNCTIONS, OPERATORS, Term, builders, topological_order
from glenside.language.shape import FLOATS, INTEGERS, NUMBERS, AccessType

Draw = Callable[[st.SearchStrategy[Any]], Any]

LENGTHS = (2, 3, 1, 5, 4, 2, 3, 1, 0)
"""Axis lengths, with repetitions as weights; the first is what a failure shrinks to."""
LARGEST_RANK = 6
LARGEST_SIZE = 2000
INDEX = "index-below-"


def lengths() -> st.SearchStrategy[int]:
    return st.sampled_from(LENGTHS)


def shapes(least: int = 0, most: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(lengths(), min_size=least, max_size=most).map(tuple)


def numbers(dtype: str) -> st.SearchStrategy[Any]:
    """Values of a dtype that constants and padding may have: extremes, -0.0 and nan included."""
    if dtype == "bool":
        return st.booleans()
    if dtype in FLOATS:
        return st.sampled_from((0.0, 1.5, -2.25, -0.0, math.inf, -math.inf, math.nan, 0.1, 1e4))
    limits = np.iinfo(dtype)
    return st.integers(int(limits.min), int(limits.max)) | st.integers(0, 3)


@st.composite
def leaves(
    draw: Draw,
    shape: Sequence[int] | None = None,
    dtype: str | None = None,
    dtypes: Sequence[str] = DTYPES,
) -> Term:
    """A tensor or a constant, all axes outer."""
    shape = draw(shapes()) if shape is None else tuple(shape)
    dtype = draw(st.sampled_from(dtypes)) if dtype is None else dtype
    if draw(st.integers(0, 4)) == 4:
        return builders.constant(draw(numbers(dtype)), shape, dtype)
    digits = "x".join(map(str, shape)) or "scalar"
    return builders.tensor(f"{draw(st.sampled_from('abc'))}-{digits}-{dtype}", shape, dtype)


def like(draw: Draw, wanted: AccessType) -> Term:
    """Another access of that type."""
    return builders.access(draw(leaves(wanted.shape, wanted.dtype)), wanted.split)


@st.composite
def terms(
    draw: Draw,
    operators: Iterable[str] = tuple(OPERATORS),
    dtypes: Sequence[str] = DTYPES,
    least: int = 0,
    most: int = 6,
) -> Term:
    """A term of at most ``most`` drawn operators (those that join operands into shape not counted).

    :param operators: the names of those it may use beside leaves and ``access``.
    :param dtypes: of the leaves it starts from.
    """
    steps = [STEPS[name] for name in operators if name in STEPS]
    term = draw(leaves(dtypes=dtypes))
    for _ in range(draw(st.integers(least, most))):
        grown = draw(st.sampled_from(steps))(draw, term)
        if grown.type.rank <= LARGEST_RANK and grown.type.size <= LARGEST_SIZE:
            term = grown
    return term


def environment(roots: Iterable[Term], seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays for the tensors below ``roots``: small integers, or floats that are such halves."""
    rng = np.random.default_rng(seed)
    result = {}
    for term in topological_order(roots):
        if term.op != "tensor":
            continue
        name, shape, dtype = term["name"], term.shape, term.dtype
        if name.startswith(INDEX):
            length = int(name.removeprefix(INDEX).split("-")[0])
            array = rng.integers(-length if dtype.startswith("int") else 0, length, shape)
        elif dtype == "bool":
            array = rng.integers(0, 2, shape)
        else:
            array = rng.integers(0 if dtype.startswith("u") else -5, 6, shape)
            array = array / 2 if dtype in FLOATS else array
        result[name] = np.asarray(array).astype(dtype)
    return result


# --- one operator more ---------------------------------------------------------------------------
# Each takes what the term is and gives the term grown by its operator, or the same term where the
# operator has no place.


def _access(draw: Draw, x: Term) -> Term:
    return builders.access(x, draw(st.integers(0, x.type.rank)))


def _transpose(draw: Draw, x: Term) -> Term:
    return builders.transpose(x, draw(st.permutations(range(x.type.rank))))


def _cart_prod(draw: Draw, x: Term) -> Term:
    x = _access(draw, x)
    batch = draw(st.integers(0, min(2, x.type.split)))
    outer = x.outer[:batch] + draw(shapes(most=2))
    other = like(draw, AccessType(outer, x.item, x.dtype))
    first, second = (x, other) if draw(st.booleans()) else (other, x)
    return builders.cart_prod(first, second, batch)


def _pair(draw: Draw, x: Term) -> Term:
    return builders.pair(x, x if draw(st.booleans()) else like(draw, x.type))


def _windows(draw: Draw, x: Term) -> Term:
    splits = [n for n in range(x.type.rank + 1) if 0 not in x.shape[n:]]
    x = builders.access(x, draw(st.sampled_from(splits)))
    shape, stride, dilation = [], [], []
    for length in x.item:
        shape.append(draw(st.integers(1, length)))
        reach = (length - 1) // (shape[-1] - 1) if shape[-1] > 1 else 3
        dilation.append(draw(st.integers(1, min(3, reach))))
        stride.append(draw(st.integers(1, 3)))
    return builders.windows(x, shape, stride, dilation)


def _slice(draw: Draw, x: Term) -> Term:
    if not x.shape:
        return x
    axis = draw(st.integers(0, x.type.rank - 1))
    low = draw(st.integers(0, x.shape[axis]))
    high = draw(st.integers(low, x.shape[axis]))
    return builders.slice_(x, axis, low, high, draw(st.integers(1, 3)))


def _concat(draw: Draw, x: Term) -> Term:
    if not x.shape:
        return x
    axis = draw(st.integers(0, x.type.rank - 1))
    shape = list(x.shape)
    shape[axis] = draw(lengths())
    return builders.concat(axis, x, like(draw, x.type.with_shape(shape)))


def _pad(draw: Draw, x: Term) -> Term:
    if not x.shape:
        return x
    axis = draw(st.integers(0, x.type.rank - 1))
    before, after, interior = (draw(st.integers(0, 2)) for _ in range(3))
    value = draw(st.sampled_from(("zero", "lowest")) | numbers(x.dtype))
    return builders.pad(x, axis, before, after, value, interior)


def _squeeze(draw: Draw, x: Term) -> Term:
    axes = [axis for axis, length in enumerate(x.shape) if length == 1]
    return builders.squeeze(x, draw(st.sampled_from(axes))) if axes else x


def _unsqueeze(draw: Draw, x: Term) -> Term:
    return builders.unsqueeze(x, draw(st.integers(0, x.type.rank)))


def _broadcast(draw: Draw, x: Term) -> Term:
    shape = [draw(lengths()) if length == 1 else length for length in x.shape]
    return builders.broadcast(x, shape)


def _flatten(draw: Draw, x: Term) -> Term:
    return builders.flatten(_access(draw, x))


def _reshape(draw: Draw, x: Term) -> Term:
    def part(shape: tuple[int, ...]) -> list[int]:
        size = math.prod(shape)
        divisors = [d for d in range(1, size + 1) if size % d == 0] or [1]
        first = draw(st.sampled_from(divisors))
        dims = [size // first, first]
        while 1 in dims and draw(st.booleans()):
            dims.remove(1)
        return draw(st.permutations(dims))

    return builders.reshape(x, part(x.outer), part(x.item))


def _gather(draw: Draw, x: Term) -> Term:
    if not x.shape:
        return x
    axis = draw(st.integers(0, x.type.rank - 1))
    length, dtype = x.shape[axis], draw(st.sampled_from(INTEGERS))
    shape = draw(shapes(most=2)) if length else (0, *draw(shapes(most=1)))
    if length and draw(st.booleans()):
        least = 0 if dtype.startswith("u") else -length
        indices = builders.constant(draw(st.integers(least, length - 1)), shape, dtype)
    else:
        digits = "x".join(map(str, shape)) or "scalar"
        indices = builders.tensor(f"{INDEX}{max(length, 1)}-{digits}-{dtype}", shape, dtype)
    return builders.gather(x, _access(draw, indices), axis)


def _cast(draw: Draw, x: Term) -> Term:
    return builders.cast(x, draw(st.sampled_from(DTYPES)))


def _where(draw: Draw, x: Term) -> Term:
    condition = like(draw, AccessType(x.outer, x.item, "bool"))
    first, second = (x, like(draw, x.type)) if draw(st.booleans()) else (like(draw, x.type), x)
    return builders.where(condition, first, second)


def _compute(draw: Draw, x: Term) -> Term:
    fitting = [f for f in FUNCTIONS.values() if x.dtype in f.domain]
    function = draw(st.sampled_from(fitting))
    if function.name == "dot" and x.item and draw(st.booleans()):
        pass  # Over a tuple axis of any length.
    elif function.kind == "fold" or function.name == "dot":
        x = _pair(draw, _access(draw, x))
        if function.arity is None and draw(st.booleans()):
            x = builders.concat(x.type.split, x, x)
    elif function.item_rank == 1:
        x = _flatten(draw, x)
        if len(x.item) != 1:
            x = builders.access(builders.unsqueeze(x, 0), x.type.rank)
        if function.name in ("argmax", "argmin") and 0 in x.item:
            return x
    else:
        x = _access(draw, x)
    accumulate = None
    if function.accumulates and draw(st.booleans()):
        accumulate = draw(st.sampled_from([d for d in function.domain if d in NUMBERS]))
    return builders.compute(function.name, x, accumulate)


def _call(draw: Draw, x: Term) -> Term:
    if x.dtype == "bool" or not x.shape or not x.shape[-1]:
        return x
    x = builders.flatten(builders.access(x, x.type.rank - 1))
    (rows,), columns = x.item, draw(st.integers(1, 4))
    weights = like(draw, AccessType((), (rows, columns), x.dtype))
    return builders.call("systolic-array", (rows, columns), x, weights)


def _blocked(draw: Draw, x: Term) -> Term:
    if x.dtype == "bool" or not x.shape:
        return x
    x = builders.access(x, x.type.rank - 1)
    batch = draw(st.integers(0, min(2, x.type.split)))
    outer = x.outer[:batch] + draw(shapes(most=2))
    other = like(draw, AccessType(outer, x.item, x.dtype))
    parameters = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    accumulate = draw(st.sampled_from((None, *NUMBERS)))
    return builders.blocked("systolic-array", parameters, x, other, batch, accumulate)


def _host_op(draw: Draw, x: Term) -> Term:
    return builders.host_op("Identity", [x], x.shape, x.dtype, version=14)


STEPS: dict[str, Callable[[Draw, Term], Term]] = {
    "access": _access,
    "transpose": _transpose,
    "cart_prod": _cart_prod,
    "pair": _pair,
    "windows": _windows,
    "slice": _slice,
    "concat": _concat,
    "pad": _pad,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "broadcast": _broadcast,
    "flatten": _flatten,
    "reshape": _reshape,
    "gather": _gather,
    "cast": _cast,
    "where": _where,
    "compute": _compute,
    "call": _call,
    "blocked": _blocked,
    "host_op": _host_op,
}
