"""Convolutions in one, two and three dimensions, in any order of axes, and their kin."""

from __future__ import annotations

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import relayout, through_layout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.convolution import filters_of
from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.phrases import add, elementwise, mul, reduce, sub
from glenside.frontends.lowering.sampling import deformable_convolution
from glenside.frontends.lowering.tvm_convolution import CONVOLUTIONS, TRANSPOSED, check_stated
from glenside.frontends.lowering.window import patches, window
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.signature import operator
from glenside.language import Term, builders
from glenside.language.builders import compute

for _name, _lower in (CONVOLUTIONS | TRANSPOSED).items():
    operator(_name)(_lower)

# What TVM's passes make of a convolution once it knows the target: the same with blocked axes.
operator("nn.contrib_conv2d_NCHWc", "nn.contrib_depthwise_conv2d_NCHWc")(CONVOLUTIONS["nn.conv2d"])


@operator("nn.deformable_conv2d")
def deformable_conv2d(
    constants: Constants,
    x: Term,
    offset: Term,
    w: Term,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0,),
    dilation: Ints = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | int | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str | None = None,
) -> Term:
    """Every place of the kernel looks where its offset says; a place outside the data sees 0."""
    w = filters_of(w, kernel_layout, "NCHW")
    filters, depth, *kernel = w.shape
    check_stated(channels, kernel_size, filters, kernel)
    offset = relayout(offset, data_layout, "NCHW")
    wide = dtype_of(out_dtype, x.dtype)

    def work(x: Term) -> Term:
        n, c = x.shape[:2]
        looks = window(x.shape[2:], tuple(kernel), strides, padding, dilation, False)
        count = 2 * kernel[0] * kernel[1] * deformable_groups
        fits = groups > 0 and not filters % groups and c == depth * groups
        if deformable_groups < 1 or c % deformable_groups or offset.shape[:2] != (n, count):
            fits = False
        if not fits:
            raise ShapeError(
                f"data {x.shape}, offsets {offset.shape}, weights {w.shape}, {groups} groups and "
                f"{deformable_groups} deformable groups do not fit"
            )
        x = builders.cast(x, wide)
        moved, heavy = builders.cast(offset, wide), builders.cast(w, wide)
        return deformable_convolution(
            constants, x, heavy, moved, None, looks, groups, deformable_groups, inside_only=True
        )

    return through_layout(x, "NCHW", data_layout, out_layout, work)


@operator("nn.correlation")
def correlation(
    a: Term,
    b: Term,
    *,
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride1: int = 1,
    stride2: int = 1,
    padding: Ints = (0, 0),
    is_multiply: bool = True,
    layout: str = "NCHW",
) -> Term:
    """How alike patches of ``a`` and displaced ones of ``b`` are: a channel a displacement."""
    a, b = relayout(a, layout, "NCHW"), relayout(b, layout, "NCHW")
    if a.type != b.type:
        raise ShapeError(f"data of shapes {a.shape} and {b.shape} must be alike")
    if kernel_size < 1 or kernel_size % 2 == 0 or min(stride1, stride2) < 1 or max_displacement < 0:
        raise ShapeError(
            f"kernel_size {kernel_size} must be odd, strides {stride1} and {stride2} at least 1"
        )
    pads = window(a.shape[2:], (1, 1), (1,), padding, (1,), False)
    a, b = pads.pad(a, "zero"), pads.pad(b, "zero")
    border = max_displacement + (kernel_size - 1) // 2
    counts = [-(-(length - 2 * border) // stride1) for length in a.shape[2:]]
    if min(counts) < 1:
        raise ShapeError(f"data of size {a.shape[2:]} is smaller than twice the border {border}")
    # The last patches reach over the border where the kernel is wide.
    radius = max_displacement // stride2
    channels = []
    for down in range(-radius, radius + 1):
        for right in range(-radius, radius + 1):
            first = _patches(a, (0, 0), counts, max_displacement, kernel_size, stride1)
            second = _patches(
                b, (down * stride2, right * stride2), counts, max_displacement, kernel_size, stride1
            )
            alike = mul(first, second) if is_multiply else elementwise("abs", sub(first, second))
            channels.append(reduce("sum", alike, [1, 4, 5], False))
    stacked = builders.concat(1, *(builders.unsqueeze(each, 1) for each in channels))
    scale = 1 / (kernel_size**2 * a.shape[1])
    return relayout(mul(stacked, scale), "NCHW", layout)


def _patches(
    x: Term, shift: tuple[int, int], counts: list[int], start: int, kernel: int, stride: int
) -> Term:
    """(N, C, h, w) to (N, C, h', w', k, k): patches whose corners begin at ``start + shift``."""
    for axis, (by, count) in enumerate(zip(shift, counts, strict=True), 2):
        low = start + by
        high = low + (count - 1) * stride + kernel
        over = max(high - x.shape[axis], 0)
        x = builders.slice_(builders.pad(x, axis, 0, over), axis, low, high)
    looks = window(x.shape[2:], (kernel, kernel), (stride,), (0,), (1,), False)
    return builders.outer_only(patches(x, looks))


@operator("image.dilation2d")
def dilation2d(
    x: Term,
    w: Term,
    *,
    strides: Ints = (1, 1),
    padding: Ints = (0,),
    dilations: Ints = (1, 1),
    data_layout: str = "NCHW",
    kernel_layout: str = "IHW",
    out_dtype: str | None = None,
) -> Term:
    """Greatest sum of window and filter for every channel; what is padded counts as 0."""
    w = relayout(w, kernel_layout, "IHW")
    dtype = dtype_of(out_dtype, x.dtype)

    def work(x: Term) -> Term:
        if w.shape[0] != x.shape[1]:
            raise ShapeError(f"data of shape {x.shape} and weights {w.shape} do not fit")
        looks = window(x.shape[2:], w.shape[1:], strides, padding, dilations, False)
        seen = builders.outer_only(patches(looks.pad(x, "zero"), looks))
        column = builders.reshape(w, (w.shape[0], 1, 1, *w.shape[1:]))
        total = add(builders.cast(seen, dtype), builders.cast(column, dtype))
        return compute("max", builders.access(total, 4))

    return through_layout(x, "NCHW", data_layout, "", work)


@operator("nn.dilate")
def dilate(x: Term, *, strides: Ints = (1, 1), dilation_value: float = 0.0) -> Term:
    """Every axis widened by a number between its elements."""
    if len(strides) != x.type.rank or min(strides, default=1) < 1:
        raise ShapeError(f"strides {list(strides)} must be one length, at least 1, for each axis")
    if dilation_value != dilation_value:
        raise Refused("attribute dilation_value must be a number")
    fill = "zero" if dilation_value == 0 else dilation_value
    for axis, stride in enumerate(strides):
        x = builders.pad(x, axis, 0, 0, fill, interior=stride - 1)
    return x
