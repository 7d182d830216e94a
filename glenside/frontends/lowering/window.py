"""Sliding windows over spatial axes, as convolutions and pools have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glenside.errors import ShapeError
from glenside.frontends.kinds import Ints
from glenside.language import Term, builders
from glenside.language.builders import access


@dataclass(frozen=True)
class Window:
    """A sliding window, one entry a spatial axis (axis 2 and on of the data)."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    overhang: tuple[int, ...]
    """What a last, partial window reaches over the padding at the end (``ceil_mode``)."""

    @property
    def padded(self) -> bool:
        return any(self.before + self.after + self.overhang)

    def pad(self, x: Term, value: str) -> Term:
        """``x`` with the padding and the overhang, filled with ``value``."""
        for i, (before, after, over) in enumerate(
            zip(self.before, self.after, self.overhang, strict=True)
        ):
            x = builders.pad(x, 2 + i, before, after + over, value)
        return x


def window(
    size: Sequence[int], kernel: Ints, strides: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> Window:
    """A sliding window over spatial axes of the lengths ``size``.

    ``padding`` has one entry for all sides, one for each axis, or all befores and then all afters.
    """
    rank = len(size)

    def spread(name: str, values: Ints, least: int) -> Ints:
        values = values * rank if len(values) == 1 else values
        if len(values) != rank or min(values) < least:
            raise ShapeError(f"{name} {list(values)} must be {rank} numbers, at least {least}")
        return values

    if len(padding) == 2 * rank:
        befores, afters = padding[:rank], padding[rank:]
    else:
        befores = afters = padding
    kernel = spread("the window", kernel, 1)
    strides = spread("strides", strides, 1)
    dilation = spread("dilation", dilation, 1)
    before, after = spread("padding", befores, 0), spread("padding", afters, 0)
    overhang = []
    for i, length in enumerate(size):
        reach = (kernel[i] - 1) * dilation[i] + 1
        room = before[i] + length + after[i] - reach
        overhang.append(-room % strides[i] if ceil else 0)
    return Window(kernel, strides, dilation, before, after, tuple(overhang))


def overhang(length: int, before: int, after: int, reach: int, stride: int) -> int:
    """What a last, partial window reaches over the padding at the end of one axis.

    A window that starts in that padding would see no data: it is dropped.
    """
    room = before + length + after - reach
    count = -(-room // stride) + 1
    if (count - 1) * stride >= before + length:
        count -= 1
    return max((count - 1) * stride - room, 0)


def patches(padded: Term, looks: Window) -> Term:
    """Windows over each channel by itself: ``(N, C, d...)`` to ``((N, C, d'...), (k...))``."""
    return builders.windows(access(padded, 2), looks.kernel, looks.stride, looks.dilation)
