"""The pipeline: import, saturate, extract, compile, check."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside import check as checking
from glenside import quantization
from glenside.deadline import Deadline, TimeIsUp, check_time, within
from glenside.deferred import Deferred
from glenside.errors import (
    CheckFailed,
    GlensideError,
    InputError,
    NotEnoughMemory,
    NotExplained,
    NotOptimised,
)
from glenside.frontends import load_model
from glenside.hw_targets.offload import float_products
from glenside.hw_targets.target import Executable, Progress, Target, find_target
from glenside.interrupt import between_steps
from glenside.language import Model, Term, topological_order
from glenside.limits import ITER_LIMIT, NODE_LIMIT
from glenside.memory_limit import Compiling, check_held, forms, hold, parse_bytes, with_scratch
from glenside.precision import in_precision, without_halves
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
    from glenside.extraction import Extraction
    from glenside.extraction.cost import CostModel
    from glenside.rewrites.ruleset import Rule, RuleSet

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
    memory_limit: int | float | str | None = None,
    cost_model: CostModel | str | None = None,
    extractor: str = "best",
    ilp_limit: float | None = None,
    rules: Sequence[RuleSet | Rule] | None = None,
    add_rules: Sequence[RuleSet | Rule] | None = None,
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
    :param time_limit: seconds for all but importing and quantising; None, the default: no limit, so
        that the same input gives the same program everywhere. Exploring gets two fifths of it,
        extracting three fifths of the rest. Where that does not do, the program is the cheapest
        known so far, at worst the one imported, and it is compiled at its first run or not checked
        where there is no time left for that; the report says so (:attr:`Report.cut`).
    :param memory_limit: bytes, or text such as ``"64MB"``, that the program may hold beside its
        operands and results (:attr:`Report.memory`): the cheapest form that can be kept below is
        compiled.
    :param cost_model: a cost model or the name of one; the target's own by default. ``"memory"``
        stores the fewest bytes on the way, then is best by the target's own.
    :param extractor: ``"best"``, ``"bottom-up"``, ``"greedy-dag"`` or ``"ilp"``, which can prove
        its answer optimal.
    :param ilp_limit: budget of ``"ilp"`` in the solver's deterministic seconds, which are of the
        order of seconds and make the same input give the same program everywhere.
    :param rules: rule sets or rules in place of the target's.
    :param add_rules: rule sets or rules beside the target's.
    :param quantize: quantise the products of a float model first: a :class:`Quantization`, or the
        samples to calibrate with, as it takes them (an ``.npz`` of them too). The check then
        compares with the quantised model, and the report says what quantising cost.
    :param check: compare with the NumPy interpreter on random inputs that the model takes, where
        the program's device is there. Where that cannot be done the report says why; in half
        precision it also tells what that costs against float32.
    :param egraph: a file that the explored e-graph is written to, as egraph-serialize's JSON.
    :param progress: called with (stage, steps done, steps in all).
    :raises MemoryLimit: no form is known that keeps ``memory_limit``; says what is the least.
    :raises GlensideError: the model, target or an option cannot be used, or the check fails. An
        unexpected error while rewriting, and a rule that is found to be unsound there or by the
        check, only warn (:class:`~glenside.errors.NotOptimised`): the program is then the one
        imported, and the report says so. One while explaining does as well
        (:class:`~glenside.errors.NotExplained`).
    """
    _check_limits(node_limit, iter_limit, time_limit, ilp_limit)
    most = None if memory_limit is None else parse_bytes(memory_limit)
    deadline = Deadline(time_limit)
    from glenside.explain.accounting import UNACCOUNTED, account
    from glenside.exporters.egraph import save_egraph
    from glenside.extraction import ILP_LIMIT, extract
    from glenside.extraction.memory import LeastMemory
    from glenside.fallback import Failure, as_imported, unexplored
    from glenside.rewrites import StopReason, saturate
    from glenside.rewrites.ruleset import explored_with

    chosen = find_target(target)
    costs = _costs(cost_model, chosen)
    using = explored_with(chosen.rules, rules, add_rules)
    clock = _Clock(progress)
    own_costs = not isinstance(cost_model, str | None)
    failure = Failure("the program is compiled as it was imported", NotOptimised, own_costs)
    untold = Failure("nothing is told of where calls came from", NotExplained, own_costs)

    if precision is not None and quantize is not None:
        raise InputError("precision and quantize both say what to compute in: give one of them")
    with clock.stage("import") as step:
        imported = load_model(model, shapes=shapes, params=params, progress=step)
        full = imported  # What half precision is held against.
        if precision is not None:
            imported = in_precision(imported, precision)
    error = None
    if quantize is not None:
        with clock.stage("quantise") as step:
            imported, error = quantization.quantize(
                imported, quantization.as_quantization(quantize), step
            )
    cut: list[str] = []
    share = deadline.share(_EXPLORING)
    with failure.caught("saturate", clock.raised), clock.stage("saturate") as step:
        try:
            with within(share):
                explored = saturate(
                    imported.roots,
                    using,
                    node_limit=node_limit,
                    iter_limit=iter_limit,
                    time_limit=None if time_limit is None else max(share.left(), 0.0),
                    progress=step,
                )
        except TimeIsUp:
            explored = unexplored(imported.roots, using, StopReason.TIME_LIMIT)
            cut.append("saturate")
    if failure.reason is not None:
        explored = unexplored(imported.roots, using)
    if egraph is not None:
        save_egraph(egraph, explored.egraph, costs)

    def picked(by: CostModel) -> Extraction:
        return extract(
            explored.egraph,
            by,
            extractor=extractor,
            original=imported.roots,
            ilp_limit=ILP_LIMIT if ilp_limit is None else ilp_limit,
            constants=imported.params.keys(),
        )

    def unchanged() -> Extraction:
        return as_imported(imported.roots, costs, imported.params.keys())

    with failure.caught("extract", clock.raised), clock.stage("extract"):
        try:
            with within(deadline.share(_EXTRACTING)):
                extracted = picked(costs)
        except TimeIsUp:
            extracted = unchanged()
            cut.append("extract")
    if failure.reason is not None:
        extracted = unchanged()
    # Who asks for the least memory wants none of it for partial sums.
    scratch = 0 if isinstance(costs, LeastMemory) else None
    if most is not None:
        with clock.stage("memory"):
            choice = None if cut or failure.reason is not None else picked
            known = forms(extracted, unchanged, costs, choice, imported.params)
            try:
                with within(deadline.share(_FITTING)):
                    compiling_for = Compiling(chosen, imported.inputs, imported.params)
                    held = hold(most, known, compiling_for, scratch)
                extracted, scratch = held.extraction, held.scratch
            except TimeIsUp:
                extracted, scratch = unchanged(), 0
                cut.append("memory")
    accounted = UNACCOUNTED
    with untold.caught("explain", clock.raised), clock.stage("explain"):
        if failure.reason is None:
            with within(deadline.share(_EXPLAINING)):
                accounted = account(imported, chosen, using, explored, extracted, costs)
            cut += ["explain"] * accounted.cut

    def compiled(progress: Progress | None = None) -> Executable:
        with between_steps() as interrupted:

            def compiling(what: str, done: int, total: int) -> None:
                interrupted()
                check_time()
                if progress:
                    progress(what, done, total)

            made = with_scratch(chosen, scratch).compile(
                extracted.terms, imported.inputs, imported.params, progress=compiling
            )
            if most is not None:
                check_held(made, most)
            return made

    executable: Executable
    with clock.stage("compile"):
        try:
            if "tvm" not in sys.modules and deadline.left() < _LOADING:
                raise TimeIsUp
            with within(deadline):
                executable = compiled(progress)
        except TimeIsUp:
            executable = Deferred(compiled)
            cut.append("compile")

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
        cut=tuple(cut),
        memory=None if "compile" in cut else getattr(executable, "footprint", None),
        memory_limit=most,
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
    if check:
        counterparts = {
            term: extracted.classes[number]
            for term, number in explored.term_classes.items()
            if number in extracted.classes
        }
        try:
            against = full if precision is not None else without_halves(imported)
            _check(program, imported, counterparts, against, deadline, clock)
        except CheckFailed as problem:
            if not (problem.rewriting and any(using)):
                raise
            failure.tell("check", problem)
            program = optimize(
                model,
                chosen,
                shapes=shapes,
                params=params,
                precision=precision,
                time_limit=None if time_limit is None else max(deadline.left(), 0.0),
                memory_limit=memory_limit,
                cost_model=costs,
                rules=(),
                quantize=quantize,
                progress=progress,
            )
            program.report = replace(program.report, failure=failure.reason)
    # Only now: what the check drew need not meet them.
    program.requirements = imported.requirements
    return program


