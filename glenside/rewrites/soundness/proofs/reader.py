"""Reads rules from the very commands of egglog that run.

What a rule says in Python has by then become commands: queries, actions, and the primitives that
the vocabulary's helpers are. So it is the commands that are proved, and no helper is stated again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from egglog import bindings

from glenside.language.operators import OPERATORS
from glenside.rewrites.engine.program import Program, program_for
from glenside.rewrites.ruleset import Rule

PREFIX = "Access."
TYPE_OF = ("Access.outer", "Access.item", "Access.dtype")


@dataclass(frozen=True)
class Variable:
    """A variable of a rule, or ``_0``, ``_1``, ... of a primitive."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Literal:
    """A number or a text."""

    value: Any

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Call:
    """A constructor, primitive or relation of expressions."""

    name: str
    arguments: tuple[Expression, ...]

    @property
    def operator(self) -> str | None:
        """The operator of the language that it is."""
        name = self.name.removeprefix(PREFIX)
        return name if self.name.startswith(PREFIX) and name in OPERATORS else None

    def __str__(self) -> str:
        return f"({' '.join([self.name, *map(str, self.arguments)])})"


Expression = Variable | Literal | Call


@dataclass(frozen=True)
class Equation:
    """Two expressions that are equal."""

    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Holds:
    """A condition, a relation, or a term that is there."""

    expression: Expression

    def __str__(self) -> str:
        return str(self.expression)


Fact = Equation | Holds


@dataclass(frozen=True)
class Stated:
    """A function's value that an action sets: ``function(arguments) = value``."""

    function: str
    arguments: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True)
class Case:
    """One rule of egglog."""

    name: str
    facts: tuple[Fact, ...]
    unions: tuple[tuple[Expression, Expression], ...]
    stated: tuple[Stated, ...] = ()
    derived: tuple[Expression, ...] = ()
    """Relations that it adds to."""

    def __str__(self) -> str:
        facts = ", ".join(map(str, self.facts))
        found = [f"{a} = {b}" for a, b in self.unions]
        found += [f"{s.function}{s.arguments} := {s.value}" for s in self.stated]
        return f"{facts} => {', '.join([*found, *map(str, self.derived)])}"


@dataclass(frozen=True)
class Primitive:
    """A helper with a body."""

    arity: int
    body: Expression


@dataclass(frozen=True)
class Reading:
    """A rule as it runs."""

    rule: Rule
    cases: tuple[Case, ...]
    analyses: tuple[Case, ...]
    """What derives the types, and what the conditions of the cases ask for beside them."""
    primitives: Mapping[str, Primitive]


def read(rule: Rule, among: Iterable[Rule] = ()) -> Reading:
    """The commands of one rule.

    :param among: rules that it is declared together with, which is quicker for many.
    :raises GlensideError: egglog does not accept the rule.
    """
    together = tuple(among) or (rule,)
    # Those of all, so that rules declared together have one program.
    program = program_for((*together, *(_meant(each) for each in together if each.meanings)))
    meant = _meant(rule) if rule.meanings else None
    primitives: dict[str, Primitive] = {}
    cases: list[Case] = []
    analyses: list[Case] = []
    meanings: list[Case] = []
    for command in program.commands:
        if isinstance(command, bindings.UserDefined):
            primitives |= dict(_primitives(str(command)))
        elif isinstance(command, bindings.RuleCommand):
            if command.rule.ruleset == program.rulesets[rule]:
                cases.append(_case(command.rule))
            elif meant and command.rule.ruleset == program.rulesets[meant]:
                meanings.append(_case(command.rule))
            elif command.rule.ruleset == program.types:
                analyses.append(_case(command.rule))
        else:
            cases += _rewrites(command, program, rule)
    said = {each.derived[0].name: each for each in meanings if isinstance(each.derived[0], Call)}
    cases = [_with_meanings(case, said) for case in cases]
    return Reading(rule, tuple(cases), tuple(analyses), primitives)


@functools.cache
def _meant(rule: Rule) -> Rule:
    """The meanings as a rule of their own: they are declared like one, and not run."""
    return Rule("what relations mean", rule.meanings, True)


