"""What every compiled program offers, however it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]


class Runnable(Protocol):
    """A compiled program, freshly compiled or loaded."""

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """Output arrays for input arrays by name."""