def _check(
    program: Program,
    imported: Model,
    counterparts: Mapping[Term, Term],
    full: Model | None,
    deadline: Deadline,
    clock: _Clock,
) -> None:
    """Has the report say how far the program is from what the interpreter computes.

    :param full: the model in float32, where it computes in half precision.
    """
    missing = checking.LATE if "compile" in program.report.cut else program.unavailable()
    if missing is not None:
        program.report = program.report.not_checked(missing)
        return
    # Ctrl-C is held back, since one that is raised while terms are freed would be lost.
    with clock.stage("check") as step, within(deadline), between_steps() as interrupted:

        def comparing(done: int, total: int) -> None:
            interrupted()
            if step:
                step(done, total)

        outcome = checking.check(
            program, imported, progress=comparing, counterparts=counterparts, full=full
        )
    program.report = program.report.checked(outcome, clock.seconds())


_EXPLORING, _EXTRACTING, _FITTING, _EXPLAINING = 0.4, 0.6, 0.5, 0.25
"""Parts of the time left when they begin that stages may take; compiling and checking get the
rest."""

_LOADING = 3.0
"""Seconds that loading TVM takes, once a process."""


def _costs(cost_model: CostModel | str | None, target: Target) -> CostModel:
    """The cost model asked for, or the target's own, beside which memory is counted."""
    from glenside.extraction import find_cost_model
    from glenside.extraction.memory import LeastMemory

    if cost_model is None:
        return target.cost_model()
    found = find_cost_model(cost_model)
    named = isinstance(cost_model, str) and isinstance(found, LeastMemory)
    return LeastMemory(target.cost_model()) if named else found


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
            with _memory(name):
                listening = self._progress is not None
                yield (lambda done, total: self._tell(name, done, total)) if listening else None
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
        extract = s["extract"] + s.get("memory", 0.0)
        stages = (s["import"], s["saturate"], extract, s["compile"], s["explain"])
        return Seconds(*stages, s.get("quantise", 0.0), s.get("check", 0.0))
