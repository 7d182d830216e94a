"""What the expressions of a case denote under the decisions made so far.

Primitives are computed over lists of lengths. The vocabulary's helpers over lists are computed from
their own bodies, unless a length stands for a run of axes: then what they mean is what their name
says, ``take`` being the first so many axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import z3

from glenside.language import units
from glenside.language.denotation import (
    Choice,
    Constant,
    Denotation,
    Element,
    Index,
    Leaf,
    Length,
    Lengths,
    Read,
    choose,
    either,
    minus,
    plus,
    product,
    times,
)
from glenside.language.operators import OPERATORS, Attribute, Kind
from glenside.language.shape import DTYPES
from glenside.rewrites.soundness.proofs.axes import (
    AXIS,
    VARIABLE,
    Bind,
    Cut,
    Run,
    Suppose,
    Undetermined,
)
from glenside.rewrites.soundness.proofs.facts import Open, Stretch, code, fresh, text_of
from glenside.rewrites.soundness.proofs.logic import NoMatch, Symbolic
from glenside.rewrites.soundness.proofs.polynomials import alike, number
from glenside.rewrites.soundness.proofs.reader import (
    TYPE_OF,
    Call,
    Expression,
    Literal,
    Primitive,
    Variable,
)

_VOCABULARY = "glenside_rewrites_vocabulary_"


class Unbound(Exception):
    """A variable has no value yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"nothing binds {name}")


@dataclass(frozen=True)
class _Function:
    """A primitive with its first arguments given."""

    name: str
    given: tuple[Any, ...]


