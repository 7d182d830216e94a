"""FlexASR: a unit for speech networks; 16 lanes of features.

``flexasr`` computes in the model's dtype, ``flexasr:adaptivfloat`` in the unit's own numbers,
AdaptivFloat<8,3>: operands and results are rounded to it, sums are formed in full.

Source: Tambe et al., "A 25 mm2 SoC for IoT devices with 18 ms noise-robust speech-to-text latency"
(ISSCC 2021); the operators as 3LA maps them (Huang et al., arXiv 2203.00218).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glenside.hw_targets.accelerator import Accelerator, Sizes
from glenside.hw_targets.numerics import adaptivfloat
from glenside.hw_targets.recurrence import LSTM, lstm_steps

Array = np.ndarray[Any, Any]

LANES = 16

MULTIPLIERS = LANES * 16
"""Each lane multiplies 16 inputs with as many weights in one cycle."""


def in_adaptivfloat(compute: Callable[..., Array]) -> dict[str, Any]:
    """What a declaration says of a unit that computes ``compute(*arrays)`` in AdaptivFloat."""

    def simulate(sizes: Sizes, *arrays: Array) -> Array:
        return adaptivfloat(compute(*map(adaptivfloat, arrays)))

    return {"target": "flexasr:adaptivfloat", "simulate": simulate, "numerics": "AdaptivFloat<8,3>"}


def _linear(name: str, **others: Any) -> Accelerator:
    return Accelerator(
        name,
        operands={"x": "((M) (K))", "w": "((N) (K))", "b": "((N) ())"},
        computes="""
            (access 2 (compute add (pair
                (access 0 (compute dot (cart-prod ?x ?w)))
                (access 0 (broadcast (M N) (unsqueeze 0 ?b))))))""",
        defaults={"b": 0},
        lanes={"K": LANES, "N": LANES},
        cycles="M * tiles(K, 16) * tiles(N, 16)",
        area=MULTIPLIERS,
        known=False,
        **{"target": "flexasr", **others},
    )


def _pool(name: str, function: str, **others: Any) -> Accelerator:
    """``(() (T H)) -> (() (T//2 H))``: of rows 2j and 2j + 1."""
    return Accelerator(
        name,
        operands={"x": "(() (T H))"},
        computes=f"""
            (transpose (1 0) (access 0 (compute {function}
                (windows (2) (2) (transpose (1 0) (access 1 ?x))))))""",
        constraints=["T % 2 == 0", "T >= 2"],
        lanes={"H": LANES},
        cycles="T // 2 * tiles(H, 16)",
        area=LANES,
        known=False,
        **{"target": "flexasr", **others},
    )


def _attention(name: str, **others: Any) -> Accelerator:
    """``softmax(q kᵀ) v`` for each of a batch; scaling and masks are the host's."""
    return Accelerator(
        name,
        operands={"q": "((B M) (K))", "k": "((B N) (K))", "v": "((B D) (N))"},
        computes="""
            (compute dot (cart-prod :batch 1
                (compute softmax (access 2 (compute dot (cart-prod :batch 1 ?q ?k)))) ?v))""",
        lanes={"K": LANES, "D": LANES},
        cycles="B * M * (tiles(K, 16) * tiles(N, 16) + tiles(D, 16) * tiles(N, 16))",
        area=MULTIPLIERS,
        known=False,
        **{"target": "flexasr", **others},
    )


def _layer_norm(name: str, outer: str, **others: Any) -> Accelerator:
    """Of the last axis, behind the axes ``outer``: scaled by g and shifted by b; e is epsilon."""
    shape, last = f"({outer} H)", len(outer.split())

    def fold(function: str, a: str, b: str) -> str:
        both = f"(pair (access 0 {a}) (access 0 {b}))"
        return f"(access {last + 1} (compute {function} {both}))"

    def spread(x: str) -> str:
        return f"(broadcast {shape} {x})"

    def mean(x: str) -> str:
        return f"(unsqueeze {last} (compute mean (access {last} {x})))"

    def row(x: str) -> str:
        return spread("(unsqueeze 0 " * last + x + ")" * last)

    centred = fold("sub", "?x", spread(mean("?x")))
    variance = fold("add", mean(fold("mul", centred, centred)), "?e")

    def each(function: str, x: str) -> str:
        return f"(access {last + 1} (compute {function} (access 0 {x})))"

    deviation = each("sqrt", variance)

    def scaled(normal: str) -> str:
        return fold("add", fold("mul", normal, row("?g")), row("?b"))

    return Accelerator(
        name,
        operands={
            "x": f"({shape} ())",
            "e": f"(({outer} 1) ())",
            "g": "((H) ())",
            "b": "((H) ())",
        },
        computes=scaled(fold("div", centred, spread(deviation))),
        also=[scaled(fold("mul", centred, spread(each("recip", deviation))))],
        # Three passes over a row: its mean, its variance, scaling.
        cycles=" * ".join(["3", *outer.split(), "tiles(H, 16)"]),
        area=LANES,
        known=False,
        **{"target": "flexasr", **others},
    )


LINEAR = _linear(
    "flex-linear",
    summary="linear and LSTM layers, attention, norms, pools; :adaptivfloat for its numbers",
)
MAXPOOL = _pool("flex-maxpool", "max")
MEANPOOL = _pool("flex-meanpool", "mean")

ATTENTION = _attention("flex-attention")
LAYER_NORM = _layer_norm("flex-layer-norm", "B T")
LAYER_NORM_OF_ROWS = _layer_norm("flex-layer-norm-rows", "T")


def _lstm_cycles(steps: int, rows: int, depth: int, size: int) -> float:
    """As of the linear layers in it: four gates of the input and of the state."""
    tiles = -(-depth // LANES) + -(-size // LANES)
    return steps * rows * tiles * -(-4 * size // LANES)


LSTM_LAYER = LSTM("flex-lstm", target="flexasr", cycles=_lstm_cycles, area=MULTIPLIERS, known=False)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def _normalise(x: Array, e: Array, g: Array, b: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + e) * g + b


def _lstm(*operands: Array) -> Array:
    """The state stays in the unit's own numbers, cells and sums are held in full."""
    hidden, cells = lstm_steps(*map(adaptivfloat, operands), keep=adaptivfloat)
    return np.stack([hidden, adaptivfloat(cells)])


DECLARED = (
    LINEAR,
    MAXPOOL,
    MEANPOOL,
    ATTENTION,
    LAYER_NORM,
    LAYER_NORM_OF_ROWS,
    LSTM_LAYER,
    _linear("flex-linear-af", **in_adaptivfloat(lambda x, w, b: x @ w.T + b)),
    _pool("flex-maxpool-af", "max", **in_adaptivfloat(lambda x: np.maximum(x[::2], x[1::2]))),
    _pool("flex-meanpool-af", "mean", **in_adaptivfloat(lambda x: (x[::2] + x[1::2]) / 2)),
    _attention(
        "flex-attention-af",
        **in_adaptivfloat(
            lambda q, k, v: adaptivfloat(_softmax(q @ k.swapaxes(1, 2))) @ v.swapaxes(1, 2)
        ),
    ),
    _layer_norm("flex-layer-norm-af", "B T", **in_adaptivfloat(_normalise)),
    _layer_norm("flex-layer-norm-rows-af", "T", **in_adaptivfloat(_normalise)),
    LSTM(
        "flex-lstm-af",
        target="flexasr:adaptivfloat",
        cycles=_lstm_cycles,
        area=MULTIPLIERS,
        known=False,
        simulate=_lstm,
        numerics="AdaptivFloat<8,3>",
    ),
)
