"""Recurrent layers, unrolled over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glenside.frontends.lowering.phrases import (
    add,
    div,
    dot,
    elementwise,
    like,
    maximum,
    minimum,
    mul,
    select,
    sub,
    transpose,
)
from glenside.frontends.onnx.activations import hard_sigmoid, softplus
from glenside.frontends.onnx.node import Node, operator
from glenside.language import Term, builders
from glenside.language.builders import access

Activation = Callable[[Term], Term]

LONGEST = 512
"""Steps that are unrolled; longer sequences are left to the host."""


def _activation(node: Node, name: str, alpha: float | None, beta: float | None) -> Activation:
    def default(value: float | None, otherwise: float) -> float:
        return otherwise if value is None else value

    known: dict[str, Activation] = {
        "relu": lambda x: elementwise("relu", x),
        "tanh": lambda x: elementwise("tanh", x),
        "sigmoid": lambda x: elementwise("sigmoid", x),
        "affine": lambda x: add(mul(x, default(alpha, 1.0)), default(beta, 0.0)),
        "leakyrelu": lambda x: select(
            elementwise("less", x, like(x, 0)), mul(x, default(alpha, 0.01)), x
        ),
        "thresholdedrelu": lambda x: select(
            elementwise("greater_equal", x, like(x, default(alpha, 1.0))), x, 0
        ),
        "scaledtanh": lambda x: mul(
            elementwise("tanh", mul(x, default(beta, 1.0))), default(alpha, 1.0)
        ),
        "hardsigmoid": lambda x: hard_sigmoid(x, default(alpha, 0.2), default(beta, 0.5)),
        "elu": lambda x: select(
            elementwise("less", x, like(x, 0)),
            mul(sub(elementwise("exp", minimum(x, 0)), 1), default(alpha, 1.0)),
            x,
        ),
        "softsign": lambda x: div(x, add(elementwise("abs", x), 1)),
        "softplus": softplus,
    }
    if name.lower() not in known:
        raise node.error(f"activation {name!r} is not one of {', '.join(known)}")
    return known[name.lower()]


@dataclass
class _Layer:
    """What one direction of a layer works with; the state is (N, H)."""

    node: Node
    projected: Term
    """(T, N, gates * H): the input through its weights."""
    recurrence: Term
    """(gates * H, H)"""
    bias: tuple[Term, Term] | None
    """Of the input and of the recurrence, (gates * H) each."""
    functions: list[Activation]
    hidden: int
    peephole: Term | None
    clip: float

    def part(self, x: Term, gate: int) -> Term:
        """The columns of one gate."""
        axis = x.type.rank - 1
        return builders.slice_(x, axis, gate * self.hidden, (gate + 1) * self.hidden)

    def clipped(self, x: Term) -> Term:
        return maximum(minimum(x, self.clip), -self.clip) if self.clip > 0 else x

    def recur(self, h: Term, first: int, last: int) -> Term:
        """``h`` through the recurrence of gates ``first`` to ``last`` (not included)."""
        low, high = first * self.hidden, last * self.hidden
        rows = builders.slice_(self.recurrence, 0, low, high)
        return dot(access(h, 1), access(rows, 1))


Step = Callable[[_Layer, Term, tuple[Term, ...]], tuple[Term, ...]]


def _rnn_step(layer: _Layer, x: Term, state: tuple[Term, ...]) -> tuple[Term, ...]:
    (h,) = state
    total = add(x, layer.recur(h, 0, 1))
    if layer.bias:
        total = add(total, add(*layer.bias))
    return (layer.functions[0](layer.clipped(total)),)


def _gru_step(layer: _Layer, x: Term, state: tuple[Term, ...]) -> tuple[Term, ...]:
    (h,) = state
    f, g = layer.functions
    linear = layer.node.attributes.flag("linear_before_reset")
    gates = add(
        builders.slice_(x, 1, 0, 2 * layer.hidden),
        layer.recur(h, 0, 2),
    )
    if layer.bias:
        both = add(*layer.bias)
        gates = add(gates, builders.slice_(both, 0, 0, 2 * layer.hidden))
    update = f(layer.clipped(layer.part(gates, 0)))
    reset = f(layer.clipped(layer.part(gates, 1)))
    offered = layer.part(x, 2)
    if layer.bias:
        offered = add(offered, layer.part(layer.bias[0], 2))
    if linear:
        past = layer.recur(h, 2, 3)
        if layer.bias:
            past = add(past, layer.part(layer.bias[1], 2))
        offered = add(offered, mul(reset, past))
    else:
        offered = add(offered, layer.recur(mul(reset, h), 2, 3))
        if layer.bias:
            offered = add(offered, layer.part(layer.bias[1], 2))
    fresh = g(layer.clipped(offered))
    return (add(mul(sub(like(update, 1), update), fresh), mul(update, h)),)


def _lstm_step(layer: _Layer, x: Term, state: tuple[Term, ...]) -> tuple[Term, ...]:
    h, c = state
    f, g, out = layer.functions
    gates = add(x, layer.recur(h, 0, 4))
    if layer.bias:
        gates = add(gates, add(*layer.bias))
    i, o, forget, fresh = (layer.part(gates, k) for k in range(4))
    if layer.peephole is not None:
        i = add(i, mul(layer.part(layer.peephole, 0), c))
        forget = add(forget, mul(layer.part(layer.peephole, 2), c))
    i = f(layer.clipped(i))
    if layer.node.attributes.flag("input_forget"):
        forget = sub(like(i, 1), i)
    else:
        forget = f(layer.clipped(forget))
    c = add(mul(forget, c), mul(i, g(layer.clipped(fresh))))
    if layer.peephole is not None:
        o = add(o, mul(layer.part(layer.peephole, 1), c))
    return mul(f(layer.clipped(o)), out(c)), c


_KINDS: dict[str, tuple[int, list[str], Step]] = {
    "RNN": (1, ["Tanh"], _rnn_step),
    "GRU": (3, ["Sigmoid", "Tanh"], _gru_step),
    "LSTM": (4, ["Sigmoid", "Tanh", "Tanh"], _lstm_step),
}


@operator("RNN", "GRU", "LSTM")
def _recurrent(node: Node) -> list[Term | None]:
    gates, defaults, step = _KINDS[node.operator]
    node.attributes.ignore("linear_before_reset", "input_forget", "output_sequence")
    batch_first = node.attributes.flag("layout")
    direction = node.attributes.choice("direction", "forward", "reverse", "bidirectional")
    directions = 2 if direction == "bidirectional" else 1
    x = transpose(node[0], (1, 0, 2)) if batch_first else node[0]
    w, r = node[1], node[2]
    if x.type.rank != 3 or w.type.rank != 3 or r.type.rank != 3:
        raise node.error(f"shapes {x.shape}, {w.shape} and {r.shape} must have three axes")
    steps, batch, _ = x.shape
    hidden = r.shape[2]
    if node.attributes.integer("hidden_size", hidden) != hidden or w.shape[0] != directions:
        raise node.error(f"weights of shape {r.shape} do not fit hidden_size and direction")
    if steps > LONGEST:
        node.refuse(f"{steps} steps are more than the {LONGEST} that are unrolled")
    functions = _functions(node, defaults, directions)
    states = 2 if node.operator == "LSTM" else 1
    outputs, finals = [], []
    for d in range(directions):
        layer = _Layer(
            node,
            dot(access(x, 2), access(_at(w, d), 1)),
            _at(r, d),
            _biases(node, d, gates * hidden),
            functions[d],
            hidden,
            _at(node[7], d) if node.operator == "LSTM" and node.get(7) is not None else None,
            node.attributes.real("clip", 0.0),
        )
        initial = tuple(
            _initial(node, 5 + k, d, (batch, hidden), x.dtype, batch_first) for k in range(states)
        )
        backwards = direction == "reverse" or d == 1
        every, final = _unroll(layer, step, initial, steps, backwards)
        outputs.append(every)
        finals.append(final)
    axis = 2 if batch_first else 1
    # (T, N, H) each to (T, D, N, H), or (N, T, D, H).
    whole = [
        builders.unsqueeze(transpose(each, (1, 0, 2)) if batch_first else each, axis)
        for each in outputs
    ]
    at = 1 if batch_first else 0
    ends = [
        builders.concat(at, *(builders.unsqueeze(final[k], at) for final in finals))
        for k in range(states)
    ]
    return [builders.concat(axis, *whole), *ends]


def _at(x: Term, position: int, axis: int = 0) -> Term:
    return builders.squeeze(builders.slice_(x, axis, position, position + 1), axis)


def _biases(node: Node, direction: int, size: int) -> tuple[Term, Term] | None:
    if node.get(3) is None:
        return None
    both = _at(node[3], direction)
    return builders.slice_(both, 0, 0, size), builders.slice_(both, 0, size, 2 * size)


def _initial(
    node: Node, position: int, d: int, shape: tuple[int, int], dtype: str, batch_first: bool
) -> Term:
    if node.get(position) is None:
        return builders.constant(0, shape, dtype)
    return _at(node[position], d, 1 if batch_first else 0)


def _functions(node: Node, defaults: list[str], directions: int) -> list[list[Activation]]:
    names = node.attributes.texts("activations") or defaults * directions
    alphas = node.attributes.reals("activation_alpha") or []
    betas = node.attributes.reals("activation_beta") or []
    if len(names) != len(defaults) * directions:
        raise node.error(f"attribute activations needs {len(defaults) * directions} entries")
    made: list[Activation] = []
    for name in names:
        # Only functions that take parameters use up entries of the lists.
        takes_alpha = name.lower() not in ("relu", "tanh", "sigmoid", "softsign", "softplus")
        takes_beta = name.lower() in ("affine", "scaledtanh", "hardsigmoid")
        alpha = alphas.pop(0) if takes_alpha and alphas else None
        beta = betas.pop(0) if takes_beta and betas else None
        made.append(_activation(node, name, alpha, beta))
    size = len(defaults)
    return [made[d * size : (d + 1) * size] for d in range(directions)]


def _unroll(
    layer: _Layer, step: Step, state: tuple[Term, ...], steps: int, backwards: bool
) -> tuple[Term, tuple[Term, ...]]:
    """All hidden states (T, N, H) and the final state, sequences ended at their lengths."""
    lengths = layer.node.get(4)
    every: list[Term] = []
    for t in range(steps)[:: -1 if backwards else 1]:
        fresh = step(layer, _at(layer.projected, t), state)
        shown = fresh[0]
        if lengths is not None:
            running = elementwise("greater", lengths, like(lengths, t))
            running = builders.unsqueeze(running, 1)
            fresh = tuple(select(running, new, old) for new, old in zip(fresh, state, strict=True))
            shown = select(running, shown, 0)
        state = fresh
        every.append(builders.unsqueeze(shown, 0))
    if backwards:
        every.reverse()
    if not every:
        return builders.constant(0, (0, *state[0].shape), state[0].dtype), state
    return builders.concat(0, *every), state
