"""Pools in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.frontends.lowering import pooling
from glenside.frontends.lowering.axes import IMAGES, through_layout
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.phrases import dot, to_end, transpose
from glenside.frontends.lowering.window import Window, overhang, window
from glenside.frontends.relax.signature import operator
from glenside.language import Term
from glenside.language.builders import access


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


def _adaptive_avg_pool(form: str) -> Callable[..., Term]:
    def adaptive_avg_pool(
        constants: Constants,
        x: Term,
        *,
        output_size: Ints | None,
        layout: str,
        out_layout: str,
    ) -> Term:
        """Means over as many windows as the output has positions, which may overlap by one."""

        def work(x: Term) -> Term:
            size = x.shape[2:]
            wanted = size if output_size is None else output_size
            wanted = wanted * len(size) if len(wanted) == 1 else wanted
            if len(wanted) != len(size) or min((*wanted, *size)) < 1:
                raise ShapeError(f"output_size {list(wanted)} does not fit the size {list(size)}")
            return _adapted(constants, x, wanted)

        return through_layout(x, form, layout, out_layout, work)

    return adaptive_avg_pool


def _adapted(constants: Constants, x: Term, wanted: Sequence[int]) -> Term:
    size = x.shape[2:]
    if not any(n % m for n, m in zip(size, wanted, strict=True)):
        return pooling.even_pool("mean", x, wanted)
    # Windows of several sizes: a mean along one axis after the other, as a product.
    for axis, (length, count) in enumerate(zip(size, wanted, strict=True), 2):
        weights = np.zeros((count, length), x.dtype)
        for position in range(count):
            low, high = position * length // count, -(-(position + 1) * length // count)
            weights[position, low:high] = 1 / (high - low)
        moved, inverse = to_end(x, [axis])
        means = constants.parameter(weights, f"means{axis}")
        product = dot(access(moved, moved.type.rank - 1), access(means, 1))
        x = transpose(product, inverse)
    return x


for _suffix, _form in IMAGES.items():
    operator(f"nn.adaptive_avg_pool{_suffix}")(_adaptive_avg_pool(_form))