@dataclass
class Evaluation:
    """The variables of a case, and what expressions over them are."""

    logic: Symbolic
    primitives: Mapping[str, Primitive]
    defined: Mapping[str, Call]
    """Terms that variables stand for."""
    accesses: frozenset[str]
    """Variables of accesses."""
    general: frozenset[str]
    """Variables of terms of which only the type is to be used."""
    bound: Mapping[str, Any]
    """What was decided of variables."""
    values: dict[str, Any] = field(default_factory=dict)
    leaves: dict[str, Leaf] = field(default_factory=dict)

    # --- expressions ------------------------------------------------------------------------------

    def value(self, e: Expression, local: Mapping[str, Any] | None = None) -> Any:
        """What an expression is; raises :class:`Unbound`, or what operators raise."""
        match e:
            case Literal(value):
                return code(value) if isinstance(value, str) else value
            case Variable(name):
                return self._variable(name) if local is None else local[name]
        assert isinstance(e, Call)
        if e.operator is not None:
            return self._term(e)
        if e.name in TYPE_OF:
            of = self.access(e.arguments[0])
            part = getattr(of, e.name.rpartition(".")[2])
            return list(part) if isinstance(part, list) else part
        if e.name == "unstable-fn":
            function, *given = e.arguments
            assert isinstance(function, Literal)
            return _Function(function.value, tuple(self.value(each, local) for each in given))
        arguments = [self.value(each, local) for each in e.arguments]
        if e.name in self.primitives:
            by_name = self._by_name(e.name, arguments)
            if by_name is not None:
                return by_name[0]
            body = self.primitives[e.name].body
            return self.value(body, {f"_{i}": each for i, each in enumerate(arguments)})
        return self._primitive(e.name, arguments)

    def access(self, e: Expression) -> Denotation:
        """What a term denotes."""
        found = self.value(e)
        if not isinstance(found, Denotation):
            raise Open(f"{e} is no access")
        return found

    def _variable(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in self.defined:
            found = self.value(self.defined[name])
            if name in self.general:
                found = self.leaf(name, found.outer, found.item, found.dtype)
        elif name in self.accesses:
            dtype = z3.Int(f"{VARIABLE}dtype {name}")
            self.logic.facts.assume(self.logic.among(dtype, DTYPES))
            outer, item = (self.logic.axes.named(f"{name}.{part}") for part in ("outer", "item"))
            found = self.leaf(name, outer, item, dtype)
        elif name in self.bound:
            found = self.bound[name]
        else:
            raise Unbound(name)
        self.values[name] = found
        return found

    def leaf(self, name: str, outer: Lengths, item: Lengths, dtype: Any) -> Denotation:
        """An access of that type of which nothing else is known."""
        leaf = Leaf(name, list(outer), list(item), dtype)
        self.leaves[name] = leaf
        facts = self.logic.facts

        def at(index: Index) -> Element:
            return _outside([s for s in facts.stretches if s.leaf is leaf], leaf, index)

        return Denotation(self.logic, leaf.outer, leaf.item, dtype, at)

    def attribute(self, e: Expression, kind: Kind) -> Any:
        """An attribute of a term; a variable that has no value yet is one of its kind."""
        if isinstance(e, Variable) and e.name not in self.values:
            try:
                return self._variable(e.name)
            except Unbound:
                pass
            if kind is Kind.INTS:
                self.values[e.name] = self.logic.axes.named(e.name)
            else:
                self.values[e.name] = value = z3.Int(VARIABLE + e.name)
                if kind is Kind.DTYPE:
                    known = self.logic.among(value, (*DTYPES, ""))
                    self.logic.facts.assume(known)
            return self.values[e.name]
        return self.value(e)

    def integer(self, e: Expression) -> Any:
        """An integer; a variable that has no value yet is one."""
        return number(self.attribute(e, Kind.INT))

    # --- terms ------------------------------------------------------------------------------------

    def _term(self, e: Call) -> Denotation:
        operator = OPERATORS[str(e.operator)]
        if operator.name == "call":
            return self._call(e)
        if operator.name == "tensor":
            name, shape, dtype = (
                self.attribute(each, a.kind)
                for each, a in zip(e.arguments, operator.attributes, strict=True)
            )
            known = f"tensor {name}"
            if known not in self.values:
                self.values[known] = self.leaf(known, shape, [], dtype)
            found: Denotation = self.values[known]
            return found
        if operator.denote is None or operator.arity is None:
            raise Open(f"{operator.spelling} has no denotation")
        operands = [self.access(each) for each in e.arguments[: operator.arity]]
        attributes: dict[str, Any] = {}
        for each, declared in zip(e.arguments[operator.arity :], operator.attributes, strict=True):
            attributes[declared.name] = self._checked(operator.name, declared, each, operands)
        return operator.denote(self.logic, operands, attributes)

    def _checked(
        self, operator: str, declared: Attribute, e: Expression, operands: Sequence[Denotation]
    ) -> Any:
        if declared.name == "function":
            if not isinstance(e, Literal):
                raise Open("the function is a variable")
            return e.value
        found = self.attribute(e, declared.kind)
        if operator == "transpose":
            return self._permutation(e, found, operands[0])
        if operator == "blocked" and declared.name == "unit":
            return text_of(found) if isinstance(found, int) else None
        return number(found) if declared.kind is Kind.INT else found

    def _permutation(self, e: Expression, found: Any, of: Denotation) -> list[int]:
        """Axis numbers, each a known one."""
        if not self.logic.axes.has_run(found):
            self.logic.need(self.logic.rank(of.lengths) == len(found), "transpose: permutation")
        rank = len(self.logic.each(of.lengths))
        if self.logic.axes.has_run(found) and isinstance(e, Variable):
            self.values.pop(e.name)
            raise Undetermined(
                *([Bind(e.name, list(order))] for order in itertools.permutations(range(rank)))
            )
        return [self._axis_number(number(each), rank) for each in found]

    def _axis_number(self, value: Any, rank: int) -> int:
        if isinstance(value, int):
            return value
        facts = self.logic.facts
        possible = [k for k in range(rank) if facts.possible(value == k)]
        for k in possible:
            if facts.holds(value == k):
                return k
        self.logic.need(z3.And(value >= 0, value < rank), "transpose: permutation")
        raise Undetermined(*([Suppose(value == k)] for k in possible))

    def _call(self, e: Call) -> Denotation:
        operands_, unit, parameters, batch = e.arguments
        name = unit.value if isinstance(unit, Literal) else None
        if not isinstance(operands_, Call) or name is None or not units.is_unit(name):
            raise Open("a call of an unknown unit")
        denote = units.find_unit(name).denote
        if denote is None:
            raise Open(f"unit {name} has no denotation")
        operands = [self.access(each) for each in operands_.arguments]
        sizes = self.attribute(parameters, Kind.INTS)
        shared = number(self.attribute(batch, Kind.INT))
        return batched(self.logic, denote, operands, sizes, shared)

    # --- primitives -------------------------------------------------------------------------------

    def _by_name(self, name: str, arguments: list[Any]) -> tuple[Any] | None:
        """What a helper of the vocabulary means where its body cannot be followed; in a tuple."""
        logic = self.logic
        lists = [each for each in arguments if isinstance(each, list)]
        symbolic = any(logic.axes.has_run(each) for each in lists)
        match name.removeprefix(_VOCABULARY):
            case "take" | "drop" as helper:
                lengths, count = arguments
                if not symbolic and isinstance(count, int):
                    return None
                at = self._cut(count, lengths)
                return (lengths[:at] if helper == "take" else lengths[at:],)
            case "product":
                return (product(arguments[0]),)
            case "flat" if symbolic:
                some = logic.decide(logic.rank(arguments[0]) > 0)
                return ([product(arguments[0])] if some else [],)
            case "permute" if symbolic:
                logic.each(arguments[0])
                logic.each(arguments[1])
            case "index_of" if symbolic:
                logic.each(arguments[0])
        return None

    def _cut(self, count: Length, lengths: Lengths) -> int:
        # A primitive that fails does not match: there is no type to be proved.
        rank = self.logic.rank(lengths)
        for condition in (count >= 0, count <= rank):
            self._match(condition, "axes")
        return self.logic.axes.cut(count, lengths)

    def _match(self, condition: Any, what: str) -> None:
        if self.logic.proving:
            self.logic.need(condition, what)
        elif condition is False:
            raise NoMatch(what)
        else:
            self.logic.facts.assume(condition)

    def _position(self, at: Length, lengths: Lengths) -> int:
        at = number(at)
        rank = self.logic.rank(lengths)
        for condition in (at >= 0, at < rank):
            self._match(condition, "index")
        return self.logic.axes.axis(at, lengths)

    def _primitive(self, name: str, v: list[Any]) -> Any:
        logic = self.logic
        match name:
            case "vec-of":
                return list(v)
            case "vec-empty":
                return []
            case "vec-length":
                return logic.rank(v[0])
            case "vec-append":
                return [each for part in v for each in part]
            case "vec-get":
                return v[0][self._position(v[1], v[0])]
            case "vec-remove":
                at = self._position(v[1], v[0])
                return [*v[0][:at], *v[0][at + 1 :]]
            case "vec-set":
                at = self._position(v[1], v[0])
                return [*v[0][:at], v[2], *v[0][at + 1 :]]
            case "vec-range":
                return list(range(self._count(v[0])))
            case "unstable-vec-map":
                return self._mapped(*v)
        if len(v) != 2:
            raise Open(f"{name} of {len(v)} is not known")
        return self._arithmetic(name, *v)

    def _count(self, count: Length) -> int:
        count = number(count)
        if isinstance(count, int):
            return count
        # How many there are follows from ranks: all runs it is over are looked at.
        for run in self.logic.axes.runs.values():
            if not isinstance(run.rank, int) and _over(count, run.rank):
                raise self.logic.axes.enumerated(run)
        for known in range(self.logic.axes.bound * 4 + 1):
            if self.logic.facts.holds(count == known):
                return known
        raise Open("a list of unknown length")

    def _mapped(self, function: _Function, over: Lengths) -> Lengths:
        body = self.primitives[function.name].body

        def applied(each: Length) -> Any:
            arguments = (*function.given, each)
            return self.value(body, {f"_{i}": value for i, value in enumerate(arguments)})

        found = []
        for each in over:
            run = self.logic.axes.run(each)
            if run is None:
                found.append(applied(each))
            else:
                found.append(self._mapped_run(run, applied, f"{function.name}:{run.name}"))
        return found

    def _mapped_run(self, run: Run, applied: Callable[[Length], Any], name: str) -> Length:
        each = fresh("each")
        with self.logic.facts.scope(each >= 0):
            entry = applied(each)
            ones = entry == 1 if isinstance(entry, int) else self.logic.facts.holds(entry == 1)
        if ones:
            return self.logic.axes.ones(run)
        if self.logic.proving:
            raise self.logic.axes.enumerated(run)
        # Some lengths: the less is assumed of them, the more is shown.
        return self.logic.axes.made(name, run, lambda _: [])

    def _arithmetic(self, name: str, a: Any, b: Any) -> Any:
        known = isinstance(a, int) and isinstance(b, int)
        match name:
            case "+":
                return plus(a, b)
            case "-":
                return minus(a, b)
            case "*":
                return times(a, b)
            case "/" | "%":
                if not isinstance(b, int):
                    self._match(b != 0, "division by zero")
                elif b == 0:
                    raise NoMatch("division by zero")
                return _truncated(name, a, b)
            case "min" | "max":
                if known:
                    return min(a, b) if name == "min" else max(a, b)
                return z3.If(a <= b if name == "min" else a >= b, a, b)
            case "!=" if isinstance(a, list):
                if self.logic.axes.has_run([*a, *b]):
                    # Lists may differ in many ways: none is assumed.
                    return not alike(a, b)
                if len(a) != len(b):
                    return True
                return either(*(x != y for x, y in zip(a, b, strict=True)))
            case "!=":
                return a != b
            case _ if name in _COMPARISONS:
                return _COMPARISONS[name](a, b)
        raise Open(f"{name} is not known")


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _truncated(name: str, a: Length, b: Length) -> Length:
    """Division and remainder as egglog has them: towards zero."""
    if isinstance(a, int) and isinstance(b, int):
        quotient = abs(a) // abs(b) if (a < 0) == (b < 0) else -(abs(a) // abs(b))
        return quotient if name == "/" else a - b * quotient
    a = z3.IntVal(a) if isinstance(a, int) else a
    if name == "/":
        return z3.If(a >= 0, a / b, -((-a) / b))
    return z3.If(a >= 0, a % b, -((-a) % b))


def _over(e: Any, part: Any) -> bool:
    """Whether an expression speaks of a constant."""
    stack = [e]
    while stack:
        each = stack.pop()
        if each.eq(part):
            return True
        stack.extend(each.children())
    return False


def _outside(stretches: list[Stretch], leaf: Leaf, index: Index) -> Element:
    """An element of a leaf, zero where it is known to be."""
    if not stretches:
        return Read(leaf, list(index))
    s, *others = stretches
    i = index[s.axis]

    def rest() -> Element:
        return _outside(others, leaf, index)

    def zero() -> Element:
        return Constant(code("zero"), leaf.dtype)

    return choose(i < s.low, rest, lambda: Choice(i < s.high, zero, rest))


Denote = Callable[[Symbolic, Sequence[Denotation], Lengths], Denotation]


def batched(
    logic: Symbolic, denote: Any, operands: Sequence[Denotation], sizes: Lengths, batch: Length
) -> Denotation:
    """One call for each position on the first ``batch`` outer axes, which the operands share."""
    if isinstance(batch, int) and batch == 0:
        one: Denotation = denote(logic, operands, sizes)
        return one
    cuts = [logic.cut(batch, x.outer, "call: batch") for x in operands]
    shared = operands[0].outer[: cuts[0]]
    for x, cut in zip(operands, cuts, strict=True):
        logic.alike(shared, x.outer[:cut], "call: batch")

    def single(position: Index) -> Denotation:
        def fixed(x: Denotation, cut: int) -> Denotation:
            return x.moved(x.lengths[cut:], x.split - cut, lambda i: x.at([*position, *i]))

        parts = [fixed(x, cut) for x, cut in zip(operands, cuts, strict=True)]
        found: Denotation = denote(logic, parts, sizes)
        return found

    one = single([0] * len(shared))

    def at(i: Index) -> Element:
        with logic.checked():
            return single(i[: len(shared)]).at(i[len(shared) :])

    return Denotation(logic, shared + one.outer, one.item, one.dtype, at)


__all__ = ["AXIS", "Cut", "Evaluation", "Unbound"]
