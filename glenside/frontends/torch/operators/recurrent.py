"""Recurrent layers, unrolled over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glenside.frontends.lowering.phrases import (
    add,
    dot,
    elementwise,
    like,
    mul,
    sub,
    transpose,
)
from glenside.frontends.refusal import Refused
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders
from glenside.language.builders import access

LONGEST = 512
"""Steps that are unrolled."""

State = tuple[Term, ...]


@dataclass(frozen=True)
class _Weights:
    """What one direction of a layer works with: gates * H rows each."""

    inputs: Term
    recurrence: Term
    input_bias: Term | None = None
    recurrence_bias: Term | None = None
    projection: Term | None = None
    """(P, H): what becomes of the hidden state, where it is not passed on as it is."""

    def columns(self, x: Term, gate: int, gates: int) -> Term:
        """The columns of one gate."""
        size = x.shape[-1] // gates
        return builders.slice_(x, x.type.rank - 1, gate * size, (gate + 1) * size)


Step = Callable[[_Weights, Term, State], State]
"""From the projected input of a step and the state before to that behind it."""


def _recur(weights: _Weights, h: Term) -> Term:
    return dot(access(h, 1), access(weights.recurrence, 1))


def _plain(function: str) -> Step:
    def step(weights: _Weights, x: Term, state: State) -> State:
        total = add(x, _recur(weights, state[0]))
        if weights.recurrence_bias is not None:
            total = add(total, weights.recurrence_bias)
        return (elementwise(function, total),)

    return step


def _gru(weights: _Weights, x: Term, state: State) -> State:
    (h,) = state
    past = _recur(weights, h)
    if weights.recurrence_bias is not None:
        past = add(past, weights.recurrence_bias)
    new, old = ([weights.columns(each, gate, 3) for gate in range(3)] for each in (x, past))
    reset = elementwise("sigmoid", add(new[0], old[0]))
    update = elementwise("sigmoid", add(new[1], old[1]))
    fresh = elementwise("tanh", add(new[2], mul(reset, old[2])))
    return (add(mul(sub(like(update, 1), update), fresh), mul(update, h)),)


def _lstm(weights: _Weights, x: Term, state: State) -> State:
    h, c = state
    gates = add(x, _recur(weights, h))
    if weights.recurrence_bias is not None:
        gates = add(gates, weights.recurrence_bias)
    i, forget, fresh, o = (weights.columns(gates, gate, 4) for gate in range(4))
    i, forget, o = (elementwise("sigmoid", each) for each in (i, forget, o))
    c = add(mul(forget, c), mul(i, elementwise("tanh", fresh)))
    h = mul(o, elementwise("tanh", c))
    if weights.projection is not None:
        h = dot(access(h, 1), access(weights.projection, 1))
    return h, c


def _at(x: Term, position: int) -> Term:
    return builders.squeeze(builders.slice_(x, 0, position, position + 1), 0)


def _direction(
    weights: _Weights, x: Term, state: State, step: Step, backwards: bool
) -> tuple[Term, State]:
    """All hidden states (T, N, H) and the last state."""
    projected = dot(access(x, 2), access(weights.inputs, 1))
    if weights.input_bias is not None:
        projected = add(projected, weights.input_bias)
    every: list[Term] = []
    for t in range(x.shape[0])[:: -1 if backwards else 1]:
        state = step(weights, _at(projected, t), state)
        every.append(builders.unsqueeze(state[0], 0))
    if backwards:
        every.reverse()
    return builders.concat(0, *every), state


def _recurrent(step: Step, states: int) -> Callable[..., tuple[Term, ...]]:
    def apply(
        node: Node,
        input: Term,
        hx: tuple[Term, ...] | Term,
        params: tuple[Term, ...],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Term, ...]:
        """All hidden states of the last layer, and the last states of all."""
        if train and dropout:
            raise Refused("drops elements at random, as in training: call .eval() on the module")
        x = transpose(input, (1, 0, 2)) if batch_first else input
        if not 1 <= x.shape[0] <= LONGEST:
            raise Refused(f"{x.shape[0]} steps are not supported; 1 to {LONGEST} are unrolled")
        initial = (hx,) if isinstance(hx, Term) else hx
        directions = 2 if bidirectional else 1
        each = len(params) // (num_layers * directions)
        finals: list[State] = []
        for layer in range(num_layers):
            outputs = []
            for d in range(directions):
                number = layer * directions + d
                weights = _weights(params[number * each : (number + 1) * each], has_biases)
                start = tuple(_at(state, number) for state in initial)
                every, final = _direction(weights, x, start, step, d == 1)
                outputs.append(every)
                finals.append(final)
            x = builders.concat(2, *outputs)
        ends = (
            builders.concat(0, *(builders.unsqueeze(final[k], 0) for final in finals))
            for k in range(states)
        )
        return (transpose(x, (1, 0, 2)) if batch_first else x, *ends)

    return apply


def _weights(given: tuple[Term, ...], has_biases: bool) -> _Weights:
    biases, rest = (given[2:4], given[4:]) if has_biases else ((None, None), given[2:])
    return _Weights(*given[:2], *biases, *rest)


for _name, _step, _states in (
    ("lstm", _lstm, 2), ("gru", _gru, 1), ("rnn_tanh", _plain("tanh"), 1),
    ("rnn_relu", _plain("relu"), 1),
):  # fmt: skip
    operator(_name)(_recurrent(_step, _states))
