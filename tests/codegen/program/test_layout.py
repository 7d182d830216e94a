"""How values lie in memory, and which have to be copied."""

import pytest

from glenside.codegen.program.record import Fill, Kernel
from glenside.language import builders as b
from tests.codegen.codegen_help import convolution, weights
from tests.codegen.program.passes_help import after, strides

X = b.tensor("x", (1, 3, 9, 9))
PARAMS = {"w": weights(32, 3, 3, 3)}
LAYER = convolution(X, b.tensor("w", (32, 3, 3, 3)))
"""((1 32 7 7))"""
RELU = b.compute("relu", LAYER)


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ({}, [0, 1, 7 * 32, 32]),
        ({"plain": True}, [0, 49, 7, 1]),
        ({"plain": True, "rows_last": True}, [0, 1, 7 * 32, 32]),
    ],
    ids=["processor", "threads", "matrix units"],
)
def test_where_channels_lie(style, expected):
    cut = after("layout", RELU, params=PARAMS, **style)
    assert strides(cut, RELU)[1:] == expected[1:]


def test_what_follows_keeps_the_order_of_what_it_reads():
    pooled = b.compute("max", b.windows(b.access(RELU, 2), (2, 2), (1, 1)))
    cut = after("layout", b.compute("neg", pooled), params=PARAMS)
    (stored,) = (
        term
        for term in cut.stored
        if term.shape == (1, 32, 6, 6) and term in cut.kept and term in cut.outputs
    )
    assert strides(cut, stored)[1:] == [1, 6 * 32, 32]


def test_steps_come_in_the_order_of_what_they_read():
    cut = after(
        "layout", b.elementwise("neg", b.compute("sum", b.access(RELU, 2))), RELU, params=PARAMS
    )
    done = set(cut.inputs.values())
    for step in cut.steps:
        assert isinstance(step, Kernel)
        read = [t for t in cut.leaves.region(step.tail) if t in cut.kept and t is not step.tail]
        assert all(term in done or term is step.anchor for term in read)
        done.add(step.tail)
    assert done == cut.kept - set(cut.inside)


def test_margins_are_filled_before_the_value_is_there():
    y = b.compute("exp", b.tensor("y", (2, 40)))
    padded = b.pad(y, 1, 1, 2, 7.0)
    cut = after("layout", b.compute("max", b.windows(b.access(padded, 1), (3,), (1,))))
    kinds = [type(step) for step in cut.steps]
    assert kinds == [Fill, Kernel, Kernel]
    assert cut.since[y] == 0
    assert cut.stored[y].view.offset == 1
    assert strides(cut, y) == [43, 1]


def test_a_part_lies_in_its_whole():
    y = b.tensor("y", (2, 3))
    parts = [b.compute(name, y) for name in ("neg", "exp")]
    cut = after("layout", b.concat(1, *parts))
    first, second = (cut.stored[part] for part in parts)
    assert first.buffer == second.buffer
    assert (first.base, second.base) == (0, 3)
    assert strides(cut, parts[1]) == [6, 1]
    plain = after("layout", b.concat(1, *parts), plain=True).stored[parts[1]]
    assert (plain.base, plain.view.offset) == (0, 3)


def copies(cut):
    """Steps that only move."""
    return [
        s.tail
        for s in cut.steps
        if isinstance(s, Kernel) and s.tail.op not in ("compute", "concat")
    ]


@pytest.mark.parametrize(("channels", "copied"), [(32, True), (8, False)])
def test_a_long_reduced_axis_is_brought_inside(channels, copied):
    """Channels-first input of many channels is copied; of few, it is read as it lies."""
    x, w = b.tensor("x", (1, channels, 9, 9)), b.tensor("w", (16, channels, 1, 1))
    cut = after("layout", convolution(x, w), params={"w": weights(16, channels, 1, 1)})
    found = [term for term in copies(cut) if term.type.size == x.type.size]
    assert bool(found) == copied
    for term in found:
        assert min(range(4), key=lambda axis: strides(cut, term)[axis] or 1 << 20) == 1
    assert not copies(
        after("layout", convolution(x, w), params={"w": weights(16, channels, 1, 1)}, plain=True)
    )


def test_only_one_reshape_on_the_way_divides():
    """A second one would divide each of the first's digits again."""
    y = b.transpose(b.tensor("y", (4, 6, 10)), (2, 1, 0))
    once = b.reshape(y, (8, 30))
    twice = b.reshape(b.transpose(once, (1, 0)), (16, 15))
    assert len(after("layout", b.compute("neg", once)).steps) == 1
    assert len(after("layout", b.compute("neg", twice)).steps) == 2


def test_what_rows_and_products_read_next_lies_together():
    """Attention of three heads, of what is known at run time only: scores with the axis that
    softmax goes along innermost, results with heads and features, as what follows reduces them."""
    q, k, v = (b.tensor(name, (3, 16, 8), "float16") for name in "qkv")
    scores = b.compute("dot", b.cart_prod(b.access(q, 2), b.access(k, 2), batch=1))
    rows = b.access(b.compute("softmax", b.access(scores, 2)), 2)
    values = b.access(b.transpose(b.access(v, 0), (0, 2, 1)), 2)
    heads = b.compute("dot", b.cart_prod(rows, values, batch=1))
    joined = b.reshape(b.access(b.transpose(b.access(heads, 3), (1, 0, 2)), 3), (16, 24))
    weight = b.tensor("w", (32, 24), "float16")
    merged = b.compute("dot", b.cart_prod(b.access(joined, 1), b.access(weight, 1)))
    params = {"w": weights(32, 24, dtype="float16")}
    cut = after("layout", merged, params=params, plain=True, rows_last=True)
    laid = {cut.known_as(term): strides(cut, term) for term in cut.stored}
    assert laid[scores] == [16 * 16, 16, 1]
    assert laid[heads] == [8, 3 * 8, 1]
