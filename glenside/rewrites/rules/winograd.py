"""Rules that make a convolution of few multiplications: Winograd's minimal filtering.

``m`` outputs of a filter of ``r`` taps take ``m + r - 1`` multiplications instead of ``m r``, if
image and filter are transformed first and the results afterwards, all three by small constant
matrices. In two dimensions they act along either axis (Winograd, "Arithmetic Complexity of
Computations", 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016,
section 4). The matrices are Toom and Cook's, transposed: polynomials evaluated at points.

What is made is a chain of access patterns: tiles of the image are windows that overlap by
``r - 1``, their transform is a ``dot`` with a constant, and between the transforms stands one
product of matrices over the channels for each of the ``(m + r - 1)**2`` positions in a tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from egglog import Fact, RewriteOrRule, Vec, eq, i64, rule, union, vars_

from glenside.errors import GlensideError
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, ints, lengths

Matrix = tuple[tuple[Fraction, ...], ...]

DTYPE = "float32"
"""The transforms cancel several bits, which half floats do not have to spare, and divide, which
integers do not."""

_POINTS = (0, 1, -1, 2, Fraction(-1, 2), -2, Fraction(1, 2), 4, -4)
"""Where polynomials are evaluated, infinity besides: small numbers and their inverses, whose powers
stay near 1 and are exact."""


def matrices(m: int, r: int) -> tuple[Matrix, Matrix, Matrix]:
    """``A``, ``G`` and ``B``, each with a row for every product (``B`` and ``A`` act transposed).

    Outputs ``y[k] = sum_j g[j] d[k + j]`` of a filter ``g`` over data ``d`` are
    ``y[k] = sum_i A[i][k] (sum_j G[i][j] g[j]) (sum_j B[i][j] d[j])``.

    :raises GlensideError: fewer than one output or tap, or too many together.
    """
    n = m + r - 1
    if m < 1 or r < 1 or n < 2 or n - 1 > len(_POINTS):
        raise GlensideError(
            f"winograd takes tiles and filters of at least 1, together 3 to {len(_POINTS) + 2}, "
            f"got {m} and {r}"
        )
    points = [Fraction(point) for point in _POINTS[: n - 1]]
    a, g, b = [], [], []
    for i, point in enumerate(points):
        others = points[:i] + points[i + 1 :]
        basis = _polynomial(others)  # Lagrange's, times its value at the point.
        scale = sum((c * point**k for k, c in enumerate(basis)), Fraction())
        a.append(tuple(point**k for k in range(m)))
        g.append(tuple(point**k / scale for k in range(r)))
        b.append((*basis, Fraction(0)))
    a.append(_last(m))
    g.append(_last(r))
    b.append(_polynomial(points))
    return tuple(a), tuple(g), tuple(b)


def _polynomial(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The coefficients, lowest first, of the polynomial with these roots."""
    result = [Fraction(1)]
    for root in roots:
        zero = Fraction(0)
        pairs = zip([zero, *result], [*result, zero], strict=True)
        result = [high - root * low for high, low in pairs]
    return tuple(result)


def _last(length: int) -> tuple[Fraction, ...]:
    """What a polynomial of that many coefficients is at infinity: its leading one."""
    return (*[Fraction(0)] * (length - 1), Fraction(1))


def _constant(matrix: Matrix) -> Access:
    """A matrix as joined constants, one for each run of equal numbers."""
    entries = [float(entry) for row in matrix for entry in row]
    runs: list[tuple[float, int]] = []
    for entry in entries:
        if runs and runs[-1][0] == entry:
            runs[-1] = entry, runs[-1][1] + 1
        else:
            runs.append((entry, 1))
    parts = [Access.constant(repr(value), ints(count), DTYPE) for value, count in runs]
    while len(parts) > 1:
        joined = [one.concat(two, 0) for one, two in zip(parts[::2], parts[1::2], strict=False)]
        parts = joined + parts[2 * len(joined) :]
    return parts[0]


def _both_ways(matrix: Matrix) -> Access:
    """``((i j), (k l))``: what the matrix does along either axis of a square at once."""
    rows, columns = len(matrix), len(matrix[0])
    flat = _constant(matrix)
    shape = ints(rows, rows, columns, columns)
    down = flat.reshape(ints(rows, 1, columns, 1), ints()).broadcast(shape)
    along = flat.reshape(ints(1, rows, 1, columns), ints()).broadcast(shape)
    return down.access(0).pair(along.access(0)).compute("mul", NO_DTYPE).access(2)


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def _filters() -> Any:
    from glenside.rewrites.soundness.programs import square_filters

    return square_filters()


