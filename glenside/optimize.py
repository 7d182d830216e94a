"""The pipeline: import, saturate, extract, compile, check."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glenside import check as checking
from glenside.deadline import TimeIsUp, check_time, within
from glenside.deferred import Deferred
from glenside.errors import (
    CheckFailed,
    InputError,
    NotExplained,
)
from glenside.hw_targets.offload import float_products
from glenside.hw_targets.registry import find_target
from glenside.hw_targets.target import Executable, Progress, Target
from glenside.interrupt import between_steps
from glenside.language import Model, Term, topological_order
from glenside.limits import ITER_LIMIT, NODE_LIMIT
from glenside.memory_limit import check_held, parse_bytes, with_scratch
from glenside.pipeline import EXPLAINING, Imported, Pipeline
from glenside.precision import in_precision
from glenside.program import Program
from glenside.report import (
    Report,
    RuleUse,
    Seconds,
    count_host_ops,
    count_offloads,
    count_units,
    taking_finite,
)
from glenside.shapes.asked import asked_of
from glenside.shapes.forms import Reused
from glenside.shapes.names import Named
from glenside.shapes.program import ShapedProgram, of_sizes
from glenside.shapes.specialise import Explored, FormBook, Specialiser

if TYPE_CHECKING:
    from glenside.extraction.cost import CostModel
    from glenside.frontends.lengths import OpenModel
    from glenside.rewrites.ruleset import Rule, RuleSet

Array = np.ndarray[Any, Any]
type Shape = Sequence[int | str] | int | str
"""A shape whose lengths are numbers or names; or, of a name, its number or range."""
type Sizes = Sequence[int] | Sequence[Mapping[str, int]] | Mapping[str, Sequence[int]] | int
"""Sizes of what is named: numbers where there is one name, else by name."""


def optimize(
    model: object,
    example_inputs: object = None,
    target: str | Target | None = None,
    *,
    shapes: Mapping[str, Shape] | None = None,
    sizes: Sizes | None = None,
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

    :param model: path of a model file, ONNX ``ModelProto``, PyTorch module or ``ExportedProgram``,
        term or :class:`Model`.
    :param example_inputs: what a PyTorch module is called with: a tuple, a mapping by keyword, or
        one tensor; it is exported for their shapes and dtypes, which fix the dynamic dimensions of
        an ``ExportedProgram``. For any other model the target may stand here.
    :param target: name of a target, such as ``"cpu"``, the default, or ``"systolic-array:16x16"``.
    :param shapes: shapes of inputs with dynamic dimensions, by name. Lengths that are names stay
        open: ``{"x": ("batch", 3, 224, 224)}``, or ``"batch=1..64"`` with a range. What the model
        itself names is fixed by ``{"batch": 4}`` and left open by ``{"batch": "1..64"}``. The
        program is then a :class:`~glenside.shapes.program.ShapedProgram`, for all sizes.
    :param sizes: sizes of what stays open that are compiled now: ``[1, 8, 32]``, or mappings from
        names where there are several. Others run as parts of these where that is proved to be the
        same, else they are compiled when they come; without ``sizes`` all are compiled so.
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
    if target is None and (
        isinstance(example_inputs, str) or hasattr(example_inputs, "cost_model")
    ):
        example_inputs, target = None, cast("str | Target", example_inputs)
    options: dict[str, Any] = {
        "precision": precision,
        "node_limit": node_limit,
        "iter_limit": iter_limit,
        "time_limit": time_limit,
        "memory_limit": memory_limit,
        "cost_model": cost_model,
        "extractor": extractor,
        "ilp_limit": ilp_limit,
        "rules": rules,
        "add_rules": add_rules,
        "check": check,
        "egraph": egraph,
        "progress": progress,
    }
    chosen = find_target("cpu" if target is None else target)
    asked = asked_of(model, example_inputs, shapes, sizes)
    if not isinstance(asked, tuple):
        whole = cast("Mapping[str, Sequence[int]] | None", shapes) if asked is None else asked
        return optimize_size(
            model, example_inputs, chosen, shapes=whole, params=params, quantize=quantize, **options
        )
    named, source = asked
    if quantize is not None:
        raise InputError(
            f"quantising is for one size: {', '.join(named.ranges)} must be a number in shapes="
        )
    return _of_all_sizes(source, named, sizes, chosen, params, options)


def _of_all_sizes(
    source: OpenModel,
    named: Named,
    sizes: object,
    chosen: Target,
    params: Mapping[str, Array] | None,
    options: Mapping[str, Any],
) -> ShapedProgram:
    """The program of a model for lengths that stay open, compiled for ``sizes`` now."""
    maker = Specialiser(source, named, params, form_book(chosen, params, options))
    listed = [maker.first()] if sizes is None else named.read(sizes)
    if not listed:
        raise InputError("sizes is empty: leave it out to have sizes compiled when they come")
    return of_sizes(named, maker, listed, parts=sizes is not None)


def form_book(
    chosen: Target, params: Mapping[str, Array] | None, options: Mapping[str, Any]
) -> FormBook:
    """What optimises models that are one but for their sizes.

    :param options: of :func:`optimize`, but those that say what the model is.
    """
    about_model = ("shapes", "params", "quantize")
    options = {**(optimize_size.__kwdefaults__ or {}), **options}
    options = {name: value for name, value in options.items() if name not in about_model}
    from glenside.extraction import LeastMemory

    precision, costs = options["precision"], _costs(options["cost_model"], chosen)
    once = dict(options)

    def change(model: Model) -> Model:
        return model if precision is None else in_precision(model, precision)

    def fresh(model: object, shapes: Mapping[str, tuple[int, ...]] | None) -> Program:
        given = params if shapes is not None else None
        made = optimize_size(model, None, chosen, shapes=shapes, params=given, **once)
        once["egraph"] = None  # It is of the first size.
        return made

    def again(form: Explored, found: Reused, read: Model) -> Program:
        unchanged = None if precision is None else read
        return _compiled_again(form, found, unchanged, chosen, costs, options)

    # A limit of memory or time is for each size anew.
    limited = options["memory_limit"] is not None or options["time_limit"] is not None
    reuses = not (limited or isinstance(costs, LeastMemory))
    return FormBook(change, fresh, again if reuses else None)


def _compiled_again(
    form: Explored,
    found: Reused,
    unchanged: Model | None,
    chosen: Target,
    costs: CostModel,
    options: Mapping[str, Any],
) -> Program:
    """The program of a form for another size of its model."""
    from glenside.extraction import dag_cost

    model, first = found.model, form.program
    pipeline = Pipeline("the program is compiled as it was imported", progress=options["progress"])
    with pipeline.clock.stage("compile"):
        executable = _compiled(chosen, found.terms, model, options["progress"])
    report = replace(
        first.report,
        seconds=Seconds.of(pipeline.clock.seconds),
        cost_before=dag_cost(model.roots, costs, model.params.keys()),
        cost_after=dag_cost(found.terms, costs, model.params.keys()),
        memory=getattr(executable, "footprint", None),
        max_rel_error=None,
        unchecked=None,
        steps=0,
        precision_loss=None,
    )
    program = Program(
        model.name,
        model.inputs,
        dict(zip(model.outputs, found.terms, strict=True)),
        executable,
        report,
        params=model.params,
        names=model.names,
    )
    if options["check"]:
        _check(program, Imported(model, None, unchanged), {}, pipeline)
    program.requirements = model.requirements
    return program


def _compiled(
    target: Target, terms: Sequence[Term], model: Model, progress: Progress | None
) -> Executable:
    """The executable of a program, made in steps between which it can be interrupted."""
    with between_steps() as interrupted:

        def compiling(what: str, done: int, total: int) -> None:
            interrupted()
            check_time()
            if progress:
                progress(what, done, total)

        return target.compile(terms, model.inputs, model.params, progress=compiling)


def optimize_size(
    model: object,
    example_inputs: object,
    chosen: Target,
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
    """As :func:`optimize`, for lengths that are all known."""
    most = None if memory_limit is None else parse_bytes(memory_limit)
    from glenside.explain.accounting import UNACCOUNTED, account
    from glenside.exporters.egraph import save_egraph
    from glenside.extraction import LeastMemory
    from glenside.fallback import Failure

    own_costs = not isinstance(cost_model, str | None)
    pipeline = Pipeline(
        "the program is compiled as it was imported",
        progress=progress,
        time_limit=time_limit,
        own_costs=own_costs,
    )
    costs = _costs(cost_model, chosen)
    using = pipeline.rules(chosen.rules, rules, add_rules)
    clock, deadline, failure, cut = (
        pipeline.clock, pipeline.deadline, pipeline.failure, pipeline.cut,
    )  # fmt: skip

    taken = pipeline.imported(
        model,
        shapes=shapes,
        params=params,
        precision=precision,
        quantize=quantize,
        example_inputs=example_inputs,
    )
    imported = taken.model
    explored = pipeline.explored(imported, using, node_limit=node_limit, iter_limit=iter_limit)
    if egraph is not None:
        save_egraph(egraph, explored.egraph, costs)
    extracted = pipeline.extracted(
        explored, imported, costs, extractor=extractor, ilp_limit=ilp_limit
    )
    # Who asks for the least memory wants none of it for partial sums.
    scratch = 0 if isinstance(costs, LeastMemory) else None
    if most is not None:
        extracted, scratch = pipeline.held(
            most, chosen, scratch, extracted, explored, imported, costs,
            extractor=extractor, ilp_limit=ilp_limit,
        )  # fmt: skip
    untold = Failure("nothing is told of where calls came from", NotExplained, own_costs)
    accounted = UNACCOUNTED

    def given(names: Iterable[str]) -> Program:
        """The same with inputs that the model has values of as inputs of every call."""
        return optimize_size(
            model,
            example_inputs,
            chosen,
            shapes={**(shapes or {}), **{name: imported.defaults[name].shape for name in names}},
            params=params,
            precision=precision,
            node_limit=node_limit,
            iter_limit=iter_limit,
            time_limit=time_limit,
            memory_limit=memory_limit,
            cost_model=costs,
            extractor=extractor,
            ilp_limit=ilp_limit,
            rules=rules,
            add_rules=add_rules,
            quantize=quantize,
            check=check,
            progress=progress,
        )

    with untold.caught("explain", clock.raised), clock.stage("explain"):
        if failure.reason is None:
            with within(deadline.share(EXPLAINING)):
                accounted = account(imported, chosen, using, explored, extracted, costs)
            cut += ["explain"] * accounted.cut

    def compiled(progress: Progress | None = None) -> Executable:
        made = _compiled(with_scratch(chosen, scratch), extracted.terms, imported, progress)
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
        seconds=Seconds.of(clock.seconds),
        cost_model=costs.name,
        cost_before=extracted.original_cost,
        cost_after=extracted.cost,
        extractor=extracted.extractor,
        optimal=extracted.optimal,
        rules=tuple(RuleUse(name, count) for name, count in explored.rules.items()),
        units=(units := count_units(used)),
        finite=taking_finite(using, explored.rules, {use.unit for use in units}),
        cost_parts=tuple(getattr(costs, "components", ())),
        precision=precision,
        exact=accounted.exact,
        left=accounted.left,
        untried=explored.untried,
        failure=failure.reason,
        quantization=taken.quantization,
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
        defaults=imported.defaults,
        given=given if imported.defaults else None,
    )
    if check:
        counterparts = {
            term: extracted.classes[number]
            for term, number in explored.term_classes.items()
            if number in extracted.classes
        }
        try:
            _check(program, taken, counterparts, pipeline)
        except CheckFailed as problem:
            if not (problem.rewriting and any(using)):
                raise
            failure.tell("check", problem)
            program = optimize_size(
                model,
                example_inputs,
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
    program: Program, taken: Imported, counterparts: Mapping[Term, Term], pipeline: Pipeline
) -> None:
    """Has the report say how far the program is from what the interpreter computes."""
    missing = checking.LATE if "compile" in program.report.cut else program.unavailable()
    if missing is not None:
        program.report = program.report.not_checked(missing)
        return
    # Ctrl-C is held back, since one that is raised while terms are freed would be lost.
    clock = pipeline.clock
    with clock.stage("check") as step, within(pipeline.deadline), between_steps() as interrupted:

        def comparing(done: int, total: int) -> None:
            interrupted()
            if step:
                step(done, total)

        outcome = checking.check(
            program,
            taken.model,
            progress=comparing,
            counterparts=counterparts,
            full=taken.full(),
        )
    program.report = program.report.checked(outcome, Seconds.of(clock.seconds))


_LOADING = 3.0
"""Seconds that loading TVM takes, once a process."""


def _costs(cost_model: CostModel | str | None, target: Target) -> CostModel:
    """The cost model asked for, or the target's own, beside which memory is counted."""
    from glenside.extraction import LeastMemory, find_cost_model

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
