"""What exponentials are known to do: products of them, and the softmax that is made of them."""

from __future__ import annotations

import functools

import z3

from glenside.language.denotation import Apply, Element, Length, Softmax, reduced
from glenside.language.shape import HALVES
from glenside.rewrites.soundness.proofs.facts import Facts, Open, code

_EXP = ("exp",)


def gathered(facts: Facts, factors: list[Element]) -> list[Element]:
    """Factors with at most one exponential: ``exp(x) exp(y) = exp(x + y)`` of real numbers."""
    powers = [e for e in factors if isinstance(e, Apply) and e.function == _EXP]
    if len(powers) < 2:
        return factors
    facts.steps.add("adds exponents")
    exponents = [e.operands[0] for e in powers]
    total = functools.reduce(lambda x, y: Apply(("add",), [x, y]), exponents)
    return [*(e for e in factors if e not in powers), Apply(_EXP, [total])]


def spelled(facts: Facts, e: Softmax) -> Element:
    """A softmax as it is defined: powers over their sum, the greatest of 1.

    That of halves is computed in float32 and rounded once, as its NumPy meaning is.
    """
    wide = code("float32")
    half = z3.Or(*[e.dtype == code(each) for each in HALVES])
    if not facts.holds(half) and not facts.holds(z3.Not(half)):
        raise Open("a softmax of an unknown dtype")
    rounded = facts.holds(half)
    dtype = wide if rounded else e.dtype

    def value(j: Length) -> Element:
        return Apply(("cast", wide, e.dtype), [e.body(j)]) if rounded else e.body(j)

    def power(j: Length) -> Element:
        return Apply(_EXP, [Apply(("sub",), [value(j), top])])

    top = reduced("max", dtype, [e.length], lambda i: value(i[0]))
    total = reduced("add", dtype, [e.length], lambda i: power(i[0]))
    found: Element = Apply(("div", dtype), [power(e.at), total])
    return Apply(("cast", e.dtype, wide), [found]) if rounded else found
