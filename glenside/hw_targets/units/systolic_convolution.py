"""Convolutions on a systolic array of R rows and C columns.

Rows take the channels (or, with im2col on the fly, the elements of a window), columns the filters.
``(call systolic-conv2d-nchw (R C kh kw sh sw) W X)`` takes filters (O C kh kw) and data (N C H W);
``-nhwc`` takes (kh kw C O) and (N H W C). R divides the channels and C the filters, except for the
``-im2col-`` units, which pad the last tiles themselves. Nothing is padded around the image. The
target ``systolic-array:RxC:conv2d`` has them.

They work in passes of the array, and take as long as the products they are made of: one of windows
with filters, or, without im2col, one of channels with filters for each element of a window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from glenside.errors import ShapeError
from glenside.hw_targets.declare import template
from glenside.hw_targets.declare.denotation import Denoted
from glenside.hw_targets.declare.sizes import Condition
from glenside.hw_targets.declare.template import OperandType
from glenside.hw_targets.units.systolic_array import NAME, area, product_cycles
from glenside.language import builders
from glenside.language.shape import AccessType, Shape
from glenside.language.term import Term
from glenside.language.units import Unit

_PARAMETERS = ("rows", "columns", "kh", "kw", "sh", "sw")


def _term(w: str, x: str) -> str:
    """Of filters (O C kh kw) and data (N C H W)."""
    looks = f"(squeeze 1 (windows (C kh kw) (1 sh sw) (access 1 {x})))"
    return f"(transpose (1 0 2 3) (compute dot (cart-prod (access 1 {w}) {looks})))"


_NHWC = _term("(transpose (3 2 0 1) (access 4 ?w))", "(transpose (0 3 1 2) (access 4 ?x))")
_TERMS = {
    "nchw": template.parse(_term("(access 4 ?w)", "(access 4 ?x)")),
    "nhwc": template.parse(f"(transpose (0 2 3 1) {_NHWC})"),
}


def _looks(unit: str, x: Term, w: Term, stride: tuple[int, int]) -> Term:
    """``((N h w) (C kh kw))``: what filters (O C kh kw) see of ``x`` (N C H W)."""
    if x.type.rank != 4 or w.type.rank != 4 or x.shape[1] != w.shape[1]:
        raise ShapeError(
            f"{unit} takes data (N C H W) and filters (O C kh kw), got {x.shape} and {w.shape}"
        )
    looks = builders.windows(builders.access(x, 1), w.shape[1:], (1, *stride))
    return builders.squeeze(looks, 1)


def _unit(layout: str, im2col: bool) -> Unit:
    name = f"systolic-conv2d-{'im2col-' if im2col else ''}{layout}"

    def in_matrices(parameters: Shape, operands: tuple[Term, ...]) -> tuple[Term, Term]:
        """Filters (O C kh kw), and what they see."""
        if len(parameters) != 6 or min(parameters) < 1 or len(operands) != 2:
            raise ShapeError(
                f"{name} takes filters and data, and the positive parameters (R C kh kw sh sw)"
            )
        rows, columns, *kernel, sh, sw = parameters
        w, x = (builders.outer_only(each) for each in operands)
        if w.type.rank != 4 or x.type.rank != 4:
            raise ShapeError(f"{name} takes filters and data of 4 axes, got {w.type} and {x.type}")
        if layout == "nhwc":
            w, x = builders.transpose(w, (3, 2, 0, 1)), builders.transpose(x, (0, 3, 1, 2))
        filters, channels = w.shape[:2]
        if list(w.shape[2:]) != kernel:
            raise ShapeError(f"{name}: the window is {kernel}, the filters have {w.shape[2:]}")
        if not im2col and (channels % rows or filters % columns):
            raise ShapeError(
                f"{name}: {rows} must divide the {channels} channels, "
                f"{columns} the {filters} filters"
            )
        return w, _looks(name, x, w, (sh, sw))

    def meaning(parameters: Shape, operands: tuple[Term, ...]) -> Term:
        w, _ = in_matrices(parameters, operands)
        *_, sh, sw = parameters
        sizes = dict(zip(("O", "C", "kh", "kw"), w.shape, strict=True)) | {"sh": sh, "sw": sw}
        filters, data = (builders.outer_only(each) for each in operands)
        return template.build(_TERMS[layout], sizes, {"w": filters, "x": data})

    def in_products(parameters: Shape, operands: tuple[Term, ...]) -> Term:
        w, looks = in_matrices(parameters, operands)
        filters = builders.access(w, 1)
        if not im2col:  # Channels innermost: a tile of R rows is of one position of the window.
            filters = builders.transpose(filters, (0, 2, 3, 1))
            looks = builders.transpose(looks, (0, 1, 2, 4, 5, 3))
        rows = builders.reshape(looks, looks.outer, (math.prod(looks.item),))
        columns = builders.reshape(filters, filters.outer, (math.prod(filters.item),))
        result = builders.blocked(NAME, parameters[:2], rows, columns)
        return result if layout == "nhwc" else builders.transpose(result, (0, 3, 1, 2))

    axes = {"nchw": ("O C kh kw", "N C H W"), "nhwc": ("kh kw C O", "N H W C")}[layout]
    conditions = [f"{name} >= 1" for name in _PARAMETERS]
    if not im2col:
        conditions += ["C % rows == 0", "O % columns == 0"]
    denote = Denoted(
        name,
        {"w": OperandType.parse(f"(({axes[0]}) ())"), "x": OperandType.parse(f"(({axes[1]}) ())")},
        _PARAMETERS,
        [condition for text in conditions for condition in Condition.parse(text)],
        _TERMS[layout],
        free=True,
    )

    def cycles(op: str, parameters: Shape, batch: int, operands: Sequence[AccessType]) -> float:
        own = [AccessType(each.shape[batch:], (), each.dtype) for each in operands]
        pixels = unit.infer(parameters, own).size
        filters, channels = own[0].shape[:2] if layout == "nchw" else own[0].shape[:1:-1]
        rows, columns, kh, kw = parameters[:4]
        stream = pixels // filters if filters else 0
        once, depth = (1, channels * kh * kw) if im2col else (kh * kw, channels)
        product = product_cycles(rows, columns, stream, depth, filters)
        return math.prod(operands[0].shape[:batch]) * once * product

    unit = Unit(
        name,
        meaning,
        in_products=in_products,
        denote=denote,
        target=NAME,
        cycles=cycles,
        area=area,
    )
    return unit


DECLARED = tuple(_unit(layout, im2col) for layout in ("nchw", "nhwc") for im2col in (False, True))
