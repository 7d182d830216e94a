"""Convolutions in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

from collections.abc import Callable

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import IMAGES
from glenside.frontends.lowering.convolution import convolve, filters_of
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term


def _convolution(form: str) -> Callable[..., Value]:
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
        """Every filter with every window; what the attributes repeat from the weights must fit."""
        filters, _, *kernel = filters_of(w, kernel_layout, form).shape
        if channels not in (None, filters):
            raise ShapeError(
                f"channels is {channels}, the weights of shape {w.shape} have {filters}"
            )
        stated = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
        if stated not in (None, tuple(kernel)):
            raise ShapeError(f"kernel_size is {list(stated or ())}, the weights have {kernel}")
        return convolve(
            x,
            w,
            form,
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=groups,
            data_layout=data_layout,
            kernel_layout=kernel_layout,
            out_layout=out_layout,
            out_dtype=out_dtype,
        )

    return convolution


for _suffix, _form in IMAGES.items():
    operator(f"nn.conv{_suffix}")(_convolution(_form))
