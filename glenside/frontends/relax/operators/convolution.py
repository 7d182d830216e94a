"""Convolutions and their transposes in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

from collections.abc import Callable

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering.axes import IMAGES, relayout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.convolution import correlate, gradient_filters
from glenside.frontends.lowering.dtypes import accumulator
from glenside.frontends.lowering.known import pick
from glenside.frontends.lowering.tvm_convolution import CONVOLUTIONS
from glenside.frontends.lowering.window import window
from glenside.frontends.relax.signature import operator
from glenside.language import Term, builders


def _transposed(form: str) -> Callable[..., Term]:
    def conv_transpose(
        constants: Constants,
        x: Term,
        w: Term,
        *,
        strides: Ints,
        padding: Ints,
        output_padding: Ints,
        dilation: Ints,
        groups: int,
        data_layout: str,
        kernel_layout: str,
        out_layout: str,
        out_dtype: str | None,
    ) -> Term:
        """The gradient of a convolution: data spread by the stride, filters turned round."""
        x = relayout(x, data_layout, form)
        w = relayout(w, kernel_layout, "IO" + form[2:])
        rank = len(form) - 2
        depth, _, *kernel = w.shape
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


for _name, _lower in CONVOLUTIONS.items():
    operator(_name)(_lower)
for _suffix, _form in IMAGES.items():
    operator(f"nn.conv{_suffix}_transpose")(_transposed(_form))
