"""How far rules look: which operators a rule wants next to one another.

A rule matches nodes that meet in e-classes: a node and what it uses, two nodes of one class, two
users of one. Its query says which operators meet how. What no rule wants next to one another may be
explored apart, see ``regions.py``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from egglog import bindings

from glenside.language.operators import OPERATORS
from glenside.rewrites.engine.program import Program, program_for
from glenside.rewrites.ruleset import Rule

Sign = tuple[str, str]
"""An operator, and the function of a ``compute``; "" in a rule that takes any, and elsewhere."""

ROOT: Sign = ("root", "")
"""What makes the outputs of the program known counts as a user of theirs."""

_PREFIX = "Access."
_SPAN = bindings.RustSpan("glenside", 0, 0)
_TYPES = frozenset({"Access.outer", "Access.item", "Access.dtype"})


@dataclass
class Locality:
    """What the queries of some rules join.

    ``below``: a user and what it uses; ``beside``: two nodes of a class; ``above``: two users of a
    class. ``gives``: the users of a class to which a rule adds nodes for being used so, and the
    operators of these nodes; ``reuses``: likewise, the operators that then use the class, too.
    ``known`` is False where a rule asks for more than operators and types, such as facts of
    other analyses or the names of tensors: then nothing can be said.
    """

    below: set[tuple[Sign, Sign]] = field(default_factory=set)
    beside: set[tuple[Sign, Sign]] = field(default_factory=set)
    above: set[tuple[Sign, Sign]] = field(default_factory=set)
    gives: set[tuple[Sign, Sign]] = field(default_factory=set)
    reuses: set[tuple[Sign, Sign]] = field(default_factory=set)
    known: bool = True

    def __post_init__(self) -> None:
        self._cache: dict[Any, bool] = {}

    def joins_below(self, user: Sign, used: Sign) -> bool:
        """Whether a rule may match a user together with what it uses."""
        return self._joins(self.below, user, used)

    def joins_above(self, user: Sign, other: Sign) -> bool:
        """Whether a rule may match two users of a class together."""
        return self._joins(self.above, user, other)

    def likely_meets(self, user: Sign, used: Sign) -> bool:
        """Whether rules may join a user with what it uses after they added to its class."""
        return any(
            self.joins_below(again, used) for first, again in self.reuses if first == user
        ) or any(self.joins_beside(used, node) for first, node in self.gives if first == user)

    def likely_meet(self, user: Sign, other: Sign) -> bool:
        """Whether rules may join users of one class, or one with what they added for the other."""
        return self.joins_above(user, other) or any(
            self.joins_below(other, node) for first, node in self.gives if first == user
        )

    def joins_beside(self, node: Sign, other: Sign) -> bool:
        """Whether a rule may match two nodes of a class together."""
        return self._joins(self.beside, node, other)

    def _joins(self, pairs: set[tuple[Sign, Sign]], a: Sign, b: Sign) -> bool:
        key = id(pairs), a, b
        found = self._cache.get(key)
        if found is None:
            found = any(
                pair in pairs for pair in itertools.product((a, (a[0], "")), (b, (b[0], "")))
            )
            self._cache[key] = found
        return found


@functools.lru_cache(maxsize=64)
def locality(rules: tuple[Rule, ...]) -> Locality:
    """How far ``rules`` look, taken from their queries."""
    result = Locality()
    if any(rule.analyses for rule in rules):
        result.known = False
        return result
    program = program_for(rules)
    for query, actions in _queries(program):
        reader = _Reader()
        for fact in query:
            reader.fact(fact)
        for action in actions:
            if isinstance(action, bindings.Union):
                reader.union(action.lhs, action.rhs, result)
        reader.collect(result)
        if any(f"{_PREFIX}tensor" in str(action) for action in actions):
            result.known = False  # It could make one that the program has elsewhere.
    return result


def _queries(program: Program) -> Sequence[tuple[list[Any], list[Any]]]:
    """Facts and actions of every rule, those of the type analyses aside: they look at one node."""
    wanted = set(program.rulesets.values())
    found: list[tuple[list[Any], list[Any]]] = []
    for command in program.commands:
        if isinstance(command, bindings.RuleCommand):
            if command.rule.ruleset in wanted:
                found.append((list(command.rule.body), list(command.rule.head)))
        elif (
            isinstance(command, bindings.RewriteCommand | bindings.BiRewriteCommand)
            and command.name in wanted
        ):
            sides = [command.rewrite.lhs, command.rewrite.rhs]
            ways = sides[:1] if isinstance(command, bindings.RewriteCommand) else sides
            actions = [bindings.Union(_SPAN, *sides)]
            found += [([bindings.Fact(w), *command.rewrite.conditions], actions) for w in ways]
    return found


class _Reader:
    """The operators of one query, and the classes in which they meet."""

    def __init__(self) -> None:
        self.known = True
        self.nodes: list[tuple[Sign, list[str], str]] = []
        self.others: list[list[str]] = []
        """Classes that something else than an operator asks for."""
        self._alias: dict[str, str] = {}
        self._fresh = itertools.count()
        self._seen: dict[str, int] = {}
        self._names: list[str] = []

    def fact(self, fact: Any) -> None:
        if isinstance(fact, bindings.Eq):
            left, right = self._read(fact.left), self._read(fact.right)
            if left and right:
                self._alias[self._find(left)] = self._find(right)
        else:
            self._read(fact.expr)

    def union(self, left: Any, right: Any, into: Locality) -> None:
        """Notes what a rule adds to classes that its query only uses."""
        if not isinstance(left, bindings.Var):
            left, right = right, left
        if not (isinstance(left, bindings.Var) and isinstance(right, bindings.Call)):
            return
        name = self._find(str(left.name))
        if any(self._find(own) == name for _, _, own in self.nodes):
            return
        head = _Reader()
        head._read(right)
        users = [sign for sign, children, _ in self.nodes if name in map(self._find, children)]
        for user in users:
            if head.nodes:
                into.gives.add((user, head.nodes[-1][0]))
            again = (sign for sign, children, _ in head.nodes if str(left.name) in children)
            into.reuses.update((user, sign) for sign in again)

    def _find(self, name: str) -> str:
        while name in self._alias and self._alias[name] != name:
            name = self._alias[name]
        return name

    def _read(self, expression: Any) -> str | None:
        """The class that an expression stands for, or a variable that may be one."""
        if isinstance(expression, bindings.Var):
            self._seen[expression.name] = self._seen.get(expression.name, 0) + 1
            return str(expression.name)
        if not isinstance(expression, bindings.Call):
            return None
        name, args = str(expression.name), list(expression.args)
        operator = OPERATORS.get(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
        if operator is None:
            read = [each for each in map(self._read, args) if each]
            if name == ROOT[0]:
                self.nodes.append((ROOT, read, f"#{next(self._fresh)}"))
            elif name not in _TYPES:
                self.others.append(read)
            return None
        if operator.arity is None:
            operands, attributes = args[:1], args[1:]
            first = operands[0]
            if isinstance(first, bindings.Call) and first.name == "vec-of":
                operands = list(first.args)
            else:
                operands = []  # Any operands: none is looked into.
        else:
            operands, attributes = args[: operator.arity], args[operator.arity :]
        function = ""
        if operator.name == "compute" and isinstance(attributes[0], bindings.Lit):
            function = str(getattr(attributes[0].value, "value", ""))
        if operator.name == "tensor":
            if isinstance(attributes[0], bindings.Var):
                self._names.append(str(attributes[0].name))
            else:
                self.known = False
        children = [self._read(each) or f"#{next(self._fresh)}" for each in operands]
        for each in attributes:
            self._read(each)
        own = f"#{next(self._fresh)}"
        self.nodes.append(((operator.name, function), children, own))
        return own

    def collect(self, into: Locality) -> None:
        made: dict[str, list[Sign]] = {}
        used: dict[str, list[tuple[Sign, int]]] = {}
        for number, (sign, children, own) in enumerate(self.nodes):
            made.setdefault(self._find(own), []).append(sign)
            for child in children:
                used.setdefault(self._find(child), []).append((sign, number))
        for name, signs in made.items():
            for user, _ in used.get(name, ()):
                into.below.update((user, sign) for sign in signs)
            into.beside.update(itertools.permutations(signs, 2))
        for users in used.values():
            for (a, first), (b, second) in itertools.permutations(users, 2):
                if first != second:
                    into.above.add((a, b))
        classes = made.keys() | used.keys()
        for others in self.others:
            if any(self._find(name) in classes for name in others):
                self.known = False
        named = any(self._seen[name] > 1 for name in self._names)
        into.known = into.known and self.known and not named
