"""How many random programs tests try where each takes tens of milliseconds.

The suite has to end within minutes on two cores. ``GLENSIDE_TEST_EFFORT=10`` tries ten times as
many.
"""

import os

from hypothesis import settings

EFFORT = float(os.environ.get("GLENSIDE_TEST_EFFORT", "1"))


def tries(count: int) -> int:
    """So many, times the effort that was asked for."""
    return max(1, round(count * EFFORT))


FEW = settings(max_examples=tries(20))
"""For what saturates e-graphs or compiles."""
