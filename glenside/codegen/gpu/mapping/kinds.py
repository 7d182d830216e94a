"""All kinds of mappings."""

from __future__ import annotations

from typing import Any

from glenside.codegen.gpu.mapping.kind import Kind
from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.gpu.matrices.kind import Matrices
from glenside.codegen.gpu.streams.kind import Streams
from glenside.codegen.gpu.threads.kind import Threads
from glenside.codegen.gpu.warpgroups.kind import Warpgroups
from glenside.codegen.gpu.warps.kind import Warps

THREADS, MATRICES = Threads(), Matrices()
UNITS: tuple[Kind[Any], ...] = (Warpgroups(), Streams(), Warps())
"""Those of matrix units, which go first where a device has them."""
KINDS: tuple[Kind[Any], ...] = (*UNITS, MATRICES, THREADS)

_BY_NAME = {kind.name: kind for kind in KINDS}


def kind_of(mapping: ProductMapping) -> Kind[Any]:
    """The kind that a mapping is of."""
    return _BY_NAME[mapping.kind]
