"""Mappings of products to matrix units."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TensorMapping:
    """How a product is spread over groups that multiply on matrix units.

    ``tile`` has the results of a group along each loop over positions, ``rows`` those along the
    rows; ``groups`` are the warpgroups (128 threads) along rows and along positions. A step takes
    ``chunk`` elements of the inner reduced loop; ``stages`` steps are in local memory at a time,
    and a product of the previous step may be under way for each ``kept``. The ``split`` groups of a
    cluster share the steps and add up their sums. ``gathered``: all reduced loops are one.
    """

    tile: tuple[int, ...]
    rows: int
    groups: tuple[int, int]
    chunk: int
    stages: int
    split: int = 1
    kept: int = 0
    gathered: bool = False
    predicted: float = 0.0
    """Seconds, by the model."""

    def to_json(self) -> str:
        """Text that :meth:`from_json` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> TensorMapping:
        """A mapping from its text, or from what ``json.loads`` makes of it."""
        given = json.loads(text) if isinstance(text, str) else text
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
