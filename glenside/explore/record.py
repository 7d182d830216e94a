"""Record step by step, with a record of what every pass did.

While it grows only counters are recorded: sizes, and egglog's own report of each rule. What needs
the rows of the e-graph (whether a program is in it, what the best one costs, the members of a
class) is gathered when it is asked for, by growing another one the same way: see
:mod:`glenside.explore.history` and :mod:`glenside.explore.pricing`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from glenside.errors import GlensideError, InputError, NotOptimised, UnsoundRewrite
from glenside.fallback import Failure
from glenside.interrupt import held_back
from glenside.language import Model, Term, parse
from glenside.rewrites.engine.egraph import EGraph
from glenside.rewrites.engine.frozen import FrozenEGraph
from glenside.rewrites.engine.query import Pattern, contains, matches
from glenside.rewrites.engine.saturation import Applied, RuleStep, Stepper, StopReason
from glenside.rewrites.ruleset import RuleSet

if TYPE_CHECKING:
    from glenside.explore.history import History
    from glenside.explore.pricing import Pricing
    from glenside.extraction import CostModel, Extraction

PHASES = ("search and apply", "merge", "rebuild", "types", "bookkeeping")
"""Where the time of a pass goes: egglog's matching and acting, its merging and rebuilding, the
inference of types after each step, and our own counting and checking of limits."""


@dataclass(frozen=True)
class RuleRecord:
    """What one rule did in one pass. ``seconds`` are egglog's, for searching and applying it."""

    rule: str
    matches: int
    seconds: float
    changed: bool


@dataclass(frozen=True, repr=False)
class Snapshot:
    """The e-graph after a pass; number 0 is the program as it was loaded."""

    iteration: int
    stage: int | None
    """The stage whose rules were applied; None at the start."""
    nodes: int
    classes: int
    operators: Mapping[str, int]
    """E-nodes of each operator."""
    rules: tuple[RuleRecord, ...]
    seconds: float
    """What the pass took."""
    phases: Mapping[str, float]
    """Seconds of it by :data:`PHASES`."""
    memory: int
    """Bytes that the process occupies (resident set), where the system tells; else 0."""
    changed: bool

    @property
    def equalities(self) -> int:
        """E-nodes beyond the first of each class: ways to say what can be said otherwise."""
        return self.nodes - self.classes

    @property
    def matches(self) -> int:
        """Matches of all rules in this pass."""
        return sum(each.matches for each in self.rules)

    def __repr__(self) -> str:
        return (
            f"<after pass {self.iteration}: {self.nodes:,} e-nodes in {self.classes:,} classes, "
            f"{self.matches:,} matches>"
        )


