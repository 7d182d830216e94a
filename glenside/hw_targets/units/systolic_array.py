"""A weight-stationary systolic array of R rows and C columns.

One pass holds an R x C tile of weights and streams rows of length R through it; each row comes out
as its C products with the columns (Glenside, section 4). ``(call systolic-array (R C) X W)`` takes
``X: ((M), (R))`` or ``(() (R))`` and ``W: (() (R C))`` and gives ``((M C) ())``. Products of other
sizes are ``blocked``: see :func:`glenside.language.invocation.run_blocked`. A target may have
arrays of several sizes; each product then goes to the one on which it takes the fewest cycles.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import ShapeError, TargetError
from glenside.hw_targets.declare import template
from glenside.hw_targets.declare.denotation import Denoted
from glenside.hw_targets.declare.sizes import Condition
from glenside.hw_targets.declare.template import OperandType
from glenside.hw_targets.offload import OffloadTarget
from glenside.hw_targets.target import TargetKind
from glenside.language.denotation import Denotation, Lengths, Logic
from glenside.language.interpreter import matrix_product
from glenside.language.shape import AccessType, Shape
from glenside.language.term import Term
from glenside.language.units import Unit

if TYPE_CHECKING:
    from glenside.rewrites.ruleset import RuleSet

Array = np.ndarray[Any, Any]

NAME = "systolic-array"


_TERM = template.parse("(compute dot (cart-prod ?x (access 1 (transpose (1 0) ?w))))")


def _size(parameters: Shape) -> tuple[int, int]:
    if len(parameters) != 2 or min(parameters) < 1:
        raise ShapeError(
            f"{NAME} takes two positive parameters, rows and columns; got {parameters}"
        )
    return parameters[0], parameters[1]


def _meaning(parameters: Shape, operands: tuple[Term, ...]) -> Term:
    rows, columns = _size(parameters)
    if len(operands) != 2:
        raise ShapeError(
            f"{NAME} takes two operands, the stream and the weights; got {len(operands)}"
        )
    stream, weights = operands
    if stream.item != (rows,) or len(stream.outer) > 1:
        raise ShapeError(
            f"{NAME} {rows}x{columns}: the stream must be ((M) ({rows})) or (() ({rows})), "
            f"got {stream.type}"
        )
    if weights.outer or weights.item != (rows, columns):
        raise ShapeError(
            f"{NAME} {rows}x{columns}: the weights must be (() ({rows} {columns})), "
            f"got {weights.type}"
        )
    return template.build(_TERM, {}, {"x": stream, "w": weights})


def _simulate(parameters: Shape, arrays: list[Array]) -> Array:
    """One pass; the operands must be of the array's own size, whoever asks."""
    rows, columns = parameters
    stream, weights = arrays
    if stream.shape[-1] != rows or weights.shape != (rows, columns):
        raise ShapeError(
            f"{NAME} {rows}x{columns}: a pass takes rows of {rows} and a {rows}x{columns} tile, "
            f"got {stream.shape} and {weights.shape}"
        )
    return matrix_product(stream, weights, stream.dtype.name)


def _denoted(stream: str) -> Denoted:
    operands = {"x": OperandType.parse(stream), "w": OperandType.parse("(() (R C))")}
    positive = Condition.parse("R >= 1") + Condition.parse("C >= 1")
    return Denoted(NAME, operands, ("R", "C"), positive, _TERM)


@dataclass(frozen=True)
class _OfEither:
    """A stream of rows, or a row."""

    stream: Denoted
    row: Denoted

    def __call__(
        self, logic: Logic, operands: Sequence[Denotation], parameters: Lengths
    ) -> Denotation:
        several = logic.decide(logic.rank(operands[0].outer) > 0)
        return (self.stream if several else self.row)(logic, operands, parameters)

    def __str__(self) -> str:
        return f"{self.stream}; {self.row}"


CONV2D = "conv2d"
"""The option that adds the units of ``systolic_convolution.py``."""

_SIZE = r"([1-9]\d{0,4})x([1-9]\d{0,4})"


def pass_cycles(rows: int, columns: int, stream: int) -> int:
    """Cycles of one pass: R to load the tile of weights, then one row of the stream a cycle, of
    which the last leaves the far corner R + C - 2 cycles after it came in.

    ``2 R + C + M - 2`` for M rows, as SCALE-Sim has it (Samajdar et al., "A systematic methodology
    for characterizing scalability of DNN accelerators using SCALE-Sim", ISPASS 2020).
    """
    return 2 * rows + columns + stream - 2 if stream else 0


def product_cycles(rows: int, columns: int, stream: int, depth: int, outputs: int) -> int:
    """Cycles of a product (stream, depth) by (depth, outputs): a pass for each tile of weights."""
    return -(-depth // rows) * -(-outputs // columns) * pass_cycles(rows, columns, stream)


def _cycles(op: str, parameters: Shape, batch: int, operands: Sequence[AccessType]) -> float:
    rows, columns = parameters
    a, b = operands
    shared = math.prod(a.outer[:batch])
    stream = math.prod(a.outer[batch:])
    if op == "call":
        return shared * pass_cycles(rows, columns, stream)
    outputs = math.prod(b.outer[batch:])
    return shared * product_cycles(rows, columns, stream, math.prod(a.item), outputs)


def area(parameters: Shape) -> float:
    """One multiplier in each of R x C cells."""
    return float(parameters[0] * parameters[1])


UNIT = Unit(
    NAME,
    _meaning,
    _simulate,
    array=_size,
    denote=_OfEither(_denoted("((M) (R))"), _denoted("(() (R))")),
    target=NAME,
    cycles=_cycles,
    area=area,
)


def _target(options: str) -> OffloadTarget:
    if re.fullmatch(rf"{_SIZE}(,{_SIZE})*(:{CONV2D})?", options) is None:
        raise TargetError(
            f"{NAME} takes its size, up to 99999 each way, as {NAME}:RxC, such as {NAME}:16x16, "
            f"several as RxC,RxC, and :{CONV2D} behind for its convolutions; got {options!r}"
        )
    sizes = [(int(rows), int(columns)) for rows, columns in re.findall(_SIZE, options)]
    convolutions = options.endswith(f":{CONV2D}")

    def rules() -> list[RuleSet]:
        from glenside.rewrites.rules.channels import CHANNELS
        from glenside.rewrites.rules.convolution import systolic_convolutions
        from glenside.rewrites.rules.im2col import IM2COL
        from glenside.rewrites.rules.layout import LAYOUT
        from glenside.rewrites.rules.tensorize import systolic_rules

        sets = [IM2COL, LAYOUT, *(systolic_rules(*size) for size in dict.fromkeys(sizes))]
        if convolutions:
            sets += [CHANNELS, *(systolic_convolutions(*size) for size in dict.fromkeys(sizes))]
        return sets

    units = (NAME, *(CONVOLUTIONS if convolutions else ()))
    several = len(set(sizes)) > 1
    return OffloadTarget(
        f"{NAME}:{options}", units, rules, None if several else sizes[0], several_sizes=several
    )


CONVOLUTIONS = tuple(
    f"systolic-conv2d-{im2col}{layout}" for layout in ("nchw", "nhwc") for im2col in ("", "im2col-")
)
"""Units of ``systolic_convolution.py``."""

DECLARED = (
    UNIT,
    TargetKind(
        NAME,
        f"weight-stationary matrix unit, written {NAME}:RxC; several sizes RxC,RxC; "
        f":{CONV2D} for convolutions on it",
        _target,
    ),
)
