"""The kernel that lays a value out row by row, or as a program stores it, on a CUDA device."""

from __future__ import annotations

import math

from glenside.codegen.plan import Entry, Place

NAME = "lay_out"
_THREADS, _MOST_GROUPS = 256, 1 << 20
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


def copy_kernel(place: Place, itemsize: int, back: bool) -> tuple[str, Entry]:
    """CUDA C of a kernel ``lay_out(from, to)`` and how it is launched.

    :param place: where the program stores the value, in elements of the buffer's start.
    :param back: from there, to row by row; else the other way.
    """
    word = _WORDS[itemsize]
    count = math.prod(place.shape)
    lines = []
    for size, stride in reversed([atom for axis in place.axes for atom in axis]):
        lines.append(f"    stored += (rest % {size}) * {stride}L; rest /= {size};")
    copied = "to[i] = from[stored];" if back else "to[stored] = from[i];"
    source = "\n".join(
        [
            f'extern "C" __global__ void {NAME}(const {word}* from, {word}* to) {{',
            f"  for (long i = blockIdx.x * {_THREADS}L + threadIdx.x; i < {count};",
            f"       i += gridDim.x * {_THREADS}L) {{",
            f"    unsigned rest = i; long stored = {place.offset}L;",
            *lines,
            f"    {copied}",
            "  }",
            "}",
        ]
    )
    groups = min(-(-count // _THREADS), _MOST_GROUPS)
    return source, Entry([max(groups, 1), 1, 1], [_THREADS, 1, 1])
