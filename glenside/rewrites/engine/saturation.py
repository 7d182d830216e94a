"""Equality saturation within limits."""

from __future__ import annotations

import contextlib
import enum
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from glenside.errors import UnsoundRewrite
from glenside.language import builders
from glenside.language.shape import AccessType
from glenside.language.term import Term, topological_order
from glenside.limits import ITER_LIMIT, NODE_LIMIT
from glenside.rewrites.engine.blame import unsound
from glenside.rewrites.engine.egraph import EGraph, Step, Watched
from glenside.rewrites.engine.freezing import frozen
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.locality import locality
from glenside.rewrites.engine.query import contains_all
from glenside.rewrites.engine.regions import NotLocal, cut, put_together
from glenside.rewrites.ruleset import Rule, RuleSet

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
    untried: tuple[str, ...]
    """Rules that never had a turn, since a limit came first. Otherwise every pass applies every
    rule of its stage, but for those of ``refused``: none is left out for matching too often."""
    term_classes: dict[Term, int]
    """The class of each term of the program."""
    seconds: Seconds = field(compare=False)
    steps: tuple[Applied, ...] = field(default=(), compare=False)
    """How it grew: applied again in this order, the rules give the same e-graph."""
    explored: int | None = None
    """E-nodes that were explored, where layers equal up to names were explored once; iterations and
    rules are those of that. Else None."""
    refused: tuple[str, ...] = ()
    """Rules of which a step was undone, since it went beyond the limit of e-nodes."""


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
    e-graph *saturated*. Rules are applied one at a time and the limits are looked at in between.

    egglog applies a rule to all its matches at once. A step that goes beyond the limit of e-nodes
    is undone, by growing the e-graph again up to there, and the rule has no more turns. The others
    go on, each step tried on a copy first, until they change nothing more or what was undone comes
    to :data:`UNDONE` times the limit. Where a time limit does not leave the time to grow again,
    the step stays.

    :param node_limit: e-nodes.
    :param iter_limit: passes for each stage.
    :param time_limit: seconds, of loading and of reading the e-graph out as well: growing ends when
        what is left is needed for that. Runs with one are not reproducible.
    :param progress: called after each pass with (passes done, passes allowed).
    :param regions: where the e-graph grows large, explore layers that are equal up to names once
        (``regions.py``); what is found is the same. Where a limit would stop that, or a time limit
        is given, the program is explored as a whole.
    :raises UnsoundRewrite: a rule equated what has different types, or made an ill-typed term.
    """
    started = time.perf_counter()
    egraph = EGraph([rule for each in rules for rule in each])
    egraph.load(roots)
    loaded = time.perf_counter()
    run = Stepper(
        rules,
        node_limit=node_limit,
        iter_limit=iter_limit,
        time_limit=None if time_limit is None else time_limit - (loaded - started),
        progress=progress,
        reading=READING,
    )
    large = GROWN * len(topological_order(roots)) if regions and time_limit is None else None
    try:
        for _ in run.passes(egraph):
            if time_limit is not None and run.reading == READING and egraph.size()[0] > SAMPLE:
                run.reading = _reading(egraph)
            if large is not None and egraph.size()[0] > large:
                large = None
                found = _by_regions(roots, rules, node_limit, iter_limit, progress)
                if found is not None:
                    egraph.close()
                    return found
    except UnsoundRewrite as problem:
        raise run.unsound_step(roots) from problem
    assert run.stop_reason is not None
    nodes, classes = egraph.size()
    grown = time.perf_counter()
    try:
        frozen_graph, term_classes = egraph.freeze_with_terms()
    except UnsoundRewrite as problem:
        raise run.unsound_state(roots, problem) from None
    seconds = Seconds(loaded - started, grown - loaded, time.perf_counter() - grown)
    egraph.close()  # Not after an error: it would be reused.
    return Saturation(
        frozen_graph,
        run.stop_reason,
        tuple(run.iterations),
        nodes,
        classes,
        run.matches,
        tuple(name for name in run.matches if name not in run.tried),
        term_classes,
        seconds,
        tuple(run.applied),
        refused=tuple(run.refused),
    )


UNDONE = 4
"""How many times the limit of e-nodes the e-graphs may have in sum that were beyond it and undone,
before exploration ends: as far as that others may use what room is left."""

READING = 1e-4
"""Seconds of a time limit that are kept for each e-node, to read it out, until it is measured."""

SAMPLE = 500
"""E-nodes from which on measuring that is worth it."""

MARGIN = 2.5
"""How many times more is kept than was measured, since one more step may double the e-graph."""


def _reading(egraph: EGraph) -> float:
    """Seconds to keep for each e-node."""
    started = time.perf_counter()
    with contextlib.suppress(UnsoundRewrite):  # It is raised when reading counts.
        egraph.freeze()
    return MARGIN * (time.perf_counter() - started) / egraph.size()[0]


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
    order = topological_order(roots)
    computed = {term["function"] for term in order if term.op == "compute"}
    idle = {rule.name for rule in every if not rule.needs <= computed}
    look = locality(tuple(rule for rule in every if rule.name not in idle))
    terms = len(order)
    if not look.known:
        return None
    joined: list[tuple[Term, Term]] = []
    for _ in range(ROUNDS):
        parts = cut(roots, look, joined)
        if SAVED * parts.explored_terms() > terms:
            return None
        run = Stepper(
            rules,
            node_limit=node_limit,
            iter_limit=iter_limit,
            time_limit=None,
            progress=progress,
        )
        egraph = EGraph(every)
        egraph.load_regions(parts.explored)
        loaded = time.perf_counter()
        try:
            for _ in run.passes(egraph):
                if run.refused:
                    return None
        except UnsoundRewrite:
            return None  # Exploring the whole program says which rule is to blame.
        if run.stop_reason is not StopReason.SATURATED or any(run.matches[name] for name in idle):
            return None
        explored, _ = egraph.size()
        grown = time.perf_counter()
        try:
            whole = put_together(parts, egraph.explored_regions(), look)
        except (NotLocal, UnsoundRewrite):
            return None
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
            tuple(name for name in run.matches if name not in run.tried),
            {term: number[at] for term, at in whole.terms.items()},
            seconds,
            tuple(run.applied),
            explored,
        )
    return None


@dataclass(frozen=True)
class RuleStep:
    """One rule applied once, wherever it matched.

    ``iteration`` counts passes from 1 up; the pass belongs to ``stage``. ``seconds`` is what the
    step took with the types inferred after it.
    """

    iteration: int
    stage: int
    rule: Rule
    step: Step
    seconds: float


class Stepper:
    """Grows an e-graph rule by rule within limits: see :func:`saturate`, which runs it to the end.

    :param pause: asked after every rule; where it says so, the pass ends early. The next one starts
        over, so that a fixed point is only ever told after a pass that was complete.

    :ivar reading: seconds of the time limit that are kept for each e-node.
    :ivar stop_reason: why it ended; None while it can go on.
    :ivar iterations: passes that are complete, or that a limit ended.
    :ivar matches: how often each rule matched so far.
    :ivar tried: rules that have had a turn.
    :ivar applying: the rule whose turn it is.
    :ivar applied: every step that changed something.
    :ivar refused: the rules that have no more turns, since a step of theirs went beyond the limit
        of e-nodes and was undone.
    """

    def __init__(
        self,
        rules: Sequence[RuleSet],
        *,
        node_limit: int,
        iter_limit: int,
        time_limit: float | None,
        progress: Progress | None = None,
        pause: Callable[[], bool] | None = None,
        reading: float = 0.0,
    ) -> None:
        self._pause = pause
        self.reading = reading
        self._stages: dict[int, list[Rule]] = {}
        for each in sorted(rules, key=lambda each: each.stage):
            self._stages.setdefault(each.stage, []).extend(each)
        self._node_limit, self._iter_limit, self._time_limit = node_limit, iter_limit, time_limit
        self._progress = progress
        self._deadline: float | None = None
        self.stop_reason: StopReason | None = None
        self.iterations: list[Iteration] = []
        self.matches = {rule.name: 0 for each in rules for rule in each}
        self.tried: set[str] = set()
        self.applying: Rule
        self.applied: list[Applied] = []
        self.refused: list[str] = []
        self._undone = 0
        self._began = 0.0

    def replay(self) -> list[Rule]:
        """The rules of :attr:`applied`, in order."""
        return [step.rule for step in self.applied]

    def unsound_step(self, roots: Sequence[Term]) -> UnsoundRewrite:
        """Says that the rule being applied is to blame, and what it equated."""
        known = "it equates accesses of different shape or dtype"
        return unsound(roots, self.replay(), self.applying, known)

    def unsound_state(self, roots: Sequence[Term], problem: UnsoundRewrite) -> UnsoundRewrite:
        """Says which of the rules applied is to blame for an e-graph that cannot be read."""
        return _blame(roots, self.replay(), problem)

    def passes(self, egraph: EGraph) -> Iterator[tuple[RuleStep, ...]]:
        """The steps of each pass, once it is complete or a limit ended it; once a stepper."""
        self._began = time.perf_counter()
        if self._time_limit is not None:
            self._deadline = self._began + self._time_limit
        worst = StopReason.SATURATED
        passes = dict.fromkeys(self._stages, 0)
        changed = not self._over_limit(egraph)
        while changed and worst is StopReason.SATURATED:
            changed = False
            for stage, rules in self._stages.items():
                while rules := [each for each in rules if each.name not in self.refused]:
                    if passes[stage] >= self._iter_limit:
                        # The other stages are still worth running.
                        worst = StopReason.ITER_LIMIT
                        break
                    passes[stage] += 1
                    taken = self._pass(egraph, stage, rules)
                    done = time.perf_counter()
                    yield taken
                    if self._deadline is not None:  # What others do in between is not growing.
                        self._deadline += time.perf_counter() - done
                    if self.stop_reason is not None:
                        return
                    if not self.iterations[-1].changed:
                        break
                    changed = True
            if len(self._stages) == 1:
                break  # Its last pass was the one that changed nothing.
        if self.stop_reason is None:
            self.stop_reason = StopReason.NODE_LIMIT if self.refused else worst

    def _pass(self, egraph: EGraph, stage: int, rules: Sequence[Rule]) -> tuple[RuleStep, ...]:
        start = time.perf_counter()
        number = len(self.iterations) + 1
        matches: dict[str, int] = {}
        taken: list[RuleStep] = []
        changed = False
        for rule in rules:
            self.applying = rule
            self.tried.add(rule.name)
            grew, again = False, True
            while again:
                before = time.perf_counter()
                step = self._step(egraph, rule)
                taken.append(RuleStep(number, stage, rule, step, time.perf_counter() - before))
                if step.matches:
                    matches[rule.name] = matches.get(rule.name, 0) + step.matches
                    self.matches[rule.name] += step.matches
                if step.changed:
                    grew = changed = True
                    self.applied.append(Applied(rule, number))
                again = step.changed and rule.chained and not self._over_limit(egraph)
            if self.stop_reason is not None or (grew and self._over_limit(egraph)):
                break
            if self._pause is not None and self._pause():
                changed = True  # As far as is known.
                break
        nodes, classes = egraph.size()
        seconds = time.perf_counter() - start
        self.iterations.append(Iteration(stage, nodes, classes, matches, changed, seconds))
        if self._progress:
            self._progress(len(self.iterations), self._iter_limit * len(self._stages))
        return tuple(taken)

    def _step(self, egraph: EGraph, rule: Rule) -> Step:
        """Applies a rule once; where that goes beyond the limit of e-nodes, nothing is changed."""
        if self.refused:
            step, nodes = egraph.tried(rule)
            if nodes > self._node_limit:
                return self._refuse(rule, step, nodes)
            if not step.changed:
                return step
        step = egraph.apply(rule)
        nodes, _ = egraph.size()
        if step.changed and nodes > self._node_limit and self._time_to_repeat():
            egraph.rewind(self.replay())
            return self._refuse(rule, step, nodes)
        return step

    def _refuse(self, rule: Rule, step: Step, nodes: int) -> Step:
        """What is told of a step that was undone: nothing but the time it took."""
        self.refused.append(rule.name)
        self._undone += nodes
        if self._undone > UNDONE * self._node_limit:
            self.stop_reason = StopReason.NODE_LIMIT
        return Step(0, False, step.reports)

    def _time_to_repeat(self) -> bool:
        now = time.perf_counter()
        return self._deadline is None or self._deadline - now > now - self._began

    def _over_limit(self, egraph: EGraph) -> bool:
        nodes = egraph.size()[0]
        end = None if self._deadline is None else self._deadline - self.reading * nodes
        if end is not None and time.perf_counter() > end:
            self.stop_reason = StopReason.TIME_LIMIT
        elif nodes > self._node_limit:
            self.stop_reason = StopReason.NODE_LIMIT
        return self.stop_reason is not None


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


@dataclass(frozen=True)
class Birth:
    """The position of the step that brought a node, and of that which made it a member of its
    class; :data:`PRESENT` for what the program as loaded has. None where that is not known, for a
    rule may spell an attribute in an odd way (1e0 for 1.0)."""

    made: int | None
    joined: int | None


def births(
    roots: Sequence[Term],
    rules: Sequence[RuleSet],
    steps: Sequence[Applied],
    egraph: FrozenEGraph,
) -> list[list[Birth]]:
    """How every node of every class of ``egraph`` came to be, by repeating the run that made it.

    The other arguments are as for :func:`first_seen`. Classes that were found to be equal only
    later are one in ``egraph``: then the member whose node was first there is *the* member, and
    others join it when they become equal to it. It takes about as long as growing the e-graph did.
    """
    loaded = {t: at for t, at in contains_all(egraph, roots).items() if at is not None}
    own = {
        (at, ENode(term.op, term.values, tuple(loaded[child] for child in term.children)))
        for term, at in loaded.items()
    }
    several = Counter(at for at, _ in own)
    leaves: dict[AccessType, Term] = {}
    for each in egraph.types:
        tensor = builders.tensor("operand", each.shape, each.dtype)
        leaves.setdefault(each, builders.access(tensor, each.split))
    places: list[tuple[int, int]] = []
    nodes = []
    found = [[Birth(PRESENT, PRESENT)] * len(members) for members in egraph.classes]
    for number, members in enumerate(egraph.classes):
        for position, node in enumerate(members):
            if several[number] == 1 and (number, node) in own:
                continue  # It has been there from the beginning, and is the first of its class.
            term = node.term([leaves[egraph.types[child]] for child in node.children])
            places.append((number, position))
            nodes.append((term, number, node.children))
    again = EGraph([rule for each in rules for rule in each])
    again.load(roots)
    again.expect(loaded, nodes)
    again.stamp(PRESENT)
    for number, step in enumerate(steps):
        again.apply(step.rule)
        again.stamp(number)
    made, joined = again.stamps()
    again.close()
    for at, (number, position) in enumerate(places):
        found[number][position] = Birth(made.get(at), joined.get(at))
    return found


def _blame(
    roots: Sequence[Term], applied: Sequence[Rule], problem: UnsoundRewrite
) -> UnsoundRewrite:
    """Repeats a run that ended in an ill-typed e-graph to find the rule that made it so."""
    egraph = EGraph(tuple(dict.fromkeys(applied)))
    egraph.load(roots)
    for steps, rule in enumerate(applied):
        egraph.apply(rule)
        try:
            egraph.freeze()
        except UnsoundRewrite as found:
            return unsound(roots, applied[:steps], rule, str(found))
    return problem
