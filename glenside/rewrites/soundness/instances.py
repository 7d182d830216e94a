"""Random programs on which a given rule has something to do.

Programs drawn at random hardly ever hold what a rule looks for. So its query is read and built: a
variable becomes a random tensor, an operator that operator, with attributes that fit. Conditions
are not solved for: where they do not hold the rule does not fire, which is worth a test as well.
What a rule gives programs of its own for is tried on those, and on what its query says too. All of
them are varied (:mod:`~glenside.rewrites.soundness.variations`), since a condition that a rule
lacks shows only where the programs do not happen to meet it.

Needs Hypothesis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from egglog import bindings
from hypothesis import assume
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.language import builders
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import OPERATORS, Kind
from glenside.language.shape import FLOATS, AccessType, Shape
from glenside.language.term import Term, make, topological_order
from glenside.rewrites.engine.encoding import encode
from glenside.rewrites.engine.program import program_for
from glenside.rewrites.ruleset import Rule
from glenside.rewrites.soundness.variations import varied

Draw = Callable[[st.SearchStrategy[Any]], Any]

DTYPES = ("int32", "int8", "uint8", "float64")
"""Integers wrap around and floats are small halves, so sums are exact in any order."""

_PREFIX = "Access."
_ANALYSES = ("Access.outer", "Access.item", "Access.dtype")
_LENGTHS = tuple(
    map(st.sampled_from, ((2, 3, 1, 2, 4, 1, 5, 0), (2, 3, 1, 4), (2, 0, 1, 0, 3), (1, 2, 1, 0)))
)
"""Lengths of axes: of every kind, none empty, many empty, many single. One program draws from one
of them, or programs of many axes would nearly all be empty."""


def _shapes_of(lengths: st.SearchStrategy[int]) -> st.SearchStrategy[Shape]:
    return st.sampled_from((1, 2, 0, 1, 3)).flatmap(lambda rank: st.tuples(*[lengths] * rank))


_SHAPES = tuple(map(_shapes_of, _LENGTHS))


def instances(rule: Rule) -> st.SearchStrategy[Term]:
    """Programs that hold what one case of ``rule`` looks for, its conditions aside."""
    queries = [query for facts in _queries(rule) if (query := _query(facts)).buildable]
    if rule.programs is None:
        return varied(st.sampled_from(queries).flatmap(_instance) if queries else st.nothing())
    own: st.SearchStrategy[Term] = rule.programs()
    if not queries:
        return varied(own)
    built = st.sampled_from(queries).flatmap(_instance)
    # Most that are built of such a rule's query do not meet its conditions.
    return varied(st.sampled_from((own, own, built)).flatmap(lambda chosen: chosen))


def environment(roots: Sequence[Term], seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Arrays for the tensors below ``roots``: small integers, halves of them for floats."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for term in topological_order(roots):
        if term.op == "tensor":
            array = rng.integers(0 if term.dtype[0] in "ub" else -5, 6, term.shape)
            if term.dtype == "bool":
                array = array % 2
            elif term.dtype in FLOATS:
                array = array / 2
            arrays[term["name"]] = np.asarray(array).astype(term.dtype)
    return arrays


# --- what a rule looks for -----------------------------------------------------------------------


def _queries(rule: Rule) -> Iterator[list[Any]]:
    """The facts each case of a rule asks for."""
    program = program_for((rule,))
    ruleset = program.rulesets[rule]
    for command in program.commands:
        if isinstance(command, bindings.RuleCommand):
            if command.rule.ruleset == ruleset:
                yield list(command.rule.body)
        elif (
            isinstance(command, bindings.RewriteCommand | bindings.BiRewriteCommand)
            and command.name == ruleset
        ):
            rewrite = command.rewrite
            yield [bindings.Fact(rewrite.lhs), *rewrite.conditions]
            if isinstance(command, bindings.BiRewriteCommand):
                yield [bindings.Fact(rewrite.rhs), *rewrite.conditions]


class _Query:
    """The operators of a query by the variable that stands for them, and its equations."""

    def __init__(self) -> None:
        self.terms: dict[str, Any] = {}
        self.equations: dict[str, Any] = {}
        self.roots: list[Any] = []

    @property
    def buildable(self) -> bool:
        """Whether it has no operator of any number of operands: none would be built."""
        pending = [*self.roots, *self.terms.values()]
        while pending:
            each = pending.pop()
            op = _operator(each)
            if op is not None:
                arity = OPERATORS[op].arity
                if arity is None:
                    return False
                pending += each.args[:arity]
        return bool(self.roots)


def _query(facts: Sequence[Any]) -> _Query:
    query = _Query()
    for fact in facts:
        if isinstance(fact, bindings.Eq):
            sides = [fact.left, fact.right]
            variables = [side for side in sides if isinstance(side, bindings.Var)]
            calls = [side for side in sides if isinstance(side, bindings.Call)]
            if len(variables) == 1 and calls:
                (variable,), (call,) = variables, calls
                if _operator(call):
                    query.terms[variable.name] = call
                    query.roots.append(variable)
                else:
                    query.equations[variable.name] = call
        elif isinstance(fact.expr, bindings.Call):
            if _operator(fact.expr):
                query.roots.append(fact.expr)
            elif fact.expr.name == "root":
                query.roots.append(fact.expr.args[0])
    return query


def _operator(expression: Any) -> str | None:
    if not isinstance(expression, bindings.Call):
        return None
    name = str(expression.name).removeprefix(_PREFIX)
    return name if expression.name.startswith(_PREFIX) and name in OPERATORS else None


# --- building it ---------------------------------------------------------------------------------


@st.composite
def _instance(draw: Draw, query: _Query) -> Term:
    builder = _Builder(draw, query)
    try:
        built = [builder.build(root, None) for root in query.roots]
    except GlensideError:
        assume(False)
    return max(built, key=lambda term: len(topological_order([term])))


class _Builder:
    def __init__(self, draw: Draw, query: _Query) -> None:
        self.draw, self.query = draw, query
        self.dtype = draw(st.sampled_from(DTYPES))
        kind = draw(st.sampled_from((0, 1, 0, 2, 0, 3)))
        self.lengths, self.shapes = _LENGTHS[kind], _SHAPES[kind]
        self.tuples = st.sampled_from((2, 2, 2, 1, 3, 0))
        self.terms: dict[str, Term] = {}
        self.values: dict[str, Any] = {}
        self.names = (f"x{number}" for number in itertools.count())

    def build(self, expression: Any, wanted: AccessType | None) -> Term:
        """A term for ``expression``, of type ``wanted`` where that is easy. As deep as a rule."""
        if isinstance(expression, bindings.Var):
            name = expression.name
            if name not in self.terms:
                meant = self.query.terms.get(name)
                self.terms[name] = (
                    self._leaf(wanted) if meant is None else self.build(meant, wanted)
                )
            return self.terms[name]
        op = _operator(expression)
        assume(op is not None and OPERATORS[op].arity is not None)
        operator = OPERATORS[str(op)]
        attributes = dict(zip(operator.positions, expression.args[operator.arity :], strict=True))
        known = self._all_known(attributes)
        operands: list[Term] = []
        for each in expression.args[: operator.arity]:
            operands.append(self.build(each, self._operand(operator.name, operands, known, wanted)))
        known |= self._all_known(attributes)
        chosen = self._attributes(operator.name, operands, known, wanted)
        optional = {a.name for a in operator.attributes if a.optional and a.kind is Kind.DTYPE}
        chosen = {n: None if v == "" and n in optional else v for n, v in chosen.items()}
        term = make(operator.name, operands, **chosen)
        for each, value in zip(attributes.values(), encode(term), strict=True):
            if isinstance(each, bindings.Var):
                self.values.setdefault(each.name, value)
        return term

    def _leaf(self, wanted: AccessType | None) -> Term:
        if wanted is None:
            wanted = AccessType(self.draw(self.shapes), self.draw(self.shapes), self.dtype)
        x = builders.tensor(next(self.names), wanted.shape, wanted.dtype)
        return builders.access(x, wanted.split)

    def _all_known(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: self._known(each) for name, each in attributes.items()}
        return {name: value for name, value in known.items() if value is not None}

    def _known(self, expression: Any) -> Any:
        """What an attribute has to be, if that follows from what has been built."""
        if isinstance(expression, bindings.Lit):
            return getattr(expression.value, "value", None)
        if not isinstance(expression, bindings.Var):
            return None
        if expression.name in self.values:
            return self.values[expression.name]
        equation = self.query.equations.get(expression.name)
        if equation is not None and isinstance(equation.args[0], bindings.Var):
            term = self.terms.get(equation.args[0].name)
            if term is not None and equation.name in _ANALYSES:
                return getattr(term, equation.name.removeprefix(_PREFIX))
        return None

    def _operand(
        self,
        op: str,
        before: Sequence[Term],
        known: dict[str, Any],
        wanted: AccessType | None,
    ) -> AccessType | None:
        """A type that the next operand can well have."""
        draw = self.draw
        if before:
            first = before[0].type
            if op == "cart_prod" or op == "blocked":
                batch = known.setdefault("batch", draw(st.integers(0, min(2, first.split))))
                own = draw(self.shapes) if draw(st.integers(0, 3)) else first.outer[batch:]
                rows = first.outer[:batch] + own
                return AccessType(rows, first.item, first.dtype)
            if op == "gather":
                return AccessType(draw(self.shapes), (), "int32")
            return before[-1].type if len(before) > 1 or op != "where" else None
        if op == "reshape":

            def part(name: str) -> Shape:
                return getattr(wanted, name) if wanted else draw(self.shapes)

            outer: Shape = known["outer"] if "outer" in known else part("outer")
            item: Shape = known["item"] if "item" in known else part("item")
            sizes = draw(_same_size(outer)), draw(_same_size(item))
            return AccessType(*sizes, wanted.dtype if wanted else self.dtype)
        if op == "access" and wanted:
            return wanted.with_shape(wanted.shape, draw(st.integers(0, wanted.rank)))
        if op == "compute":
            function = FUNCTIONS[known.get("function", "sum")]
            if function.kind == "fold" or function.name == "dot":
                item = (draw(self.tuples), *draw(self.shapes))
                return AccessType(draw(self.shapes), item, self.dtype)
        return wanted if op in ("transpose", "pad", "slice") else None

    def _attributes(
        self,
        op: str,
        operands: Sequence[Term],
        known: dict[str, Any],
        wanted: AccessType | None,
    ) -> dict[str, Any]:
        """Values for all attributes that are not known; rare operators are left to luck."""
        draw = self.draw
        values: dict[str, Any] = {}
        x = operands[0].type if operands else AccessType((), (), "int32")

        def choose(name: str, strategy: st.SearchStrategy[Any]) -> Any:
            values[name] = known[name] if name in known else draw(strategy)
            return values[name]

        axes = st.integers(0, max(x.rank - 1, 0))
        match op:
            case "access":
                choose("split", st.just(wanted.split) if wanted else st.integers(0, x.rank))
            case "transpose":
                choose("permutation", st.permutations(range(x.rank)).map(tuple))
            case "cart_prod":
                choose("batch", st.integers(0, min(2, x.split)))
            case "reshape":
                choose("outer", st.just(wanted.outer) if wanted else _same_size(x.outer))
                choose("item", st.just(wanted.item) if wanted else _same_size(x.item))
            case "windows":
                choose("shape", st.tuples(*(st.integers(1, max(1, n)) for n in x.item)))
                choose("stride", st.tuples(*(st.integers(1, 3) for _ in x.item)))
                choose("dilation", st.just((1,) * len(x.item)))
            case "slice":
                assume(choose("axis", axes) < x.rank)
                length = x.shape[values["axis"]]
                low = choose("low", st.integers(0, length))
                choose("high", st.integers(min(low, length), length))
                choose("step", st.integers(1, 3))
            case "pad":
                choose("value", st.sampled_from(("zero", "lowest", 3)))
                choose("axis", axes)
                for width in ("before", "after", "interior"):
                    choose(width, st.integers(0, 2))
            case "concat" | "squeeze" | "gather":
                ones = [axis for axis, n in enumerate(x.shape) if n == 1]
                choose("axis", st.sampled_from(ones) if op == "squeeze" and ones else axes)
            case "unsqueeze":
                choose("axis", st.integers(0, x.rank))
            case "broadcast":
                choose(
                    "shape", st.tuples(*(self.lengths if n == 1 else st.just(n) for n in x.shape))
                )
            case "cast":
                choose("dtype", st.sampled_from(DTYPES))
            case "compute":
                fitting = sorted(f.name for f in FUNCTIONS.values() if x.dtype in f.domain)
                function = FUNCTIONS[choose("function", st.sampled_from(fitting))]
                own = st.none() | st.sampled_from(
                    [d for d in DTYPES if d in function.domain] or [""]
                )
                choose("accumulate", own if function.accumulates else st.none())
            case "tensor":
                choose("name", st.just("t"))
                choose("shape", self.shapes)
                choose("dtype", st.sampled_from(DTYPES))
            case "constant":
                choose("value", st.integers(0, 3).map(float))
                choose("shape", self.shapes)
                choose("dtype", st.just("float64"))
            case "blocked":
                choose("unit", st.just("systolic-array"))
                choose("parameters", st.just((2, 2)))
                choose("batch", st.just(0))
                choose("accumulate", st.none())
            case "flatten" | "pair" | "where":
                pass
            case _:
                assume(False)
        return values


@st.composite
def _same_size(draw: Draw, shape: Shape) -> Shape:
    """Another shape with as many elements."""
    size = math.prod(shape)
    if draw(st.booleans()):
        return tuple(shape)
    if size == 0:
        # One empty axis, whatever the others are.
        others = draw(st.lists(st.sampled_from((2, 1, 3, 0)), max_size=2))
        others.insert(draw(st.integers(0, len(others))), 0)
        return tuple(others)
    first = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
    parts = [n for n in (first, size // first) if n != 1]
    ones = draw(st.integers(0, 1))
    return (1,) * ones + tuple(parts)
