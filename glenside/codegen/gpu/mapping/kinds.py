"""All kinds of mappings."""

from __future__ import annotations

from typing import Any

from glenside.codegen.gpu.mapping.kind import Kind
from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.gpu.matrices.kind import Matrices
from glenside.codegen.gpu.rows.kind import RowsKind
from glenside.codegen.gpu.streams.kind import Streams
from glenside.codegen.gpu.threads.kind import Threads
from glenside.codegen.gpu.warpgroups.kind import Warpgroups
from glenside.codegen.gpu.warps.kind import Warps

THREADS, MATRICES, ROWS = Threads(), Matrices(), RowsKind()
UNITS: tuple[Kind[Any, Any], ...] = (Warpgroups(), Streams(), Warps())
"""Those of matrix units, which go first where a device has them."""
KINDS: tuple[Kind[Any, Any], ...] = (*UNITS, MATRICES, THREADS)
"""Those of products."""

_BY_NAME = {kind.name: kind for kind in (*KINDS, ROWS)}


def kind_of(mapping: ProductMapping) -> Kind[Any, Any]:
    """The kind that a mapping is of."""
    return _BY_NAME[mapping.kind]