class Record:
    """An e-graph while it grows, and the record of how it grew.

    :param model: the program it starts from.
    :param rules: what is applied, stage by stage.
    :param cost_models: by which programs in it are priced; the first is the one asked by default.
    :raises InputError: no cost model is given, or two have the same name.
    """

    def __init__(
        self,
        model: Model,
        rules: Sequence[RuleSet],
        cost_models: Sequence[CostModel],
        *,
        target: str = "",
        node_limit: int,
        iter_limit: int,
        time_limit: float | None = None,
    ) -> None:
        self.model = model
        self.rules = tuple(rules)
        self.cost_models = {each.name: each for each in cost_models}
        if not cost_models or len(self.cost_models) < len(cost_models):
            names = ", ".join(each.name for each in cost_models) or "none"
            raise InputError(f"cost models are given at least one, no two of a name; got {names}")
        self.target = target
        self.node_limit = node_limit
        self._egraph = EGraph([rule for each in rules for rule in each])
        self._egraph.load(model.roots)
        self._interrupted: Callable[[], bool] = lambda: False
        self._stepper = Stepper(
            rules,
            node_limit=node_limit,
            iter_limit=iter_limit,
            time_limit=time_limit,
            pause=lambda: self._interrupted(),
        )
        self._passes: Iterator[tuple[RuleStep, ...]] = self._stepper.passes(self._egraph)
        self._failure = Failure("the program is explored no further", NotOptimised)
        self._over: str = ""
        """Why it cannot grow any more, where that is no limit and no fixed point."""
        self._frozen: tuple[int, FrozenEGraph] | None = None
        self._history: tuple[int, History] | None = None
        self._extracted: tuple[int, dict[str, Extraction]] = (0, {})
        self._pricing: Pricing | None = None
        self.snapshots: list[Snapshot] = []
        """The e-graph at the start and after every pass."""
        self._snapshot(None, (), 0.0, {}, False)

    # --- growing ----------------------------------------------------------------------------------

    def step(self) -> Snapshot | None:
        """One pass over the rules of the present stage; None when there is nothing left to do.

        Ctrl-C ends it after the rule being applied; it can then be gone on with. Where a rule turns
        out to be unsound or fails, it warns (:class:`~glenside.errors.NotOptimised`),
        :attr:`failure` says why, and it ends with the program as imported.

        :raises GlensideError: it was closed, or broken off in the middle of a rule.
        """
        if self.stop_reason is not None or self.failure is not None:
            return None
        if self._over:
            raise GlensideError(f"this exploration cannot go on: {self._over}")
        with held_back() as self._interrupted:
            started = time.perf_counter()
            self._over = "it was broken off while a rule was applied"
            taken = None
            with self._failure.caught("saturate", ()):
                try:
                    taken = next(self._passes, None)
                except UnsoundRewrite as problem:
                    raise self._stepper.unsound_step(self.model.roots) from problem
                self._over = ""
            if self._failure.reason is not None:
                self._give_up()
            return None if taken is None else self._note(taken, time.perf_counter() - started)

    def _give_up(self) -> None:
        """What there is from now on is the program as imported; the record stays."""
        from glenside.fallback import unexplored

        self._over = "a rule failed"
        self._frozen = self.last_change, unexplored(self.model.roots, self.rules).egraph
        self._extracted = self.last_change, {}

    def run(self, passes: int | None = None) -> Self:
        """So many passes, or until it ends."""
        done = 0
        while (passes is None or done < passes) and self.step() is not None:
            done += 1
        return self

    def until(self, pattern: str | Pattern | Term, passes: int | None = None) -> bool:
        """Grows until ``pattern`` is in the e-graph; whether it is.

        :param passes: after so many it gives up.
        """
        done = 0
        while not (found := self.contains(pattern)):
            if (passes is not None and done >= passes) or self.step() is None:
                break
            done += 1
        return found

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it ended; None while it can go on."""
        return self._stepper.stop_reason

    @property
    def failure(self) -> str | None:
        """What went wrong in rewriting, if anything did."""
        return self._failure.reason

    @property
    def applied(self) -> tuple[Applied, ...]:
        """Every step that changed something."""
        return tuple(self._stepper.applied)

    def _note(self, taken: Sequence[RuleStep], seconds: float) -> Snapshot:
        started = time.perf_counter()
        records: dict[str, RuleRecord] = {}
        phases = dict.fromkeys(PHASES, 0.0)
        for each in taken:
            own, *types = each.step.reports
            searching = _seconds(own.search_and_apply_time_per_rule)
            # A chained rule takes several steps in one pass.
            so_far = records.get(each.rule.name, RuleRecord(each.rule.name, 0, 0.0, False))
            records[each.rule.name] = RuleRecord(
                each.rule.name,
                so_far.matches + each.step.matches,
                so_far.seconds + searching,
                so_far.changed or each.step.changed,
            )
            phases["search and apply"] += searching
            phases["merge"] += _seconds(own.merge_time_per_ruleset)
            phases["rebuild"] += _seconds(own.rebuild_time_per_ruleset)
            for report in types:
                for times in (
                    report.search_and_apply_time_per_ruleset,
                    report.merge_time_per_ruleset,
                    report.rebuild_time_per_ruleset,
                ):
                    phases["types"] += _seconds(times)
        seconds += time.perf_counter() - started
        phases["bookkeeping"] = max(seconds - sum(phases.values()), 0.0)
        changed = any(each.step.changed for each in taken)
        return self._snapshot(taken[0].stage, tuple(records.values()), seconds, phases, changed)

    def _snapshot(
        self,
        stage: int | None,
        rules: tuple[RuleRecord, ...],
        seconds: float,
        phases: Mapping[str, float],
        changed: bool,
    ) -> Snapshot:
        # After a pass the stepper has counted already.
        iterations = self._stepper.iterations
        nodes, classes = (
            (iterations[-1].nodes, iterations[-1].classes) if iterations else self._egraph.size()
        )
        snapshot = Snapshot(
            iteration=len(self.snapshots),
            stage=stage,
            nodes=nodes,
            classes=classes,
            operators=self._egraph.operators(),
            rules=rules,
            seconds=seconds,
            phases=phases,
            memory=_resident_bytes(),
            changed=changed,
        )
        self.snapshots.append(snapshot)
        return snapshot

    @property
    def readable(self) -> bool:
        """Whether :attr:`egraph` can be looked at: not where it was closed before anybody did, nor
        where a rule was unsound."""
        if self.failure is not None:
            return False
        return not self._over or (self._frozen is not None and self._frozen[0] == self.last_change)

    @property
    def last_change(self) -> int:
        """The last pass that changed something, 0 when none did."""
        changed = (each.iteration for each in reversed(self.snapshots) if each.changed)
        return next(changed, 0)

    def close(self) -> None:
        """Gives the e-graph's memory back; the record and what was looked at stay."""
        if not self._over:
            self._over = "it was closed"
            self._egraph.close()

    # --- what is in it ----------------------------------------------------------------------------

    @property
    def egraph(self) -> FrozenEGraph:
        """The e-graph as it is now, as plain data: what its roots reach.

        Where a rule made an ill-typed term it warns as :meth:`step` does, and is the program as
        imported.

        :raises GlensideError: it was closed before anybody looked.
        """
        now = self.last_change
        if self._frozen is None or self._frozen[0] != now:
            if self._over:
                raise GlensideError(f"this e-graph cannot be looked at: {self._over}")
            with self._failure.caught("freeze", ()):
                try:
                    self._frozen = (now, self._egraph.freeze())
                except UnsoundRewrite as problem:
                    raise self._stepper.unsound_state(self.model.roots, problem) from None
            if self._failure.reason is not None:
                self._give_up()
        assert self._frozen is not None
        return self._frozen[1]

    def contains(self, pattern: str | Pattern | Term) -> bool:
        """Whether a term, or something that matches a pattern such as ``(call ?unit ?p ?x ?y)``, is
        in the e-graph now. A text with no variables, whose tensors spell their types or are the
        program's own, is a term.

        :raises TextError: the text is neither.
        """
        return holds(self.egraph, self.model, pattern)

    def extract(self, cost_model: str | CostModel | None = None) -> Extraction:
        """The cheapest program found so far.

        :param cost_model: or the name of one; the first of :attr:`cost_models` by default.
        :raises ExtractionError: there is no such cost model, or it allows no program.
        """
        from glenside.extraction import extract

        model = self._cost_model(cost_model)
        now = self.last_change
        if self._extracted[0] != now:
            self._extracted = now, {}
        known = self._extracted[1]
        if self.cost_models.get(model.name) is not model:
            return extract(self.egraph, model, original=self.model.roots)
        if model.name not in known:
            known[model.name] = extract(self.egraph, model, original=self.model.roots)
            self._prices.note(model, now, known[model.name].cost)
        return known[model.name]

    def best_cost(self, cost_model: str | CostModel | None = None) -> tuple[float, ...]:
        """What the cheapest program found so far costs."""
        return self.extract(cost_model).cost

    @property
    def costs(self) -> dict[str, tuple[tuple[float, ...] | None, ...]]:
        """For each cost model what the cheapest program cost after each pass: () where the model
        allows none, None where a pass of a long run was left out (:mod:`glenside.explore.pricing`).
        """
        return self._prices.all()

    @property
    def _prices(self) -> Pricing:
        from glenside.explore.pricing import Pricing

        if self._pricing is None:
            self._pricing = Pricing(self)
        return self._pricing

    def _cost_model(self, given: str | CostModel | None) -> CostModel:
        from glenside.extraction import find_cost_model

        if given is None:
            return next(iter(self.cost_models.values()))
        if isinstance(given, str) and given in self.cost_models:
            return self.cost_models[given]
        return find_cost_model(given)

    @property
    def history(self) -> History:
        """What every pass brought, from growing the e-graph a second time."""
        from glenside.explore.history import History

        now = self.last_change
        if self._history is None or self._history[0] != now:
            self._history = (now, History.of(self))
        return self._history[1]

    def __repr__(self) -> str:
        last = self.snapshots[-1]
        state = self.stop_reason or self._over or "going on"
        passes = f"{last.iteration} pass{'es' * (last.iteration != 1)}"
        return (
            f"<Exploration of {self.model.name}: {passes}, {last.nodes:,} e-nodes in "
            f"{last.classes:,} classes, {state}>"
        )


