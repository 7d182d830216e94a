"""Marks, remainders, transposed convolutions, normalisations and losses, against NumPy."""

import numpy as np
import pytest

from glenside.errors import ModelError
from tests.frontends.relay.conftest import draw

X = draw(2, 4, 3)


@pytest.mark.parametrize(
    "call",
    [
        "annotation.stop_fusion(%x)", "annotation.checkpoint(%x)", "annotation.bitpack_start(%x)",
        'annotation.cast_hint(%x, dtype="int8")', "annotation.bitpack_end(%x)",
        'annotation.compiler_begin(%x, compiler="dnnl")',
        'annotation.compiler_end(%x, compiler="dnnl")',
        "on_device(%x, virtual_device=meta[VirtualDevice][0], constrain_result=True)",
        "device_copy(%x, src_dev_type=1, dst_dev_type=2)", 'reinterpret(%x, dtype="float32")',
    ],
)  # fmt: skip
def test_marks_change_nothing(check, call):
    check(call, X, x=X)


UNARY = {
    "fast_erf": np.vectorize(__import__("math").erf),
    "fast_exp": np.exp,
    "fast_tanh": np.tanh,
    "log2": lambda x: np.log2(np.abs(x)),
    "log10": lambda x: np.log10(np.abs(x)),
    "trunc": np.trunc,
}


@pytest.mark.parametrize("name", UNARY)
def test_functions(check, name):
    x = np.abs(X) if name.startswith("log") else 3 * X
    check(f"{name}(%x)", UNARY[name](x), x=x)


