"""Which way to say it: cost models and extractors."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from glenside.deadline import TimeIsUp
from glenside.errors import ExtractionError
from glenside.extraction.bottom_up import bottom_up
from glenside.extraction.cost import (
    Cost,
    CostModel,
    FewestCycles,
    MaximiseOffload,
    Roofline,
    cpu_roofline,
    dag_cost,
)
from glenside.extraction.cycles import Cycles
from glenside.extraction.dag import greedy_dag
from glenside.extraction.ilp import LIMIT as ILP_LIMIT
from glenside.extraction.ilp import ilp
from glenside.extraction.memory import LeastMemory, WeighedMemory
from glenside.extraction.models import COST_MODELS, find_cost_model
from glenside.extraction.problem import build_classes, pose
from glenside.language.term import Term
from glenside.rewrites.engine.frozen import FrozenEGraph

__all__ = [
    "COST_MODELS",
    "EXTRACTORS",
    "ILP_LIMIT",
    "Cost",
    "CostModel",
    "Cycles",
    "Extraction",
    "FewestCycles",
    "LeastMemory",
    "MaximiseOffload",
    "Roofline",
    "WeighedMemory",
    "cpu_roofline",
    "dag_cost",
    "extract",
    "find_cost_model",
]

EXTRACTORS = ("bottom-up", "greedy-dag", "best", "ilp")
"""What ``extract`` takes; ``best`` runs the first two, ``ilp`` all."""


@dataclass(frozen=True)
class Extraction:
    """The program that was picked.

    ``terms`` stand in the order of the e-graph's roots, ``cost`` is their DAG cost, ``extractor``
    says who found them (``original``: nothing cheaper than the given program was found), ``tried``
    holds the cost of every answer that was compared, by who found it. ``classes`` gives the term
    picked for each e-class that the program uses; it is empty when the answer is the original.
    ``optimal``: a solver proved that no program in the e-graph is cheaper.
    """

    terms: list[Term]
    cost: Cost
    extractor: str
    tried: Mapping[str, Cost] = field(default_factory=dict)
    classes: Mapping[int, Term] = field(default_factory=dict, compare=False)
    optimal: bool = False

    @property
    def original_cost(self) -> Cost:
        """What the given program costs; () when none was given."""
        return self.tried.get("original", ())


def extract(
    egraph: FrozenEGraph,
    cost_model: CostModel,
    *,
    extractor: str = "best",
    original: Sequence[Term] | None = None,
    ilp_limit: float = ILP_LIMIT,
    constants: Collection[str] = (),
) -> Extraction:
    """A program for the roots of ``egraph`` that ``cost_model`` finds cheap.

    Answers are compared by DAG cost, where what is shared counts once. Only ``ilp`` can prove one
    optimal under that count.

    :param extractor: ``bottom-up`` (optimal where sharing counts again at every use),
        ``greedy-dag`` (that, improved with sharing counted once), ``best`` of these two, or ``ilp``
        (the best of all three: integer programming within ``ilp_limit``).
    :param ilp_limit: the solver's budget in its deterministic seconds, of the order of seconds.
    :param original: the program as it was, one term for each root. It is the answer unless one
        found is cheaper (a program that the model does not allow costs infinity).
    :param constants: names of the tensors whose values are known when the program is compiled: what
        depends on them alone is evaluated then, and models may find it cheaper.
    :raises ExtractionError: an e-class that is needed has no member of finite cost, or no extractor
        has that name.
    :raises TimeIsUp: time was over (:mod:`glenside.deadline`) before there was any answer; later,
        the best so far is the answer.
    """
    if extractor not in EXTRACTORS:
        known = ", ".join(EXTRACTORS)
        raise ExtractionError(f"unknown extractor {extractor!r}: the extractors are {known}")
    answers: dict[str, list[Term]] = {}
    classes: dict[str, dict[int, Term]] = {}
    if original is not None:
        _check_original(egraph, original)
        # In front, since the first of equals is the answer: no change without a gain.
        answers["original"] = list(original)
    problem = pose(egraph, cost_model, constants)
    trees = bottom_up(problem)
    if extractor != "greedy-dag":
        classes["bottom-up"] = build_classes(problem, trees)
    proved = False
    try:
        if extractor != "bottom-up":
            classes["greedy-dag"] = build_classes(problem, greedy_dag(problem, trees))
        if extractor == "ilp":
            proof = ilp(problem, ilp_limit)
            classes["ilp"], proved = build_classes(problem, proof.solution), proof.optimal
    except TimeIsUp:
        if not classes:
            classes["bottom-up"] = build_classes(problem, trees)
    for name, terms in classes.items():
        answers[name] = [terms[root] for root in egraph.roots]
    tried = {name: dag_cost(terms, cost_model, constants) for name, terms in answers.items()}
    winner = min(tried, key=lambda name: tried[name])
    return Extraction(
        answers[winner], tried[winner], winner, tried, classes.get(winner, {}), proved
    )


def _check_original(egraph: FrozenEGraph, original: Sequence[Term]) -> None:
    types = [egraph.types[root] for root in egraph.roots]
    if [term.type for term in original] != types:
        raise ValueError(
            f"the original program has outputs {', '.join(str(t.type) for t in original)}, "
            f"the e-graph has roots {', '.join(map(str, types))}"
        )
