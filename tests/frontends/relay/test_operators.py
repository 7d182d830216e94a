"""Every operator against an independent statement of it in NumPy, by loops where it counts."""

import itertools
import math

import numpy as np
import pytest

from glenside.errors import ModelError
from tests.frontends.relay.conftest import draw

# --- convolutions and pools ---------------------------------------------------------------------


def windows(x, kernel, strides, before, after, dilation, fill, ceil=False):
    """Yields (position, window) of the padded array (N, C, d...), by loops."""
    pads = [(0, 0), (0, 0)]
    counts = []
    for i, n in enumerate(x.shape[2:]):
        reach = (kernel[i] - 1) * dilation[i] + 1
        room = before[i] + n + after[i] - reach
        counts.append((math.ceil if ceil else math.floor)(room / strides[i]) + 1)
        extra = max((counts[-1] - 1) * strides[i] - room, 0)
        pads.append((before[i], after[i] + extra))
    padded = np.pad(x, pads, constant_values=fill)
    for position in itertools.product(*map(range, counts)):
        cut = tuple(
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, s, k, d in zip(position, strides, kernel, dilation, strict=True)
        )
        yield counts, position, padded[(slice(None), slice(None), *cut)]


def conv(x, w, strides, before, after, dilation, groups=1):
    x, w = x.astype("float64"), w.astype("float64")
    filters, depth = w.shape[:2]
    result = None
    for counts, position, window in windows(x, w.shape[2:], strides, before, after, dilation, 0):
        if result is None:
            result = np.zeros((x.shape[0], filters, *counts))
        for o in range(filters):
            low = o // (filters // groups) * depth
            part = window[:, low : low + depth] * w[o]
            result[(slice(None), o, *position)] = part.sum(axis=tuple(range(1, x.ndim)))
    return result


@pytest.mark.parametrize(
    ("attributes", "strides", "before", "after", "dilation"),
    [
        ("", (1, 1), (0, 0), (0, 0), (1, 1)),
        ("strides=[2, 3], padding=[1]", (2, 3), (1, 1), (1, 1), (1, 1)),
        ("padding=[1, 2], channels=4, kernel_size=[3, 2]", (1, 1), (1, 2), (1, 2), (1, 1)),
        ("padding=[0, 1, 2, 3], dilation=[2, 1]", (1, 1), (0, 1), (2, 3), (2, 1)),
        ('dilation=[2], out_dtype="", out_layout="NCHW"', (1, 1), (0, 0), (0, 0), (2, 2)),
    ],
)
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv2d(check, attributes, strides, before, after, dilation, groups):
    x, w = draw(2, 4, 7, 8), draw(4, 4 // groups, 3, 2, seed=1)
    wanted = conv(x, w, strides, before, after, dilation, groups)
    given = ", ".join(filter(None, [attributes, f"groups={groups}"]))
    check(f"nn.conv2d(%x, %w, {given})", wanted, x=x, w=w)


def test_conv2d_with_more_filters_than_channels_a_group(check):
    x, w = draw(1, 2, 5, 5), draw(6, 1, 3, 3, seed=1)
    wanted = conv(x, w, (1, 1), (0, 0), (0, 0), (1, 1), 2)
    check("nn.conv2d(%x, %w, groups=2)", wanted, x=x, w=w)


@pytest.mark.parametrize("kernel_layout", ["OIHW", "HWIO", "OHWI", "HWOI"])
def test_conv2d_layouts(check, kernel_layout):
    x, w = draw(2, 3, 5, 6), draw(4, 3, 3, 2, seed=1)
    wanted = conv(x, w, (1, 1), (1, 1), (1, 1), (1, 1))
    stored = w.transpose(["OIHW".index(letter) for letter in kernel_layout])
    layouts = f'data_layout="NHWC", kernel_layout="{kernel_layout}"'
    body = f"nn.conv2d(%x, %w, padding=[1, 1], {layouts}"
    nhwc = x.transpose(0, 2, 3, 1)
    check(body + ")", wanted.transpose(0, 2, 3, 1), x=nhwc, w=stored)
    check(body + ', out_layout="NCHW")', wanted, x=nhwc, w=stored)


def test_conv2d_accumulates_in_another_dtype(check):
    x, w = draw(1, 8, 4, 4, dtype="int8") * 20, draw(2, 8, 3, 3, dtype="int8", seed=1) * 20
    x, w = x.astype("int8"), w.astype("int8")
    wanted = conv(x, w, (1, 1), (0, 0), (0, 0), (1, 1)).astype("int32")
    check('nn.conv2d(%x, %w, out_dtype="int32")', wanted, x=x, w=w)


def test_conv1d(check):
    x, w = draw(2, 4, 9), draw(6, 4, 3, seed=1)
    check("nn.conv1d(%x, %w)", conv(x, w, (1,), (0,), (0,), (1,)), x=x, w=w)
    wanted = conv(x, w, (2,), (1,), (2,), (2,))
    attributes = "strides=[2], padding=[1, 2], dilation=[2], channels=6, kernel_size=[3]"
    check(f"nn.conv1d(%x, %w, {attributes})", wanted, x=x, w=w)


def test_conv3d(check):
    x, w = draw(1, 2, 4, 5, 6), draw(2, 1, 2, 3, 2, seed=1)
    wanted = conv(x, w, (1, 2, 1), (1, 0, 1), (0, 2, 1), (1, 1, 2), 2)
    attributes = "strides=[1, 2, 1], padding=[1, 0, 1, 0, 2, 1], dilation=[1, 1, 2], groups=2"
    check(f"nn.conv3d(%x, %w, {attributes})", wanted, x=x, w=w)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("channels=5", "channels is 5"),
        ("kernel_size=[2, 2]", "kernel_size is"),
        ("groups=3", "3 groups"),
        ("padding=[1, 2, 3]", "padding"),
        ("strides=[0, 1]", "strides"),
        ('data_layout="NCHW4c"', "layout NCHW4c does not fit shape"),
        ('data_layout="NCHX"', "layout NCHX is not supported"),
        ('data_layout="NCHW4"', "layout NCHW4 is not supported"),
        ('out_dtype="float8"', "attribute out_dtype float8 is not supported"),
    ],
)
def test_conv2d_attributes_that_do_not_fit(check, attributes, message):
    with pytest.raises(ModelError, match=message):
        check(f"nn.conv2d(%x, %w, {attributes})", x=draw(1, 2, 5, 5), w=draw(4, 2, 3, 3))


