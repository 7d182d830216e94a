"""Polynomials over a solver's integers, and rewriting modulo equations between them.

A solver knows little of products of variables, which is what reshapes are made of. So equations are
tried as identities of polynomials first: both sides in normal form, and reduced by the equations
that are known, which is what a Gröbner basis does (Buchberger 1965); this one is cut off early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import z3

from glenside.language.denotation import Length, plus, product, times

Monomial = tuple[int, ...]
"""Numbers of atoms, sorted."""
Polynomial = dict[Monomial, int]
"""The coefficient of each monomial."""

_MOST_EQUATIONS = 200
_MOST_OVERLAPS = 40
_LONGEST_OVERLAP = 9
_MOST_STEPS = 300

_atoms: dict[int, Any] = {}
# Expressions are kept with what was found of them, so that their numbers stay theirs.
_known: dict[int, tuple[Any, Polynomial]] = {}


def number(value: Length) -> Length:
    """``value`` as an int where it is one."""
    if isinstance(value, int):
        return value
    return value.as_long() if z3.is_int_value(value) else value


def polynomial(e: Length) -> Polynomial:
    """The polynomial that an expression is over what is neither sum nor product in it."""
    if isinstance(e, int):
        return {(): e} if e else {}
    key = e.get_id()
    if key not in _known:
        _known[key] = e, _polynomial(e, key)
    return _known[key][1]


def _polynomial(e: Any, key: int) -> Polynomial:
    if z3.is_int_value(e):
        return polynomial(e.as_long())
    if z3.is_add(e):
        total: Polynomial = {}
        for child in e.children():
            total = added(total, polynomial(child))
        return total
    if z3.is_sub(e):
        first, *others = e.children()
        total = polynomial(first)
        for child in others:
            total = added(total, polynomial(child), -1)
        return total
    if z3.is_mul(e):
        total = {(): 1}
        for child in e.children():
            total = multiplied(total, polynomial(child))
        return total
    if e.decl().kind() == z3.Z3_OP_UMINUS:
        return added({}, polynomial(e.children()[0]), -1)
    _atoms[key] = e
    return {(key,): 1}


def added(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    """``a + factor * b``."""
    result = dict(a)
    for monomial, coefficient in b.items():
        total = result.get(monomial, 0) + factor * coefficient
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def multiplied(a: Polynomial, b: Polynomial) -> Polynomial:
    """Their product."""
    result: Polynomial = {}
    for one, c in a.items():
        for other, d in b.items():
            monomial = tuple(sorted(one + other))
            total = result.get(monomial, 0) + c * d
            if total:
                result[monomial] = total
            else:
                result.pop(monomial, None)
    return result


def difference(a: Length, b: Length) -> Polynomial:
    """``a - b``."""
    return added(polynomial(a), polynomial(b), -1)


def expression(p: Polynomial) -> Length:
    """The expression of a polynomial."""
    total: Length = 0
    for monomial, coefficient in p.items():
        total = plus(total, times(coefficient, product([_atoms[each] for each in monomial])))
    return number(total)


def normal(e: Length) -> Length:
    """The normal form: equal polynomials give one and the same expression."""
    return e if isinstance(e, int) else expression(dict(sorted(polynomial(e).items())))


def same(a: Length, b: Length) -> bool:
    """Whether two integers are one and the same expression."""
    a, b = number(a), number(b)
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return bool(a.eq(b))


def alike(a: Iterable[Length], b: Iterable[Length]) -> bool:
    """Whether two lists are, entry by entry."""
    a, b = list(a), list(b)
    return len(a) == len(b) and all(map(same, a, b))


def multiple(a: Length, b: Length) -> int | None:
    """The integer k with ``a = k b`` as polynomials, or None."""
    p, q = polynomial(a), polynomial(b)
    if not p:
        return 0
    some = next(iter(q))
    if some not in p or p[some] % q[some]:
        return None
    factor = p[some] // q[some]
    return None if added(p, q, -factor) else factor


def variables(e: Length) -> set[int]:
    """The numbers of all constants of the solver in an expression."""
    if isinstance(e, int):
        return set()
    found, stack, seen = set(), [e], set()
    while stack:
        each = stack.pop()
        if each.get_id() in seen:
            continue
        seen.add(each.get_id())
        if z3.is_const(each) and not z3.is_int_value(each):
            found.add(each.get_id())
        stack.extend(each.children())
    return found


def solved(p: Polynomial, variable: Any) -> tuple[int, Polynomial] | None:
    """``(c, rest)`` where ``p = c variable + rest`` and the rest does not have it; or None."""
    key = variable.get_id()
    rest = {monomial: c for monomial, c in p.items() if monomial != (key,)}
    if len(rest) == len(p) or any(key in variables(_atoms[a]) for m in rest for a in m):
        return None
    return p[(key,)], rest


class Rewriter:
    """Equations ``p = 0`` as rewrites of their leading monomials, where that is by a unit.

    Monomials are ordered by degree, then by age.
    """

    def __init__(self, equations: Iterable[Polynomial]) -> None:
        self.rules: list[tuple[Monomial, Polynomial]] = []
        todo = list(equations)
        for _ in range(_MOST_EQUATIONS):
            if not todo:
                break
            p = self.reduce(todo.pop())
            lead = max(p, key=lambda m: (len(m), m), default=())
            if not lead or abs(p[lead]) != 1:
                continue
            rest = {m: -c * p[lead] for m, c in p.items() if m != lead}
            kept = []
            for rule in self.rules:
                if _quotient(lead, rule[0]) is None:
                    kept.append(rule)
                else:  # What the new rule reduces is looked at again.
                    todo.append(added({rule[0]: 1}, rule[1], -1))
            self.rules = kept
            if len(kept) < _MOST_OVERLAPS:
                todo += filter(None, (_overlap(rule, (lead, rest)) for rule in kept))
            self.rules.append((lead, rest))

    def beside(self, p: Polynomial) -> list[int]:
        """Atoms that leading monomials have beside one of ``p``."""
        own = {atom for monomial in p for atom in monomial}
        leads = [lead for lead, _ in self.rules if len(lead) > 1 and own & set(lead)]
        return sorted({atom for lead in leads for atom in lead})

    def reduce(self, p: Polynomial) -> Polynomial:
        """The normal form modulo the equations, as far as a bounded number of steps goes."""
        for _ in range(_MOST_STEPS):
            for monomial in p:
                hit = next(
                    (
                        (rest, left)
                        for lead, rest in self.rules
                        if lead[0] in monomial and (left := _quotient(lead, monomial)) is not None
                    ),
                    None,
                )
                if hit is not None:
                    break
            else:
                return p
            rest, left = hit
            c = p[monomial]
            p = added(added(p, {monomial: -c}), multiplied({left: c}, rest))
        return p


def _quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """``n / m``, or None."""
    if len(m) > len(n):
        return None
    left = list(n)
    for atom in m:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _overlap(
    one: tuple[Monomial, Polynomial], other: tuple[Monomial, Polynomial]
) -> Polynomial | None:
    """What two rules make of the least common multiple of their leads is equal."""
    (m, to_m), (n, to_n) = one, other
    if not set(m) & set(n) or len(m) + len(n) > _LONGEST_OVERLAP:
        return None
    common = tuple(sorted((Counter(m) | Counter(n)).elements()))
    left, right = _quotient(m, common), _quotient(n, common)
    assert left is not None and right is not None
    return added(multiplied({left: 1}, to_m), multiplied({right: 1}, to_n), -1)


def atom(key: int) -> Any:
    """The expression of an atom."""
    return _atoms[key]
