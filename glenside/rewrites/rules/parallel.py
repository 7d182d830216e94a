"""Rules that make a program's parallelism another one: tiles that share what their windows overlap
in, and a reduction in two kernels.

They are the two algorithmic moves of Mogers et al., "Automatic Generation of Specialized Direct
Convolutions for Mobile GPUs" (GPGPU 2020). A schedule can make both moves within one kernel as well
(``codegen.gpu.mapping``); as rules they are there for what a cost model knows of terms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from egglog import RewriteOrRule, String, Vec, eq, i64, rule, union, var, vars_

from glenside.errors import GlensideError
from glenside.rewrites.ruleset import RuleSet, rewrite_rule
from glenside.rewrites.vocabulary import Access, ints

_OUTER, _ITEM = 4, 4
"""Most outer and item axes: permutations are written out for each rank."""


def _windows() -> Any:
    from glenside.rewrites.soundness.programs import windows_of_accesses

    return windows_of_accesses()


def _dots() -> Any:
    from glenside.rewrites.soundness.programs import long_products

    return long_products()


@rewrite_rule("overlapped-tiling", exact=True, example=(0, 2), programs=_windows)
def overlapped_tiling(axis: int, count: int) -> Iterator[RewriteOrRule]:
    """Windows of X are windows inside overlapping windows of X, ``count`` along an item axis,
    regrouped.

    ``windows_v,w,d X -> reshape(transpose(windows_v,w,d (windows_tile,count*w X)))`` where a tile
    is as long as ``count`` neighbouring windows reach, ``(count - 1) * w + (v - 1) * d + 1``, and
    the number of windows is a multiple of ``count``. It ends: of the windows inside a tile there
    are no more than ``count``, of tiles fewer than there were windows.
    """
    if axis < 0 or count < 2:
        raise GlensideError(
            "overlapped-tiling takes an item axis from 0 and at least 2 windows in a tile, "
            f"got {axis} and {count}"
        )
    x, whole = vars_("x whole", Access)
    v, w, d, s, t, tile, apart = vars_("v w d s t tile apart", Vec[i64])
    n = var("n", i64)
    for outer in range(_OUTER):
        for item in range(axis + 1, _ITEM):
            # The tile is as long as the access along all other axes, of which it leaves one window.
            lengths = [x.item[k] for k in range(item)]
            lengths[axis] = (count - 1) * w[axis] + (v[axis] - 1) * d[axis] + 1
            steps = [i64(1)] * item
            steps[axis] = w[axis] * count
            tiles = x.windows(tile, apart, ints(*[1] * item))
            for k in reversed(range(item)):
                if k != axis:
                    tiles = tiles.squeeze(outer + k)
            inside = tiles.windows(v, w, d)
            # Outer axes, then the tiles' axis, then places within a tile: it goes before its own.
            order = [*range(outer), *range(outer + 1, outer + 1 + axis), outer]
            order += range(outer + 1 + axis, outer + 1 + 2 * item)
            yield rule(
                eq(whole).to(x.windows(v, w, d)),
                eq(x.outer.length()).to(i64(outer)),
                eq(x.item.length()).to(i64(item)),
                eq(s).to(whole.outer),
                eq(t).to(whole.item),
                eq(n).to(s[outer + axis]),
                n > count,
                eq(n % count).to(i64(0)),
                eq(tile).to(ints(*lengths)),
                eq(apart).to(ints(*steps)),
            ).then(union(whole).with_(inside.transpose(ints(*order)).reshape(s, t)))


@rewrite_rule("partial-sums", exact=False, example=(2,), programs=_dots)
def partial_sums(parts: int) -> Iterator[RewriteOrRule]:
    """``dot(X × Y) -> sum(dot of parts of X × Y)``: the first reduced axis in ``parts``, of which
    each is a product of its own (they share the axis of parts like a batch), then added up. The
    operands share one axis at most.

    It ends: what is left of the axis is shorter.
    """
    if parts < 2:
        raise GlensideError(f"partial-sums takes at least 2 parts, got {parts}")
    x, y, whole = vars_("x y whole", Access)
    xs, ys, t = vars_("xs ys t", Vec[i64])
    k, g = vars_("k g", i64)
    dtype = var("dtype", String)
    for first in range(_OUTER):
        for second in range(_OUTER):
            for batch in range(min(first, second, 1) + 1):
                for item in range(1, _ITEM):
                    shape = ints(i64(parts), k / parts, *[t[j] for j in range(1, item)])

                    def cut(of: Access, outer: Vec[i64], rank: int, shape: Any = shape,
                            item: int = item) -> Access:  # fmt: skip
                        """The parts' axis before all others."""
                        order = [rank, *range(rank), *range(rank + 1, rank + item + 1)]
                        return of.reshape(outer, shape).access(rank + 1).transpose(ints(*order))

                    results = first + second - batch
                    product = cut(x, xs, first).cart_prod(cut(y, ys, second), batch + 1)
                    sums = product.compute("dot", dtype).transpose(ints(*range(1, results + 1), 0))
                    yield rule(
                        eq(whole).to(x.cart_prod(y, g).compute("dot", dtype)),
                        eq(g).to(i64(batch)),
                        eq(xs).to(x.outer),
                        eq(ys).to(y.outer),
                        eq(t).to(x.item),
                        eq(xs.length()).to(i64(first)),
                        eq(ys.length()).to(i64(second)),
                        eq(t.length()).to(i64(item)),
                        eq(k).to(t[0]),
                        k > parts,
                        eq(k % parts).to(i64(0)),
                    ).then(union(whole).with_(sums.access(results).compute("sum", dtype)))


PARALLEL = RuleSet("parallel", (overlapped_tiling(1, 2), partial_sums(2)))
"""The moves, in pairs."""
