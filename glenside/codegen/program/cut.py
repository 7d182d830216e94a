"""Cuts a program into kernels and decides where every value lies.

A kernel is one reduction (``dot``, ``sum``, ``max``, softmax, ...) with the transformers that feed
it, as index functions, and the elementwise work that follows it; on devices it can be several
reductions over the same rows and the elementwise work around them (a norm). Elementwise work with
no reduction to follow is a kernel of its own. What is only data movement is not computed at all
where a strided view can express it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from glenside.codegen.program.blocking import block
from glenside.codegen.program.bounding import bound
from glenside.codegen.program.canonical import canonical
from glenside.codegen.program.folding import fold
from glenside.codegen.program.fusing import fuse
from glenside.codegen.program.layout import lay_out
from glenside.codegen.program.margins import find_margins
from glenside.codegen.program.materialise import materialise
from glenside.codegen.program.moving import move
from glenside.codegen.program.placing import place
from glenside.codegen.program.record import Cut, Streamed
from glenside.codegen.program.rows import find_rows
from glenside.codegen.program.storing import store
from glenside.codegen.program.streaming import stream
from glenside.codegen.storage import Array
from glenside.language.shape import AccessType
from glenside.language.term import Term

Pass = Callable[[Cut], Cut]

PASSES: Mapping[str, Pass] = {
    "canonical": canonical,
    "folding": fold,
    "materialise": materialise,
    "moving": move,
    "bounding": bound,
    "streaming": stream,
    "fusing": fuse,
    "rows": find_rows,
    "blocking": block,
    "placing": place,
    "margins": find_margins,
    "layout": lay_out,
    "storing": store,
}
"""All passes by the names of their files, in order."""


def cut_program(
    outputs: Sequence[Term],
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    plain: bool = False,
    rows_last: bool = False,
    streams: Callable[[Streamed], bool] | None = None,
) -> Cut:
    """The program with these outputs after all passes.

    :param inputs: types of the ``tensor`` leaves given at run time, by name.
    :param params: arrays of the other ``tensor`` leaves.
    :param plain: see :attr:`Cut.plain`.
    :param rows_last: see :attr:`Cut.rows_last`.
    :param streams: see :attr:`Cut.streams`.
    :raises InputError: a ``tensor`` leaf is in neither.
    """
    start = Cut(tuple(outputs), inputs, params, plain, rows_last, streams)
    return [cut for _, cut in passed(start)][-1]


def passed(start: Cut) -> Iterator[tuple[str, Cut]]:
    """The record after each pass, by the pass's name."""
    cut = start
    for name, step in PASSES.items():
        cut = step(cut)
        yield name, cut
