"""Accelerator units as the language sees them: what an invocation means and how it is simulated.

Hardware lives outside the language (``glenside.hw_targets``); here is only the registry through
which a ``call`` finds its meaning. A unit is registered once, when the module that declares it is
imported.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import ShapeError
from glenside.language.shape import AccessType, Shape

if TYPE_CHECKING:
    from glenside.language.denotation import Denotation, Lengths, Logic
    from glenside.language.term import Term

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
    """

    name: str
    meaning: Callable[[Shape, tuple[Term, ...]], Term]
    simulate: Callable[[Shape, list[Array]], Array] | None = None
    array: Callable[[Shape], tuple[int, int]] | None = None
    in_products: Callable[[Shape, tuple[Term, ...]], Term] | None = None
    meaning_of_batch: Callable[[Shape, tuple[Term, ...]], Term] | None = None
    denote: Callable[[Logic, Sequence[Denotation], Lengths], Denotation] | None = None

    @staticmethod
    def _applied(
        what: Callable[[Shape, tuple[Term, ...]], Term],
        parameters: Shape,
        operands: Sequence[AccessType],
    ) -> Term:
        # Terms are declared on top of this module, so they are not known when it is imported.
        from glenside.language import builders

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
        from glenside.language.interpreter import evaluate

        term = self._applied(self.in_products or self.meaning, parameters, operands)
        return lambda arrays: evaluate(
            [term], {f"operand{i}": array for i, array in enumerate(arrays)}
        )[0]


def infer_batch(
    unit: Unit, parameters: Shape, operands: Sequence[AccessType], batch: int
) -> AccessType:
    """Type of one invocation for each position on the first ``batch`` outer axes, which are shared.

    :raises ShapeError: the operands do not share them, or the unit does not take the rest.
    """
    if not batch:
        return unit.infer(parameters, operands)
    shared = {each.outer[:batch] for each in operands}
    if batch < 0 or len(shared) != 1 or len(next(iter(shared))) != batch:
        shown = ", ".join(map(str, operands))
        raise ShapeError(f"call {unit.name}: {shown} do not share their first {batch} outer axes")
    result = unit.infer(parameters, [without_batch(each, batch) for each in operands])
    return AccessType(shared.pop() + result.outer, result.item, result.dtype)


def run_batch(
    unit: Unit, parameters: Shape, operands: Sequence[AccessType], arrays: list[Array], batch: int
) -> Array:
    """Value of such invocations, one after the other: the unit sees operands of one only."""
    if not batch:
        return unit.run(parameters, operands, arrays)
    each = [without_batch(of, batch) for of in operands]
    result = infer_batch(unit, parameters, operands, batch)
    values = np.empty(result.shape, result.dtype)
    invoke = unit.runner(parameters, each)
    for position in np.ndindex(*result.outer[:batch]):
        values[position] = invoke([np.asarray(array[position], order="C") for array in arrays])
    return values


def without_batch(access: AccessType, batch: int) -> AccessType:
    """What one invocation of a batch sees of an operand."""
    return AccessType(access.outer[batch:], access.item, access.dtype)


def meaning(term: Term, children: Sequence[Term]) -> Term:
    """``term`` over ``children``, accelerator calls replaced by the term that they compute.

    :raises ShapeError: it is a batch of calls, which have no term together.
    """
    from glenside.language import builders
    from glenside.language.term import rebuild

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


_UNITS: dict[str, Unit] = {}


def register_unit(unit: Unit) -> Unit:
    """Makes ``unit`` known under its name; registering a name anew replaces the unit.

    Terms that exist keep the type that they have.
    """
    from glenside.language.term import forget_calls

    forget_calls(unit.name)
    _UNITS[unit.name] = unit
    return unit


def is_unit(name: str) -> bool:
    """Whether a unit of that name is registered."""
    return name in _UNITS


def find_unit(name: str) -> Unit:
    """The unit of that name; raises :class:`ShapeError` naming those that exist."""
    if name not in _UNITS:
        known = ", ".join(sorted(_UNITS)) or "none"
        raise ShapeError(f"no accelerator unit is called {name!r} (registered: {known})")
    return _UNITS[name]


def run_blocked(
    unit: Unit, parameters: Shape, a: Array, b: Array, batch: int, accumulate: str
) -> Array:
    """A matrix product of any size in passes over one array of the unit.

    ``a`` is ``(batch axes, M axes, K)``, ``b`` is ``(batch axes, N axes, K)``; the result is
    ``(batch axes, M axes, N axes)`` in ``accumulate``. Each pass multiplies a stream of ``M`` rows
    with one weight tile of ``rows x columns``; edge tiles are padded with zeros to that size, so
    the simulator never sees another one.
    """
    assert unit.array is not None
    rows, columns = unit.array(parameters)
    shared, depth = a.shape[:batch], a.shape[-1]
    a_outer, b_outer = a.shape[batch:-1], b.shape[batch:-1]
    groups, m, n = math.prod(shared), math.prod(a_outer), math.prod(b_outer)
    stream = _to_multiple(a.reshape(groups, m, depth).astype(accumulate, copy=False), 2, rows)
    weights = b.reshape(groups, n, depth).swapaxes(1, 2).astype(accumulate, copy=False)
    weights = _to_multiple(_to_multiple(weights, 1, rows), 2, columns)
    result = np.zeros((groups, m, weights.shape[2]), accumulate)
    if m:
        for group, low in itertools.product(range(groups), range(0, stream.shape[2], rows)):
            part = np.ascontiguousarray(stream[group, :, low : low + rows])
            for left in range(0, weights.shape[2], columns):
                tile = weights[group, low : low + rows, left : left + columns]
                done = unit.simulate(parameters, [part, tile]) if unit.simulate else part @ tile
                result[group, :, left : left + columns] += done
    return np.ascontiguousarray(result[:, :, :n]).reshape(shared + a_outer + b_outer)


def _to_multiple(array: Array, axis: int, multiple: int) -> Array:
    missing = -array.shape[axis] % multiple
    if not missing:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, missing)
    return np.pad(array, widths)
