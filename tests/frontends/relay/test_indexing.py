"""Operators that pick, put back, order and repeat elements, against NumPy."""

import numpy as np
import pytest

from glenside.errors import InputError, ModelError
from glenside.frontends.relay import import_relay
from tests.frontends.relay.conftest import draw, text_of

X = draw(2, 3, 4)


def test_gathers(check):
    i = np.random.default_rng(0).integers(0, 3, (2, 2, 4))
    check("gather(%x, %i, axis=1)", np.take_along_axis(X, i, 1), x=X, i=i)
    n = np.array([[0, 1, 1], [2, 0, 1]])
    check("gather_nd(%x, %n)", X[n[0], n[1]], x=X, n=n)
    batched = np.array([[[0, 2], [1, 0]]])
    wanted = np.stack([X[b, batched[0, b]] for b in range(2)])
    check("gather_nd(%x, %n, batch_dims=1, index_rank=1)", wanted, x=X, n=batched)
    a, b = np.array([[0], [1]]), np.array([[1, 2]])
    check("adv_index((%x, %a, %b))", X[a, b], x=X, a=a, b=b)
    j = np.array([[1, 0], [2, 2]], "int32")
    wanted = np.stack([np.take(X[b], j[b], 0) for b in range(2)])
    check("take(%x, %j, axis=1, batch_dims=1)", wanted, x=X, j=j)
    wanted = np.stack([np.take(X[b], j[b], 1) for b in range(2)])
    check("take(%x, %j, axis=2, batch_dims=1)", wanted, x=X, j=j)


def test_scatters(check):
    i = np.array([[[0, 2, 1, 0]], [[2, 2, 0, 1]]])
    u = draw(2, 1, 4, seed=3)
    wanted = X.copy()
    np.put_along_axis(wanted, i, u, 1)
    check("scatter(%x, %i, %u, axis=1)", wanted, x=X, i=i, u=u)
    check("scatter_elements(%x, %i, %u, axis=-2)", wanted, x=X, i=i, u=u)
    added = X.copy()
    np.add.at(added, (np.arange(2)[:, None, None], i, np.arange(4)), u)
    check("scatter_add(%x, %i, %u, axis=1)", added, x=X, i=i, u=u)
    check('scatter_elements(%x, %i, %u, axis=1, reduction="add")', added, x=X, i=i, u=u)
    n, rows = np.array([[0, 0], [1, 1]]), draw(2, 4, seed=5)
    wanted = X.copy()
    np.add.at(wanted, (n[0], n[1]), rows)
    check('scatter_nd(%x, %n, %u, mode="add")', wanted, x=X, n=n, u=rows)
    sparse = np.zeros((3, 4), "float32")
    sparse[[0, 2], [1, 3]] = [5, 6]
    n, v = np.array([[0, 1], [2, 3]]), np.array([5, 6], "float32")
    check("sparse_to_dense(%n, %v, 0f, output_shape=[3, 4])", sparse, n=n, v=v)


def test_slices(check):
    check("slice_like(%x, %y)", X[:1, :2, :3], x=X, y=draw(1, 2, 3))
    check("slice_like(%x, %y, axes=[-1])", X[..., :3], x=X, y=draw(1, 2, 3))
    low, high, step = "reshape(1i64, newshape=[1])", "reshape(-1i64, newshape=[1])", "ones"
    body = f'dyn.strided_slice(%x, {low}, {high}, {step}(shape=[1], dtype="int64"), axes=[2])'
    check(body, X[..., 1:-1], x=X)
    v = draw(2, 2, 4, seed=4)
    zero = 'zeros(shape=[2], dtype="int64")'
    body = (
        f"strided_set(%x, %v, {zero}, concatenate((reshape(2i64, newshape=[1]), "
        "reshape(3i64, newshape=[1]))), concatenate((reshape(1i64, newshape=[1]), "
        "reshape(2i64, newshape=[1]))))"
    )
    wanted = X.copy()
    wanted[0:2:1, 0:3:2] = v
    check(body, wanted, x=X, v=v)
    check("reverse(%x, axis=-1)", X[..., ::-1], x=X)
    lengths = np.array([2, 3], "int32")
    wanted = X.copy()
    wanted[0, :2], wanted[1, :3] = X[0, 1::-1], X[1, ::-1]
    check("reverse_sequence(%x, %l, seq_axis=1, batch_axis=0)", wanted, x=X, l=lengths)
    windows = np.lib.stride_tricks.sliding_window_view(X, (2, 2), (1, 2))[:, :, ::2]
    body = "sliding_window(%x, axis=1, window_shape=[2, 2], strides=[1, 2])"
    check(body, windows, x=X)


