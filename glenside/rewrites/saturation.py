"""Equality saturation within limits."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from glenside.errors import UnsoundRewrite
from glenside.language.term import Term
from glenside.rewrites.egraph import EGraph
from glenside.rewrites.frozen import FrozenEGraph
from glenside.rewrites.ruleset import Rule, RuleSet

NODE_LIMIT = 100_000
ITER_LIMIT = 30

Progress = Callable[[int, int], None]


class StopReason(enum.StrEnum):
    """Why saturation ended; the later in this list, the worse."""

    SATURATED = "saturated"
    ITER_LIMIT = "iter_limit"
    NODE_LIMIT = "node_limit"
    TIME_LIMIT = "time_limit"


@dataclass(frozen=True)
class Iteration:
    """One pass over the rules of a stage. ``seconds`` is what the pass took."""

    stage: int
    nodes: int
    classes: int
    matches: dict[str, int]
    """How often each rule matched, by name; rules that did not are left out."""
    changed: bool
    seconds: float


@dataclass(frozen=True)
class Seconds:
    """Where the time went."""

    load: float
    """Terms into the e-graph and, once for each combination of rules, declaring these."""
    grow: float
    freeze: float


@dataclass(frozen=True)
class Saturation:
    """A grown e-graph and how it grew.

    Where a limit stopped it, the e-graph still holds the program and everything found so far.
    """

    egraph: FrozenEGraph
    stop_reason: StopReason
    iterations: tuple[Iteration, ...]
    nodes: int
    """E-nodes when it stopped; ``egraph`` holds those that the roots reach."""
    classes: int
    rules: dict[str, int]
    """How often each rule matched in all, also those that never did."""
    term_classes: dict[Term, int]
    """The class of each term of the program."""
    seconds: Seconds = field(compare=False)


class _Stop(Exception):
    def __init__(self, reason: StopReason) -> None:
        self.reason = reason


def saturate(
    roots: Sequence[Term],
    rules: Sequence[RuleSet],
    *,
    node_limit: int = NODE_LIMIT,
    iter_limit: int = ITER_LIMIT,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Saturation:
    """All the ways the rules find to say ``roots``.

    The stages of the rule sets run one after the other, each until a pass over all its rules
    changes nothing, and all of them again until a whole round changes nothing: only then is the
    e-graph *saturated*. Rules are applied one at a time and the limits are looked at in between;
    the last step may overshoot them.

    :param node_limit: e-nodes.
    :param iter_limit: passes for each stage.
    :param time_limit: seconds; runs with one are not reproducible.
    :param progress: called after each pass with (passes done, passes allowed).
    :raises UnsoundRewrite: a rule equated what has different types, or made an ill-typed term.
    """
    run = _Run(rules, node_limit, iter_limit, time_limit, progress)
    started = time.perf_counter()
    egraph = EGraph([rule for each in rules for rule in each])
    egraph.load(roots)
    loaded = time.perf_counter()
    reason = run.all_stages(egraph)
    nodes, classes = egraph.size()
    grown = time.perf_counter()
    try:
        frozen, term_classes = egraph.freeze_with_terms()
    except UnsoundRewrite as problem:
        raise _blame(roots, run.applied, problem) from None
    seconds = Seconds(loaded - started, grown - loaded, time.perf_counter() - grown)
    egraph.close()  # Not after an error: it would be reused.
    return Saturation(
        frozen,
        reason,
        tuple(run.iterations),
        nodes,
        classes,
        run.matches,
        term_classes,
        seconds,
    )


class _Run:
    def __init__(
        self,
        rules: Sequence[RuleSet],
        node_limit: int,
        iter_limit: int,
        time_limit: float | None,
        progress: Progress | None,
    ) -> None:
        self.stages: dict[int, list[Rule]] = {}
        for each in sorted(rules, key=lambda each: each.stage):
            self.stages.setdefault(each.stage, []).extend(each)
        self.node_limit, self.iter_limit = node_limit, iter_limit
        self.deadline = None if time_limit is None else time.perf_counter() + time_limit
        self.progress = progress
        self.iterations: list[Iteration] = []
        self.matches = {rule.name: 0 for each in rules for rule in each}
        self.applied: list[Rule] = []
        """Every step that changed something, so that a run can be repeated."""

    def all_stages(self, egraph: EGraph) -> StopReason:
        worst = StopReason.SATURATED
        passes = dict.fromkeys(self.stages, 0)
        changed = True
        try:
            self._check(egraph)
            while changed and worst is StopReason.SATURATED:
                changed = False
                for stage, rules in self.stages.items():
                    while True:
                        if passes[stage] >= self.iter_limit:
                            # The other stages are still worth running.
                            worst = StopReason.ITER_LIMIT
                            break
                        passes[stage] += 1
                        if not self._pass(egraph, stage, rules):
                            break
                        changed = True
                if len(self.stages) == 1:
                    break  # Its last pass was the one that changed nothing.
        except _Stop as stop:
            return stop.reason
        return worst

    def _pass(self, egraph: EGraph, stage: int, rules: Sequence[Rule]) -> bool:
        start = time.perf_counter()
        matches: dict[str, int] = {}
        changed = False
        try:
            for rule in rules:
                again = True
                while again:
                    step = egraph.apply(rule)
                    if step.matches:
                        matches[rule.name] = matches.get(rule.name, 0) + step.matches
                        self.matches[rule.name] += step.matches
                    if step.changed:
                        changed = True
                        self.applied.append(rule)
                        self._check(egraph)
                    again = step.changed and rule.chained
        finally:
            nodes, classes = egraph.size()
            seconds = time.perf_counter() - start
            self.iterations.append(Iteration(stage, nodes, classes, matches, changed, seconds))
        if self.progress:
            self.progress(len(self.iterations), self.iter_limit * len(self.stages))
        return changed

    def _check(self, egraph: EGraph) -> None:
        if self.deadline is not None and time.perf_counter() > self.deadline:
            raise _Stop(StopReason.TIME_LIMIT)
        if egraph.size()[0] > self.node_limit:
            raise _Stop(StopReason.NODE_LIMIT)


def _blame(
    roots: Sequence[Term], applied: Sequence[Rule], problem: UnsoundRewrite
) -> UnsoundRewrite:
    """Repeats a run that ended in an ill-typed e-graph to find the rule that made it so."""
    egraph = EGraph(tuple(dict.fromkeys(applied)))
    egraph.load(roots)
    for rule in applied:
        egraph.apply(rule)
        try:
            egraph.freeze()
        except UnsoundRewrite as found:
            return UnsoundRewrite(f"rule {rule.described} is unsound: {found}")
    return problem
