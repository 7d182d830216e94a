"""What stands in for exploration and extraction where they fail: the program as it was imported.

Rewriting makes a program better, not right: a fault in it, a rule that is unsound among them, must
not keep anybody from running a model. What is wrong with the model, the options or a cost model of
the user's own is no such fault, and is raised.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from glenside.errors import CheckFailed, GlensideError, RewriteFailed
from glenside.extraction import Extraction, dag_cost
from glenside.language import Term, topological_order
from glenside.rewrites.engine.frozen import ENode, FrozenEGraph
from glenside.rewrites.engine.saturation import Saturation, Seconds, StopReason

if TYPE_CHECKING:
    from glenside.extraction import CostModel
    from glenside.rewrites.ruleset import RuleSet

LOGGER = logging.getLogger(__name__)


class Failure:
    """Whether a stage failed, and how; ``reason`` is None while none did.

    :param instead: what is done then, for the ``warning``.
    :param own_costs: whether the cost model is the user's own, who wants to see what it raises.
    """

    def __init__(self, instead: str, warning: type[Warning], own_costs: bool = False) -> None:
        self.reason: str | None = None
        self._instead, self._warning = instead, warning
        self._own_costs = own_costs

    @contextlib.contextmanager
    def caught(self, stage: str, raised_by_user: Sequence[BaseException]) -> Iterator[None]:
        """Turns an unexpected exception in the body into a warning.

        :param raised_by_user: exceptions that the user's own code raised; looked at afterwards.
        :raises GlensideError: and what else is not unexpected, as it was raised.
        """
        try:
            yield
        except BaseException as problem:
            theirs = any(problem is each for each in raised_by_user) or (
                self._own_costs and stage in ("extract", "explain")
            )
            if theirs or not _is_unexpected(problem):
                raise
            self.tell(stage, problem)

    def tell(self, stage: str, problem: BaseException) -> None:
        """Takes down what went wrong, and warns the caller of Glenside of it."""
        told = " ".join(f"{type(problem).__name__}: {problem}".split())
        self.reason = f"{told} (in the stage {stage})"
        LOGGER.debug("optimisation failed", exc_info=problem)
        message = f"optimisation failed, {self._instead}: {self.reason}"
        # Prefixes: a file's whole name would not be skipped.
        ours = (os.path.dirname(__file__), contextlib.__file__.removesuffix(".py"))
        warnings.warn(message, self._warning, stacklevel=2, skip_file_prefixes=ours)


def _is_unexpected(problem: BaseException) -> bool:
    if isinstance(problem, RewriteFailed):
        return True
    if isinstance(problem, CheckFailed):
        return problem.rewriting
    if isinstance(problem, GlensideError | MemoryError):
        return False
    # A panic in Rust is no Exception.
    return isinstance(problem, Exception) or type(problem).__name__ == "PanicException"


def unexplored(
    roots: Sequence[Term],
    rules: Sequence[RuleSet],
    reason: StopReason = StopReason.ITER_LIMIT,
) -> Saturation:
    """What exploring with a limit of 0 gives, but without an e-graph being made."""
    order = topological_order(roots)
    number = {term: position for position, term in enumerate(order)}
    nodes = (
        ENode(term.op, term.values, tuple(number[child] for child in term.children))
        for term in order
    )
    egraph = FrozenEGraph(
        tuple((node,) for node in nodes),
        tuple(term.type for term in order),
        tuple(number[root] for root in roots),
    )
    names = dict.fromkeys((rule.name for each in rules for rule in each), 0)
    return Saturation(
        egraph,
        reason,
        (),
        len(order),
        len(order),
        names,
        tuple(names),
        number,
        Seconds(0.0, 0.0, 0.0),
    )


def as_imported(
    roots: Sequence[Term], costs: CostModel, constants: Collection[str] = ()
) -> Extraction:
    """The program as it was, as the extractor gives it; infinite cost where that is unknown."""
    try:
        cost = dag_cost(roots, costs, constants)
    except Exception:  # Pricing it may be what failed.
        cost = (math.inf,)
    return Extraction(list(roots), cost, "original", {"original": cost})
