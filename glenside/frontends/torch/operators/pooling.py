"""Pools in one to three dimensions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from glenside.frontends.lowering import phrases, pooling
from glenside.frontends.lowering.window import Window, overhang, patches, window
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders
from glenside.language.builders import compute

Ints = tuple[int, ...]


def _looks(
    x: Term, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> Window:
    """The window of a pool; with ``ceil_mode`` a last one may reach over the end of the padding."""
    looks = window(x.shape[2:], kernel, stride or kernel, padding, dilation, False)
    if not ceil_mode:
        return looks
    reach = [(k - 1) * d + 1 for k, d in zip(looks.kernel, looks.dilation, strict=True)]
    over = map(overhang, x.shape[2:], looks.before, looks.after, reach, looks.stride)
    return dataclasses.replace(looks, overhang=tuple(over))


def _batched(spatial: int, x: Term, work: Callable[[Term], Term]) -> Term:
    """``work`` on data that has a batch axis, where it may lack one."""
    if x.type.rank == spatial + 2:
        return work(x)
    return builders.squeeze(work(builders.unsqueeze(x, 0)), 0)


def _max_pool(spatial: int) -> Callable[..., tuple[Term, Term | None]]:
    def max_pool(
        node: Node,
        x: Term,
        kernel_size: Ints,
        stride: Ints = (),
        padding: Ints = (0,),
        dilation: Ints = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Term, Term]:
        """The greatest element of each window, and where in its channel it stands."""

        def looks(x: Term) -> Window:
            return _looks(x, kernel_size, stride, padding, dilation, ceil_mode)

        values = _batched(spatial, x, lambda x: pooling.max_pool(x, looks(x)))
        places = _batched(spatial, x, lambda x: _places(node, x, looks(x)))
        return values, places

    return max_pool


def _places(node: Node, x: Term, looks: Window) -> Term:
    """Where in its channel the greatest element of each window stands, as int64."""
    seen = patches(looks.pad(x, "lowest"), looks)
    spatial = len(looks.kernel)
    items = builders.reshape(seen, seen.outer, (math.prod(looks.kernel),))
    first = compute("argmax", items)
    size = x.shape[2:]
    node.make_room((*size, *looks.kernel), "the places")
    inside = np.arange(math.prod(size), dtype=np.int64).reshape(size)
    padding = [
        (before, after + over)
        for before, after, over in zip(looks.before, looks.after, looks.overhang, strict=True)
    ]
    whole = np.pad(inside, padding)
    reach = [(k - 1) * d + 1 for k, d in zip(looks.kernel, looks.dilation, strict=True)]
    rows = np.lib.stride_tricks.sliding_window_view(whole, reach)
    rows = rows[tuple(slice(None, None, step) for step in looks.stride)]
    inner = (slice(None, None, step) for step in looks.dilation)
    rows = rows[(*(slice(None) for _ in looks.stride), *inner)]
    table = rows.reshape(*rows.shape[:spatial], -1)
    count = table.shape[-1]
    base = np.arange(math.prod(table.shape[:-1])).reshape(table.shape[:-1]) * count
    flat = node.parameter(np.ascontiguousarray(table.reshape(-1)), "places")
    at = phrases.add(first, node.parameter(base, "windows"))
    return builders.gather(phrases.reshape(flat, (table.size,)), at, 0)


for _spatial in (2, 3):
    operator(f"max_pool{_spatial}d_with_indices")(_max_pool(_spatial))


def _avg_pool(spatial: int) -> Callable[..., Term]:
    def avg_pool(
        x: Term,
        kernel_size: Ints,
        stride: Ints = (),
        padding: Ints = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Term:
        """The mean of each window, of the positions inside or also of the padding."""

        def work(x: Term) -> Term:
            looks = _looks(x, kernel_size, stride, padding, (1,), ceil_mode)
            if divisor_override is None:
                return pooling.average_pool(x, looks, count_include_pad)
            total = compute("sum", patches(looks.pad(x, "zero"), looks))
            return phrases.div(total, divisor_override)

        return _batched(spatial, x, work)

    return avg_pool


def _adaptive(spatial: int) -> Callable[..., Term]:
    def adaptive_avg_pool(node: Node, x: Term, output_size: Ints) -> Term:
        """The mean of as many windows as the output has positions, which may overlap."""
        return _batched(spatial, x, lambda x: pooling.adaptive_pool(node, "mean", x, output_size))

    return adaptive_avg_pool


for _spatial in (1, 2, 3):
    operator(f"avg_pool{_spatial}d")(_avg_pool(_spatial))
    operator(f"adaptive_avg_pool{_spatial}d", f"_adaptive_avg_pool{_spatial}d")(_adaptive(_spatial))


def _adaptive_max(spatial: int) -> Callable[..., tuple[Term, None]]:
    def adaptive_max_pool(node: Node, x: Term, output_size: Ints) -> tuple[Term, None]:
        """The greatest of as many windows as the output has positions; not where it stands."""
        result = _batched(spatial, x, lambda x: pooling.adaptive_pool(node, "max", x, output_size))
        return result, None

    return adaptive_max_pool


for _spatial in (1, 2, 3):
    operator(f"adaptive_max_pool{_spatial}d")(_adaptive_max(_spatial))