@rewrite_rule("winograd", exact=False, example=(2, 3), programs=_filters, finite=True)
def winograd(m: int, r: int) -> Iterator[RewriteOrRule]:
    """A product of ``r`` x ``r`` filters and windows over all channels, one apart, by transforms of
    tiles of ``m`` x ``m`` results; channels before or behind the places, float32 only.

    Edges that tiles reach over are padded with zeros and cut off.
    """
    a, g, b = matrices(m, r)
    n = len(a)
    w, x, whole = vars_("w x whole", Access)
    kernel, ones, outer, images = vars_("kernel ones outer images", Vec[i64])
    high, wide, tall, broad = vars_("high wide tall broad", i64)
    result = _both_ways(_transposed(a))
    product = "dot", DTYPE
    for last in (False, True):
        # What brings images to (C N H W), filters to (K C r r), (K N H W) to the result's axes.
        if last:
            channel, down, across = 3, 0, 1
            count, height, width, filters = range(4)
            to_images, to_filters, back = (3, 0, 1, 2), (0, 3, 1, 2), (1, 2, 3, 0)
        else:
            channel, down, across = 1, 1, 2
            filters, count, height, width = range(4)
            to_images, to_filters, back = (1, 0, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)
        looks = x.windows(kernel, ones, ones).squeeze(channel)
        pattern = looks.cart_prod(w, 0) if last else w.cart_prod(looks, 0)
        places = outer[count] * high * wide
        channels = images[channel]
        facts: list[Fact] = [
            eq(whole).to(pattern.compute(*product)),
            eq(x.dtype).to(DTYPE),
            eq(ones).to(ints(1, 1, 1)),
            eq(kernel[down]).to(i64(r)),
            eq(kernel[across]).to(i64(r)),
            eq(x.outer.length()).to(i64(1)),
            eq(w.outer.length()).to(i64(1)),
            eq(images).to(lengths(x)),
            eq(images.length()).to(i64(4)),
            eq(outer).to(whole.outer),
            eq(high).to((outer[height] + (m - 1)) / m),
            eq(wide).to((outer[width] + (m - 1)) / m),
            eq(tall).to(high * m - outer[height]),
            eq(broad).to(wide * m - outer[width]),
            places * outer[filters] * channels > 0,
        ]
        data = x.access(4).transpose(ints(*to_images))
        for exact in (True, False):
            padded = data
            if not exact:
                padded = data.pad("zero", 2, 0, tall, 0).pad("zero", 3, 0, broad, 0)
            tiles = padded.access(2).windows(ints(n, n), ints(m, m), ints(1, 1))
            seen = _both_ways(b).cart_prod(tiles, 0).compute(*product)
            seen = seen.reshape(ints(n * n, channels, places), ints())
            taps = w.access(4).transpose(ints(*to_filters)).access(2)
            known = _both_ways(g).cart_prod(taps, 0).compute(*product)
            known = known.reshape(ints(n * n, outer[filters], channels), ints())
            streamed = seen.transpose(ints(0, 2, 1)).access(2)
            many = known.access(2).cart_prod(streamed, 1).compute(*product)
            grid = ints(n, n, outer[filters], outer[count], high, wide)
            many = many.reshape(grid, ints()).transpose(ints(2, 3, 4, 5, 0, 1)).access(4)
            made = result.cart_prod(many, 0).compute(*product)
            shape = ints(outer[filters], outer[count], high * m, wide * m)
            made = made.transpose(ints(2, 3, 4, 0, 5, 1)).reshape(shape, ints())
            if not exact:
                made = made.slice(2, 0, outer[height], 1).slice(3, 0, outer[width], 1)
            if last:
                made = made.transpose(ints(*back))
            fits = eq(tall + broad).to(i64(0)) if exact else tall + broad > 0
            yield rule(*facts, fits).then(union(whole).with_(made))


WINOGRAD = RuleSet("winograd", (winograd(2, 3), winograd(4, 3)))
"""Tiles of 2 x 2 and 4 x 4 results, for windows of 3 x 3."""