POOLS = [
    ("strides=[2, 2]", (2, 2), (0, 0), (0, 0), (1, 1), False),
    ("", (1, 1), (0, 0), (0, 0), (1, 1), False),
    ("strides=[2, 2], padding=[0, 0, 1, 1]", (2, 2), (0, 0), (1, 1), (1, 1), False),
    ("strides=[2, 1], padding=[2, 1]", (2, 1), (2, 1), (2, 1), (1, 1), False),
    ("dilation=[2, 1], padding=[1]", (1, 1), (1, 1), (1, 1), (2, 1), False),
    ("strides=[2, 3], padding=[1], ceil_mode=True", (2, 3), (1, 1), (1, 1), (1, 1), True),
]


def pool(x, setting, reduce, fill):
    _, strides, before, after, dilation, ceil = setting
    result = None
    for counts, position, window in windows(
        x, (3, 2), strides, before, after, dilation, fill, ceil
    ):
        if result is None:
            result = np.zeros((*x.shape[:2], *counts))
        result[(slice(None), slice(None), *position)] = reduce(window)
    return result


@pytest.mark.parametrize("setting", POOLS, ids=lambda setting: setting[0])
def test_pools(check, setting):
    attributes = ", ".join(filter(None, ["pool_size=[3, 2]", setting[0]]))
    x = draw(2, 3, 7, 8) - 3
    largest = pool(x, setting, lambda w: w.max((2, 3)), -np.inf)
    check(f"nn.max_pool2d(%x, {attributes})", largest, x=x)

    def mean_inside(window):
        count = np.isfinite(window).sum((2, 3))
        return np.nansum(window, (2, 3)) / np.maximum(count, 1)

    inside = pool(x, setting, mean_inside, np.nan)
    check(f"nn.avg_pool2d(%x, {attributes})", inside, x=x)
    nhwc = x.transpose(0, 2, 3, 1)
    body = f'nn.avg_pool2d(%x, {attributes}, layout="NHWC")'
    check(body, inside.transpose(0, 2, 3, 1), x=nhwc)
    whole = pool(x, setting, lambda w: w.mean((2, 3)), 0)
    check(f"nn.avg_pool2d(%x, {attributes}, count_include_pad=True)", whole, x=x)


