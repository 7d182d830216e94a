"""Holds a compiled program against the NumPy interpreter on the program as imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glenside.errors import CheckFailed
from glenside.explain.regions import COMPUTING
from glenside.hw_targets.offload import accelerator_of
from glenside.hw_targets.target import Progress
from glenside.inner_values import compare_inner, unexplained
from glenside.language import (
    Model,
    Term,
    evaluate,
    map_terms,
    random_inputs,
    topological_order,
    trace,
    units,
)
from glenside.language.shape import HALVES
from glenside.program import Program

Array = np.ndarray[Any, Any]

TOLERANCE = {"bfloat16": 1e-1, "float16": 2e-2, "float32": 1e-3, "float64": 1e-9}
"""Largest error by dtype, relative to the largest magnitude in the tensor; other dtypes: none.
Sums of thousands of float32 products in another order differ by some 1e-5."""

STEPS = 5e-2
"""Likewise between two runs through what rounds to small formats: the last bit of an operand may
decide which way, and that may be a step of the format."""

MOST_TRACED = 2**30
"""Bytes of inner values up to which those that compiled code holds are compared as well."""

RESTATED = frozenset({"scale-out-of-dot"})
"""Rules that compute exactly what floats only round to, in front of a rounding to a small format:
where the two differ, they differ by a step."""


def check(
    program: Program,
    model: Model,
    seed: int = 0,
    progress: Progress | None = None,
    counterparts: Mapping[Term, Term] | None = None,
) -> float:
    """The largest relative error over the outputs, on random inputs.

    What outputs may hide is compared too: the values of the model's terms that the program has,
    and those that its compiled code holds (see :mod:`glenside.inner_values`).

    Where units have numerics of their own, the answer is what these cost; what is checked then is
    that the program as rewritten means the same, and that it computes what the units' simulators
    give in NumPy.

    :param counterparts: for terms of the model the program's term of the same e-class.
    :raises CheckFailed: it exceeds :data:`TOLERANCE`; names the first node that differs.
    """
    inputs = random_inputs(model.inputs, seed, model.roots)
    env = {**model.params, **inputs}
    step = (lambda done, total: progress("check", done, total)) if progress else None
    order = topological_order(program.terms)
    numerics = any(map(has_own_numerics, order))
    restated = any(rule.matches for rule in program.report.rules if rule.name in RESTATED)
    rounds = restated or program.report.quantization is not None
    # Whatever the dtypes of values are, they come from the coarsest there is.
    dtypes = {term.dtype for term in topological_order(model.roots)}
    coarsest = max((TOLERANCE[dtype] for dtype in HALVES if dtype in dtypes), default=0.0)

    def tolerated(right: Array) -> float:
        tolerance = TOLERANCE.get(right.dtype.name, 0.0)
        return max(tolerance, coarsest) if tolerance else 0.0

    results = [] if numerics else program.run(inputs)
    traced: dict[Term, Array] = {}
    size = sum(term.type.nbytes for term in order if term.op in COMPUTING)
    if not (numerics or rounds) and size <= MOST_TRACED:
        traced = program.trace(inputs)
    known, suspects = compare_inner(
        model,
        counterparts or {},
        map_terms(program.terms, units.meaning),
        program.terms,
        env,
        traced,
        (lambda right: STEPS) if rounds else tolerated,
        max(STEPS, coarsest),
        step,
    )
    missing = [root for root in model.roots if root not in known]  # Products that nobody builds.
    known |= dict(zip(missing, evaluate(missing, env), strict=True))
    expected = [known[root] for root in model.roots]
    if numerics:
        worst = _check_units(program, model, env, expected)
    elif rounds and not all(map(agrees, results, expected)):
        worst = _check_units(program, model, env, expected, restated)
    else:
        worst = 0.0
        for name, right, got in zip(model.outputs, expected, results, strict=True):
            error = relative_error(got, right)
            if not error <= tolerated(right):  # An error of NaN is one, too.
                where, rewriting = _first_difference(program, model, env, inputs, expected)
                raise CheckFailed(
                    f"output {name!r} of {model.name} differs from NumPy by {error:.2e} (relative, "
                    f"{tolerated(right):.0e} is allowed): {where}",
                    rewriting=rewriting,
                )
            worst = max(worst, error)
    wrong = unexplained(suspects, env)
    if wrong:
        # The first that the user has a name for, since that can be found.
        suspect = next((each for each in wrong if each.imported in model.names), wrong[0])
        where = None if suspect.imported is None else model.names.get(suspect.imported)
        what = f"value {where!r}" if where else f"the inner value {suspect.term!r}"
        why = "compiled code is wrong" if suspect.imported is None else "a rewrite is unsound"
        raise CheckFailed(
            f"{what} of {model.name} differs from NumPy by {suspect.error:.2e} (relative), which "
            f"the outputs on random inputs do not show: {why}",
            rewriting=suspect.imported is not None,
        )
    return worst


def has_own_numerics(term: Term) -> bool:
    """Whether a term calls a unit that rounds to numbers of its own."""
    declared = accelerator_of(term["unit"]) if term.op == "call" else None
    return declared is not None and bool(declared.numerics)


def _check_units(
    program: Program,
    model: Model,
    env: Mapping[str, Array],
    expected: list[Array],
    restated: bool = False,
) -> float:
    """Holds the program against what it means, up to the steps of small formats.

    :param restated: what it means differs from the model by such steps too.
    """
    meant = map_terms(program.terms, units.meaning)
    rewritten = evaluate([meant[term] for term in program.terms], env)
    simulated = evaluate(program.terms, env)
    got = program.run({name: env[name] for name in model.inputs})
    for name, right, said in zip(model.outputs, expected, rewritten, strict=True):
        if not agrees(said, right) and not (restated and relative_error(said, right) <= STEPS):
            raise CheckFailed(
                f"output {name!r} of {model.name}: a rewrite is unsound, what the program means "
                f"differs by {relative_error(said, right):.2e} (relative)",
                rewriting=True,
            )
    for name, right, ran in zip(model.outputs, simulated, got, strict=True):
        if relative_error(ran, right) > STEPS:
            raise CheckFailed(
                f"output {name!r} of {model.name} differs by {relative_error(ran, right):.2e} "
                f"(relative, {STEPS:.0e} is allowed) from what the units' simulators give"
            )
    return max(map(relative_error, got, expected), default=0.0)


def agrees(got: Array, right: Array) -> bool:
    """Whether ``got`` is ``right`` within the tolerance of its dtype."""
    return relative_error(got, right) <= TOLERANCE.get(right.dtype.name, 0.0)


def relative_error(got: Array, right: Array) -> float:
    """Largest difference over the largest magnitude of ``right``; infinite when NaNs or
    infinities do not stand in the same places."""
    if got.shape != right.shape or got.dtype != right.dtype:
        return float("inf")
    if not right.size:
        return 0.0
    a, b = got.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    a, b = a[finite], b[finite]
    if not b.size:
        return 0.0
    difference = float(np.abs(a - b).max())
    scale = float(np.abs(b).max())
    return difference / scale if scale else difference


def _who_computes(program: Program) -> str:
    """Who may have computed wrongly, though they compute rightly when asked again."""
    calls = dict.fromkeys(
        str(term["unit"])
        for term in topological_order(program.terms)
        if term.op in ("call", "blocked")
    )
    again = "which computed rightly when it ran again"
    if not calls:
        return f"compiled code, {again}"
    which = "the simulator of unit" if len(calls) == 1 else "the simulator of one of the units"
    return f"compiled code or {which} {', '.join(calls)}, {again}"


def _first_difference(
    program: Program,
    model: Model,
    env: Mapping[str, Array],
    inputs: Mapping[str, Array],
    expected: list[Array],
) -> tuple[str, bool]:
    """Where the numbers part: in compiled code and simulators, else in a rewrite; and whether it is
    one."""
    names = program.names
    compiled = program.trace(inputs)
    # What units mean, not what their simulators compute: those are under suspicion too.
    meant = map_terms(program.terms, units.meaning)
    rewritten: dict[str, Array] = {}
    wrong: Term | None = None
    values = dict(trace([meant[t] for t in program.terms], env))
    for term in topological_order(program.terms):
        value = values.get(meant[term])
        if value is None:
            continue
        if wrong is None and term in compiled and not agrees(compiled[term], value):
            wrong = term
        if term in names:
            if wrong is not None:
                how = f"what computes it wrongly is {wrong!r}"
                return f"the first node that differs is {names[term]!r}; {how}", False
            rewritten[names[term]] = value
    if wrong is not None:
        return f"what computes wrongly is {wrong!r}", False
    roots = [values.get(meant[term]) for term in program.terms]
    if all(got is not None and agrees(got, e) for got, e in zip(roots, expected, strict=True)):
        who = _who_computes(program)
        return f"what it means agrees, so no rewrite is to blame but {who}", False
    for term, right in trace(model.roots, env):
        name = model.names.get(term, "")
        if name in rewritten and not agrees(rewritten[name], right):
            return f"the first node that differs is {name!r}; a rewrite is unsound", True
    return "no named node before it differs; a rewrite is unsound", True
