"""Convolutions, in the form of the paper: windows against filters, a dot product of every pair."""

from __future__ import annotations

from glenside.frontends.lowering.axes import relayout
from glenside.frontends.lowering.phrases import dot, reshape, transpose
from glenside.frontends.lowering.window import Window
from glenside.language import Term, builders
from glenside.language.builders import access


def correlate(
    x: Term, w: Term, looks: Window, groups: int = 1, accumulate: str | None = None
) -> Term:
    """(N, C, d...) with filters (O, C/G, k...) to (N, O, d'...)."""
    padded = looks.pad(x, "zero")
    if groups == 1:
        patches = windows_of(access(padded, 1), w.shape[1], looks)
        product = dot(access(w, 1), patches, 0, accumulate)
        return transpose(product, [1, 0, *range(2, product.type.rank)])
    n, c, *size = padded.shape
    o, depth, *kernel = w.shape
    grouped = transpose(
        reshape(padded, (n, groups, c // groups, *size)), [1, 0, *range(2, len(size) + 3)]
    )
    filters = access(reshape(w, (groups, o // groups, depth, *kernel)), 2)
    patches = windows_of(access(grouped, 2), depth, looks)
    product = dot(filters, patches, 1, accumulate)
    # (G, O/G, N, d'...) to (N, G, O/G, d'...).
    product = transpose(product, [2, 0, 1, *range(3, product.type.rank)])
    return reshape(product, (n, o, *product.shape[3:]))


def windows_of(x: Term, channels: int, looks: Window) -> Term:
    """``((g), (C, d...))`` to ``((g, d'...), (C, k...))``: windows over all channels at once."""
    patches = builders.windows(
        x, (channels, *looks.kernel), (1, *looks.stride), (1, *looks.dilation)
    )
    return builders.squeeze(patches, x.type.split)


def filters_of(w: Term, kernel_layout: str, form: str) -> Term:
    """Filters with their axes in any order as (O, C/G, k...), for data laid out as ``form``."""
    return relayout(w, kernel_layout, "OI" + form[2:])


def gradient_filters(w: Term, groups: int) -> Term:
    """Filters (C, O/G, k...) of a transposed convolution as (O, C/G, k...), not turned round."""
    c, width, *kernel = w.shape
    grouped = reshape(w, (groups, c // groups, width, *kernel))
    swapped = transpose(grouped, [0, 2, 1, *range(3, 3 + len(kernel))])
    return reshape(swapped, (groups * width, c // groups, *kernel))
