"""Sizes that satisfy a declaration, found by search; or the reason why there are none."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from glenside.errors import TargetError
from glenside.hw_targets.declare.sizes import Condition

Sizes = dict[str, int]

_SMALL = (2, 3, 5, 4, 7, 6, 9, 8, 11, 13, 10, 12, 1, 0)
"""Tried first: lengths that tell axes apart."""
_STEPS = 20_000
"""Assignments that are looked at before a search is given up."""


def samples(
    names: Sequence[str],
    conditions: Sequence[Condition],
    fixed: Mapping[str, int] | None = None,
    distinct: bool = True,
) -> Iterator[Sizes]:
    """Sizes for which all conditions hold, smallest values first.

    :param fixed: variables with a given value.
    :param distinct: prefer values that differ, so that an axis is not taken for another; where the
        conditions force equal ones they are still found, behind.
    """
    fixed = dict(fixed or {})
    free = [name for name in names if name not in fixed]
    pool = _pool(conditions)
    seen = set()
    for each in (True, False) if distinct else (False,):
        for found in _search(free, fixed, pool, conditions, each):
            key = tuple(found[name] for name in names)
            if key not in seen:
                seen.add(key)
                yield found


def _pool(conditions: Iterable[Condition]) -> list[int]:
    """Small values, and those at the limits that conditions name."""
    named = {int(n) for c in conditions for n in re.findall(r"\d+", c.text)}
    near = (n + step for n in sorted(named) for step in (0, -1, 1, n))
    return list(dict.fromkeys((*_SMALL, *(n for n in near if 0 <= n < 10_000))))


def _search(
    free: Sequence[str],
    fixed: Sizes,
    pool: Sequence[int],
    conditions: Sequence[Condition],
    distinct: bool,
) -> Iterator[Sizes]:
    """Depth first, one variable after the other; a condition is looked at once it can be."""
    order = list(free)
    known = set(fixed)
    due: list[list[Condition]] = [[c for c in conditions if known.issuperset(c.names)]]
    for name in order:
        known.add(name)
        before = [c for each in due for c in each]
        due.append([c for c in conditions if known.issuperset(c.names) and c not in before])
    chosen = dict(fixed)
    if not all(c.holds(chosen) for c in due[0]):
        return
    if not order:
        yield dict(chosen)
        return
    steps = itertools.count()
    choices = [iter(pool)]
    while choices:
        at = len(choices) - 1
        for value in choices[-1]:
            if next(steps) > _STEPS:
                return
            if distinct and value in (chosen[name] for name in order[:at]):
                continue
            chosen[order[at]] = value
            if all(c.holds(chosen) for c in due[at + 1]):
                if at + 1 == len(order):
                    yield {**fixed, **{name: chosen[name] for name in order}}
                else:
                    choices.append(iter(pool))
                    break
        else:
            choices.pop()


def varied(
    names: Sequence[str],
    conditions: Sequence[Condition],
    fixed: Mapping[str, int] | None = None,
    count: int = 200,
) -> Iterator[Sizes]:
    """Sizes that differ much from one to the next: where one choice does not do, another may.

    All values of one choice differ, unless the conditions force equal ones.
    """
    fixed = dict(fixed or {})
    free = [name for name in names if name not in fixed]
    pool = [*_pool(conditions), *range(14, 20)]
    for distinct in (True, False):
        for seed in range(count):
            shuffled = random.Random(seed).sample(pool, len(pool))
            found = next(_search(free, fixed, shuffled, conditions, distinct), None)
            if found is None:
                break
            yield found
        else:
            return


def require(what: str, names: Sequence[str], conditions: Sequence[Condition]) -> None:
    """:raises TargetError: no sizes satisfy the conditions; names those that exclude each other."""
    if next(samples(names, conditions), None) is not None:
        return
    culprits = list(conditions)
    for each in conditions:
        fewer = [c for c in culprits if c is not each]
        if next(samples(names, fewer), None) is None:
            culprits = fewer
    texts = " and ".join(dict.fromkeys(repr(c.text) for c in culprits))
    raise TargetError(f"{what}: no sizes satisfy {texts}")
