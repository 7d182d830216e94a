"""Pools in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

from collections.abc import Callable

from glenside.frontends.kinds import Ints
from glenside.frontends.lowering import pooling
from glenside.frontends.lowering.axes import IMAGES, through_layout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.phrases import reduce
from glenside.frontends.lowering.window import patches, window
from glenside.frontends.relay.signature import operator
from glenside.frontends.relay.types import Value
from glenside.language import Term
from glenside.language.builders import compute


def _max_pool(form: str) -> Callable[..., Value]:
    ones = (1,) * (len(form) - 2)

    def max_pool(
        x: Term,
        *,
        pool_size: Ints,
        strides: Ints = ones,
        dilation: Ints = ones,
        padding: Ints = (0,),
        layout: str = form,
        out_layout: str = "",
        ceil_mode: bool = False,
    ) -> Term:
        """Greatest element of each window; padding never wins."""

        def work(x: Term) -> Term:
            looks = window(x.shape[2:], pool_size, strides, padding, dilation, ceil_mode)
            return pooling.max_pool(x, looks)

        return through_layout(x, form, layout, out_layout, work)

    return max_pool


def _avg_pool(form: str) -> Callable[..., Value]:
    ones = (1,) * (len(form) - 2)

    def avg_pool(
        x: Term,
        *,
        pool_size: Ints,
        strides: Ints = ones,
        dilation: Ints = ones,
        padding: Ints = (0,),
        layout: str = form,
        out_layout: str = "",
        ceil_mode: bool = False,
        count_include_pad: bool = False,
    ) -> Term:
        """Mean of each window, by default over the positions that are not padding."""

        def work(x: Term) -> Term:
            looks = window(x.shape[2:], pool_size, strides, padding, dilation, ceil_mode)
            if count_include_pad:
                # Here the overhang counts as well, unlike elsewhere.
                return compute("mean", patches(looks.pad(x, "zero"), looks))
            return pooling.average_pool(x, looks, False)

        return through_layout(x, form, layout, out_layout, work)

    return avg_pool


for _suffix, _form in IMAGES.items():
    operator(f"nn.max_pool{_suffix}")(_max_pool(_form))
    operator(f"nn.avg_pool{_suffix}")(_avg_pool(_form))


@operator("nn.global_avg_pool2d")
def global_avg_pool2d(x: Term, *, layout: str = "NCHW", out_layout: str = "") -> Term:
    """Mean over both spatial axes, which stay with length 1."""
    return _global("mean", x, layout, out_layout)


@operator("nn.global_max_pool2d")
def global_max_pool2d(x: Term, *, layout: str = "NCHW", out_layout: str = "") -> Term:
    """Greatest element over both spatial axes, which stay with length 1."""
    return _global("max", x, layout, out_layout)


def _global(function: str, x: Term, layout: str, out_layout: str) -> Term:
    return through_layout(
        x, "NCHW", layout, out_layout, lambda x: reduce(function, x, (2, 3), keepdims=True)
    )


def _adaptive(function: str, form: str) -> Callable[..., Value]:
    def adaptive_pool(
        constants: Constants,
        x: Term,
        *,
        output_size: Ints | int | None = None,
        layout: str = form,
        out_layout: str = "",
    ) -> Term:
        """As many windows as the output has positions, which may overlap by one."""
        wanted = (output_size,) if isinstance(output_size, int) else output_size

        def work(x: Term) -> Term:
            return pooling.adaptive_pool(constants, function, x, wanted)

        return through_layout(x, form, layout, out_layout, work)

    return adaptive_pool


for _suffix, _form in IMAGES.items():
    operator(f"nn.adaptive_avg_pool{_suffix}")(_adaptive("mean", _form))
    operator(f"nn.adaptive_max_pool{_suffix}")(_adaptive("max", _form))