def test_max_pool_of_integers_pads_with_the_least(check):
    x = draw(1, 1, 4, 4, dtype="int8") - 100
    wanted = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], constant_values=-128)
    wanted = np.lib.stride_tricks.sliding_window_view(wanted, (3, 3), (2, 3)).max((4, 5))
    body = "nn.max_pool2d(%x, pool_size=[3, 3], padding=[1, 1])"
    check(body, wanted.astype("int8"), x=x.astype("int8"))


def test_pools_of_one_and_three_axes(check):
    x = draw(2, 3, 8)
    pairs = x.reshape(2, 3, 4, 2)
    check("nn.max_pool1d(%x, pool_size=[2], strides=[2])", pairs.max(3), x=x)
    check("nn.avg_pool1d(%x, pool_size=[2], strides=[2])", pairs.mean(3), x=x)
    v = draw(1, 2, 4, 4, 4)
    cubes = v.reshape(1, 2, 2, 2, 2, 2, 2, 2)
    sizes = "pool_size=[2, 2, 2], strides=[2, 2, 2]"
    check(f"nn.max_pool3d(%x, {sizes})", cubes.max((3, 5, 7)), x=v)
    check(f"nn.avg_pool3d(%x, {sizes})", cubes.mean((3, 5, 7)), x=v)


