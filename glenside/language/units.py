"""Accelerator units as the language sees them: what an invocation means and how it is simulated,
and what is said of the hardware behind it, which lives outside the language.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from glenside.errors import ShapeError
from glenside.language import builders, invocation
from glenside.language.interpreter import evaluate
from glenside.language.shape import AccessType, Shape
from glenside.language.term import Term, forget_calls, rebuild

if TYPE_CHECKING:
    from glenside.language.denotation import Denotation, Lengths, Logic

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Unit:
    """One kind of accelerator.

    ``meaning(parameters, operands)`` is the access-pattern term an invocation computes; it fixes
    the shape rule and the exact semantics. ``simulate(parameters, arrays)`` computes the same on
    operands of the unit's own size (a bit-accurate simulator may differ within the unit's
    precision); without one the meaning is interpreted. A unit that multiplies matrices has
    ``array(parameters) -> (rows, columns)``, the size of one weight tile, and can then stand in a
    ``blocked`` product of any size. A unit that works by such products says its invocation in
    terms of them: ``in_products(parameters, operands)``. ``meaning_of_batch`` is the term for
    operands that share one axis in front, where a batch has one. ``denote(logic, operands,
    parameters)`` is the meaning for sizes that are symbols, without which no rule that makes calls
    can be proved.

    Of the hardware: ``target`` is the name of the target that has it, with its options where these
    decide. ``cycles(op, parameters, batch, operands)`` are those of one ``call`` or ``blocked``
    product, None where nothing says them, ``area(parameters)`` its multipliers. ``rule`` makes the
    rewrite that finds it, ``declaration`` is what all this follows from, if anything.
    """

    name: str
    meaning: Callable[[Shape, tuple[Term, ...]], Term]
    simulate: Callable[[Shape, list[Array]], Array] | None = None
    array: Callable[[Shape], tuple[int, int]] | None = None
    in_products: Callable[[Shape, tuple[Term, ...]], Term] | None = None
    meaning_of_batch: Callable[[Shape, tuple[Term, ...]], Term] | None = None
    denote: Callable[[Logic, Sequence[Denotation], Lengths], Denotation] | None = None
    target: str = ""
    cycles: Callable[[str, Shape, int, Sequence[AccessType]], float | None] | None = None
    area: Callable[[Shape], float | None] | None = None
    rule: Callable[[], object] | None = None
    declaration: object = None

    @staticmethod
    def _applied(
        what: Callable[[Shape, tuple[Term, ...]], Term],
        parameters: Shape,
        operands: Sequence[AccessType],
    ) -> Term:
        leaves = tuple(builders.leaf(f"operand{i}", of) for i, of in enumerate(operands))
        return what(parameters, leaves)

    def infer(self, parameters: Shape, operands: Sequence[AccessType]) -> AccessType:
        """Type of one invocation."""
        return self._applied(self.meaning, parameters, operands).type

    def run(self, parameters: Shape, operands: Sequence[AccessType], arrays: list[Array]) -> Array:
        """Value of one invocation."""
        return self.runner(parameters, operands)(arrays)

    def runner(
        self, parameters: Shape, operands: Sequence[AccessType]
    ) -> Callable[[list[Array]], Array]:
        """What computes invocations on operands of these types."""
        simulate = self.simulate
        if simulate is not None:
            return lambda arrays: simulate(parameters, arrays)
        term = self._applied(self.in_products or self.meaning, parameters, operands)
        return lambda arrays: evaluate(
            [term], {f"operand{i}": array for i, array in enumerate(arrays)}
        )[0]


def meaning(term: Term, children: Sequence[Term]) -> Term:
    """``term`` over ``children``, accelerator calls replaced by the term that they compute.

    :raises ShapeError: it is a batch of calls, which have no term together.
    """
    if term.op == "call":
        unit = find_unit(term["unit"])
        if term["batch"] == 1 and unit.meaning_of_batch is not None:
            return unit.meaning_of_batch(term["parameters"], tuple(children))
        if term["batch"]:
            raise ShapeError(
                f"a batch of {term['unit']} calls has no meaning as one term: take the program "
                "before its tiles are expanded"
            )
        return unit.meaning(term["parameters"], tuple(children))
    if term.op == "blocked":
        a, b = children
        return builders.compute("dot", builders.cart_prod(a, b, term["batch"]), term["accumulate"])
    return rebuild(term, children)


def register_unit(unit: Unit) -> Unit:
    """Makes ``unit`` known under its name; registering a name anew replaces the unit.

    Terms that exist keep the type that they have.
    """
    forget_calls(unit.name)
    invocation.put(unit)
    return unit


def is_unit(name: str) -> bool:
    """Whether a unit of that name is known."""
    return invocation.look_up(name) is not None


def known_unit(name: str) -> Unit | None:
    """The unit of that name, if there is one."""
    return cast("Unit | None", invocation.look_up(name))


def find_unit(name: str) -> Unit:
    """The unit of that name; raises :class:`ShapeError` naming those that exist."""
    return cast(Unit, invocation.find(name))


def known_units() -> tuple[Unit, ...]:
    """All units that are known."""
    return cast("tuple[Unit, ...]", invocation.listed())
