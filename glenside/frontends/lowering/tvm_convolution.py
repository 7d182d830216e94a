"""Convolutions in one to three dimensions, as TVM's two languages, Relay and Relax, call them."""

from __future__ import annotations

from collections.abc import Callable

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import IMAGES, through_layout
from glenside.frontends.lowering.convolution import correlate, filters_of
from glenside.frontends.lowering.dtypes import accumulator
from glenside.frontends.lowering.window import window
from glenside.language import Term


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
        if channels not in (None, filters):
            raise ShapeError(f"channels is {channels}, the weights have {filters} filters")
        stated = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
        if stated not in (None, tuple(kernel)):
            raise ShapeError(f"kernel_size is {list(stated or ())}, the weights have {kernel}")

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


CONVOLUTIONS = {f"nn.conv{suffix}": _convolution(form) for suffix, form in IMAGES.items()}
"""By name, for data and weights with their axes in any order."""
