"""Rules that give convolutions to units which take them whole.

The term is the paper's: filters against windows over all channels, ``dot``, the axes put in order.
Dilated and grouped convolutions are other terms, which do not match.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import Fact, RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.rewrites.engine.types import typed
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, ints, lengths

SYSTOLIC_CONV2D = "systolic-conv2d"

NCHW_TO_NHWC, NHWC_TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
HWIO_TO_OIHW = (3, 2, 0, 1)


def _looks(x: Access, kernel: Vec[i64], stride: Vec[i64]) -> tuple[Access, Access]:
    """Windows over all channels; an access that changes nothing may stand around them."""
    looks = x.access(1).windows(kernel, stride, ints(1, 1, 1)).squeeze(1)
    return looks, looks.access(3)


def _convolution(filters: Access, looks: Access, dtype: String) -> Access:
    return filters.access(1).cart_prod(looks, 0).compute("dot", dtype)


def _three(kernel: Vec[i64], stride: Vec[i64]) -> tuple[Fact, Fact]:
    """Over channels and two more axes."""
    return eq(kernel.length()).to(i64(3)), eq(stride.length()).to(i64(3))


def _all_channels(x: Access, kernel: Vec[i64]) -> Fact:
    """Holds where the windows are as long as the channels: there is one, whatever the stride."""
    return eq(kernel[0]).to(lengths(x)[1])


def _check(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise GlensideError(f"{name} must be at least 1, got {value}")


def _convolutions() -> Any:
    from glenside.rewrites.soundness.programs import convolutions

    return convolutions()


@rewrite_rule("systolic-conv2d-nchw", exact=False, example=(1, 1), programs=_convolutions)
def systolic_conv2d_nchw(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """A convolution -> ``systolic-conv2d-nchw (R C kh kw sh sw) W X``

    where R divides the channels and C the filters.
    """
    _check(rows=rows, columns=columns)
    w, x, whole = vars_("w x whole", Access)
    kernel, stride, outer = vars_("kernel stride outer", Vec[i64])
    dtype = var("dtype", String)
    unit = _unit("nchw", rows, columns, kernel, stride, w, x)
    for looks in _looks(x, kernel, stride):
        yield rule(
            eq(whole).to(_convolution(w, looks, dtype).transpose(ints(1, 0, 2, 3))),
            *_three(kernel, stride),
            _all_channels(x, kernel),
            eq(dtype).to(x.dtype),
            eq(outer).to(whole.outer),
            eq(kernel[0] % rows).to(i64(0)),
            eq(outer[1] % columns).to(i64(0)),
        ).then(*typed(unit, outer, ints(), dtype), union(whole).with_(unit))


def _products() -> Any:
    from glenside.rewrites.soundness.programs import convolutions

    return convolutions(product_only=True)


@rewrite_rule("systolic-conv2d-im2col-nchw", exact=False, example=(1, 1), programs=_products)
def systolic_conv2d_im2col_nchw(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """The matrix product of a convolution -> ``systolic-conv2d-im2col-nchw (R C kh kw sh sw) W X``

    where the result is given the filters and the places of the windows as its axes, in that order.
    The unit pads what its size does not divide.
    """
    _check(rows=rows, columns=columns)
    w, x, looks, whole = vars_("w x looks whole", Access)
    kernel, stride, outer, places = vars_("kernel stride outer places", Vec[i64])
    filters = var("filters", i64)
    dtype = var("dtype", String)
    unit = _unit("im2col-nchw", rows, columns, kernel, stride, w, x)
    product = w.access(1).flatten().cart_prod(looks.flatten(), 0).compute("dot", dtype)
    for form in _looks(x, kernel, stride):
        yield rule(
            eq(whole).to(product.reshape(outer, ints()).transpose(ints(1, 0, 2, 3))),
            eq(looks).to(form),
            *_three(kernel, stride),
            _all_channels(x, kernel),
            eq(dtype).to(x.dtype),
            eq(places).to(looks.outer),
            eq(filters).to(outer[0]),
            # Flattened, filters of any shape look alike.
            eq(lengths(w)).to(ints(filters).append(kernel)),
            eq(outer).to(ints(filters).append(places)),
        ).then(
            *typed(unit, ints(places[0], filters, places[1], places[2]), ints(), dtype),
            union(whole).with_(unit),
        )


def _calls() -> Any:
    from glenside.rewrites.soundness.programs import nhwc_calls

    return nhwc_calls("nchw")


@rewrite_rule("systolic-conv2d-nhwc", exact=True, example=(1, 1), programs=_calls)
def systolic_conv2d_nhwc(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """``(unit-nchw W^(3 2 0 1) X^(0 3 1 2))^(0 2 3 1) -> unit-nhwc W X``"""
    yield from _to_nhwc("nchw", "nhwc", rows, columns)


def _im2col_calls() -> Any:
    from glenside.rewrites.soundness.programs import nhwc_calls

    return nhwc_calls("im2col-nchw")


@rewrite_rule("systolic-conv2d-im2col-nhwc", exact=True, example=(1, 1), programs=_im2col_calls)
def systolic_conv2d_im2col_nhwc(rows: int, columns: int) -> Iterator[RewriteOrRule]:
    """Likewise for the unit that forms the windows itself."""
    yield from _to_nhwc("im2col-nchw", "im2col-nhwc", rows, columns)


def systolic_convolutions(rows: int, columns: int) -> RuleSet:
    """What convolutions on a systolic array of this size need to be found, in either layout."""
    return RuleSet(
        f"systolic-conv2d:{rows}x{columns}",
        (
            systolic_conv2d_nchw(rows, columns),
            systolic_conv2d_im2col_nchw(rows, columns),
            systolic_conv2d_nhwc(rows, columns),
            systolic_conv2d_im2col_nhwc(rows, columns),
        ),
    )


def _to_nhwc(have: str, want: str, rows: int, columns: int) -> Iterator[RewriteOrRule]:
    _check(rows=rows, columns=columns)
    w, x, whole = vars_("w x whole", Access)
    parameters, outer = vars_("parameters outer", Vec[i64])
    dtype = var("dtype", String)
    operands = Vec[Access](w.transpose(ints(*HWIO_TO_OIHW)), x.transpose(ints(*NHWC_TO_NCHW)))
    nchw = Access.call(operands, f"{SYSTOLIC_CONV2D}-{have}", parameters)
    nhwc = Access.call(Vec[Access](w, x), f"{SYSTOLIC_CONV2D}-{want}", parameters)
    yield rule(
        eq(whole).to(nchw.transpose(ints(*NCHW_TO_NHWC))),
        eq(parameters[0]).to(i64(rows)),
        eq(parameters[1]).to(i64(columns)),
        eq(outer).to(whole.outer),
        eq(dtype).to(x.dtype),
    ).then(*typed(nhwc, outer, ints(), dtype), union(whole).with_(nhwc))


def _unit(
    form: str, rows: int, columns: int, kernel: Vec[i64], stride: Vec[i64], w: Access, x: Access
) -> Access:
    sizes = ints(rows, columns, kernel[1], kernel[2], stride[1], stride[2])
    return Access.call(Vec[Access](w, x), f"{SYSTOLIC_CONV2D}-{form}", sizes)
