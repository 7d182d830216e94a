"""Ranked mappings: kept for each problem, and chosen to differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from glenside.codegen.gpu.interface import DeviceLimits

_MOST = 256
"""Problems whose mappings are kept."""


class Solved[M]:
    """The mappings found for each problem, as long as a device's limits stay what they are."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[DeviceLimits, list[M]]] = {}

    def ranked(
        self, problem: Hashable, limits: DeviceLimits, solve: Callable[[], list[M]]
    ) -> list[M]:
        """What ``solve`` finds, best first."""
        key = problem, limits.name
        known = self._known.get(key)
        if known is None or known[0] != limits:
            if len(self._known) > _MOST:
                self._known.clear()
            known = self._known[key] = limits, solve()
        return known[1]


def distinct[M](
    ranked: Sequence[M], count: int, kinds: Callable[[M], Iterable[Hashable]]
) -> list[M]:
    """The first ones, at most two of each of their kinds."""
    seen: Counter[Hashable] = Counter()
    chosen: list[M] = []
    for mapping in ranked:
        if len(chosen) == count:
            break
        mine = list(kinds(mapping))
        if all(seen[kind] < 2 for kind in mine):
            seen.update(mine)
            chosen.append(mapping)
    return chosen
