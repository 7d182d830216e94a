"""Why steps of an LSTM did not become a call: what they lack of the form that its rule finds.

The unit has no template (``rewrites/rules/recurrence.py`` finds it by what gates do), so the
e-graph is searched for the same steps with fewer conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from glenside.language.shape import FLOATS
from glenside.rewrites import FrozenEGraph

_ON_THE_WAY = frozenset({"access", "cast", "pair", "slice", "squeeze"})
"""What may stand between a gate and the products that it adds up."""

LAYER = "a linear layer [x h] Wᵀ + b, or a slice of one"


@dataclass(frozen=True)
class Step:
    """E-classes of ``cell = sigmoid(f) c + sigmoid(i) tanh(g)``, and of ``hidden = sigmoid(o)
    tanh(cell)`` where there is one."""

    cell: int
    i: int
    f: int
    g: int
    c: int
    o: int | None = None
    hidden: int | None = None


class Cells:
    """The steps in one e-graph."""

    def __init__(self, egraph: FrozenEGraph) -> None:
        self._egraph = egraph
        self._gated: dict[int, list[tuple[int, int]]] = {}
        """For products with a sigmoid: its operand, and what it lets through."""
        for number in range(len(egraph.classes)):
            for a, b in self._folded(number, "mul"):
                for gate, other in ((a, b), (b, a)):
                    for below in self._mapped(gate, "sigmoid"):
                        self._gated.setdefault(number, []).append((below, other))
        self._of: dict[int, Step] = {}
        steps = [step for number in range(len(egraph.classes)) for step in self._steps(number)]
        hidden = {
            cell: (o, number)
            for number, products in self._gated.items()
            for o, other in products
            for cell in self._mapped(other, "tanh")
        }
        for step in steps:
            o, last = hidden.get(step.cell, (None, None))
            whole = Step(step.cell, step.i, step.f, step.g, step.c, o, last)
            self._of.setdefault(step.cell if last is None else last, whole)

    def reason(self, number: int) -> str | None:
        """What the step that ends in a class lacks; None where no step ends there."""
        step = self._of.get(number)
        if step is None:
            return None
        if step.o is None:
            return "no hidden state sigmoid(o) tanh(c') follows the cell state"
        state = self._egraph.types[step.c]
        if len(state.shape) != 2:
            return f"the cell state must have two axes ((N H)), it is {state}"
        if state.dtype not in FLOATS:
            return f"dtype {state.dtype} is not among {', '.join(FLOATS)}"
        gates = {"i": step.i, "f": step.f, "g": step.g, "o": step.o}
        others = [name for name, gate in gates.items() if not self._is_layer(gate)]
        if others:
            formed = self._accumulated(gates[others[0]]) - {None, state.dtype}
            if formed:
                wider = ", ".join(sorted(map(str, formed)))
                return f"sums are formed in {state.dtype}, not in {wider}"
            named = f"gate {others[0]}" if len(others) == 1 else f"gates {', '.join(others)}"
            return f"{named}: each must be {LAYER}, of an input and the hidden state before"
        return "the gates are not layers of the same input and hidden state, with weights (H K)"

    # --- the e-graph ------------------------------------------------------------------------------

    def _computed(self, number: int, function: str) -> Iterator[int]:
        for node in self._egraph.classes[number]:
            if node.op == "compute" and node.values[0] == function:
                yield node.children[0]

    def _mapped(self, number: int, function: str) -> Iterator[int]:
        """Operands of a function of single numbers, if a class computes it."""
        for below in self._same_values(number):
            yield from self._computed(below, function)

    def _folded(self, number: int, function: str) -> Iterator[tuple[int, int]]:
        """Pairs of operands of a function of two numbers, if a class computes it."""
        for operand in self._computed(number, function):
            for node in self._egraph.classes[operand]:
                if node.op == "pair":
                    yield node.children[0], node.children[1]

    def _same_values(self, number: int) -> Iterator[int]:
        """A class, and those of which it is another access."""
        seen, queue = {number}, [number]
        for each in queue:
            yield each
            for node in self._egraph.classes[each]:
                if node.op == "access" and node.children[0] not in seen:
                    seen.add(node.children[0])
                    queue.append(node.children[0])

    def _steps(self, number: int) -> Iterator[Step]:
        for a, b in self._folded(number, "add"):
            for kept, fresh in ((a, b), (b, a)):
                for i, new in self._products(fresh):
                    for g in self._mapped(new, "tanh"):
                        for f, c in self._products(kept):
                            yield Step(number, i, f, g, c)

    def _products(self, number: int) -> Iterator[tuple[int, int]]:
        for each in self._same_values(number):
            yield from self._gated.get(each, ())

    def _is_layer(self, gate: int) -> bool:
        """Whether a gate is a product of joined inputs, with a bias or without, or cut from one."""
        seen, queue = {gate}, [gate]
        for number in queue:
            if any(map(self._is_product, self._layers(number))):
                return True
            for node in self._egraph.classes[number]:
                if node.op in ("access", "slice") and node.children[0] not in seen:
                    seen.add(node.children[0])
                    queue.append(node.children[0])
        return False

    def _accumulated(self, gate: int) -> set[str | None]:
        """What the sums of the products that a gate adds up are formed in, where they say it."""
        found: set[str | None] = set()
        seen, queue = {gate}, [gate]
        for number in queue:
            for node in self._egraph.classes[number]:
                summed = node.op == "compute" and node.values[0] == "add"
                if node.op == "compute" and node.values[0] == "dot":
                    found.add(node.values[1])
                elif summed or node.op in _ON_THE_WAY:
                    queue += [each for each in node.children if each not in seen]
                    seen.update(node.children)
        return found

    def _layers(self, number: int) -> Iterator[int]:
        yield number
        for a, b in self._folded(number, "add"):
            yield from self._same_values(a)
            yield from self._same_values(b)

    def _is_product(self, number: int) -> bool:
        return any(
            inputs.op == "concat"
            for operand in self._computed(number, "dot")
            for product in self._egraph.classes[operand]
            if product.op == "cart_prod"
            for inputs in self._egraph.classes[product.children[0]]
        )
