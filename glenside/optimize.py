"""The pipeline: import, saturate, extract, compile, check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside import check as checking
from glenside import quantization
from glenside.errors import CheckFailed, InputError, NotExplained, NotOptimised
from glenside.frontends import load_model
from glenside.hw_targets.offload import float_products
from glenside.hw_targets.target import Progress, Target, find_target
from glenside.interrupt import between_steps
from glenside.language import Model, topological_order
from glenside.limits import ITER_LIMIT, NODE_LIMIT
from glenside.precision import in_precision
from glenside.program import Program
from glenside.report import (
    Report,
    RuleUse,
    Seconds,
    count_host_ops,
    count_offloads,
    count_units,
)

if TYPE_CHECKING:
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import RuleSet

Array = np.ndarray[Any, Any]


def optimize(
    model: object,
    target: str | Target = "cpu",
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: Mapping[str, Array] | None = None,
    precision: str | None = None,
    node_limit: int = NODE_LIMIT,
    iter_limit: int = ITER_LIMIT,
    time_limit: float | None = None,
    cost_model: CostModel | str | None = None,
    extractor: str = "best",
    ilp_limit: float | None = None,
    rules: Sequence[RuleSet] | None = None,
    quantize: object = None,
    check: bool = True,
    egraph: str | Path | None = None,
    progress: Progress | None = None,
) -> Program:
    """Rewrites a model for a target, picks the cheapest way to say it, and compiles that.

    :param model: path of a model file, ONNX ``ModelProto``, term or :class:`Model`.
    :param target: name of a target, such as ``"cpu"`` or ``"systolic-array:16x16"``.
    :param shapes: shapes of inputs with dynamic dimensions, by name.
    :param params: arrays of parameters the model names but does not hold.
    :param precision: ``"float16"`` or ``"bfloat16"`` computes what the model has in float32 in 16
        bits, sums in float32; inputs and outputs keep their dtypes. By default nothing is changed.
    :param node_limit: exploration stops when the e-graph has more e-nodes.
    :param iter_limit: exploration stops after so many iterations.
    :param time_limit: exploration stops after so many seconds; None, the default, never, so that
        the same input gives the same program everywhere.
    :param cost_model: a cost model or the name of one; the target's own by default.
    :param extractor: ``"best"``, ``"bottom-up"``, ``"greedy-dag"`` or ``"ilp"``, which can prove
        its answer optimal.
    :param ilp_limit: budget of ``"ilp"`` in the solver's deterministic seconds, which are of the
        order of seconds and make the same input give the same program everywhere.
    :param rules: rule sets in place of the target's.
    :param quantize: quantise the products of a float model first: a :class:`Quantization`, or the
        samples to calibrate with, as it takes them (an ``.npz`` of them too). The check then
        compares with the quantised model, and the report says what quantising cost.
    :param check: compare with the NumPy interpreter on random inputs, where the program's device
        is there.
    :param egraph: a file that the explored e-graph is written to, as egraph-serialize's JSON.
    :param progress: called with (stage, steps done, steps in all).
    :raises GlensideError: the model, target or an option cannot be used, or the check fails. An
        unexpected error while rewriting, and a rule that is found to be unsound there or by the
        check, only warn (:class:`~glenside.errors.NotOptimised`): the program is then the one
        imported, and the report says so. One while explaining does as well
        (:class:`~glenside.errors.NotExplained`).
    """
    from glenside.explain.accounting import UNACCOUNTED, account
    from glenside.exporters.egraph import save_egraph
    from glenside.extraction import ILP_LIMIT, extract, find_cost_model
    from glenside.fallback import Failure, as_imported, unexplored
    from glenside.rewrites import saturate
    from glenside.rewrites.ruleset import as_ruleset

    _check_limits(node_limit, iter_limit, time_limit, ilp_limit)
    chosen = find_target(target)
    costs = chosen.cost_model() if cost_model is None else find_cost_model(cost_model)
    explored_with = chosen.rules() if rules is None else [as_ruleset(each) for each in rules]
    clock = _Clock(progress)
    own_costs = not isinstance(cost_model, str | None)
    failure = Failure("the program is compiled as it was imported", NotOptimised, own_costs)
    untold = Failure("nothing is told of where calls came from", NotExplained, own_costs)

    if precision is not None and quantize is not None:
        raise InputError("precision and quantize both say what to compute in: give one of them")
    with clock.stage("import") as step:
        imported = load_model(model, shapes=shapes, params=params, progress=step)
        if precision is not None:
            imported = in_precision(imported, precision)
    error = None
    if quantize is not None:
        with clock.stage("quantise") as step:
            imported, error = quantization.quantize(
                imported, quantization.as_quantization(quantize), step
            )
    with failure.caught("saturate", clock.raised), clock.stage("saturate") as step:
        explored = saturate(
            imported.roots,
            explored_with,
            node_limit=node_limit,
            iter_limit=iter_limit,
            time_limit=time_limit,
            progress=step,
        )
    if failure.reason is not None:
        explored = unexplored(imported.roots, explored_with)
    if egraph is not None:
        save_egraph(egraph, explored.egraph, costs)
    with failure.caught("extract", clock.raised), clock.stage("extract"):
        extracted = extract(
            explored.egraph,
            costs,
            extractor=extractor,
            original=imported.roots,
            ilp_limit=ILP_LIMIT if ilp_limit is None else ilp_limit,
            constants=imported.params.keys(),
        )
    if failure.reason is not None:
        extracted = as_imported(imported.roots, costs, imported.params.keys())
    accounted = UNACCOUNTED
    with untold.caught("explain", clock.raised), clock.stage("explain"):
        if failure.reason is None:
            accounted = account(imported, chosen, explored_with, explored, extracted, costs)
    with clock.stage("compile"), between_steps() as interrupted:

        def compiling(what: str, done: int, total: int) -> None:
            interrupted()
            if progress:
                progress(what, done, total)

        executable = chosen.compile(
            extracted.terms, imported.inputs, imported.params, progress=compiling
        )

    used = topological_order(extracted.terms)
    report = Report(
        model=imported.name,
        target=chosen.name,
        operators=sum(imported.operators.values()) or _computes(imported),
        offloads=count_offloads(used),
        host_ops=count_host_ops(used),
        stop_reason=explored.stop_reason.value,
        iterations=len(explored.iterations),
        nodes=explored.nodes,
        classes=explored.classes,
        seconds=clock.seconds(),
        cost_model=costs.name,
        cost_before=extracted.original_cost,
        cost_after=extracted.cost,
        extractor=extracted.extractor,
        optimal=extracted.optimal,
        rules=tuple(RuleUse(name, count) for name, count in explored.rules.items()),
        units=count_units(used),
        cost_parts=tuple(getattr(costs, "components", ())),
        precision=precision,
        exact=accounted.exact,
        left=accounted.left,
        untried=explored.untried,
        failure=failure.reason,
        quantization=error,
        note=float_products(chosen, used),
    )
    names = {
        extracted.classes[number]: imported.names[term]
        for term, number in explored.term_classes.items()
        if term in imported.names and number in extracted.classes
    }
    program = Program(
        imported.name,
        imported.inputs,
        dict(zip(imported.outputs, extracted.terms, strict=True)),
        executable,
        report,
        params=imported.params,
        names=names or imported.names,
        explain=accounted.explain,
    )
    missing = program.unavailable() if check else None
    if missing is not None:
        program.report = report.not_checked(missing)
    elif check:
        counterparts = {
            term: extracted.classes[number]
            for term, number in explored.term_classes.items()
            if number in extracted.classes
        }
        try:
            worst = checking.check(program, imported, progress=progress, counterparts=counterparts)
        except CheckFailed as problem:
            if not (problem.rewriting and any(explored_with)):
                raise
            failure.tell("check", problem)
            program = optimize(
                model,
                chosen,
                shapes=shapes,
                params=params,
                precision=precision,
                cost_model=costs,
                rules=(),
                quantize=quantize,
                progress=progress,
            )
            program.report = replace(program.report, failure=failure.reason)
            return program
        program.report = report.checked(worst)
    # Only now: what the check drew need not meet them.
    program.requirements = imported.requirements
    return program


def _check_limits(
    node_limit: int, iter_limit: int, time_limit: float | None, ilp_limit: float | None
) -> None:
    for name, limit in (("node_limit", node_limit), ("iter_limit", iter_limit)):
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InputError(f"{name} must be a whole number from 0 up, got {limit!r}")
    for name, seconds in (("time_limit", time_limit), ("ilp_limit", ilp_limit)):
        # Written so that nan is refused.
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
            raise InputError(f"{name} must be seconds from 0 up, or None, got {seconds!r}")


def _computes(model: Model) -> int:
    """Operators of a program that was given as terms."""
    return sum(term.op == "compute" for term in model.terms())


class _Clock:
    """Times the stages and announces them; what listeners raise is kept in ``raised``."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._seconds: dict[str, float] = {}
        self.raised: list[BaseException] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[int, int], None] | None]:
        start = time.perf_counter()
        self._tell(name, 0, 0)
        try:
            yield (lambda done, total: self._tell(name, done, total)) if self._progress else None
        finally:
            self._seconds[name] = time.perf_counter() - start

    def _tell(self, name: str, done: int, total: int) -> None:
        if self._progress is None:
            return
        try:
            self._progress(name, done, total)
        except BaseException as problem:
            self.raised.append(problem)
            raise

    def seconds(self) -> Seconds:
        s = self._seconds
        stages = (s["import"], s["saturate"], s["extract"], s["compile"], s["explain"])
        return Seconds(*stages, s.get("quantise", 0.0))