def test_masks_and_diagonals(check):
    hot = np.where(np.array([0, 2, 5])[:, None] == np.arange(3), 4, -1).astype("float32")
    i = np.array([0, 2, 5], "int32")
    check('one_hot(%i, 4f, -1f, depth=3, axis=-1, dtype="float32")', hot, i=i)
    check('one_hot(%i, 4f, -1f, depth=3, axis=0, dtype="float32")', hot.T, i=i)
    lengths = np.array([1, 3], "int32")
    wanted = np.where(np.arange(3)[None, :, None] < lengths[:, None, None], X, -9)
    check("sequence_mask(%x, %l, mask_value=-9f, axis=1)", wanted, x=X, l=lengths)
    check("trilu(%x, 1, upper=False)", np.tril(X, 1), x=X)
    check("trilu(%x, 0)", np.triu(X), x=X)
    d = draw(2, 3, seed=9)
    wanted = X.copy()
    wanted[:, np.arange(3), np.arange(3)] = d
    check("matrix_set_diag(%x, %d)", wanted, x=X, d=d)
    d = draw(2, 2, 3, seed=9)
    wanted = X.copy()
    wanted[:, [0, 1, 2], [1, 2, 3]] = d[:, 0]
    wanted[:, [0, 1, 2], [0, 1, 2]] = d[:, 1]
    check("matrix_set_diag(%x, %d, k1=0, k2=1)", wanted, x=X, d=d)


def test_positions(check):
    i = np.array([5, 11, 0], "int32")
    wanted = np.stack(np.unravel_index(i, (3, 4))).astype("int32")
    check("unravel_index(%i, %s)", wanted, i=i, s=np.array([3, 4], "int32"))
    p = np.array([2, 0, 3, 1], "int32")
    check("invert_permutation(%p)", np.argsort(p).astype("int32"), p=p)
    s, v = np.array([1, 3, 3, 7], "float32"), np.array([[0, 3], [4, 9]], "float32")
    for right in (False, True):
        wanted = np.searchsorted(s, v, "right" if right else "left").astype("int32")
        check(f"searchsorted(%s, %v, right={right})", wanted, s=s, v=v)


@pytest.mark.parametrize("ascending", [True, False])
def test_order(check, ascending):
    x = draw(3, 5, dtype="int32")  # with equal elements, of which the first comes first
    key = x if ascending else -x
    order = np.argsort(key, 1, kind="stable").astype("int32")
    wanted = np.take_along_axis(x, order, 1)
    check(f"argsort(%x, axis=1, is_ascend={ascending})", order, x=x)
    check(f"sort(%x, axis=1, is_ascend={ascending})", wanted, x=x)
    body = f"topk(%x, k=2, axis=1, is_ascend={ascending})"
    check(body, wanted[:, :2], order[:, :2], x=x)
    body = f'dyn.topk(%x, 3, axis=-1, ret_type="values", is_ascend={ascending})'
    check(body, wanted[:, :3], x=x)
    body = f'topk(%x, k=0, axis=0, ret_type="indices", is_ascend={ascending}, dtype="int64")'
    check(body, np.argsort(key, 0, kind="stable"), x=x)


def test_sums_along_an_axis(check):
    long = draw(2, 70)
    check("cumsum(%x, axis=1)", np.cumsum(long.astype("float64"), 1), x=long, tolerance=1e-4)
    check("cumsum(%x)", np.cumsum(X), x=X)
    before = np.concatenate([np.zeros((2, 1, 4)), np.cumsum(X, 1)[:, :-1]], 1)
    check("cumsum(%x, axis=1, exclusive=True)", before, x=X)
    check("cumprod(%x, axis=-1)", np.cumprod(X, 2), x=X)
    i = draw(4, dtype="int8")
    check('cumsum(%x, axis=0, dtype="int32")', np.cumsum(i, dtype="int32"), x=i)


def test_truth_and_variance(check):
    b = np.array([[True, False], [True, True]])
    check("all(%b, axis=[1])", b.all(1), b=b)
    check("any(%b, axis=[0], keepdims=True)", b.any(0, keepdims=True), b=b)
    check("variance(%x, mean(%x, axis=[1], keepdims=True), axis=[1])", X.var(1), x=X)
    body = "variance(%x, mean(%x, axis=[0, 2]), axis=[0, 2], keepdims=True, unbiased=True)"
    check(body, X.var((0, 2), ddof=1, keepdims=True), x=X)
    x = np.array([[1, 3, 3, 0]], "float32")
    check("argmax(%x, axis=[1], select_last_index=True)", np.array([2], "int32"), x=x)


