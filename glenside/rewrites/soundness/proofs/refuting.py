"""Counterexamples: sizes for which a rule fails become a program, on which the rule is run.

A solver's model has sizes, but neither the values of tensors nor names. So the program is built
with the language's own terms, of dtypes in which sums are exact, and judged like any other: only
what :func:`~glenside.rewrites.soundness.judging.check_program` finds wrong refutes a rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glenside.errors import GlensideError, UnsoundRewrite
from glenside.language import builders
from glenside.language.denotation import Lengths
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import OPERATORS, Kind
from glenside.language.shape import HALVES
from glenside.language.term import Term, make, topological_order
from glenside.rewrites.engine.encoding import decode
from glenside.rewrites.ruleset import Rule, RuleSet
from glenside.rewrites.soundness.judging import check_program
from glenside.rewrites.soundness.proofs.facts import Differs, Open, text_of
from glenside.rewrites.soundness.proofs.reader import Call, Expression, Literal, Variable, sides
from glenside.rewrites.soundness.proofs.search import Instance

_DTYPES = ("float64", "float32", "int32", "int8", "bool", None)
"""What tensors are made of, whatever the model has; last, what it has."""
_SEEDS = 4
_LARGEST = 2**16


@dataclass(frozen=True)
class Counterexample:
    """A program on which a rule was run, and what went wrong."""

    program: Term
    reason: str


def refute(rule: Rule, instance: Instance, problem: Differs) -> Counterexample | None:
    """A program on which the rule fails, if the model of ``problem`` gives one."""
    if problem.model is None:
        return None
    for dtype in _DTYPES:
        try:
            roots = list(_roots(_Builder(instance, problem.model, dtype)))
            if not roots or max(term.type.size for term in topological_order(roots)) > _LARGEST:
                continue
            found = _run(rule, roots)
        except (GlensideError, Open, KeyError, ValueError, OverflowError):
            continue  # The model cannot be spelled with these dtypes.
        if found is not None:
            return found
    return None


def _run(rule: Rule, roots: list[Term]) -> Counterexample | None:
    from glenside.rewrites.soundness.instances import environment

    largest = max(roots, key=lambda term: len(topological_order([term])))
    for seed in range(_SEEDS):
        env = environment(roots, seed)
        try:
            check_program(roots, [RuleSet(rule.name, (rule,))], env, iter_limit=4, node_limit=2_000)
        except UnsoundRewrite as problem:
            return Counterexample(largest, str(problem))
    return None


def _roots(builder: _Builder) -> Iterator[Term]:
    seen = set()
    for fact in builder.instance.case.facts:
        for e in sides(fact):
            if isinstance(e, Call) and e.operator is not None:
                term = builder.term(e)
                if term not in seen:
                    seen.add(term)
                    yield term


def _exact(dtype: str) -> str:
    """Halves round what is as it should be."""
    return "float32" if dtype in HALVES else dtype


class _Builder:
    """Terms for the expressions of a case, sizes as a model has them."""

    def __init__(self, instance: Instance, model: Any, dtype: str | None) -> None:
        self.instance, self.model, self.dtype = instance, model, dtype
        self._evaluation = instance.evaluation

    def number(self, value: Any) -> int:
        if isinstance(value, int):
            return value
        return int(self.model.eval(value, model_completion=True).as_long())

    def lengths(self, lengths: Lengths) -> tuple[int, ...]:
        """A run of r axes has all its elements along the first."""
        found: list[int] = []
        for each in lengths:
            run = self._evaluation.logic.axes.run(each)
            if run is None:
                found.append(self.number(each))
            elif rank := self.number(run.rank):
                found += [self.number(each), *[1] * (rank - 1)]
        return tuple(found)

    def text(self, value: Any, otherwise: str) -> str:
        found = text_of(self.number(value))
        return otherwise if found is None else found

    def term(self, e: Expression) -> Term:
        if isinstance(e, Variable):
            return self._variable(e.name)
        assert isinstance(e, Call) and e.operator is not None
        operator = OPERATORS[e.operator]
        if operator.name == "call":
            listed, unit, parameters, batch = e.arguments
            assert isinstance(listed, Call) and isinstance(unit, Literal)
            operands = [self.term(each) for each in listed.arguments]
            sizes = self.lengths(self._evaluation.value(parameters))
            g = self.number(self._evaluation.value(batch))
            return make("call", operands, unit=unit.value, parameters=sizes, batch=g)
        if operator.arity is None:
            raise Open(f"{operator.spelling} is not built")
        operands = [self.term(each) for each in e.arguments[: operator.arity]]
        values = [
            self._attribute(attribute.name, attribute.kind, each)
            for attribute, each in zip(
                operator.attributes, e.arguments[operator.arity :], strict=True
            )
        ]
        types = tuple(each.type for each in operands)
        named = decode(operator, tuple(values), types)
        if operator.name == "compute" and not FUNCTIONS[named["function"]].accumulates:
            named["accumulate"] = None
        return make(operator.name, operands, **named)

    def _variable(self, name: str) -> Term:
        if name in self._evaluation.defined:
            return self.term(self._evaluation.defined[name])
        leaf = self._evaluation.leaves[name]
        shape = self.lengths(leaf.outer) + self.lengths(leaf.item)
        dtype = self.dtype or _exact(self.text(leaf.dtype, "float64"))
        return builders.access(
            builders.tensor(name.strip("_"), shape, dtype), len(self.lengths(leaf.outer))
        )

    def _attribute(self, name: str, kind: Kind, e: Expression) -> Any:
        if isinstance(e, Literal) and not isinstance(e.value, tuple):
            return e.value
        value = self._evaluation.attribute(e, kind)
        match kind:
            case Kind.INT:
                return self.number(value)
            case Kind.INTS:
                return self.lengths(value)
            case Kind.DTYPE:
                return self.dtype or _exact(self.text(value, "float64"))
            case Kind.FILL:
                return self.text(value, "zero")
            case Kind.NUMBER:
                return self.text(value, "2")
        return self.text(value, "t" if name == "name" else "systolic-array")
