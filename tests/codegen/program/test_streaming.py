"""Products that are computed with the softmaxed rows they multiply."""

from __future__ import annotations

import numpy as np
import pytest

from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Cut
from glenside.frontends.lowering.phrases import (
    add,
    along,
    matmul,
    mul,
    reshape,
    swap_last,
    transpose,
)
from glenside.language import Term, topological_order
from glenside.language import builders as b

Q, K, V = (b.tensor(n, (2, r, 4)) for n, r in (("q", 5), ("k", 6), ("v", 6)))
SCORES = matmul(Q, swap_last(K))
ROWS = along("softmax", SCORES, 2)


def cut(*outputs: Term, streams: bool = True, **params: np.ndarray) -> Cut:
    leaves = [t for t in topological_order(outputs) if t.op == "tensor"]
    types = {t["name"]: t.type for t in leaves if t["name"] not in params}
    return cut_program(outputs, types, params, plain=True, streams=lambda product: streams)


def test_all_is_one_kernel() -> None:
    out = matmul(ROWS, V)
    made = cut(out)
    (step,) = made.steps
    assert step.tail is step.anchor and list(made.streamed) == [step.anchor]
    streamed = made.streamed[step.anchor]
    assert {streamed.softmax, streamed.scores} <= streamed.inside
    assert not streamed.inside & made.kept and not streamed.inside & set(made.stored)


def test_three_where_it_does_not_pay_or_none_asks() -> None:
    out = matmul(ROWS, V)
    assert len(cut(out, streams=False).steps) == 3 and not cut(out, streams=False).streamed
    types = {t["name"]: t.type for t in (Q, K, V)}
    assert len(cut_program([out], types, {}, plain=True).steps) == 3


@pytest.mark.parametrize("kind", ["scale", "mask", "computed mask", "where"])
def test_what_stands_between_is_inside(kind: str) -> None:
    mask = b.tensor("mask", (5, 6))
    x = mul(SCORES, 0.5)
    if kind == "mask":
        x = add(x, mask)
    if kind == "computed mask":
        x = add(x, mul(mask, -1e9))
    if kind == "where":
        shown = b.broadcast(b.unsqueeze(b.tensor("shown", (5, 6), "bool"), 0), (2, 5, 6))
        x = b.where(shown, x, b.constant(-1e9, (2, 5, 6)))
    made = cut(matmul(along("softmax", x, 2), V))
    # A mask for all heads is computed once.
    assert made.streamed and len(made.steps) == (2 if kind == "computed mask" else 1)
    read = {t["name"] for t in made.kept if t.op == "tensor"}
    assert read == {"q", "k", "v"} | ({"mask"} if "mask" in kind else set()) | (
        {"shown"} if kind == "where" else set()
    )


def test_heads_are_views() -> None:
    """As networks have them: heads lie beside each other in a row."""
    x = [b.tensor(name, (5, 8)) for name in "qkv"]
    q, k, v = (transpose(reshape(each, (5, 2, 4)), (1, 0, 2)) for each in x)
    rows = along("softmax", matmul(q, swap_last(k)), 2)
    out = reshape(transpose(matmul(rows, v), (1, 0, 2)), (5, 8))
    made = cut(out)
    assert len(made.streamed) == 1
    assert made.steps[0].anchor in made.streamed


def test_rows_that_something_else_reads_are_stored() -> None:
    out = matmul(ROWS, V)
    assert not cut(out, ROWS).streamed
    assert not cut(out, mul(SCORES, 2.0)).streamed
    assert not cut(out, b.compute("max", b.access(ROWS, 2))).streamed


def test_other_rows_are_left_alone() -> None:
    weights = b.tensor("w", (2, 5, 6))
    assert not cut(matmul(along("softmax", weights, 2), V)).streamed
    turned = along("softmax", transpose(matmul(K, swap_last(Q)), (0, 2, 1)), 2)
    assert not cut(matmul(turned, V)).streamed
    across = along("softmax", SCORES, 1)
    assert not cut(matmul(across, V)).streamed
    assert not cut(matmul(SCORES, V)).streamed


def test_constants_stay_constants() -> None:
    """Rows that are known when a program is compiled are folded, not streamed."""
    keys = {name: np.ones((2, n, 4), np.float32) for name, n in (("q", 5), ("k", 6))}
    made = cut(matmul(ROWS, V), **keys)
    assert not made.streamed and len(made.steps) == 1


def test_heads_lie_side_by_side_where_devices_arrange_values() -> None:
    """What follows reads whole rows: of a result that is as named, nothing follows."""
    out = matmul(ROWS, V)
    types = {t["name"]: t.type for t in (Q, K, V)}

    def strides_of(output: Term) -> list[int]:
        made = cut_program(
            [output], types, {}, plain=True, rows_last=True, streams=lambda product: True
        )
        (step,) = made.steps[:1]
        return [axis[-1][1] for axis in made.stored[step.anchor].view.axes]

    assert strides_of(out) == [20, 4, 1]
    assert strides_of(reshape(transpose(out, (1, 0, 2)), (5, 8))) == [4, 8, 1]