def _with_meanings(case: Case, said: Mapping[str, Case]) -> Case:
    """The case with what relations mean in their place; each has variables of its own."""
    facts: list[Fact] = []
    for number, fact in enumerate(case.facts):
        e = fact.expression if isinstance(fact, Holds) else None
        if not (isinstance(e, Call) and e.name in said):
            facts.append(fact)
            continue
        meaning = said[e.name]
        (relation,) = meaning.derived
        assert isinstance(relation, Call)
        inside = [each for f in meaning.facts for each in sides(f)]
        values: dict[str, Expression] = {
            name: Variable(f"{name}~{number}") for name in variables(*inside)
        }
        for parameter, argument in zip(relation.arguments, e.arguments, strict=True):
            assert isinstance(parameter, Variable)
            values[parameter.name] = argument
        for each in meaning.facts:
            left, *right = (substituted(part, values) for part in sides(each))
            facts.append(Equation(left, right[0]) if right else Holds(left))
    return replace(case, facts=tuple(facts))


def _rewrites(command: Any, program: Program, rule: Rule) -> Iterator[Case]:
    both = isinstance(command, bindings.BiRewriteCommand)
    if not (both or isinstance(command, bindings.RewriteCommand)):
        return
    if command.name != program.rulesets[rule]:
        return
    whole = Variable("whole__")
    sides = [_expression(command.rewrite.lhs), _expression(command.rewrite.rhs)]
    conditions = tuple(map(_fact, command.rewrite.conditions))
    for left, right in (sides, sides[::-1])[: 1 + both]:
        yield Case("", (Equation(whole, left), *conditions), ((whole, right),))


def _expression(e: Any) -> Expression:
    if isinstance(e, bindings.Var):
        return Variable(e.name)
    if isinstance(e, bindings.Lit):
        return Literal(getattr(e.value, "value", ()))
    return Call(e.name, tuple(map(_expression, e.args)))


def _fact(fact: Any) -> Fact:
    if isinstance(fact, bindings.Eq):
        return Equation(_expression(fact.left), _expression(fact.right))
    return Holds(_expression(fact.expr))


def substituted(e: Expression, values: Mapping[str, Expression]) -> Expression:
    """``e`` with expressions in place of variables."""
    match e:
        case Variable(name):
            return values.get(name, e)
        case Call(name, arguments):
            return Call(name, tuple(substituted(each, values) for each in arguments))
    return e


def _case(rule: Any) -> Case:
    let: dict[str, Expression] = {}
    unions, stated, derived = [], [], []

    def read(e: Any) -> Expression:
        return substituted(_expression(e), let)

    for action in rule.head:
        if isinstance(action, bindings.Let):
            let[action.lhs] = read(action.rhs)
        elif isinstance(action, bindings.Union):
            unions.append((read(action.lhs), read(action.rhs)))
        elif isinstance(action, bindings.Set):
            arguments = tuple(map(read, action.args))
            stated.append(Stated(action.lhs, arguments, read(action.rhs)))
        elif isinstance(action, bindings.Expr_):
            derived.append(read(action.expr))
    facts = tuple(map(_fact, rule.body))
    return Case(rule.name, facts, tuple(unions), tuple(stated), tuple(derived))


# --- primitives -----------------------------------------------------------------------------------


def _primitives(text: str) -> Iterator[tuple[str, Primitive]]:
    """From ``(primitive name (sorts) sort body)``, which egglog gives as text alone."""
    for each in _lists(text):
        if each and each[0] == "primitive":
            _, name, sorts, _, body = each
            yield name, Primitive(len(sorts) if isinstance(sorts, list) else 1, _body(body))


def _lists(text: str) -> list[Any]:
    stack: list[list[Any]] = [[]]
    for token in re.findall(r'"[^"]*"|[()]|[^\s()]+', text):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    return stack[0]


def _body(part: Any) -> Expression:
    if isinstance(part, list):
        return Call(part[0], tuple(map(_body, part[1:])))
    if part.startswith('"'):
        return Literal(part[1:-1])
    return Literal(int(part)) if re.fullmatch(r"-?\d+", part) else Variable(part)


def variables(*expressions: Expression) -> set[str]:
    """The names of all variables in them."""
    found: set[str] = set()
    stack = list(expressions)
    while stack:
        match stack.pop():
            case Variable(name):
                found.add(name)
            case Call(_, arguments):
                stack += arguments
    return found


def sides(fact: Fact) -> tuple[Expression, ...]:
    """The expressions of a fact."""
    return (fact.left, fact.right) if isinstance(fact, Equation) else (fact.expression,)
