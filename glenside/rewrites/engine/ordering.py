"""Puts the facts of queries in an order in which egglog can answer them.

egglog 14 joins the tables of a query first and then computes its primitives in the order in which
they are written; one that comes before what binds its arguments panics. A query is a conjunction,
so the order is ours to choose.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from egglog import bindings


def tables_of(commands: Iterable[Any]) -> frozenset[str]:
    """What ``commands`` declare as tables: all else that a query calls is a primitive."""
    kinds = bindings.Constructor | bindings.FunctionCommand | bindings.Relation
    return frozenset(command.name for command in commands if isinstance(command, kinds))


def in_order(command: Any, tables: Collection[str]) -> Any:
    """The same command; a rule with its facts such that each comes after what binds its arguments.

    Facts that nothing binds stand at the end: egglog refuses such a rule when it is declared.
    """
    if isinstance(command, bindings.RuleCommand):
        rule = command.rule
        body = _ordered(rule.body, tables)
        if body == rule.body:
            return command
        return bindings.RuleCommand(
            bindings.Rule(
                rule.span,
                rule.head,
                body,
                rule.name,
                rule.ruleset,
                rule.eval_mode,
                rule.no_decomp,
                rule.include_subsumed,
            )
        )
    if isinstance(command, bindings.RewriteCommand):
        old = command.rewrite
        first = [bindings.Fact(old.lhs)]
        conditions = _ordered([*first, *old.conditions], tables)[1:]
        if conditions == old.conditions:
            return command
        new = bindings.Rewrite(old.span, old.lhs, old.rhs, conditions, old.name)
        return bindings.RewriteCommand(command.name, new, command.subsume)
    return command


def _ordered(facts: Sequence[Any], tables: Collection[str]) -> list[Any]:
    bound = {name for fact in facts for name in _joined(fact, tables)}
    order: list[Any] = []
    waiting = list(facts)
    while waiting:
        fact = next((each for each in waiting if _ready(each, tables, bound)), waiting[0])
        waiting.remove(fact)
        order.append(fact)
        bound.update(side.name for side in _sides(fact) if isinstance(side, bindings.Var))
    return order


def _ready(fact: Any, tables: Collection[str], bound: Collection[str]) -> bool:
    if any(name not in bound for name in _arguments(fact, tables)):
        return False
    sides = _sides(fact)
    unknown = [s for s in sides if isinstance(s, bindings.Var) and s.name not in bound]
    return len(unknown) < max(len(sides), 2)


def _sides(fact: Any) -> list[Any]:
    return [fact.left, fact.right] if isinstance(fact, bindings.Eq) else [fact.expr]


def _calls(fact: Any) -> Iterator[Any]:
    """The calls in a fact, outer ones first."""
    stack = _sides(fact)
    while stack:
        expression = stack.pop()
        if isinstance(expression, bindings.Call):
            yield expression
            stack.extend(expression.args)


def _joined(fact: Any, tables: Collection[str]) -> Iterator[str]:
    """Variables that a fact's tables bind."""
    for call in _calls(fact):
        if call.name in tables:
            yield from (each.name for each in call.args if isinstance(each, bindings.Var))
    sides = _sides(fact)
    if any(isinstance(side, bindings.Call) and side.name in tables for side in sides):
        yield from (side.name for side in sides if isinstance(side, bindings.Var))


def _arguments(fact: Any, tables: Collection[str]) -> Iterator[str]:
    """Variables that a fact's primitives compute with."""
    for call in _calls(fact):
        if call.name not in tables:
            yield from (each.name for each in call.args if isinstance(each, bindings.Var))
