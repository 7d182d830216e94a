"""Holds a compiled program against the NumPy interpreter on the program as imported.

A check that cannot judge says so (:attr:`Checked.unchecked`) and never stands between a user and a
program that may be right: where no inputs are found that the model takes, or time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.check.errors import STEPS, TOLERANCE, agrees, compared, relative_error
from glenside.check.inner_values import changed, compare_inner, is_noise, unexplained
from glenside.check.inputs import drawn_inputs
from glenside.check.loss import loss
from glenside.check.steps import Judged, count_steps, is_stepping, judge_compiled
from glenside.deadline import TimeIsUp, check_time
from glenside.errors import CheckFailed, GlensideError
from glenside.explain.regions import COMPUTING
from glenside.hw_targets.offload import accelerator_of
from glenside.language import Model, Term, evaluate, map_terms, topological_order, units
from glenside.language.shape import HALVES
from glenside.program import Program

Array = np.ndarray[Any, Any]

__all__ = ["Checked", "agrees", "check", "relative_error"]

MOST_TRACED = 2**28
"""Bytes of inner values up to which those that compiled code holds are compared as well."""

MOST_JUDGED = 2**30
"""Likewise where outputs differ, to find out why."""

RESTATED = frozenset({"scale-out-of-dot"})
"""Rules that compute exactly what floats only round to, in front of a rounding to a small format:
where the two differ, they differ by a step."""


@dataclass(frozen=True)
class Checked:
    """The outcome of a check.

    ``error`` is the largest relative error over the outputs; None where nothing was compared, and
    ``unchecked`` says why. ``steps`` counts the elements of outputs and inner values that were
    rounded the other way by the model's own quantisers and comparisons. ``loss`` is what half
    precision costs, see :func:`glenside.check.loss.loss`.
    """

    error: float | None = None
    unchecked: str | None = None
    steps: int = 0
    loss: dict[str, float | None] | None = None


LATE = "the time was over"
"""Why a check was not made, or not to its end, where time is limited."""


def check(
    program: Program,
    model: Model,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    counterparts: Mapping[Term, Term] | None = None,
    *,
    full: Model | None = None,
) -> Checked:
    """Compares on random inputs that the model takes.

    What outputs may hide is compared too: the values of the model's terms that the program has,
    and those that its compiled code holds (see :mod:`glenside.check.inner_values`).

    Where units have numerics of their own, the answer is what these cost; what is checked then is
    that the program as rewritten means the same, and that it computes what the units' simulators
    give in NumPy.

    :param counterparts: for terms of the model the program's term of the same e-class.
    :param full: the model in float32, where it computes in half precision.
    Between two operators it ends where the time allowed is over (:mod:`glenside.deadline`).

    :raises CheckFailed: a value differs by more than its dtype, rounding and the steps of the
        model's own roundings allow; names the first node that is computed wrongly.
    """

    def step(done: int, total: int) -> None:
        check_time()
        if progress:
            progress(done, total)

    refused = "its inputs could not be drawn"
    try:
        for inputs in drawn_inputs(model, seed):
            step(0, 0)
            comparison = _Comparison(program, model, inputs, counterparts or {}, step)
            try:
                error = comparison.run()
            except CheckFailed:
                raise
            except GlensideError:
                # Is it the inputs, which the model does not take either?
                try:
                    evaluate(model.roots, comparison.env, step)
                except GlensideError as same:
                    refused = f"no inputs were found that the model takes: {same}"
                    continue
                raise
            lost = None if full is None else loss(program, full, inputs, step)
            return Checked(error, None, comparison.steps, lost)
    except TimeIsUp:
        return Checked(unchecked=LATE)
    except MemoryError:
        return Checked(unchecked="there is not enough memory to compute the model in NumPy")
    return Checked(unchecked=refused)


class _Comparison:
    """One program compared with its model on one set of inputs."""

    def __init__(
        self,
        program: Program,
        model: Model,
        inputs: Mapping[str, Array],
        counterparts: Mapping[Term, Term],
        step: Callable[[int, int], None],
    ) -> None:
        self.program, self.model, self.inputs = program, model, inputs
        self.env = {**model.params, **inputs}
        self.steps = 0
        self._counterparts, self._step = counterparts, step
        self._order = topological_order(program.terms)
        self._numerics = any(map(has_own_numerics, self._order))
        self._restated = any(r.matches for r in program.report.rules if r.name in RESTATED)
        self._stepping = self._restated or any(map(is_stepping, model.terms()))
        self._calls = any(term.op in ("call", "blocked") for term in self._order)
        # Whatever the dtypes of values are, they come from the coarsest there is.
        dtypes = {term.dtype for term in topological_order(model.roots)}
        self._coarsest = max((TOLERANCE[d] for d in HALVES if d in dtypes), default=0.0)

    def run(self) -> float:
        """The largest relative error over the outputs."""
        meaning = map_terms(self.program.terms, units.meaning)
        results = self.program.run(self.inputs)
        traced: dict[Term, Array] = {}
        if not self._numerics and self._inner_bytes() <= MOST_TRACED:
            traced = self.program.trace(self.inputs)
        found = compare_inner(
            self.model,
            self._counterparts,
            meaning,
            self.program.terms,
            self.env,
            {} if self._stepping else traced,
            (lambda right: STEPS) if self._restated else self._tolerated,
            self._tolerated,
            self._step,
        )
        self.steps += found.steps
        missing = [root for root in self.model.roots if root not in found.values]
        values = found.values  # But for products that nobody builds.
        values |= dict(zip(missing, evaluate(missing, self.env), strict=True))
        expected = [values[root] for root in self.model.roots]
        wrong = unexplained(found.suspects, self.env, self._step)
        unsound = [each for each in wrong if each.imported is not None]
        # Differences add up from the inputs on: whether small ones are faults is judged one by one.
        small = [e for e in wrong if e.imported is None and e.error <= max(STEPS, self._coarsest)]
        wrong = [each for each in wrong if each not in small]
        worst = max(map(relative_error, results, expected), default=0.0)
        if self._numerics:
            self._check_simulated(results)
        elif not all(map(self._is_near, results, expected)):
            if unsound:
                self._fail_output(results, expected, self._told(unsound[0].imported), True)
            self._judge(results, expected, traced)
        elif (self._stepping or self._calls or small) and traced:
            # Units are judged call by call: from the inputs on, differences would add up.
            self._check_held(traced)
        if wrong:
            suspect = wrong[0]
            where = self._first_named(self.model.roots, self.model.names, suspect.imported)
            what = f"value {where!r}" if where else f"the inner value {suspect.term!r}"
            why = "compiled code is wrong" if suspect.imported is None else "a rewrite is unsound"
            raise CheckFailed(
                f"{what} of {self.model.name} differs from NumPy by {suspect.error:.2e} "
                f"(relative), which the outputs on random inputs do not show: {why}",
                rewriting=suspect.imported is not None,
            )
        return worst

    def _inner_bytes(self) -> int:
        return sum(term.type.nbytes for term in self._order if term.op in COMPUTING)

    def _tolerated(self, right: Array) -> float:
        tolerance = TOLERANCE.get(right.dtype.name, 0.0)
        return max(tolerance, self._coarsest) if tolerance else 0.0

    def _is_near(self, got: Array, right: Array) -> bool:
        return relative_error(got, right) <= self._tolerated(right)  # NaN is not.

    # --- outputs that differ ------------------------------------------------------------------

    def _judge(
        self, results: Sequence[Array], expected: Sequence[Array], traced: Mapping[Term, Array]
    ) -> None:
        """Finds out why outputs differ though no rewrite is to blame, and raises unless it is
        rounding, or steps of the model's own roundings."""
        if not traced and self._inner_bytes() <= MOST_JUDGED:
            traced = self.program.trace(self.inputs)
        if traced:
            judged = self._compiled(traced)
            self.steps += judged.steps
            if judged.culprit is not None:
                self._fail_output(results, expected, self._culprit(judged.culprit))
        if self.steps or self._is_rounding(results, expected):
            return
        if self._stepping and not traced:
            steps = [
                count_steps(got, right, self._tolerated(right))
                for got, right in zip(results, expected, strict=True)
            ]
            if None not in steps:
                self.steps += sum(filter(None, steps))
                return
        self._fail_output(
            results,
            expected,
            f"what it means agrees, so no rewrite is to blame but {_who_computes(self.program)}",
        )

    def _check_held(self, traced: Mapping[Term, Array]) -> None:
        """Raises where compiled code holds a wrong value that the outputs do not show."""
        judged = self._compiled(traced)
        self.steps += judged.steps
        if judged.culprit is not None:
            name = self._first_named(self.program.terms, self.program.names, judged.culprit)
            where = "an inner value" if name is None else f"value {name!r}"
            raise CheckFailed(
                f"{where} of {self.model.name} differs from NumPy by {judged.error:.2e} "
                "(relative), which the outputs on random inputs do not show: what computes it "
                f"wrongly is {judged.culprit!r}"
            )

    def _compiled(self, traced: Mapping[Term, Array]) -> Judged:
        def explained(term: Term, difference: float, env: Mapping[str, Array]) -> bool:
            right, other = (evaluate([term], each)[0] for each in (env, changed(env)))
            return is_noise(difference, compared(other, right)[0], term)

        return judge_compiled(
            self.program.terms, self.env, traced, self._tolerated, explained, self._step
        )

    def _is_rounding(self, results: Sequence[Array], expected: Sequence[Array]) -> bool:
        """Whether outputs differ by no more than a change of the inputs' last digits makes."""
        others = evaluate(self.model.roots, changed(self.env), self._step)
        return all(
            self._is_near(got, right)
            or is_noise(compared(got, right)[0], compared(other, right)[0], root)
            for got, right, other, root in zip(
                results, expected, others, self.model.roots, strict=True
            )
        )

    def _check_simulated(self, got: Sequence[Array]) -> None:
        """Holds a program of units with numerics of their own against their simulators."""
        simulated = evaluate(self.program.terms, self.env, self._step)
        for name, right, ran in zip(self.model.outputs, simulated, got, strict=True):
            if relative_error(ran, right) > STEPS:
                raise CheckFailed(
                    f"output {name!r} of {self.model.name} differs by "
                    f"{relative_error(ran, right):.2e} (relative, {STEPS:.0e} is allowed) from "
                    "what the units' simulators give"
                )

    # --- blame --------------------------------------------------------------------------------

    def _fail_output(
        self, results: Sequence[Array], expected: Sequence[Array], why: str, rewriting: bool = False
    ) -> None:
        for name, right, got in zip(self.model.outputs, expected, results, strict=True):
            if not self._is_near(got, right):
                raise CheckFailed(
                    f"output {name!r} of {self.model.name} differs from NumPy by "
                    f"{relative_error(got, right):.2e} (relative, "
                    f"{self._tolerated(right):.0e} is allowed): {why}",
                    rewriting=rewriting,
                )

    def _told(self, imported: Term | None) -> str:
        """Who is wrong, given the first imported value that a rewrite changed."""
        name = self._first_named(self.model.roots, self.model.names, imported)
        if name is None:
            return "no named node before it differs; a rewrite is unsound"
        return f"the first node that differs is {name!r}; a rewrite is unsound"

    def _culprit(self, culprit: Term) -> str:
        name = self._first_named(self.program.terms, self.program.names, culprit)
        if name is None:
            return f"what computes wrongly is {culprit!r}"
        return f"the first node that differs is {name!r}; what computes it wrongly is {culprit!r}"

    @staticmethod
    def _first_named(
        roots: Sequence[Term], names: Mapping[Term, str], wrong: Term | None
    ) -> str | None:
        """The name of the first value that is made of ``wrong``, or is it."""
        above: set[Term] = set()
        for term in topological_order(roots):
            if term is wrong or any(child in above for child in term.children):
                above.add(term)
                if term in names:
                    return names[term]
        return None


def has_own_numerics(term: Term) -> bool:
    """Whether a term calls a unit that rounds to numbers of its own."""
    declared = accelerator_of(term["unit"]) if term.op == "call" else None
    return declared is not None and bool(declared.numerics)


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
