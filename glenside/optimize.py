"""The pipeline: import, saturate, extract, compile, check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside import check as checking
from glenside.errors import InputError
from glenside.frontends import load_model
from glenside.hw_targets.target import Progress, Target, find_target
from glenside.interrupt import between_steps
from glenside.language import Model, topological_order
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

NODE_LIMIT = 200_000
ITER_LIMIT = 50


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
    rules: Sequence[RuleSet] | None = None,
    check: bool = True,
    progress: Progress | None = None,
) -> Program:
    """Rewrites a model for a target, picks the cheapest way to say it, and compiles that.

    :param model: path of a model file, ONNX ``ModelProto``, term or :class:`Model`.
    :param target: name of a target, such as ``"cpu"`` or ``"systolic-array:16x16"``.
    :param shapes: shapes of inputs with dynamic dimensions, by name.
    :param params: arrays of parameters the model names but does not hold.
    :param precision: ``"float16"`` computes what the model has in float32 in half precision, sums
        in float32; inputs and outputs keep their dtypes. By default nothing is changed.
    :param node_limit: exploration stops when the e-graph has more e-nodes.
    :param iter_limit: exploration stops after so many iterations.
    :param time_limit: exploration stops after so many seconds; None, the default, never, so that
        the same input gives the same program everywhere.
    :param cost_model: a cost model or the name of one; the target's own by default.
    :param extractor: ``"best"``, ``"bottom-up"`` or ``"greedy-dag"``.
    :param rules: rule sets in place of the target's.
    :param check: compare with the NumPy interpreter on random inputs, where the program's device
        is there.
    :param progress: called with (stage, steps done, steps in all).
    :raises GlensideError: the model, target or an option cannot be used, or the check fails.
    """
    from glenside.extraction import extract, find_cost_model
    from glenside.rewrites import saturate
    from glenside.rewrites.ruleset import as_ruleset

    _check_limits(node_limit, iter_limit, time_limit)
    chosen = find_target(target)
    costs = chosen.cost_model() if cost_model is None else find_cost_model(cost_model)
    clock = _Clock(progress)

    with clock.stage("import") as step:
        imported = load_model(model, shapes=shapes, params=params, progress=step)
        if precision is not None:
            imported = in_precision(imported, precision)
    with clock.stage("saturate") as step:
        explored = saturate(
            imported.roots,
            chosen.rules() if rules is None else [as_ruleset(each) for each in rules],
            node_limit=node_limit,
            iter_limit=iter_limit,
            time_limit=time_limit,
            progress=step,
        )
    with clock.stage("extract"):
        extracted = extract(explored.egraph, costs, extractor=extractor, original=imported.roots)
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
        rules=tuple(RuleUse(name, count) for name, count in explored.rules.items()),
        units=count_units(used),
        cost_parts=tuple(getattr(costs, "components", ())),
        precision=precision,
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
    )
    missing = program.unavailable() if check else None
    if missing is not None:
        program.report = report.not_checked(missing)
    elif check:
        program.report = report.checked(checking.check(program, imported, progress=progress))
    return program


def _check_limits(node_limit: int, iter_limit: int, time_limit: float | None) -> None:
    for name, limit in (("node_limit", node_limit), ("iter_limit", iter_limit)):
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
            raise InputError(f"{name} must be a whole number from 0 up, got {limit!r}")
    # Written so that nan is refused.
    if time_limit is not None and not (isinstance(time_limit, int | float) and time_limit >= 0):
        raise InputError(f"time_limit must be seconds from 0 up, or None, got {time_limit!r}")


def _computes(model: Model) -> int:
    """Operators of a program that was given as terms."""
    return sum(term.op == "compute" for term in model.terms())


class _Clock:
    """Times the stages and announces them."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[int, int], None] | None]:
        start = time.perf_counter()
        report = self._progress
        if report is None:
            yield None
        else:
            report(name, 0, 0)
            yield lambda done, total: report(name, done, total)
        self._seconds[name] = time.perf_counter() - start

    def seconds(self) -> Seconds:
        s = self._seconds
        return Seconds(s["import"], s["saturate"], s["extract"], s["compile"])
