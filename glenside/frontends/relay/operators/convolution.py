"""Convolutions in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import relayout
from glenside.frontends.lowering.convolution import correlate
from glenside.frontends.lowering.dtypes import accumulator
from glenside.frontends.lowering.window import window
from glenside.frontends.relay.signature import operator
from glenside.language import Term


@operator("nn.conv1d")
def conv1d(
    x: Term,
    w: Term,
    *,
    strides: Ints = (1,),
    padding: Ints = (0,),
    dilation: Ints = (1,),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | int | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str = "",
    out_dtype: str | None = None,
) -> Term:
    """Convolution along one axis."""
    layouts = ("NCW", data_layout, kernel_layout, out_layout)
    stated = (channels, kernel_size)
    return _convolution(x, w, strides, padding, dilation, groups, stated, layouts, out_dtype)


@operator("nn.conv2d")
def conv2d(
    x: Term,
    w: Term,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str | None = None,
) -> Term:
    """Convolution over images; ``groups`` up to the number of channels (depthwise)."""
    layouts = ("NCHW", data_layout, kernel_layout, out_layout)
    stated = (channels, kernel_size)
    return _convolution(x, w, strides, padding, dilation, groups, stated, layouts, out_dtype)


@operator("nn.conv3d")
def conv3d(
    x: Term,
    w: Term,
    *,
    strides: Ints = (1, 1, 1),
    padding: Ints = (0, 0, 0),
    dilation: Ints = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str = "",
    out_dtype: str | None = None,
) -> Term:
    """Convolution over volumes."""
    layouts = ("NCDHW", data_layout, kernel_layout, out_layout)
    stated = (channels, kernel_size)
    return _convolution(x, w, strides, padding, dilation, groups, stated, layouts, out_dtype)


def _convolution(
    x: Term,
    w: Term,
    strides: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
    stated: tuple[int | None, Ints | int | None],
    layouts: tuple[str, str, str, str],
    out_dtype: str | None,
) -> Term:
    """``stated``: channels and kernel size as the attributes repeat them from the weights."""
    form, data_layout, kernel_layout, out_layout = layouts
    x = relayout(x, data_layout, form)
    w = relayout(w, kernel_layout, "OI" + form[2:])
    filters, depth, *kernel = w.shape
    if groups < 1 or filters % groups or x.shape[1] != depth * groups:
        raise ShapeError(
            f"data of shape {x.shape} and weights of shape {w.shape} do not fit with "
            f"{groups} groups"
        )
    channels, kernel_size = stated
    if channels not in (None, filters):
        raise ShapeError(f"channels is {channels}, the weights of shape {w.shape} have {filters}")
    kernel_size = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
    if kernel_size not in (None, tuple(kernel)):
        raise ShapeError(f"kernel_size is {list(kernel_size or ())}, the weights have {kernel}")
    looks = window(x.shape[2:], tuple(kernel), strides, padding, dilation, False)
    result = correlate(x, w, looks, groups, accumulator(out_dtype))
    return relayout(result, form, out_layout or data_layout)
