"""The constraints that Mogers et al. wrote by hand for convolutions on Lift, of our mappings.

Of "Automatic Generation of Specialized Direct Convolutions for Mobile GPUs" (GPGPU 2020): ``t`` is
a tile of the padded input, ``k`` the window, ``s`` the stride, ``K`` the filters. There they are
conditions for a mapping without masks; here what does not divide is masked, so that a loop's tiles
may cover more than the loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from glenside.codegen.gpu.interface import DeviceLimits
from glenside.codegen.gpu.mapping.solver import Stated
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.codegen.scalars import itemsize

NAMES = (
    "1 whole windows",
    "2 tiles cover the input",
    "3 filters by groups",
    "4 reduced steps by threads",
    "5 vectors",
    "6 partial sums",
    "7 group size",
)


def lifts_constraints(
    space: ProductSpace, mapping: ThreadMapping, limits: DeviceLimits
) -> Iterator[Stated]:
    """The seven, with a mapping's numbers; the first two once for each loop with windows."""
    tiling, streamed = Tiling(space, mapping), space.streamed
    for k in space.of("n"):
        windows = space.windows_of(k)
        if not windows:
            continue
        d = streamed.dimensions_of(k)[-1]
        stride, tile = streamed.steps[k][d], tiling.extents[d]
        window = 1 + sum(streamed.steps[w][d] * (space.axes[w].size - 1) for w in windows)
        rest = (tile - (window - stride)) % stride
        yield _said(0, f"(t - (k - s)) mod s = ({tile} - ({window} - {stride})) mod {stride}"
                       f" along {space.names[k]} = 0", rest, rest == 0)  # fmt: skip
        covered, size = tiling.groups[k] * tiling.tile[k], space.axes[k].size
        text = f"{tiling.groups[k]} tiles of {tiling.tile[k]} cover {space.names[k]} >= {size}"
        yield _said(1, text, covered, covered >= size)
    for k in space.of("m"):
        covered, size = tiling.groups[k] * tiling.tile[k], space.axes[k].size
        text = (
            f"{tiling.groups[k]} groups of {tiling.tile[k]} rows cover {space.names[k]} >= {size}"
        )
        yield _said(2, text, covered, size <= covered < size + tiling.tile[k])
    steps = math.prod(mapping.chunk) // tiling.reduced_in_group
    covered = math.prod(mapping.split) * math.prod(tiling.stages) * math.prod(mapping.chunk)
    text = f"{covered} reduced steps, masked ones included, mod {steps} of a thread's stage = 0"
    yield _said(3, text, covered % steps, covered % steps == 0)
    rests = [r % v for r, v in zip(mapping.registers, mapping.vector, strict=True)]
    yield _said(4, "registers mod vector = 0 along every loop", sum(rests), not any(rests))
    scratch = 0
    if tiling.split > 1:
        scratch = tiling.partial_elements * itemsize(space.accumulate)
    text = f"bytes of partial sums <= {limits.scratch_bytes}"
    yield _said(5, text, scratch, scratch <= limits.scratch_bytes)
    threads, local = tiling.threads, tiling.local_bytes()
    text = f"threads of a group <= {limits.threads_per_group}"
    yield _said(6, text, threads, threads <= limits.threads_per_group)
    text = f"bytes of local memory <= {limits.local_bytes}"
    yield _said(6, text, local, local <= limits.local_bytes)


def _said(number: int, text: str, value: int, holds: bool) -> Stated:
    return Stated(NAMES[number], text, value, holds)
