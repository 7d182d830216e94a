"""Work on several rules at once: they cannot be sent to another process, but it inherits them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from glenside.rewrites.ruleset import Rule

_work: tuple[Callable[[Rule], Any], Sequence[Rule]] | None = None


def _one(number: int) -> Any:
    assert _work is not None
    what, rules = _work
    return what(rules[number])


def each[T](what: Callable[[Rule], T], rules: Sequence[Rule], jobs: int) -> Iterator[T]:
    """``what`` of every rule, in their order."""
    global _work
    if jobs < 2 or len(rules) < 2 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(what, rules)
        return
    _work = what, rules
    try:
        # A process for each rule: what a solver has learnt of one is of no use to the next.
        with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=1) as pool:
            yield from pool.imap(_one, range(len(rules)))
    finally:
        _work = None
