"""What every verb does with a model first: it is imported, explored, and a program extracted.

A :class:`Pipeline` is one such walk. It times and announces the stages, shares out the time there
is, and goes on with the program as it was imported where rewriting fails or the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside import quantization
from glenside.deadline import Deadline, TimeIsUp, within
from glenside.errors import GlensideError, InputError, NotEnoughMemory, NotOptimised
from glenside.frontends import load_model
from glenside.language import Model
from glenside.limits import ITER_LIMIT, NODE_LIMIT
from glenside.memory_limit import Compiling, forms, hold
from glenside.precision import in_precision, without_halves
from glenside.shapes.asked import in_numbers

if TYPE_CHECKING:
    from glenside.extraction import CostModel, Extraction
    from glenside.hw_targets.target import Progress, Target
    from glenside.quantization import QuantizationError
    from glenside.rewrites import RuleSet, Saturation

Array = np.ndarray[Any, Any]
Step = Callable[[int, int], None]
"""Told how much of a stage is done, and of how much."""

EXPLORING, EXTRACTING, HOLDING, EXPLAINING = 0.4, 0.6, 0.5, 0.25
"""Parts of the time left when they begin that stages may take; compiling and checking get the
rest."""


class Clock:
    """Times the stages and announces them; what listeners raise is kept in ``raised``.

    :param progress: called with (stage, steps done, steps in all).
    """

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self.seconds: dict[str, float] = {}
        """What the stages took that have ended."""
        self.raised: list[BaseException] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[Step | None]:
        """The body is this stage; the value tells listeners, where there are any, of its steps."""
        start = time.perf_counter()
        self.tell(name, 0, 0)
        try:
            with _memory(name):
                listening = self._progress is not None
                yield (lambda done, total: self.tell(name, done, total)) if listening else None
        finally:
            taken = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + taken

    def tell(self, stage: str, done: int, total: int) -> None:
        """Announces a step."""
        if self._progress is None:
            return
        try:
            self._progress(stage, done, total)
        except BaseException as problem:
            self.raised.append(problem)
            raise


@contextmanager
def _memory(stage: str) -> Iterator[None]:
    """Says in which stage memory was refused, where nobody counted it before."""
    try:
        yield
    except GlensideError:
        raise
    except MemoryError as problem:
        told = f"{stage} takes more memory than there is: {problem}".rstrip(": ")
        raise NotEnoughMemory(told) from problem


@dataclass(frozen=True)
class Imported:
    """A model as it is compiled, and what was changed of it on request."""

    model: Model
    quantization: QuantizationError | None
    """What quantising cost; None where it was not asked for."""
    unchanged: Model | None = None
    """The model before it was changed to half precision."""

    def full(self) -> Model | None:
        """The model in float32, where it computes in half precision; else None."""
        return self.unchanged or without_halves(self.model)


class Pipeline:
    """One walk through the stages.

    :param instead: what is done where rewriting fails, as the warning says it.
    :param progress: called with (stage, steps done, steps in all).
    :param time_limit: seconds for all stages but importing; None: no limit.
    :param own_costs: whether the cost model is the user's own, who wants to see what it raises.
    """

    def __init__(
        self,
        instead: str,
        *,
        progress: Progress | None = None,
        time_limit: float | None = None,
        own_costs: bool = False,
    ) -> None:
        from glenside.fallback import Failure

        self.clock = Clock(progress)
        self.deadline = Deadline(time_limit)
        self.failure = Failure(instead, NotOptimised, own_costs)
        self.cut: list[str] = []
        """Stages that the time limit ended."""

    def imported(
        self,
        model: object,
        *,
        shapes: Mapping[str, Any] | None = None,
        params: Mapping[str, Array] | None = None,
        precision: str | None = None,
        quantize: object = None,
        example_inputs: object = None,
    ) -> Imported:
        """The model, changed to half precision or quantised where that is asked for.

        :raises GlensideError: it cannot be read, or both are asked for.
        """
        if precision is not None and quantize is not None:
            raise InputError("precision and quantize both say what to compute in: give one of them")
        with self.clock.stage("import") as step:
            shapes = in_numbers(model, example_inputs, shapes)
            read = load_model(
                model, shapes=shapes, params=params, example_inputs=example_inputs, progress=step
            )
            changed = read if precision is None else in_precision(read, precision)
        error = None
        if quantize is not None:
            with self.clock.stage("quantise") as step:
                asked = quantization.as_quantization(quantize)
                changed, error = quantization.quantize(changed, asked, step)
        return Imported(changed, error, None if precision is None else read)

    def rules(
        self,
        own: Callable[[], Sequence[RuleSet]],
        rules: object = None,
        add_rules: object = None,
    ) -> list[RuleSet]:
        """As :func:`~glenside.rewrites.ruleset.explored_with`; none where making them takes longer
        than exploring may."""
        from glenside.rewrites.ruleset import explored_with

        try:
            with within(self.deadline.share(EXPLORING)):
                return explored_with(own, rules, add_rules)
        except TimeIsUp:
            self.cut.append("saturate")
            return []

    def explored(
        self,
        model: Model,
        rules: Sequence[RuleSet],
        *,
        node_limit: int = NODE_LIMIT,
        iter_limit: int = ITER_LIMIT,
    ) -> Saturation:
        """What the rules find within the limits; the program alone where a rule fails."""
        from glenside.fallback import unexplored
        from glenside.rewrites import StopReason, saturate

        if "saturate" in self.cut:
            return unexplored(model.roots, rules, StopReason.TIME_LIMIT)
        share = self.deadline.share(EXPLORING)
        left = share.left()
        result: Saturation | None = None
        with (
            self.failure.caught("saturate", self.clock.raised),
            self.clock.stage("saturate") as step,
        ):
            try:
                with within(share):
                    result = saturate(
                        model.roots,
                        rules,
                        node_limit=node_limit,
                        iter_limit=iter_limit,
                        time_limit=None if left == float("inf") else max(left, 0.0),
                        progress=step,
                    )
            except TimeIsUp:
                result = unexplored(model.roots, rules, StopReason.TIME_LIMIT)
                self.cut.append("saturate")
        if result is None or self.failure.reason is not None:
            return unexplored(model.roots, rules)
        return result

    def extracted(
        self,
        explored: Saturation,
        model: Model,
        costs: CostModel,
        *,
        extractor: str = "best",
        ilp_limit: float | None = None,
    ) -> Extraction:
        """The cheapest program found, the one imported where extraction fails or takes too long."""
        from glenside.fallback import as_imported

        result: Extraction | None = None
        with self.failure.caught("extract", self.clock.raised), self.clock.stage("extract"):
            try:
                with within(self.deadline.share(EXTRACTING)):
                    result = _picked(explored, model, costs, extractor, ilp_limit)
            except TimeIsUp:
                self.cut.append("extract")
        if result is None or self.failure.reason is not None:
            return as_imported(model.roots, costs, model.params.keys())
        return result

    def held(
        self,
        limit: int,
        target: Target,
        scratch: int | None,
        cheapest: Extraction,
        explored: Saturation,
        model: Model,
        costs: CostModel,
        *,
        extractor: str = "best",
        ilp_limit: float | None = None,
    ) -> tuple[Extraction, int | None]:
        """The cheapest program found that holds no more than ``limit`` bytes, and what a product's
        partial sums may take; the one imported, and nothing, where time was up before one was
        found.

        :param scratch: most bytes of partial sums in any case; None: the target's own limit.
        :raises MemoryLimit: there is none.
        """
        from glenside.fallback import as_imported

        def pick(by: CostModel) -> Extraction:
            return _picked(explored, model, by, extractor, ilp_limit)

        def unchanged() -> Extraction:
            return as_imported(model.roots, costs, model.params.keys())

        choice = None if self.cut or self.failure.reason is not None else pick
        known = forms(cheapest, unchanged, costs, choice, model.params)
        with self.clock.stage("extract"):
            try:
                with within(self.deadline.share(HOLDING)):
                    compiling = Compiling(target, model.inputs, model.params)
                    found = hold(limit, known, compiling, scratch)
                return found.extraction, found.scratch
            except TimeIsUp:
                self.cut.append("memory")
                return unchanged(), 0


def _picked(
    explored: Saturation,
    model: Model,
    costs: CostModel,
    extractor: str,
    ilp_limit: float | None,
) -> Extraction:
    from glenside.extraction import ILP_LIMIT, extract

    return extract(
        explored.egraph,
        costs,
        extractor=extractor,
        original=model.roots,
        ilp_limit=ILP_LIMIT if ilp_limit is None else ilp_limit,
        constants=model.params.keys(),
    )
