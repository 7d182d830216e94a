"""Pools in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from glenside.frontends.kinds import Ints
from glenside.frontends.lowering import pooling
from glenside.frontends.lowering.axes import IMAGES, through_layout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.window import Window, overhang, window
from glenside.frontends.relax.signature import operator
from glenside.language import Term


def _max_pool(form: str) -> Callable[..., Term]:
    def max_pool(
        x: Term,
        *,
        pool_size: Ints,
        strides: Ints,
        dilation: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        layout: str,
        out_layout: str,
    ) -> Term:
        """Greatest element of each window; padding never wins, so nothing hangs on counting it."""
        del count_include_pad

        def work(x: Term) -> Term:
            looks = _looks(x, pool_size, strides, padding, dilation, ceil_mode)
            return pooling.max_pool(x, looks)

        return through_layout(x, form, layout, out_layout, work)

    return max_pool


def _avg_pool(form: str) -> Callable[..., Term]:
    def avg_pool(
        x: Term,
        *,
        pool_size: Ints,
        strides: Ints,
        dilation: Ints,
        padding: Ints,
        ceil_mode: bool,
        count_include_pad: bool,
        layout: str,
        out_layout: str,
    ) -> Term:
        """Mean of each window, of the positions inside or also of the padding.

        What a last, partial window reaches over the padding (``ceil_mode``) is never counted.
        """

        def work(x: Term) -> Term:
            looks = _looks(x, pool_size, strides, padding, dilation, ceil_mode)
            return pooling.average_pool(x, looks, count_include_pad)

        return through_layout(x, form, layout, out_layout, work)

    return avg_pool


for _suffix, _form in IMAGES.items():
    operator(f"nn.max_pool{_suffix}")(_max_pool(_form))
    operator(f"nn.avg_pool{_suffix}")(_avg_pool(_form))


def _looks(
    x: Term, kernel: Ints, strides: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> Window:
    """The window of a pool; with ``ceil`` a last one may reach over the end of the padding."""
    looks = window(x.shape[2:], kernel, strides, padding, dilation, False)
    if not ceil:
        return looks
    reach = [(k - 1) * d + 1 for k, d in zip(looks.kernel, looks.dilation, strict=True)]
    over = map(overhang, x.shape[2:], looks.before, looks.after, reach, looks.stride)
    return dataclasses.replace(looks, overhang=tuple(over))


def _adaptive(function: str, form: str) -> Callable[..., Term]:
    def adaptive_pool(
        constants: Constants,
        x: Term,
        *,
        output_size: Ints | None,
        layout: str,
        out_layout: str,
    ) -> Term:
        """As many windows as the output has positions, which may overlap by one."""

        def work(x: Term) -> Term:
            return pooling.adaptive_pool(constants, function, x, output_size)

        return through_layout(x, form, layout, out_layout, work)

    return adaptive_pool


for _suffix, _form in IMAGES.items():
    operator(f"nn.adaptive_avg_pool{_suffix}")(_adaptive("mean", _form))
