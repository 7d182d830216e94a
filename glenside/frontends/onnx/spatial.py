"""Attributes that convolutions and pools share: kernel, stride, dilation, padding."""

from __future__ import annotations

from collections.abc import Sequence

from glenside.frontends.lowering.window import Window, overhang
from glenside.frontends.onnx.node import Node
from glenside.language import Term


def read_window(node: Node, size: Sequence[int], kernel: Sequence[int] | None) -> Window:
    """The window that a node's attributes describe, over data of spatial shape ``size``.

    :param kernel: the spatial shape of the weights, which ``kernel_shape`` must repeat; None where
        only the attribute gives it.
    :raises ModelError: lengths differ, or a value is out of range.
    """
    rank = len(size)
    given = entries(node, "kernel_shape", rank, 1)
    if kernel is None and given is None:
        raise node.error("attribute kernel_shape is missing")
    if kernel is not None and given is not None and tuple(given) != tuple(kernel):
        raise node.error(
            f"attribute kernel_shape is {given}, the weights' window is {tuple(kernel)}"
        )
    shape = tuple(given if kernel is None else kernel)  # type: ignore[arg-type]
    stride = tuple(entries(node, "strides", rank, 1) or [1] * rank)
    dilation = tuple(entries(node, "dilations", rank, 1) or [1] * rank)
    ceil = node.attributes.flag("ceil_mode") if kernel is None else False
    auto = node.attributes.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    pads = entries(node, "pads", 2 * rank, 0)
    reach = [(k - 1) * d + 1 for k, d in zip(shape, dilation, strict=True)]
    if auto == "NOTSET":
        before, after = (
            tuple((pads or [0] * 2 * rank)[:rank]),
            tuple((pads or [0] * 2 * rank)[rank:]),
        )
    elif auto == "VALID":
        before = after = (0,) * rank
    else:
        if pads and any(pads):
            raise node.error(f"attribute pads has no meaning with auto_pad {auto}")
        before, after = same_padding(size, reach, stride, auto == "SAME_UPPER")
    over = [0] * rank
    for i in range(rank):
        whole = before[i] + size[i] + after[i] - reach[i]
        if whole < 0 and not ceil:
            raise node.error(
                f"the window reaches over {tuple(reach)}, the padded data has only "
                f"{tuple(b + n + a for b, n, a in zip(before, size, after, strict=True))}"
            )
        if ceil and auto == "NOTSET":
            over[i] = overhang(size[i], before[i], after[i], reach[i], stride[i])
    return Window(shape, stride, dilation, before, after, tuple(over))


def same_padding(
    size: Sequence[int], reach: Sequence[int], stride: Sequence[int], upper: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding that makes ``ceil(size / stride)`` windows; the odd one goes behind if ``upper``."""
    before, after = [], []
    for n, r, s in zip(size, reach, stride, strict=True):
        total = max((-(-n // s) - 1) * s + r - n, 0)
        less, more = total // 2, total - total // 2
        before.append(less if upper else more)
        after.append(more if upper else less)
    return tuple(before), tuple(after)


def entries(node: Node, name: str, length: int, least: int) -> list[int] | None:
    """A list attribute of this length, None when absent; raises when an entry is too small."""
    values = node.attributes.integers(name)
    if values is None:
        return None
    if len(values) != length:
        raise node.error(f"attribute {name} needs {length} entries, got {values}")
    if min(values, default=least) < least:
        raise node.error(f"attribute {name} must be at least {least} everywhere, got {values}")
    node.check_size(max(values, default=0), f"attribute {name}")
    return values


def spatial_size(node: Node, x: Term) -> tuple[int, ...]:
    """The lengths behind batch and channels; raises :class:`ModelError` when there are none."""
    if x.type.rank < 3:
        raise node.error(f"takes data with batch, channel and spatial axes, got shape {x.shape}")
    return x.shape[2:]