def test_quotients_and_bits(check):
    a, b = np.array([-7, 7, -7, 7], "int32"), np.array([3, -3, -3, 3], "int32")
    check("floor_divide(%a, %b)", a // b, a=a, b=b)
    check("trunc_divide(%a, %b)", np.trunc(a / b).astype("int32"), a=a, b=b)
    check("trunc_mod(%a, %b)", np.fmod(a, b), a=a, b=b)
    f = a.astype("float32") / 2
    check("floor_divide(%a, %b)", f // 3, a=f, b=np.float32(3))
    check("trunc_divide(%a, %b)", np.trunc(f / 3), a=f, b=np.float32(3))
    for name in ("and", "or", "xor"):
        check(f"bitwise_{name}(%a, %b)", getattr(np, f"bitwise_{name}")(a, b), a=a, b=b)
    check("bitwise_not(%a)", ~a, a=a)
    check("cast_like(%a, %f)", a.astype("float32"), a=a, f=f)
    x = np.array([1, np.inf, -np.inf, np.nan], "float32")
    check("isfinite(%x)", np.isfinite(x), x=x)


def test_clip_with_crossed_bounds(check):
    # The lower bound wins, as in TVM's max(min(x, a_max), a_min).
    x = np.array([-5, 0, 5], "float32")
    check("clip(%x, a_min=2f, a_max=-2f)", np.full(3, 2.0), x=x)
    check("clip(%x, a_min=2f, a_max=-2f)", np.full(3, 2, "int8"), x=x.astype("int8"))
    check("clip(%x, a_min=300f, a_max=400f)", np.full(3, 127, "int8"), x=x.astype("int8"))


def test_prelu(check):
    a = np.array([0.1, 0.2, 0.3, 0.4], "float32")
    check("nn.prelu(%x, %a)", np.where(X > 0, X, X * a[:, None]), x=X, a=a)
    check("nn.prelu(%x, %a, axis=-1)", np.where(X > 0, X, X * a[:3]), x=X, a=a[:3])


def spread(x, w, stride, pad, extra):
    """Every input element adds a multiple of its filter to the result."""
    rank, k = x.ndim - 2, w.shape[2:]
    full = [(n - 1) * stride + m + extra for n, m in zip(x.shape[2:], k, strict=True)]
    result = np.zeros((x.shape[0], w.shape[1], *full))
    for at in np.ndindex(*x.shape[2:]):
        cut = tuple(slice(a * stride, a * stride + m) for a, m in zip(at, k, strict=True))
        cell = x[(slice(None), slice(None), *at)]
        result[(slice(None), slice(None), *cut)] += np.einsum("nc,co...->no...", cell, w)
    inner = tuple(slice(pad, n - pad) for n in result.shape[2:])
    return result[(slice(None), slice(None), *inner)] if rank else result


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(check, rank):
    x, w = draw(1, 2, *(3, 4, 2)[:rank]), draw(2, 3, *(3, 2, 2)[:rank], seed=1)
    wanted = spread(x, w, 2, 1, 1)
    ones, twos = [1] * rank, [2] * rank
    given = f"strides={twos}, padding={ones}, output_padding={ones}, channels=3"
    call = {
        1: "nn.conv1d_transpose(%x, %w, ",
        2: "nn.conv2d_transpose(%x, %w, ",
        3: "nn.conv3d_transpose(%x, %w, ",
    }[rank]
    check(f"{call}{given})", wanted, x=x, w=w)
    check(f"{call}channels=3, kernel_size={list(w.shape[2:])})", spread(x, w, 1, 0, 0), x=x, w=w)
    with pytest.raises(ModelError, match="channels is 4, the weights have 3 filters"):
        check(f"{call}channels=4)", x=x, w=w)


def test_blocked_convolutions_and_products(check):
    x, w = draw(1, 4, 3, 3), draw(4, 4, 2, 2, seed=1)
    looks = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    packed = x.reshape(1, 2, 2, 3, 3).transpose(0, 1, 3, 4, 2)
    wanted = np.einsum("nchwij,ocij->nohw", looks, w)
    out = wanted.reshape(1, 2, 2, 2, 2).transpose(0, 1, 3, 4, 2)
    filters = w.reshape(2, 2, 2, 2, 2, 2).transpose(0, 2, 4, 5, 3, 1)
    layouts = 'data_layout="NCHW2c", kernel_layout="OIHW2i2o", out_layout="NCHW2c"'
    check(f"nn.contrib_conv2d_NCHWc(%x, %w, {layouts})", out, x=packed, w=filters)
    deep = np.einsum("nchwij,cij->nchw", looks, w[:, 0])
    out = deep.reshape(1, 2, 2, 2, 2).transpose(0, 1, 3, 4, 2)
    filters = w[:, :1].reshape(2, 2, 1, 2, 2, 1).transpose(0, 2, 3, 4, 5, 1)
    layouts = 'data_layout="NCHW2c", kernel_layout="OIHW1i2o", out_layout="NCHW2c", groups=4'
    check(f"nn.contrib_depthwise_conv2d_NCHWc(%x, %w, {layouts})", out, x=packed, w=filters)
    a, b = draw(2, 3), draw(4, 3, seed=1)
    blocks = b.reshape(2, 2, 3).transpose(0, 2, 1)
    check('nn.contrib_dense_pack(%a, %b, weight_layout="NC2n")', a @ b.T, a=a, b=blocks)


def test_normalisations(check):
    g, b = draw(4, seed=1), draw(4, seed=2)
    column = (slice(None), None)

    def standard(x, axes):
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)

    wanted = standard(X, 2) * g[column] + b[column]
    check("nn.instance_norm(%x, %g, %b)", wanted, x=X, g=g, b=b)
    grouped = standard(X.reshape(2, 2, 6), 2).reshape(X.shape)
    wanted = grouped * g[column] + b[column]
    check("nn.group_norm(%x, %g, %b, num_groups=2)", wanted, x=X, g=g, b=b)
    squares = np.pad(X**2, [(0, 0), (1, 1), (0, 0)])
    near = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    wanted = X / (2 + 0.3 / 3 * near) ** 0.75
    check("nn.lrn(%x, size=3, alpha=0.3f)", wanted, x=X)
    wanted = X / np.sqrt(np.maximum((X**2).sum(1, keepdims=True), 0.5))
    check("nn.l2_normalize(%x, eps=0.5f, axis=[1])", wanted, x=X)
    powers = np.exp(X)
    check("nn.fast_softmax(%x)", powers / powers.sum(-1, keepdims=True), x=X)


def test_losses(check):
    p, t = np.abs(draw(3, 4)) + 0.1, np.abs(draw(3, 4, seed=1))
    check("nn.cross_entropy(%p, %t)", -(t * np.log(p)).sum() / 3, p=p, t=t)
    check("nn.cross_entropy_with_logits(%p, %t)", -(t * p).sum() / 3, p=p, t=t)
    y, w = np.array([[0, 3, 1], [2, 1, 3]], "int64"), np.array([1, 2, 3, 4], "float32")
    share = np.where(y == 1, 0, w[y])
    each = -np.take_along_axis(X, y[:, None], 1)[:, 0] * share
    for reduction, wanted in (("none", each), ("sum", each.sum()),
                              ("mean", each.sum() / share.sum())):  # fmt: skip
        body = f'nn.nll_loss(%x, %y, %w, reduction="{reduction}", ignore_index=1)'
        check(body, wanted, x=X, y=y, w=w)


def test_products_by_formula_and_transforms(check):
    a, b = draw(2, 3), draw(3, 4)
    check('einsum((%a, %b), equation="ij,jk->ki")', (a @ b).T, a=a, b=b)
    r, i = draw(2, 5), draw(2, 5, seed=1)
    wanted = np.fft.fft(r + 1j * i)
    check("dft(%r, %i)", wanted.real, wanted.imag, r=r, i=i)
    wanted = np.fft.ifft(r + 1j * i)
    check("dft(%r, %i, inverse=True)", wanted.real, wanted.imag, r=r, i=i)
    queue, new = draw(5, 2), draw(2, 2, seed=1)
    check("nn.fifo_buffer(%n, %q, axis=0)", np.concatenate([queue[2:], new]), n=new, q=queue)
