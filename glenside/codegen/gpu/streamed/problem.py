"""What a streamed product is made of, in numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from glenside.codegen import scalars
from glenside.codegen.program.record import Streamed


@dataclass(frozen=True)
class StreamedProblem:
    """``batches`` times ``rows`` rows of ``columns`` elements, each of ``depth`` products, times
    ``width`` columns of what the rows are multiplied with."""

    batches: int
    rows: int
    columns: int
    depth: int
    width: int
    groups: int
    """Batches of the first product, of which there may be fewer: queries that share their keys."""
    dtype: str
    """Of the operands."""

    @property
    def inner(self) -> str:
        """The dtype in which is added up."""
        return scalars.wide(self.dtype)

    @property
    def operations(self) -> int:
        """Of both products, each multiplication and each addition counted."""
        return 2 * self.batches * self.rows * self.columns * (self.depth + self.width)


def problem_of(streamed: Streamed) -> StreamedProblem:
    """The numbers of a product and what is computed inside its kernel."""
    pairs, own = streamed.product.children[0], streamed.scores.children[0]
    (first, second), batch = pairs.children, pairs["batch"]
    a, _ = own.children
    return StreamedProblem(
        batches=math.prod(first.outer[:batch]),
        rows=math.prod(first.outer[batch:]),
        columns=first.item[0],
        depth=math.prod(a.item),
        width=math.prod(second.outer[batch:]),
        groups=math.prod(a.outer[: own["batch"]]),
        dtype=a.dtype,
    )
