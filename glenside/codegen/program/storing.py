"""Pass: buffers, and the parameters in them."""

from __future__ import annotations

from dataclasses import replace

from glenside.codegen.program.record import Cut
from glenside.codegen.storage import Memory


def store(cut: Cut) -> Cut:
    """Makes the buffers that values lie in; those of known values hold them already."""
    memory = Memory(stored=dict(cut.stored))
    for home in cut.homes:
        if home.term in cut.weights:
            memory.keep(home.term, cut.weights[home.term])
        else:
            memory.add(home.size, home.term.dtype)
    return replace(cut, memory=memory)
