"""Fourier transforms: matrix products with the transform of the unit vectors."""

from __future__ import annotations

import numpy as np

from glenside.frontends.lowering.phrases import dot, mul, reshape, transpose
from glenside.frontends.onnx.node import Array, Node, dtype_name, operator
from glenside.language import Term, builders
from glenside.language.builders import access


def _transform(n: int, parts: int, length: int, inverse: bool, onesided: bool) -> Array:
    """The matrix from (n, parts) to (frequencies, parts of the result); parts: real, imaginary."""
    unit = np.eye(n)
    signals = np.concatenate([unit, 1j * unit]) if parts == 2 else unit
    if inverse and onesided:
        result = np.fft.irfft(signals, length, axis=1)[..., None]
        if parts == 2:
            # irfft looks at complex bins as they are: real and imaginary units both count.
            result = np.stack([np.fft.irfft(each, length) for each in signals.astype(complex)])[
                ..., None
            ]
    else:
        turned = np.fft.ifft(signals, length) if inverse else np.fft.fft(signals, length)
        if onesided:
            turned = turned[:, : length // 2 + 1]
        result = np.stack([turned.real, turned.imag], axis=-1)
    # Rows were ordered (parts, n): to (n, parts), then outputs in front.
    result = result.reshape(parts, n, *result.shape[1:])
    return np.transpose(result, (2, 3, 1, 0))


def dft(node: Node, x: Term, axis: int, length: int, inverse: bool, onesided: bool) -> Term:
    """The transform along ``axis`` of data whose last axis holds the parts of its numbers."""
    rank = x.type.rank
    others = [a for a in range(rank - 1) if a != axis]
    moved = transpose(x, [*others, axis, rank - 1])
    n, parts = moved.shape[-2:]
    node.make_room((parts * n, max(n, length)), "the matrix of the transform", each=64)
    matrix = _transform(n, parts, length, inverse, onesided)
    rows = node.parameter(
        matrix.reshape(matrix.shape[0] * matrix.shape[1], n * parts).astype(x.dtype), "transform"
    )
    flat = access(reshape(moved, (*moved.shape[:-2], n * parts)), rank - 2)
    product = dot(flat, access(rows, 1))
    whole = reshape(product, (*moved.shape[:-2], *matrix.shape[:2]))
    order = sorted(range(rank), key=[*others, axis, rank - 1].__getitem__)
    return transpose(whole, order)


@operator("DFT")
def _dft(node: Node) -> Term:
    x = node[0]
    inverse = node.attributes.flag("inverse")
    onesided = node.attributes.flag("onesided")
    if node.opset < 20:
        axis = node.attributes.integer("axis", 1)
    else:
        axis = int(node.number(2, "axis")) if node.get(2) is not None else -2
    axis = node.axis(axis, x.type.rank)
    if axis == x.type.rank - 1 or x.shape[-1] not in (1, 2):
        raise node.error(f"the last axis of shape {x.shape} must hold real and imaginary part")
    length = x.shape[axis]
    if inverse and onesided:
        length = 2 * (length - 1)
    if node.get(1) is not None:
        length = int(node.number(1, "dft_length"))
    if length < 1:
        raise node.error(f"dft_length must be positive, got {length}")
    return dft(node, x, axis, length, inverse, onesided)


@operator("STFT")
def _stft(node: Node) -> Term:
    x = node[0]
    if x.type.rank == 2:
        # PyTorch exports real signals without the axis of real and imaginary part.
        x = builders.unsqueeze(x, 2)
    step = int(node.number(1, "frame_step"))
    onesided = node.attributes.flag("onesided", True)
    window = node.get(2)
    if node.get(3) is not None:
        length = int(node.number(3, "frame_length"))
    else:
        length = window.shape[0] if window is not None and window.shape else 0
    if x.type.rank != 3 or x.shape[-1] not in (1, 2) or step < 1 or not 0 < length <= x.shape[1]:
        raise node.error(f"frames of {length} every {step} do not fit a signal of {x.shape}")
    channels = access(transpose(x, (0, 2, 1)), 2)
    looks = builders.outer_only(builders.windows(channels, (length,), (step,)))
    # (N, parts, frames, length)
    frames = looks if window is None else mul(looks, builders.cast(window, x.dtype))
    return dft(node, transpose(frames, (0, 2, 3, 1)), 2, length, False, onesided)


@operator("MelWeightMatrix")
def _mel_weight_matrix(node: Node) -> Array:
    bins = int(node.number(0, "num_mel_bins"))
    length = int(node.number(1, "dft_length"))
    rate = node.number(2, "sample_rate")
    low, high = node.number(3, "lower_edge_hertz"), node.number(4, "upper_edge_hertz")
    dtype = dtype_name(node.attributes.integer("output_datatype", 1))
    if not 0 < bins < 2**16 or not 0 < length < 2**24 or not rate:
        raise node.error("num_mel_bins, dft_length and sample_rate must be positive")

    node.make_room((length // 2 + 1, bins), "the matrix")

    def mel(hertz: float) -> float:
        return float(2595 * np.log10(1 + hertz / 700))

    # ONNX counts a step more than lie between the edges.
    edges = mel(low) + np.arange(bins + 2) * (mel(high) - mel(low)) / (bins + 2)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    # Edges fall on whole bins of the spectrum.
    places = ((length + 1) * hertz / rate).astype(np.int64)
    result = np.zeros((length // 2 + 1, bins))
    for i in range(bins):
        start, centre, end = places[i : i + 3]
        if centre == start:
            result[centre, i] = 1
        else:
            result[start : centre + 1, i] = np.arange(centre - start + 1) / (centre - start)
        if end > centre:
            result[centre:end, i] = np.arange(end - centre, 0, -1) / (end - centre)
    return result.astype(dtype)
