"""Rules that find a recurrent layer in its unrolled steps.

A step of an LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000) is::

    [i f g o] = [x h] [W R]ᵀ + b
    c' = sigmoid(f) c + sigmoid(i) tanh(g)          h' = sigmoid(o) tanh(c')

and becomes a call of one step. A call and the call that goes on from its last state are one call of
both their steps, so that of any number of steps a single call is left. Nothing goes by names: the
gates are known by what is done with them, wherever they are cut from and in whatever order.

The result of a call is ((2 T N H) ()): the hidden and the cell state after each step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from egglog import (
    Fact,
    RewriteOrRule,
    String,
    Vec,
    eq,
    function,
    i64,
    ne,
    relation,
    rule,
    set_,
    subsume,
    union,
    var,
    vars_,
)

from glenside.language.shape import FLOATS
from glenside.rewrites.engine.types import typed
from glenside.rewrites.rules.linear import spread, vector
from glenside.rewrites.ruleset import Rule
from glenside.rewrites.vocabulary import NO_DTYPE, Access, ints

# --- a step ---------------------------------------------------------------------------------------

gated = relation("gated", Access, Access, Access, egg_fn="gated")
"""A product, the gate in it before its sigmoid, and what the gate lets through."""

lstm_step = relation("lstm_step", *[Access] * 7, egg_fn="lstm_step")
"""h' and c', the gates i, f, g, o before their functions, and c; each as one item."""

gate_layer = relation("gate_layer", *[Access] * 6, egg_fn="gate_layer")
"""A gate as one item, x and h ((N) (K)) and ((N) (H)), their weights ((H) (K)) and ((H) (H)), and
the bias, of which it is the linear layer."""

two_inputs = relation("two_inputs", *[Access] * 6, egg_fn="two_inputs")
"""Likewise a layer of any width, all its axes outer."""


def _compute(name: str, x: Access) -> Access:
    return x.compute(name, NO_DTYPE)


def _gates() -> Iterator[RewriteOrRule]:
    """Finds the steps, whatever their gates are."""
    whole, gate, y, cell, kept, fresh = vars_("whole gate y cell kept fresh", Access)
    i, f, g, o, c, hidden = vars_("i f g o c hidden", Access)
    for pair in (_compute("sigmoid", gate).pair(y), y.pair(_compute("sigmoid", gate))):
        yield rule(eq(whole).to(_compute("mul", pair))).then(gated(whole, gate, y))
    for pair in (kept.pair(fresh), fresh.pair(kept)):
        yield rule(
            eq(cell).to(_compute("add", pair)),
            gated(kept, f, c),
            gated(fresh, i, _compute("tanh", g)),
            gated(hidden, o, _compute("tanh", cell)),
            eq(c.item.length()).to(i64(2)),
        ).then(lstm_step(hidden, cell, i, f, g, o, c))


def _layers() -> Iterator[RewriteOrRule]:
    """Finds layers ``[x h] Wᵀ + b``, in either order; the bias may be absent."""
    xh, x, h, w, b, layer = vars_("xh x h w b layer", Access)
    v, rows, of_x, of_h = vars_("v rows of_x of_h", Vec[i64])
    n, m = vars_("n m", i64)
    dtype = var("dtype", String)
    product = xh.cart_prod(w, 0).compute("dot", dtype)
    of_rows = eq(rows).to(w.outer)
    forms: list[tuple[list[Fact], Access]] = []
    for bias in spread(b, 2, v):
        whole = _compute("add", product.access(0).pair(bias.access(0))).access(2)
        forms.append(([eq(layer).to(whole), of_rows, vector(b, rows[0])], b))
    for name in FLOATS:
        facts = [eq(layer).to(product), of_rows, eq(dtype).to(String(name))]
        forms.append((facts, Access.constant("0.0", rows, name)))
    for facts, bias in forms:
        yield rule(
            *facts,
            eq(xh).to(x.concat(h, 1)),
            *(eq(each).to(y.item) for each, y in ((of_x, x), (of_h, h))),
            *(eq(each.length()).to(i64(1)) for each in (of_x, of_h)),
            eq(n).to(of_x[0]),
            eq(m).to(of_x[0] + of_h[0]),
        ).then(
            two_inputs(layer, x, h, w.slice(1, 0, n, 1), w.slice(1, n, m, 1), bias),
            two_inputs(layer, h, x, w.slice(1, n, m, 1), w.slice(1, 0, n, 1), bias),
        )


def _join(parts: Sequence[Access]) -> Access:
    first, *others = parts
    for each in others:
        first = first.concat(each, 0)
    return first


def _gate_layers() -> Iterator[RewriteOrRule]:
    """A gate is a layer, or is cut from one."""
    layer, x, h, w, r, b, gate = vars_("layer x h w r b gate", Access)
    low, high = vars_("low high", i64)
    found = two_inputs(layer, x, h, w, r, b)
    yield rule(found, eq(gate).to(layer.access(0))).then(gate_layer(gate, x, h, w, r, b))
    cut = layer.slice(1, low, high, 1).access(0)
    parts = (each.slice(0, low, high, 1) for each in (w, r, b))
    yield rule(found, eq(gate).to(cut)).then(gate_layer(gate, x, h, *parts))


def _cells(unit: str) -> Iterator[RewriteOrRule]:
    """Makes a call of one step where the gates are layers of the same inputs."""
    hidden, cell, c, x, h = vars_("hidden cell c x h", Access)
    n, size, depth = vars_("n size depth", i64)
    shape, columns = vars_("shape columns", Vec[i64])
    dtype = var("dtype", String)
    gates = [tuple(vars_(f"{k} w_{k} r_{k} b_{k}", Access)) for k in "ifgo"]
    weights, recurrence, bias = (_join([each[k] for each in gates]) for k in (1, 2, 3))
    call = Access.call(
        Vec[Access](
            x.access(2).unsqueeze(0),
            h.access(2),
            c.access(2),
            weights.access(2).reshape(ints(4, size, depth), ints()),
            recurrence.access(2).reshape(ints(4, size, size), ints()),
            bias.reshape(ints(4, size), ints()),
        ),
        unit,
        ints(),
    )
    last_h, last_c = _last(call, i64(1))
    yield rule(
        lstm_step(hidden, cell, *(gate for gate, *_ in gates), c),
        *(gate_layer(gate, x, h, *parameters) for gate, *parameters in gates),
        eq(shape).to(c.item),
        eq(n).to(shape[0]),
        eq(size).to(shape[1]),
        eq(dtype).to(c.dtype),
        eq(h.outer).to(ints(n)),
        eq(h.item).to(ints(size)),
        eq(columns).to(x.item),
        eq(depth).to(columns[0]),
    ).then(
        *typed(call, ints(2, 1, n, size), ints(), dtype),
        last_states(last_h, last_c, call),
        union(last_h).with_(hidden.access(2)),
        union(last_c).with_(cell.access(2)),
    )


def _states(call: Access, which: int) -> Access:
    """The hidden or the cell state after each step, (T N H)."""
    return call.slice(0, which, which + 1, 1).squeeze(0)


def _last(call: Access, steps: i64) -> tuple[Access, Access]:
    """The hidden and the cell state after the last of ``steps`` steps, (N H)."""
    h, c = (_states(call, k).slice(0, steps - 1, steps, 1).squeeze(0) for k in (0, 1))
    return h, c


# --- steps in a row -------------------------------------------------------------------------------


last_states = relation("last_states", Access, Access, Access, egg_fn="last_states")
"""The hidden and the cell state after the last step of a call, and the call."""

follows = relation("follows", Access, Access, egg_fn="follows")
"""A call, and one with the same weights that goes on from its last state."""


@function(egg_fn="goes_on", merge=lambda old, new: old.max(new))
def goes_on(call: Access) -> i64:
    """1 for a call that follows another; 0 for the first of a row."""


def _links(unit: str) -> Iterator[RewriteOrRule]:
    """The analysis :func:`goes_on`."""
    a, b, h, c = vars_("a b h c", Access)
    of_a, of_b = vars_("of_a of_b", Vec[Access])
    yield rule(eq(b).to(Access.call(of_b, unit, ints()))).then(set_(goes_on(b)).to(0))
    yield rule(
        eq(b).to(Access.call(of_b, unit, ints())),
        eq(h).to(of_b[1]),
        eq(c).to(of_b[2]),
        last_states(h, c, a),
        eq(a).to(Access.call(of_a, unit, ints())),
        *_same_weights(of_a, of_b),
    ).then(follows(a, b), set_(goes_on(b)).to(1))


def _same_weights(of_a: Vec[Access], of_b: Vec[Access]) -> Iterator[Fact]:
    return (eq(of_a[k]).to(of_b[k]) for k in (3, 4, 5))


def _joined(unit: str) -> Iterator[RewriteOrRule]:
    """Makes one call of two. Rows grow from their start only: else every stretch would be made."""
    a, b = vars_("a b", Access)
    of_a, of_b = vars_("of_a of_b", Vec[Access])
    m, n = vars_("m n", i64)
    shape = var("shape", Vec[i64])
    dtype = var("dtype", String)
    both = Access.call(
        Vec[Access](of_a[0].concat(of_b[0], 0), *(of_a[k] for k in range(1, 6))), unit, ints()
    )
    steps = m + n
    unions = [
        union(a).with_(both.slice(1, 0, m, 1)),
        union(b).with_(both.slice(1, m, steps, 1)),
    ]
    for k, (old, new) in enumerate(zip(_last(b, n), _last(both, steps), strict=True)):
        stack = _states(both, k)
        unions += [
            union(old).with_(new),
            union(_states(a, k)).with_(stack.slice(0, 0, m, 1)),
            union(_states(b, k)).with_(stack.slice(0, m, steps, 1)),
            # Follows from these, but only a pass later: a stack of states has as many levels.
            union(_states(a, k).concat(_states(b, k), 0)).with_(stack),
        ]
    yield rule(
        follows(a, b),
        eq(goes_on(a)).to(i64(0)),
        eq(a).to(Access.call(of_a, unit, ints())),
        eq(b).to(Access.call(of_b, unit, ints())),
        *_same_weights(of_a, of_b),
        eq(shape).to(a.outer),
        eq(m).to(shape[1]),
        eq(n).to(b.outer[1]),
        eq(dtype).to(a.dtype),
    ).then(
        *typed(both, ints(2, steps, shape[2], shape[3]), ints(), dtype),
        last_states(*_last(both, steps), both),
        *unions,
    )


covered = relation("covered", String, Vec[Access], egg_fn="covered")
"""A unit, and the operands of a call of it that is part of a longer one."""


def _shorter(unit: str) -> Iterator[RewriteOrRule]:
    """What is part of a longer call is not wanted for itself."""
    part, whole = vars_("part whole", Access)
    own, others = vars_("own others", Vec[Access])
    low, high = vars_("low high", i64)
    shorter = Access.call(own, unit, ints())
    yield rule(
        eq(part).to(shorter),
        eq(part).to(whole.slice(1, low, high, 1)),
        eq(whole).to(Access.call(others, unit, ints())),
        ne(part.outer).to(whole.outer),
    ).then(covered(unit, own))
    # By itself, so that it happens once: egglog fails when a row is subsumed twice in a step.
    yield rule(covered(unit, own), eq(part).to(shorter)).then(subsume(shorter))


def _unrolled() -> Any:
    from glenside.rewrites.soundness.programs import unrolled_lstms

    return unrolled_lstms()


def _cases(unit: str) -> Iterator[RewriteOrRule]:
    yield from _gates()
    yield from _layers()
    yield from _gate_layers()
    yield from _cells(unit)
    yield from _joined(unit)
    yield from _shorter(unit)


@functools.cache
def lstm(unit: str) -> Rule:
    """Unrolled steps of an LSTM -> ``unit X H C W R B``

    where X is ((T N K) ()), the states H and C are ((N H) ()), and the weights ((4 H K) ()),
    ((4 H H) ()) and ((4 H) ()) have their gates in the order i, f, g, o.
    """
    return Rule(
        unit,
        tuple(_cases(unit)),
        exact=False,
        analyses=tuple(_links(unit)),
        programs=_unrolled,
        where=f"{__file__}:{_cases.__code__.co_firstlineno}",
        chained=True,
        needs=frozenset({"sigmoid", "tanh"}),
        law=f"Unrolled steps of an LSTM -> ``{unit} X H C W R B``",
    )