def test_repetition(check):
    check("repeat(%x, repeats=2, axis=1)", X.repeat(2, 1), x=X)
    check("repeat(%x, repeats=3)", X.repeat(3), x=X)
    check("tile(%x, reps=[2, 1, 1, 3])", np.tile(X, (2, 1, 1, 3)), x=X)
    check("dyn.tile(%x, reshape(2, newshape=[1]))", np.tile(X, 2), x=X)
    a, b = np.arange(2, dtype="float32"), np.arange(3, dtype="float32")
    check("meshgrid((%a, %b))", *np.meshgrid(a, b, indexing="ij"), a=a, b=b)
    check('meshgrid((%a, %b), indexing="xy")', *np.meshgrid(a, b), a=a, b=b)
    check("broadcast_to_like(%a, %x)", np.broadcast_to(X[0, :, :1], X.shape), a=X[0, :, :1], x=X)
    check("collapse_sum_like(%x, %a)", X.sum((0, 2))[:, None], x=X, a=X[0, :, :1])
    shape = "concatenate((reshape(3, newshape=[1]), reshape(1, newshape=[1])))"
    check(f"collapse_sum_to(%x, {shape})", X.sum((0, 2))[:, None], x=X)
    check(f"dyn.broadcast_to(%a, {shape})", np.full((3, 1), 2, "f"), a=np.array([[2]], "f"))


def test_shapes_that_operands_hold(check):
    shape = "shape_of(%x)"
    check(f"dyn.reshape(%y, {shape})", np.arange(24, dtype="f").reshape(2, 3, 4),
          y=np.arange(24, dtype="f"), x=X)  # fmt: skip
    check(f'dyn.zeros({shape}, dtype="int8")', np.zeros(X.shape, "int8"), x=X)
    check(f'dyn.ones({shape}, dtype="float32")', np.ones(X.shape), x=X)
    check(f"dyn.full(7f, {shape})", np.full(X.shape, 7.0), x=X)
    check("vm.shape_of(%x)", np.array([2, 3, 4], "int32"), x=X)
    check("ndarray_size(%x)", np.array(24, "int32"), x=X)
    check("dyn.expand_dims(%x, 1)", X[:, None], x=X)
    check("dyn.squeeze(%x, reshape(0, newshape=[1]))", X[0], x=X[:1])
    check('full(2f, shape=[2], dtype="float16")', np.full(2, 2, "float16"))
    check("full_like(%x, 3f)", np.full(X.shape, 3.0), x=X)
    check('arange(1, 7, 2, dtype="int32")', np.arange(1, 7, 2, "int32"))
    check("reshape_like(%x, %y)", X.reshape(6, 4), x=X, y=draw(6, 4))
    body = "reshape_like(%x, %y, lhs_begin=1, rhs_begin=1, rhs_end=3)"
    check(body, X.reshape(2, 6, 2), x=X, y=draw(9, 6, 2))
    check("contrib_reverse_reshape(%x, newshape=[-1, 0])", X.reshape(6, 4), x=X)
    check("reshape(%x, newshape=[-1, 0], reverse=True)", X.reshape(6, 4), x=X)
    with pytest.raises(ModelError, match="operand shape must be known"):
        check("dyn.reshape(%x, %s)", x=X, s=np.array([4, 6], "int32"))


def test_padding_with_the_data_itself(check):
    rows = [[1, 0], [2, 1], [0, 2]]
    for mode in ("edge", "reflect"):
        body = f'nn.pad(%x, 0f, pad_width={rows}, pad_mode="{mode}")'
        check(body, np.pad(X, rows, mode=mode), x=X)
    check(f"nn.mirror_pad(%x, pad_width={rows})", np.pad(X, rows, mode="symmetric"), x=X)
    body = f'nn.mirror_pad(%x, pad_width={rows}, mode="REFLECT")'
    check(body, np.pad(X, rows, mode="reflect"), x=X)
    flat = 'concatenate((zeros(shape=[5], dtype="int32"), reshape(2, newshape=[1])))'
    check(f"dyn.nn.pad(%x, {flat}, 1.5f)",
          np.pad(X, [(0, 0), (0, 0), (0, 2)], constant_values=1.5), x=X)  # fmt: skip
    with pytest.raises(ModelError, match=r"widths .* do not fit axis 0"):
        check(f'nn.pad(%x, 0f, pad_width={[[2, 0], [0, 0], [0, 0]]}, pad_mode="reflect")', x=X)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_blocks(check, layout):
    to = (0, 1, 2, 3) if layout == "NCHW" else (0, 2, 3, 1)
    x = draw(2, 8, 2, 3)
    dcr = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 4, 6)
    cdr = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6)
    for mode, wanted in (("DCR", dcr), ("CDR", cdr)):
        body = f'nn.depth_to_space(%x, block_size=2, layout="{layout}", mode="{mode}")'
        check(body, wanted.transpose(to), x=x.transpose(to))
    body = f'nn.space_to_depth(%x, block_size=2, layout="{layout}")'
    check(body, x.transpose(to), x=dcr.transpose(to))