def holds(egraph: FrozenEGraph, model: Model, pattern: str | Pattern | Term) -> bool:
    """Whether a term or a match of a pattern is in an e-graph grown from ``model``."""
    if isinstance(pattern, str):
        pattern = as_query(pattern, model)
    if isinstance(pattern, Term):
        return contains(egraph, pattern) is not None
    return next(matches(egraph, pattern), None) is not None


def as_query(text: str, model: Model) -> Pattern | Term:
    """A pattern where the text has variables, else a term over the tensors of ``model``."""
    # A name in quotes may hold a question mark.
    variables = "?" in re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    return Pattern.parse(text) if variables else _term(text, model)


def _term(text: str, model: Model) -> Term:
    types = {t["name"]: t.type for t in model.terms() if t.op == "tensor"}
    return parse(text, inputs=types)


def _seconds(times: Mapping[str, timedelta]) -> float:
    return sum((each.total_seconds() for each in times.values()), 0.0)


_MEMORY = "/proc/self/statm"


def _resident_bytes() -> int:
    try:
        # Every pass asks: without buffers and decoding it takes a third of the time.
        file = os.open(_MEMORY, os.O_RDONLY)
        try:
            return int(os.read(file, 200).split()[1]) * os.sysconf("SC_PAGE_SIZE")
        finally:
            os.close(file)
    except (OSError, ValueError, IndexError):
        return 0