def test_global_and_adaptive_pools(check):
    x = draw(2, 3, 6, 8)
    mean, largest = x.mean((2, 3), keepdims=True), x.max((2, 3), keepdims=True)
    check("nn.global_avg_pool2d(%x)", mean, x=x)
    check("nn.global_max_pool2d(%x)", largest, x=x)
    nhwc = x.transpose(0, 2, 3, 1)
    check('nn.global_avg_pool2d(%x, layout="NHWC")', mean.transpose(0, 2, 3, 1), x=nhwc)
    check("nn.adaptive_avg_pool2d(%x, output_size=[1, 1])", mean, x=x)
    check("nn.adaptive_avg_pool2d(%x)", x, x=x)
    blocks = x.reshape(2, 3, 2, 3, 2, 4)
    check("nn.adaptive_avg_pool2d(%x, output_size=[2])", blocks.mean((3, 5)), x=x)
    check("nn.adaptive_max_pool2d(%x, output_size=[2, 2])", blocks.max((3, 5)), x=x)
    for name, reduce in (("avg", np.mean), ("max", np.max)):
        wanted = np.empty((2, 3, 4, 3), "float32")
        for i, j in np.ndindex(4, 3):
            rows = slice(i * 6 // 4, -(-(i + 1) * 6 // 4))
            columns = slice(j * 8 // 3, -(-(j + 1) * 8 // 3))
            wanted[:, :, i, j] = reduce(x[:, :, rows, columns], axis=(2, 3))
        check(f"nn.adaptive_{name}_pool2d(%x, output_size=[4, 3])", wanted, x=x)
    line = draw(1, 2, 6)
    check("nn.adaptive_avg_pool1d(%x, output_size=[3])", line.reshape(1, 2, 3, 2).mean(3), x=line)
    check("nn.adaptive_max_pool1d(%x, output_size=[1])", line.max(2, keepdims=True), x=line)
    cube = draw(1, 2, 2, 2, 4)
    halves = cube.reshape(1, 2, 1, 2, 1, 2, 2, 2)
    body = "nn.adaptive_avg_pool3d(%x, output_size=[1, 1, 2])"
    check(body, halves.mean((3, 5, 7)), x=cube)
    body = "nn.adaptive_max_pool3d(%x, output_size=[1, 1, 2])"
    check(body, halves.max((3, 5, 7)), x=cube)


# --- products -----------------------------------------------------------------------------------


def test_dense(check):
    x, w = draw(3, 5), draw(4, 5)
    check("nn.dense(%x, %w, units=None)", x @ w.T, x=x, w=w)
    check('nn.dense(%x, %w, units=4, out_dtype="float32")', x @ w.T, x=x, w=w)
    deep = draw(2, 3, 5)
    check("nn.dense(%x, %w)", deep @ w.T, x=deep, w=w)
    i, j = draw(3, 9, dtype="int8"), draw(4, 9, dtype="int8")
    wanted = i.astype("int32") @ j.astype("int32").T
    check('nn.dense(%x, %w, out_dtype="int32")', wanted, x=i, w=j)


def test_matmul(check):
    a, b = draw(3, 4), draw(4, 5)
    check("nn.matmul(%a, %b)", a @ b, a=a, b=b)
    body = "nn.matmul(%a, %b, transpose_a=True, transpose_b=True, units=5)"
    check(body, a @ b, a=a.T.copy(), b=b.T.copy())


@pytest.mark.parametrize("batches", [(2, 2), (1, 2), (2, 1)])
def test_batch_matmul(check, batches):
    a, b = draw(batches[0], 3, 4), draw(batches[1], 5, 4)
    wanted = np.einsum("bmk,bnk->bmn", *(np.broadcast_to(x, (2, *x.shape[1:])) for x in (a, b)))
    check("nn.batch_matmul(%a, %b)", wanted, a=a, b=b)
    check("nn.batch_matmul(%a, %b, transpose_b=True)", wanted, a=a, b=b)
    a, b = a.swapaxes(1, 2).copy(), b.swapaxes(1, 2).copy()
    check("nn.batch_matmul(%a, %b, transpose_a=True, transpose_b=False)", wanted, a=a, b=b)


# --- normalisations -----------------------------------------------------------------------------


def batch_norm(x, g, b, m, v, axis, epsilon):
    shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    g, b, m, v = (p.reshape(shape).astype("float64") for p in (g, b, m, v))
    return (x - m) / np.sqrt(v + epsilon) * g + b


@pytest.mark.parametrize(
    ("attributes", "axis", "epsilon", "scaled", "centred"),
    [
        ("", 1, 1e-5, True, True),
        (", epsilon=0.5f", 1, 0.5, True, True),
        (", axis=-1, scale=False", 3, 1e-5, False, True),
        (", axis=2, center=False", 2, 1e-5, True, False),
    ],
)
def test_batch_norm(check, attributes, axis, epsilon, scaled, centred):
    x = draw(2, 3, 3, 3)
    g, b, m, v = (draw(3, seed=i) for i in range(1, 5))
    v = np.abs(v) + np.float32(0.1)
    one, zero = np.ones(3), np.zeros(3)
    wanted = batch_norm(x, g if scaled else one, b if centred else zero, m, v, axis, epsilon)
    body = f"nn.batch_norm(%x, %g, %b, %m, %v{attributes})"
    check(body, wanted, m, v, x=x, g=g, b=b, m=m, v=v)


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_norm(check, axis):
    x, g, b = draw(2, 4, 4), draw(4, seed=1), draw(4, seed=2)
    mean, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    plain = (x - mean) / np.sqrt(variance + 0.01)
    shape = (4,) if axis == -1 else (4, 1)
    wanted = plain * g.reshape(shape) + b.reshape(shape)
    body = f"nn.layer_norm(%x, %g, %b, axis={axis}, epsilon=0.01f"
    check(body + ")", wanted, x=x, g=g, b=b)
    check(body + ", scale=False, center=False)", plain, x=x, g=g, b=b)


def test_layer_norm_defaults(check):
    x = draw(2, 8)
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    check("nn.layer_norm(%x, %g, %b)", wanted, x=x, g=np.ones(8, "f"), b=np.zeros(8, "f"))


@pytest.mark.parametrize(("attributes", "axis"), [("", -1), (", axis=1", 1), (", axis=-3", 0)])
def test_softmax(check, attributes, axis):
    x = 30 * draw(2, 3, 4)
    powers = np.exp(x.astype("float64") - x.max(axis, keepdims=True))
    wanted = powers / powers.sum(axis, keepdims=True)
    check(f"nn.softmax(%x{attributes})", wanted, x=x)
    large = 1000 * x.astype("float64")
    shifted = large - large.max(axis, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    check(f"nn.log_softmax(%x{attributes})", logs, x=(1000 * x))


def test_dropout_keeps_everything(check):
    x = draw(2, 3)
    check("nn.dropout(%x, rate=0.9f)", x, np.ones_like(x), x=x)


def test_bias_add(check):
    x = draw(3, 3, 3)
    b = draw(3, seed=1)
    check("nn.bias_add(%x, %b)", x + b[:, None], x=x, b=b)
    check("nn.bias_add(%x, %b, axis=-1)", x + b, x=x, b=b)
    check("nn.bias_add(%x, %b, axis=0)", x + b[:, None, None], x=x, b=b)
    with pytest.raises(ModelError, match=r"bias of shape \(2,\) does not fit axis 1"):
        check("nn.bias_add(%x, %b)", x=x, b=draw(2))


# --- elementwise --------------------------------------------------------------------------------

UNARY = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": lambda x: np.arccosh(x + 2),
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "floor": np.floor,
    "log": lambda x: np.log(x + 2),
    "negative": lambda x: -x,
    "nn.relu": lambda x: np.where(x > 0, x, 0),
    "rsqrt": lambda x: (x + 2) ** -0.5,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": lambda x: (x + 2) ** 0.5,
    "tan": np.tan,
    "tanh": np.tanh,
    "copy": lambda x: x,
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(check, name):
    x = np.linspace(-0.95, 0.95, 12, dtype="float32").reshape(3, 4)
    shifted = name in ("acosh", "log", "rsqrt", "sqrt")
    given = x + 2 if shifted else x
    check(f"{name}(%x)", UNARY[name](x.astype("float64")), x=given.astype("float32"))


BINARY = {
    "add": np.add,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "power": lambda a, b: np.abs(a) ** b,
    "subtract": np.subtract,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_broadcasts(check, name):
    a, b = draw(8, 1, 3), draw(2, 1, 4, 1)
    if name == "power":
        a = np.abs(a)
    b[0, 0, 0, 0] = a[0, 0, 0]
    check(f"{name}(%a, %b)", BINARY[name](a, b), a=a, b=b)
    check(f"{name}(%a, 0.5f)", BINARY[name](a, np.float32(0.5)), a=a)


def test_integer_division_truncates(check):
    a, b = np.array([-7, 7, -6], "int32"), np.array([2, -2, 2], "int32")
    check("divide(%a, %b)", np.array([-3, -3, -3], "int32"), a=a, b=b)


def test_what_is_no_number_and_halves(check):
    x = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5, -2.5], "float32")
    check("isnan(%x)", np.isnan(x), x=x)
    check("isinf(%x)", np.isinf(x), x=x)
    check("round(%x)", np.round(x[3:]), x=x[3:])


def test_remainders_and_shifts(check):
    a, b = np.array([-7, 7, -7, 7], "int32"), np.array([3, -3, -3, 3], "int32")
    check("floor_mod(%a, %b)", np.mod(a, b), a=a, b=b)
    check("mod(%a, %b)", np.fmod(a, b), a=a, b=b)
    n = np.array([0, 1, 2, 3], "int32")
    check("left_shift(%a, %n)", np.left_shift(a, n), a=a, n=n)
    check("right_shift(%a, %n)", np.right_shift(a, n), a=a, n=n)


def test_logical(check):
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for name in ("and", "or", "xor"):
        check(f"logical_{name}(%a, %b)", getattr(np, f"logical_{name}")(a, b), a=a, b=b)
    check("logical_not(%a)", ~a, a=a)


def test_cast_clip_leaky_relu_where(check):
    x = np.linspace(-3, 3, 13, dtype="float32")
    check('cast(%x, dtype="int32")', np.trunc(x).astype("int32"), x=x)
    check('cast(%x, dtype="bool")', x != 0, x=x)
    check("clip(%x, a_min=0f, a_max=2.5f)", np.clip(x, 0, 2.5), x=x)
    i = np.arange(-5, 6, dtype="int8")
    check("clip(%x, a_min=-inff, a_max=3f)", np.minimum(i, 3).astype("int8"), x=i)
    check("nn.leaky_relu(%x)", np.where(x > 0, x, 0.25 * x), x=x)
    check("nn.leaky_relu(%x, alpha=0.1f)", np.where(x > 0, x, 0.1 * x), x=x)
    c = draw(4, 1, dtype="int32") // 3
    check("where(%c, %x, 0f)", np.where(c, x, np.float32(0)), c=c, x=x)


# --- reductions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max", "mean", "min", "prod", "sum"])
def test_reductions(check, name):
    x = draw(2, 3, 4)
    reduce = getattr(np, name)
    check(f"{name}(%x)", reduce(x), x=x)
    check(f"{name}(%x, axis=None, keepdims=True)", reduce(x, keepdims=True), x=x)
    check(f"{name}(%x, axis=[1])", reduce(x, axis=1), x=x)
    check(f"{name}(%x, axis=-1)", reduce(x, axis=2), x=x)
    check(f"{name}(%x, axis=[-1, 0], keepdims=True)", reduce(x, axis=(0, 2), keepdims=True), x=x)
    check(f"{name}(%x, axis=[1], exclude=True)", reduce(x, axis=(0, 2)), x=x)


def test_mean_of_integers_truncates(check):
    x = np.array([[-3, -4], [3, 4]], "int32")
    check("mean(%x, axis=[1])", np.array([-3, 3], "int32"), x=x)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(check, name):
    x = draw(3, 4, 5, dtype="int32")
    find = getattr(np, name)
    check(f"{name}(%x, axis=[1])", find(x, 1).astype("int32"), x=x)
    check(f"{name}(%x, axis=-1, keepdims=True)", find(x, 2)[..., None].astype("int32"), x=x)
    check(f"{name}(%x)", find(x).astype("int32"), x=x)
    flat = x.transpose(1, 0, 2).reshape(4, 15)
    check(f"{name}(%x, axis=[2, 0])", find(flat, 1).astype("int32"), x=x)


# --- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("newshape", "shape"),
    [
        ([2, 12], (2, 12)),
        ([-1], (24,)),
        ([0, -1], (2, 12)),
        ([-1, 3, 4], (2, 3, 4)),
        ([0, 0, 2, 2], (2, 3, 2, 2)),
        ([-2], (2, 3, 4)),
        ([2, -2], (2, 3, 4)),
        ([-2, 1, 1], (2, 3, 4, 1, 1)),
        ([-3, 4], (6, 4)),
        ([0, -3], (2, 12)),
        ([-4, 1, 2, -2], (1, 2, 3, 4)),
        ([2, -4, -1, 3, 0], (2, 1, 3, 4)),
    ],
)
def test_reshape(check, newshape, shape):
    x = draw(2, 3, 4)
    check(f"reshape(%x, newshape={newshape})", x.reshape(shape), x=x)


@pytest.mark.parametrize(
    "newshape", [[5, -1], [-1, -1], [7], [0, 0, 0, 0], [-4, 3, 3, -2], [-5], [-3, -3]]
)
def test_reshapes_that_do_not_fit(check, newshape):
    with pytest.raises(ModelError, match=r"line 1, column .*reshape"):
        check(f"reshape(%x, newshape={newshape})", x=draw(2, 3, 4))


def test_batch_flatten_transpose_squeeze_expand(check):
    x = draw(2, 3, 4)
    check("nn.batch_flatten(%x)", x.reshape(2, 12), x=x)
    check("transpose(%x)", x.T, x=x)
    check("transpose(%x, axes=None)", x.T, x=x)
    check("transpose(%x, axes=[0, 2, -2])", x.transpose(0, 2, 1), x=x)
    ones = draw(1, 3, 1, 1)
    check("squeeze(%x)", ones.reshape(3), x=ones)
    check("squeeze(%x, axis=[-1, 0])", ones.reshape(3, 1), x=ones)
    check("squeeze(%x, axis=2)", ones.reshape(1, 3, 1), x=ones)
    check("expand_dims(%x, axis=1)", x[:, None], x=x)
    check("expand_dims(%x, axis=1, num_newaxis=2)", x[:, None, None], x=x)
    check("expand_dims(%x, axis=-1, num_newaxis=2)", x[..., None, None], x=x)
    check("expand_dims(%x, axis=0, num_newaxis=0)", x, x=x)
    check("broadcast_to(%x, shape=[5, 2, 3, 4])", np.broadcast_to(x, (5, 2, 3, 4)), x=x)


def test_zeros_and_ones(check):
    check('zeros(shape=[2, 3], dtype="int8")', np.zeros((2, 3), "int8"))
    check('ones(shape=[], dtype="float64")', np.ones(()))


def test_concatenate_and_stack(check):
    a, b, c = draw(2, 3), draw(2, 3, seed=1), draw(2, 3, seed=2)
    for axis in (0, 1, -1, -2):
        wanted = np.concatenate([a, b, c], axis)
        check(f"concatenate((%a, %b, %c), axis={axis})", wanted, a=a, b=b, c=c)
    for axis in (0, 1, 2, -1, -3):
        check(f"stack((%a, %b, %c), axis={axis})", np.stack([a, b, c], axis), a=a, b=b, c=c)
    check("stack((%a, %b))", np.stack([a, b]), a=a, b=b)
    check("concatenate((%a, %b))", np.concatenate([a, b]), a=a, b=b)
    check("concatenate((%a,))", a, a=a)


def test_split(check):
    x = draw(4, 6)
    check("split(%x, indices_or_sections=2)", *np.split(x, 2), x=x)
    check("split(%x, indices_or_sections=3, axis=-1)", *np.split(x, 3, 1), x=x)
    check("split(%x, indices_or_sections=1)", x, x=x)
    check("split(%x, indices_or_sections=[1, 5], axis=1)", *np.split(x, [1, 5], 1), x=x)
    check("split(%x, indices_or_sections=[2, 2])", *np.split(x, [2, 2]), x=x)


def test_pad(check):
    x = draw(2, 3)
    widths = "pad_width=[[0, 1], [2, 0]]"
    padded = np.pad(x, [(0, 1), (2, 0)])
    check(f"nn.pad(%x, 0, {widths})", padded, x=x)
    check(f"nn.pad(%x, {widths})", padded, x=x)
    filled = np.pad(x, [(0, 1), (2, 0)], constant_values=1.5)
    check(f"nn.pad(%x, 1.5f /* ty=float32 */, {widths})", filled, x=x)
    check(f'nn.pad(%x, {widths}, pad_value=1.5f, pad_mode="constant")', filled, x=x)
    i = draw(2, 3, dtype="int8")
    wanted = np.pad(i, [(0, 1), (2, 0)], constant_values=-7)
    check(f"nn.pad(%x, -7f, {widths})", wanted, x=i)
    with pytest.raises(ModelError, match="padding value"):
        check(f"nn.pad(%x, 0.5f, {widths})", x=i)


# --- indexing -----------------------------------------------------------------------------------


def test_take(check):
    x = draw(5, 4)
    i = np.array([[0, 4, 2], [9, -1, 1]], "int64")
    for axis in (0, 1, -1):
        for mode in ("clip", "wrap"):
            wanted = np.take(x, i, axis, mode=mode)
            check(f'take(%x, %i, axis={axis}, mode="{mode}")', wanted, x=x, i=i)
    check("take(%x, %i)", np.take(x, i, mode="clip"), x=x, i=i)
    inside = np.array(3, "uint8")
    check('take(%x, %i, axis=0, mode="fast")', x[3], x=x, i=inside)
    long = draw(300)
    small = np.array([-5, 127], "int8")
    check("take(%x, %i, axis=0)", long[[0, 127]], x=long, i=small)
    check('take(%x, %i, axis=0, mode="wrap")', long[[-5, 127]], x=long, i=small)


@pytest.mark.parametrize(
    ("attributes", "cut"),
    [
        ("begin=[1, 0], end=[3, 4], strides=[1, 1], axes=[0, 1]", np.s_[1:3, 0:4]),
        ("begin=[1], end=[4], strides=[2]", np.s_[1:4:2]),
        ("begin=[2], end=[-1], axes=[-1]", np.s_[:, 2:-1]),
        ("begin=[-3, 1], end=[100, 100], strides=[1, 3]", np.s_[-3:100, 1:100:3]),
        ("begin=[3], end=[1]", np.s_[3:1]),
        ('begin=[1, 2], end=[2, -1], slice_mode="size"', np.s_[1:3, 2:]),
    ],
)
def test_strided_slice(check, attributes, cut):
    x = draw(5, 6)
    check(f"strided_slice(%x, {attributes})", x[cut], x=x)


@pytest.mark.parametrize(
    ("attributes", "cut"),
    [
        ("begin=[3], end=[0], strides=[-1]", np.s_[3:0:-1]),
        ("begin=[-1], end=[-6], strides=[-2]", np.s_[::-2]),
        ("begin=[9, 4], end=[-9, 1], strides=[-1, -3]", np.s_[::-1, 4:1:-3]),
        ("begin=[0], end=[3], strides=[-1]", np.s_[0:3:-1]),
    ],
)
def test_strided_slice_backwards(check, attributes, cut):
    x = draw(5, 6)
    check(f"strided_slice(%x, {attributes})", x[cut], x=x)
