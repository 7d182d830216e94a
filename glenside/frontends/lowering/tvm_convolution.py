"""Convolutions in one to three dimensions, as TVM's two languages, Relay and Relax, call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import IMAGES, relayout, through_layout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.convolution import correlate, filters_of, gradient_filters
from glenside.frontends.lowering.dtypes import accumulator
from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.window import window
from glenside.language import Term, builders


def _convolution(form: str) -> Callable[..., Term]:
    ones = (1,) * (len(form) - 2)

    def convolution(
        x: Term,
        w: Term,
        *,
        strides: Ints = ones,
        padding: Ints = (0,),
        dilation: Ints = ones,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Ints | int | None = None,
        data_layout: str = form,
        kernel_layout: str = "OI" + form[2:],
        out_layout: str = "",
        out_dtype: str | None = None,
    ) -> Term:
        """Every filter with every window; ``groups`` up to the number of channels (depthwise).

        What ``channels`` and ``kernel_size``, which Relay has, repeat from the weights must fit.
        """
        w = filters_of(w, kernel_layout, form)
        filters, depth, *kernel = w.shape
        check_stated(channels, kernel_size, filters, kernel)

        def work(x: Term) -> Term:
            if groups < 1 or filters % groups or x.shape[1] != depth * groups:
                raise ShapeError(
                    f"data of shape {x.shape} and weights of shape {w.shape} do not fit with "
                    f"{groups} groups"
                )
            looks = window(x.shape[2:], tuple(kernel), strides, padding, dilation, False)
            return correlate(x, w, looks, groups, accumulator(out_dtype))

        return through_layout(x, form, data_layout, out_layout, work)

    return convolution


def check_stated(
    channels: int | None, kernel_size: Ints | int | None, filters: int, kernel: Sequence[int]
) -> None:
    """What attributes repeat from the weights must fit them."""
    if channels not in (None, filters):
        raise ShapeError(f"channels is {channels}, the weights have {filters} filters")
    stated = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
    if stated is not None and len(stated) == 1:
        stated = stated * len(kernel)
    if stated not in (None, tuple(kernel)):
        raise ShapeError(f"kernel_size is {list(stated or ())}, the weights have {list(kernel)}")


CONVOLUTIONS = {f"nn.conv{suffix}": _convolution(form) for suffix, form in IMAGES.items()}
"""By name, for data and weights with their axes in any order."""


def _transposed(form: str) -> Callable[..., Term]:
    ones = (1,) * (len(form) - 2)

    def conv_transpose(
        constants: Constants,
        x: Term,
        w: Term,
        *,
        channels: int | None = None,
        kernel_size: Ints | int | None = None,
        strides: Ints = ones,
        padding: Ints = (0,),
        output_padding: Ints = (0,),
        dilation: Ints = ones,
        groups: int = 1,
        data_layout: str = form,
        kernel_layout: str = "IO" + form[2:],
        out_layout: str = "",
        out_dtype: str | None = None,
    ) -> Term:
        """The gradient of a convolution: data spread by the stride, filters turned round."""
        x = relayout(x, data_layout, form)
        w = relayout(w, kernel_layout, "IO" + form[2:])
        rank = len(form) - 2
        depth, width, *kernel = w.shape
        check_stated(channels, kernel_size, width * groups, kernel)
        if groups < 1 or depth % groups or x.shape[1] != depth:
            raise ShapeError(f"data {x.shape}, weights {w.shape} and {groups} groups do not fit")
        looks = window(x.shape[2:], tuple(kernel), strides, padding, dilation, True)
        extra = output_padding * rank if len(output_padding) == 1 else output_padding
        if len(extra) != rank or any(
            not 0 <= e < s for e, s in zip(extra, looks.stride, strict=False)
        ):
            raise ShapeError(f"output_padding {list(extra)} must be less than the strides")
        for axis in range(2, rank + 2):
            at = axis - 2
            w = pick(constants, w, range(kernel[at])[::-1], axis)
            reach = (kernel[at] - 1) * looks.dilation[at]
            x = _widen(
                x, axis, reach - looks.before[at], reach - looks.after[at] + extra[at],
                looks.stride[at] - 1,
            )  # fmt: skip
        w = gradient_filters(w, groups)
        dense = window(x.shape[2:], tuple(kernel), (1,), (0,), looks.dilation, False)
        result = correlate(x, w, dense, groups, accumulator(out_dtype))
        return relayout(result, form, out_layout or data_layout)

    return conv_transpose


def _widen(x: Term, axis: int, before: int, after: int, interior: int) -> Term:
    """Zeros between the elements and at both ends; negative widths cut off."""
    x = builders.pad(x, axis, max(before, 0), max(after, 0), interior=interior)
    low, high = max(-before, 0), x.shape[axis] - max(-after, 0)
    return x if (low, high) == (0, x.shape[axis]) else builders.slice_(x, axis, low, high)


TRANSPOSED = {f"nn.conv{suffix}_transpose": _transposed(form) for suffix, form in IMAGES.items()}
"""By name. Filters are (I, O, k...) whatever the older versions of Relay called that."""