def test_batches_of_blocks(check):
    x = np.arange(2 * 4 * 4 * 1, dtype="float32").reshape(2, 4, 4, 1)
    padded = np.pad(x, [(0, 0), (0, 0), (0, 2), (0, 0)])
    wanted = np.concatenate([padded[:, i::2, j::3] for i in range(2) for j in range(3)])
    body = "nn.space_to_batch_nd(%x, block_shape=[2, 3], paddings=[[0, 0], [0, 2]])"
    check(body, wanted, x=x)
    body = "nn.batch_to_space_nd(%x, block_shape=[2, 3], crops=[[0, 0], [0, 2]])"
    check(body, x, x=wanted)


def test_packed_layouts(check):
    x = draw(1, 8, 2, 3)
    packed = x.reshape(1, 2, 4, 2, 3).transpose(0, 1, 3, 4, 2)
    check('layout_transform(%x, src_layout="NCHW", dst_layout="NCHW4c")', packed, x=x)
    check('layout_transform(%x, src_layout="NCHW4c", dst_layout="NHWC")',
          x.transpose(0, 2, 3, 1), x=packed)  # fmt: skip
    with pytest.raises(ModelError, match="does not divide into 3"):
        check('layout_transform(%x, src_layout="NCHW", dst_layout="NCHW3c")', x=x)


# A call, and positions %i that it does not have.
OUTSIDE = {
    "gather": ("gather(%x, %i, axis=1)", [[[0, 0, 0, 3]]] * 2, "-3 to 2 along axis 1"),
    "tuples": ("gather_nd(%x, %i)", [[0, 1], [0, -4]], "-3 to 2 along axis 1"),
    "batches": (
        "gather_nd(%x, %i, batch_dims=1, index_rank=1)", [[[0, 1], [7, 2]]], "-3 to 2 along axis 1"
    ),
    "take": ('take(%x, %i, axis=2, mode="fast")', [4, 0], "-4 to 3 along axis 2"),
    "batches of take": (
        'take(%x, %i, axis=1, batch_dims=1, mode="fast")', [[0], [3]], "-3 to 2 along axis 1"
    ),
    "index": ("adv_index((%x, %i, %i))", [1, 2], "-2 to 1 along axis 0"),
    "put": ("scatter_elements(%x, %i, %x, axis=2)", [[[0, 1, 2, 4]] * 3] * 2, "-4 to 3 along"),
    "put tuples": ("scatter_nd(%x, %i, strided_slice(%x, begin=[0], end=[1]))", [[2]], "-2 to 1"),
    "sparse": ("sparse_to_dense(%i, 1f, 0f, output_shape=[3])", [0, 3], "-3 to 2 along axis 0"),
    "loss": ("nn.nll_loss(reshape(%x, newshape=[6, 4]), %i, ones(shape=[4], dtype=\"float32\"))",
             [0, 1, 2, 3, 4, 0], "targets from 0 to 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("known", [False, True])
def test_positions_outside_are_errors(name, known):
    body, positions, says = OUTSIDE[name]
    arrays = {"x": X, "i": np.array(positions)}
    text = text_of(body.replace("%i", "%data"), {"x": X, "data": arrays["i"]})
    if known:
        with pytest.raises(ModelError, match=rf": \w+(\.\w+)?: takes .*{says}.*, got -?[2-7]"):
            import_relay(text, params={"data": arrays["i"]})
        return
    model = import_relay(text)
    with pytest.raises(InputError, match=rf"^input 'data': [\w.]+ takes .*{says}.*, got -?[2-7]"):
        for each in model.requirements:
            each.check({"x": X, "data": arrays["i"]})


def test_positions_that_modes_bring_inside_are_none():
    for mode in ("clip", "wrap"):
        text = text_of(f'take(%x, %data, axis=1, mode="{mode}")', {"x": X, "data": np.array([0])})
        assert import_relay(text).requirements == ()


def test_sequences_longer_than_the_data_are_as_long(check):
    body = "reverse_sequence(%x, %n, seq_axis=1, batch_axis=0)"
    check(body, X[:, ::-1], x=X, n=np.array([9, 3], "int32"))


def test_negative_positions_of_batches_stay_in_their_batch(check):
    wanted = np.stack([X[0, [-1]], X[1, [-3]]])
    body = 'take(%x, %j, axis=1, batch_dims=1, mode="fast")'
    check(body, wanted, x=X, j=np.array([[-1], [-3]]))
