"""Equality saturation within limits."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from glenside.errors import UnsoundRewrite
from glenside.language.term import Term, topological_order
from glenside.rewrites.egraph import EGraph, Watched
from glenside.rewrites.freezing import frozen
from glenside.rewrites.frozen import FrozenEGraph
from glenside.rewrites.locality import locality
from glenside.rewrites.regions import NotLocal, cut, put_together
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
class Applied:
    """A step that changed something. ``iteration`` counts passes from 1 up."""

    rule: Rule
    iteration: int


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
    explored: int | None = None
    """E-nodes that were explored, where layers equal up to names were explored once; iterations and
    rules are those of that. Else None."""
    steps: tuple[Applied, ...] = field(default=(), compare=False)
    """How it grew: applied again in this order, the rules give the same e-graph. Where layers were
    explored once, they give what was found for these."""


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
    regions: bool = True,
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
    :param regions: where the e-graph grows large, explore layers that are equal up to names once
        (``regions.py``); what is found is the same. Where a limit would stop that, or a time limit
        is given, the program is explored as a whole.
    :raises UnsoundRewrite: a rule equated what has different types, or made an ill-typed term.
    """
    run = _Run(rules, node_limit, iter_limit, time_limit, progress)
    started = time.perf_counter()
    egraph = EGraph([rule for each in rules for rule in each])
    egraph.load(roots)
    loaded = time.perf_counter()
    large = GROWN * len(topological_order(roots)) if regions and time_limit is None else None
    for _ in run.steps(egraph):
        if large is not None and egraph.size()[0] > large:
            large = None
            found = _by_regions(roots, rules, node_limit, iter_limit, progress)
            if found is not None:
                egraph.close()
                return found
    nodes, classes = egraph.size()
    grown = time.perf_counter()
    try:
        frozen_graph, term_classes = egraph.freeze_with_terms()
    except UnsoundRewrite as problem:
        raise _blame(roots, [step.rule for step in run.applied], problem) from None
    seconds = Seconds(loaded - started, grown - loaded, time.perf_counter() - grown)
    egraph.close()  # Not after an error: it would be reused.
    return Saturation(
        frozen_graph,
        run.reason,
        tuple(run.iterations),
        nodes,
        classes,
        run.matches,
        term_classes,
        seconds,
        steps=tuple(run.applied),
    )


GROWN = 3
"""How many times more e-nodes than terms make it worth to look for layers that are equal.

Cutting a program up and putting it together costs more than it saves where rules find little: on
ResNet-50 or MobileNet v2 with the rules of a unit the e-graph has 1.2 times as many e-nodes as the
program has terms, and exploring takes a tenth of the time that loading and reading take.
"""

SAVED = 2
"""How many times more terms a program must have than what is to be explored of it."""

ROUNDS = 4
"""How often regions that rules turn out to match across are joined and explored anew."""


def _by_regions(
    roots: Sequence[Term],
    rules: Sequence[RuleSet],
    node_limit: int,
    iter_limit: int,
    progress: Progress | None,
) -> Saturation | None:
    """The same by regions; None where that saves nothing, or is not known to be the same."""
    started = time.perf_counter()
    every = tuple(rule for each in rules for rule in each)
    look = locality(every)
    terms = len(topological_order(roots))
    if not look.known:
        return None
    joined: list[tuple[Term, Term]] = []
    for _ in range(ROUNDS):
        parts = cut(roots, look, joined)
        if SAVED * parts.explored_terms() > terms:
            return None
        run = _Run(rules, node_limit, iter_limit, None, progress)
        egraph = EGraph(every)
        egraph.load_regions(parts.explored)
        loaded = time.perf_counter()
        for _ in run.steps(egraph):
            pass
        if run.reason is not StopReason.SATURATED:
            return None
        explored, _ = egraph.size()
        grown = time.perf_counter()
        try:
            whole = put_together(parts, egraph.explored_regions(), look)
        except (NotLocal, UnsoundRewrite):
            return None  # Exploring the whole program says which rule is to blame.
        egraph.close()
        if isinstance(whole, list):
            joined += whole
            continue
        nodes = sum(map(len, whole.nodes.values()))
        if nodes > node_limit:
            return None
        graph, number = frozen(whole.nodes, whole.types, [whole.terms[root] for root in roots])
        seconds = Seconds(loaded - started, grown - loaded, time.perf_counter() - grown)
        return Saturation(
            graph,
            StopReason.SATURATED,
            tuple(run.iterations),
            nodes,
            len(whole.nodes),
            run.matches,
            {term: number[at] for term, at in whole.terms.items()},
            seconds,
            explored,
            tuple(run.applied),
        )
    return None


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
        self.reason = StopReason.SATURATED
        self.applied: list[Applied] = []
        """Every step that changed something, so that a run can be repeated."""

    def steps(self, egraph: EGraph) -> Iterator[None]:
        """All stages to their end, pass by pass; ``reason`` is why it ended."""
        try:
            self._check(egraph)
            yield from self._rounds(egraph)
        except _Stop as stop:
            self.reason = stop.reason

    def _rounds(self, egraph: EGraph) -> Iterator[None]:
        passes = dict.fromkeys(self.stages, 0)
        changed = True
        while changed and self.reason is StopReason.SATURATED:
            changed = False
            for stage, rules in self.stages.items():
                while True:
                    if passes[stage] >= self.iter_limit:
                        # The other stages are still worth running.
                        self.reason = StopReason.ITER_LIMIT
                        break
                    passes[stage] += 1
                    if not self._pass(egraph, stage, rules):
                        break
                    changed = True
                    yield
            if len(self.stages) == 1:
                break  # Its last pass was the one that changed nothing.

    def _pass(self, egraph: EGraph, stage: int, rules: Sequence[Rule]) -> bool:
        start = time.perf_counter()
        matches: dict[str, int] = {}
        changed = False
        try:
            for rule in rules:
                step = egraph.apply(rule)
                if step.matches:
                    matches[rule.name] = matches.get(rule.name, 0) + step.matches
                    self.matches[rule.name] += step.matches
                if step.changed:
                    changed = True
                    self.applied.append(Applied(rule, len(self.iterations) + 1))
                    self._check(egraph)
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


PRESENT = -1
"""In place of a step: the program as loaded has the node."""


def first_seen(
    roots: Sequence[Term],
    rules: Sequence[RuleSet],
    steps: Sequence[Applied],
    nodes: Sequence[Watched],
    *,
    node_limit: int | None = None,
) -> list[int | None]:
    """For each node the position of the step that brought it to the e-graph, by repeating a run.

    ``roots`` and ``rules`` are those of the run, ``steps`` are :attr:`Saturation.steps`. The answer
    is :data:`PRESENT` for nodes of the program itself, and None for those that never came. It ends
    with the step that brings the last node, so it takes no longer than growing the e-graph did.

    :param node_limit: ends as well when there are more e-nodes.
    """
    egraph = EGraph([rule for each in rules for rule in each])
    egraph.load(roots)
    egraph.watch(nodes)
    first: list[int | None] = [None] * len(nodes)
    missing = len(nodes)
    for number in range(PRESENT, len(steps)):
        if number != PRESENT:
            egraph.apply(steps[number].rule)
        for position in egraph.seen():
            first[position] = number
            missing -= 1
        if not missing or (node_limit is not None and egraph.size()[0] > node_limit):
            break
    egraph.close()
    return first


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
