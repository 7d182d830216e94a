"""A program held under a limit of memory: which form of it, and how its products are mapped.

Forms are the programs that the e-graph has between the cheapest and the one that stores least,
found by weighing a stored byte more and more; of a form, split reductions get no more memory for
partial sums than is left. What counts is what the compiled program will hold beside its operands
and results (:attr:`~glenside.codegen.footprint.Footprint.held`), counted from its plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.deadline import check_time
from glenside.errors import InputError, MemoryLimit
from glenside.extraction import Extraction, dag_cost
from glenside.extraction.memory import LeastMemory, WeighedMemory
from glenside.hw_targets.target import Executable, Target
from glenside.language import AccessType, Term
from glenside.language.memory import spelled

if TYPE_CHECKING:
    from glenside.codegen.footprint import Footprint
    from glenside.extraction import CostModel

Array = np.ndarray[Any, Any]

_STEPS = (1 / 16, 1 / 4, 1 / 2, 1, 2, 4, 16)
"""Weights of a byte that are tried, by the one at which the two extremes cost the same."""
_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{end}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for end, base in (("", 1000), ("b", 1000), ("ib", 1024))
}


def parse_bytes(given: object, name: str = "memory_limit") -> int:
    """A number of bytes, or text such as ``"64MB"`` (10^6) or ``"64MiB"`` (2^20).

    :raises InputError: it is neither.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        if 0 <= given < math.inf:
            return int(given)
    elif isinstance(given, str):
        read = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", given.lower())
        if read and read[2] in _UNITS:
            return int(float(read[1]) * _UNITS[read[2]])
    raise InputError(
        f"{name} must be bytes from 0 up, or text with a unit such as 64MB or 64MiB, got {given!r}"
    )


@dataclass(frozen=True)
class Compiling:
    """A program's target, and what it is compiled with."""

    target: Target
    inputs: Mapping[str, AccessType]
    params: Mapping[str, Array]

    def footprint(self, terms: Sequence[Term], scratch: int | None = None) -> Footprint | None:
        """What the program will hold; None where the target does not tell.

        :param scratch: most bytes of a product's partial sums; None: the target's own limit.
        """
        target = with_scratch(self.target, scratch)
        ask = getattr(target, "footprint", None)
        if ask is not None:
            told: Footprint | None = ask(terms, self.inputs, self.params, _checking_time)
            return told
        made = target.compile(terms, self.inputs, self.params, progress=_checking_time)
        return getattr(made, "footprint", None)


def _checking_time(what: str, done: int, total: int) -> None:
    check_time()


def with_scratch(target: Target, scratch: int | None) -> Target:
    """The target with less memory for partial sums, where it has a say in that."""
    limited: Callable[[int], Target] | None = getattr(target, "with_scratch", None)
    return target if scratch is None or limited is None else limited(scratch)


def check_held(made: Executable, limit: int) -> None:
    """Refuses a program that holds more, where time was up before a better one was found.

    :raises MemoryLimit: says what it holds.
    """
    footprint: Footprint | None = getattr(made, "footprint", None)
    if footprint is not None and footprint.held > limit:
        raise MemoryLimit(
            f"memory_limit={limit} is not kept by the one program that time_limit left time for: "
            f"it holds {footprint.held} bytes beside operands and results"
        )


@dataclass(frozen=True)
class Held:
    """A form that keeps the limit, and what its products may take for partial sums."""

    extraction: Extraction
    scratch: int | None


def hold(
    limit: int, forms: Iterable[Extraction], compiling: Compiling, scratch: int | None = None
) -> Held:
    """The first of the forms that can be held under the limit.

    :param forms: cheapest first.
    :param scratch: most bytes of a product's partial sums in any case.
    :raises MemoryLimit: none can be; says what is the least.
    :raises TimeIsUp: time was over (:mod:`glenside.deadline`) before one was found.
    """
    least: tuple[int, str] | None = None
    tried: set[tuple[Term, ...]] = set()
    for form in forms:
        if tuple(form.terms) in tried:
            continue
        tried.add(tuple(form.terms))
        check_time()
        whole = compiling.footprint(form.terms, scratch)
        if whole is None:
            raise MemoryLimit(
                f"memory_limit: the target {compiling.target.name} does not tell what memory its "
                "programs hold"
            )
        if whole.held <= limit:
            return Held(form, scratch)
        if whole.scratch and scratch != 0:
            alone = compiling.footprint(form.terms, 0)
            assert alone is not None
            if alone.held <= limit:
                # Partial sums take what is left, if that comes to no more once memory is planned.
                left = limit - alone.held
                part = compiling.footprint(form.terms, left)
                assert part is not None
                return Held(form, left if part.held <= limit else 0)
            whole = min(whole, alone, key=lambda each: each.held)
        if least is None or whole.held < least[0]:
            found = [*whole.largest.items()][:1]
            of = "".join(f"; the largest value on the way is {w}, {spelled(n)}" for w, n in found)
            least = whole.held, of
    assert least is not None
    raise MemoryLimit(
        f"memory_limit={limit} ({spelled(limit)}) cannot be held: the least that is known to be "
        f"reachable is {least[0]} bytes ({spelled(least[0])}) beside operands and results{least[1]}"
    )


def forms(
    cheapest: Extraction,
    imported: Callable[[], Extraction],
    costs: CostModel,
    extract: Callable[[CostModel], Extraction] | None,
    constants: Mapping[str, Array],
) -> Iterator[Extraction]:
    """Programs between the cheapest and the one that stores least, made when they are asked for,
    and at last the program as it was imported.

    :param extract: the program that a cost model picks; None where there is no choice.
    """
    yield cheapest
    if extract is not None:
        for found in _between(cheapest, costs, extract, constants):
            # The report tells what they cost by the model asked for, by which none is proved best.
            cost = dag_cost(found.terms, costs, constants)
            yield replace(found, cost=cost, tried=cheapest.tried, optimal=False)
    yield imported()


def _between(
    cheapest: Extraction,
    costs: CostModel,
    extract: Callable[[CostModel], Extraction],
    constants: Mapping[str, Array],
) -> Iterator[Extraction]:
    memory = LeastMemory(costs)
    least = extract(memory)

    def measured(terms: Sequence[Term]) -> tuple[float, float]:
        stored, first, *_ = dag_cost(terms, memory, constants)
        return stored, first

    (most_bytes, low), (few_bytes, high) = measured(cheapest.terms), measured(least.terms)
    if few_bytes < most_bytes and low < high < math.inf:
        even = (high - low) / (most_bytes - few_bytes)
        for step in _STEPS:
            yield extract(WeighedMemory(costs, step * even, costs.name))
    yield least
