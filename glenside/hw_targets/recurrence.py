"""Units that compute a whole recurrent layer: any number of steps in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glenside.errors import ShapeError
from glenside.hw_targets.operation import cycles_of_calls
from glenside.hw_targets.registry import REGISTRY
from glenside.language import builders
from glenside.language.shape import FLOATS, AccessType, Shape
from glenside.language.term import Term
from glenside.language.units import Unit

if TYPE_CHECKING:
    from glenside.rewrites.ruleset import Rule

Array = np.ndarray[Any, Any]

GATES = 4
"""Input, forget, cell and output gate: i, f, g, o, in this order in weights and bias."""


@dataclass(frozen=True, eq=False)
class LSTM:
    """An LSTM layer (Hochreiter and Schmidhuber 1997; Gers et al. 2000) as one call.

    Operands: x ((T N K) ()), T steps of a batch of N; the states h and c ((N H) ()) to start from;
    the weights of input and state, ((4 H K) ()) and ((4 H H) ()), and the bias ((4 H) ()), with
    gates in the order i, f, g, o. Result: ((2 T N H) ()), the hidden and the cell state after each
    step. T is any number; the term of a call is its steps one after the other.

    :param name: of the unit; calls in programs carry it.
    :param target: name of the target that has it.
    :param simulate: ``simulate(x, h, c, w, r, b)`` computes a call as the hardware does, to the
        bit. Without it the term itself is computed.
    :param numerics: the simulator's number format.
    :param cycles: of one call, from T, N, K and H.
    :param area: as of :class:`~glenside.hw_targets.accelerator.Accelerator`.
    :param summary: what ``glenside targets`` says of the target.
    :param known: as of :class:`~glenside.hw_targets.accelerator.Accelerator`.
    """

    name: str
    _: KW_ONLY
    target: str
    simulate: Callable[..., Array] | None = None
    numerics: str = ""
    cycles: Callable[[int, int, int, int], float] | None = None
    area: float | None = None
    summary: str = ""
    known: InitVar[bool] = True

    joins: ClassVar[bool] = True
    unit: Unit = field(init=False, repr=False)
    functions: ClassVar[frozenset[str]] = frozenset({"dot", "add", "mul", "sigmoid", "tanh"})
    """What it computes."""
    operands: ClassVar[Mapping[str, str]] = {
        "x": "((T N K) ())",
        "h": "((N H) ())",
        "c": "((N H) ())",
        "w": "((4 H K) ())",
        "r": "((4 H H) ())",
        "b": "((4 H) ())",
    }

    def __post_init__(self, known: bool) -> None:
        simulate = self.simulate
        unit = Unit(
            self.name,
            self.term,
            simulate and (lambda _, arrays: np.asarray(simulate(*arrays), arrays[0].dtype)),
            target=self.target,
            cycles=cycles_of_calls(self),
            area=lambda parameters: self.area,
            rule=self.rule,
            declaration=self,
        )
        object.__setattr__(self, "unit", unit)
        if known:
            REGISTRY.add(self)

    def term(self, parameters: Shape, operands: Sequence[Term]) -> Term:
        """What one call computes; raises :class:`ShapeError`."""
        sizes = self.sizes(parameters, [each.type for each in operands])
        x, h, c, w, r, b = operands
        steps, depth, size = sizes["T"], sizes["K"], sizes["H"]
        weights = builders.access(builders.reshape(w, (GATES * size, depth)), 1)
        recurrence = builders.access(builders.reshape(r, (GATES * size, size)), 1)
        bias = builders.reshape(b, (GATES * size,))
        states = []
        for t in range(steps):
            now = builders.access(builders.squeeze(builders.slice_(x, 0, t, t + 1), 0), 1)
            total = builders.elementwise(
                "add",
                builders.compute("dot", builders.cart_prod(now, weights)),
                builders.compute("dot", builders.cart_prod(builders.access(h, 1), recurrence)),
                bias,
            )
            i, f, g, o = (
                builders.elementwise(
                    "tanh" if k == 2 else "sigmoid",
                    builders.slice_(total, 1, k * size, (k + 1) * size),
                )
                for k in range(GATES)
            )
            c = builders.elementwise(
                "add", builders.elementwise("mul", f, c), builders.elementwise("mul", i, g)
            )
            h = builders.elementwise("mul", o, builders.elementwise("tanh", c))
            states.append((h, c))
        stacks = (
            builders.concat(0, *(builders.unsqueeze(each[k], 0) for each in states)) for k in (0, 1)
        )
        return builders.concat(0, *(builders.unsqueeze(stack, 0) for stack in stacks))

    def sizes(self, parameters: Shape, operands: Sequence[AccessType]) -> dict[str, int]:
        """T, N, K and H of one call.

        :raises ShapeError: operands or parameters do not fit.
        """
        ranks = [len(each.shape) for each in operands]
        if not parameters and ranks == [3, 2, 2, 3, 3, 2]:
            (t, n, k), h = operands[0].shape, operands[1].shape[1]
            shapes = [(t, n, k), (n, h), (n, h), (GATES, h, k), (GATES, h, h), (GATES, h)]
            dtype = operands[0].dtype
            wanted = [AccessType(shape, (), dtype) for shape in shapes]
            if list(operands) == wanted and dtype in FLOATS and t > 0:
                return {"T": t, "N": n, "K": k, "H": h}
        takes = ", ".join(f"{name} {shape}" for name, shape in self.operands.items())
        got = ", ".join(map(str, operands)) + f" and {parameters}" * bool(parameters)
        raise ShapeError(
            f"{self.name} takes {takes}, floats of one dtype and at least one step; got {got}"
        )

    def cycles_of(self, parameters: Shape, operands: Sequence[AccessType]) -> float | None:
        """Cycles of one call; None where the declaration does not say."""
        sizes = self.sizes(parameters, operands)
        return self.cycles and float(self.cycles(*sizes.values()))

    def description(self) -> list[str]:
        """The declaration in lines of text, for headers."""
        lines = [
            f"{self.name}: T steps of an LSTM, gates in the order i, f, g, o, from the states h "
            "and c; result ((2 T N H) ()): the hidden and the cell state after each"
        ]
        lines += [f"{name}: {shape}" for name, shape in self.operands.items()]
        return lines + [f"numbers: {self.numerics}"] * bool(self.numerics)

    def rule(self) -> Rule:
        """The rewrite from unrolled steps to a call."""
        from glenside.rewrites.rules.recurrence import lstm

        return lstm(self.name)


def lstm_steps(
    x: Array,
    h: Array,
    c: Array,
    w: Array,
    r: Array,
    b: Array,
    *,
    keep: Callable[[Array], Array] = lambda state: state,
) -> Array:
    """The states after each step, (2, T, N, H).

    :param keep: what the unit holds of a hidden state between two steps.
    """
    states = []
    flat, recurrent, bias = (each.reshape(-1, *each.shape[2:]) for each in (w, r, b))
    for step in x:
        total = step @ flat.T + h @ recurrent.T + bias
        i, f, g, o = np.split(total, GATES, axis=1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = keep(_sigmoid(o) * np.tanh(c))
        states.append((h, c))
    return np.array(states).swapaxes(0, 1)


def _sigmoid(x: Array) -> Array:
    # By tanh, which does not overflow.
    return (1 + np.tanh(x / 2)) / 2
