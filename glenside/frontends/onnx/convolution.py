"""Convolutions and their transposes."""

from __future__ import annotations

from glenside.frontends.lowering.convolution import correlate, gradient_filters
from glenside.frontends.lowering.phrases import add, unsqueeze_to
from glenside.frontends.lowering.window import Window
from glenside.frontends.onnx.node import Node, operator
from glenside.frontends.onnx.shape_ops import take
from glenside.frontends.onnx.spatial import entries, read_window, spatial_size
from glenside.language import Term, builders


@operator("Conv")
def _conv(node: Node) -> Term:
    x, w, bias = node[0], node[1], node.get(2)
    groups = node.attributes.integer("group", 1)
    check_filters(node, x, w, groups)
    check_bias(node, bias, w.shape[0])
    window = read_window(node, spatial_size(node, x), w.shape[2:])
    result = correlate(x, w, window, groups)
    return result if bias is None else add(result, unsqueeze_to(bias, 1, x.type.rank))


@operator("ConvTranspose")
def _conv_transpose(node: Node) -> Term:
    x, w, bias = node[0], node[1], node.get(2)
    groups = node.attributes.integer("group", 1)
    size = spatial_size(node, x)
    rank = len(size)
    if w.type.rank != x.type.rank or groups < 1 or x.shape[1] != w.shape[0] or w.shape[0] % groups:
        raise node.error(
            f"group {groups}, data of shape {x.shape} and weights of shape {w.shape} do not fit"
        )
    check_bias(node, bias, w.shape[1] * groups)
    kernel = w.shape[2:]
    given = entries(node, "kernel_shape", rank, 1)
    if given is not None and tuple(given) != kernel:
        raise node.error(f"attribute kernel_shape is {given}, the weights' window is {kernel}")
    stride = entries(node, "strides", rank, 1) or [1] * rank
    dilation = entries(node, "dilations", rank, 1) or [1] * rank
    extra = entries(node, "output_padding", rank, 0) or [0] * rank
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    whole = [(n - 1) * s + r + e for n, s, r, e in zip(size, stride, reach, extra, strict=True)]
    before, after = _cut(node, size, stride, whole)
    # Every element is spread by zeros to the stride; the window then runs over it backwards.
    for i in range(rank):
        x = builders.pad(x, 2 + i, reach[i] - 1, reach[i] - 1 + extra[i], interior=stride[i] - 1)
        x = _crop(x, 2 + i, before[i], after[i])
    filters = gradient_filters(w, groups)
    for i, length in enumerate(kernel):
        filters = take(node, filters, range(length)[::-1], 2 + i)
    none = (0,) * rank
    window = Window(kernel, (1,) * rank, tuple(dilation), none, none, none)
    result = correlate(x, node.fold(filters, "filters"), window, groups)
    return result if bias is None else add(result, unsqueeze_to(bias, 1, x.type.rank))


def _cut(
    node: Node, size: tuple[int, ...], stride: list[int], whole: list[int]
) -> tuple[list[int], list[int]]:
    """How much of a transposed convolution's whole result is cut off at both ends."""
    rank = len(size)
    auto = node.attributes.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    wanted = entries(node, "output_shape", rank, 1)
    pads = entries(node, "pads", 2 * rank, 0) or [0] * 2 * rank
    if wanted is None:
        if auto in ("NOTSET", "VALID"):
            return (pads[:rank], pads[rank:]) if auto == "NOTSET" else ([0] * rank, [0] * rank)
        wanted = [n * s for n, s in zip(size, stride, strict=True)]
    total = [n - target for n, target in zip(whole, wanted, strict=True)]
    if auto == "SAME_UPPER":
        before = [each // 2 for each in total]
    else:
        before = [each - each // 2 for each in total]
    return before, [t - b for t, b in zip(total, before, strict=True)]


def _crop(x: Term, axis: int, before: int, after: int) -> Term:
    """Takes positions off both ends; a negative number of them puts zeros there."""
    x = builders.pad(x, axis, max(-before, 0), max(-after, 0))
    low, high = max(before, 0), x.shape[axis] - max(after, 0)
    return x if (low, high) == (0, x.shape[axis]) else builders.slice_(x, axis, low, high)


def check_filters(node: Node, x: Term, w: Term, groups: int) -> None:
    """Filters (O, C/G, k...) must fit data (N, C, d...)."""
    if w.type.rank != x.type.rank:
        raise node.error(f"data of shape {x.shape} and weights of shape {w.shape} differ in rank")
    if groups < 1 or w.shape[0] % groups or x.shape[1] != w.shape[1] * groups:
        raise node.error(
            f"group {groups} does not divide data of shape {x.shape} and weights of shape {w.shape}"
        )


def check_bias(node: Node, bias: Term | None, channels: int) -> None:
    """There is one number for each channel of the result."""
    if bias is not None and bias.shape != (channels,):
        raise node.error(f"a bias of shape {bias.shape} does not fit {channels} channels")
