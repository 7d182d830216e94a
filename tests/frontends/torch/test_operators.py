"""Operators of torch and torch.nn, with varied options, against PyTorch's eager result.

The interpreter computes what was imported: no kernel is compiled.
"""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test-torch)")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from glenside.frontends import load_model  # noqa: E402
from glenside.frontends.torch.values import as_array  # noqa: E402
from glenside.language import evaluate  # noqa: E402


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def draw(*shape, dtype="float32", low=-4, high=5, seed=0):
    """An example input, the same each time."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator).to(kind)
    if kind == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    return torch.randint(
        max(low, 0) if dtype == "uint8" else low, high, shape, generator=generator
    ).to(kind)


def check(module, *inputs, tolerance=1e-5):
    """What is imported computes what PyTorch does."""
    if not isinstance(module, nn.Module):
        module = Call(module)
    module.eval()
    model = load_model(module, example_inputs=inputs)
    with torch.no_grad():
        right = module(*inputs)
    right = [right] if isinstance(right, torch.Tensor) else list(right)
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    arrays = dict(zip(model.inputs, (as_array(t, "x") for t in tensors), strict=True))
    results = evaluate(model.roots, {**model.params, **arrays})
    assert len(results) == len(right)
    for got, wanted in zip(results, right, strict=True):
        wanted = as_array(wanted, "y")
        assert (got.shape, got.dtype.name) == (wanted.shape, wanted.dtype.name)
        if wanted.dtype.kind in "iub":
            np.testing.assert_array_equal(got, wanted)
            continue
        exact = wanted.astype(np.float64)
        finite = exact[np.isfinite(exact)]
        bound = tolerance * max(np.abs(finite).max(initial=0), 1e-6)
        np.testing.assert_allclose(got.astype(np.float64), exact, rtol=0, atol=bound)


X, Y, ROW = draw(2, 3, 4), draw(2, 3, 4, seed=1), draw(4, seed=2)
N, J = draw(2, 3, dtype="int64"), draw(2, 3, dtype="int32", low=1, seed=3)
IMAGE, VOLUME, SIGNAL = draw(2, 4, 9, 7), draw(1, 2, 5, 6, 4), draw(2, 4, 11)
POSITIVE = X.abs() + 0.1

UNARY = [
    "abs",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "logical_not",
    "neg",
    "positive",
    "relu",
    "round",
    "sigmoid",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "square",
    "tan",
    "tanh",
    "trunc",
    "deg2rad",
    "rad2deg",
    "nan_to_num",
]
POSITIVES = ["log", "log10", "log1p", "log2", "rsqrt", "sqrt", "reciprocal"]
WITHIN = ["acos", "asin", "atan", "asinh", "atanh"]


@pytest.mark.parametrize("name", UNARY)
def test_maps(name):
    check(getattr(torch, name), X)


@pytest.mark.parametrize(
    "name",
    [
        "abs",
        "ceil",
        "neg",
        "sign",
        "square",
        "exp",
        "sqrt",
        "sigmoid",
        "round",
        "isnan",
        "isinf",
        "trunc",
        "cos",
        "floor",
        "reciprocal",
        "log1p",
        "rsqrt",
        "relu",
    ],
)
def test_maps_of_integers(name):
    check(getattr(torch, name), draw(2, 3, dtype="int32", low=1))


@pytest.mark.parametrize("name", POSITIVES)
def test_maps_of_positive_numbers(name):
    check(getattr(torch, name), POSITIVE)


@pytest.mark.parametrize("name", WITHIN)
def test_maps_within_the_unit(name):
    check(getattr(torch, name), X.tanh() * 0.9)


BINARY = {
    "add": (torch.add, X, ROW),
    "add-number": (lambda x: x + 1.5, X),
    "add-alpha": (lambda x, y: torch.add(x, y, alpha=2), X, Y),
    "add-int-float": (torch.add, N, draw(2, 3)),
    "add-int-number": (lambda x: x + 1.5, N),
    "add-bool": (torch.add, X > 0, Y > 0),
    "add-bool-int": (torch.add, X > 0, draw(4, dtype="int16")),
    "add-scalar-tensor": (lambda x, y: x + y, N, torch.tensor(2.5, dtype=torch.float64)),
    "sub": (torch.sub, ROW, X),
    "rsub": (lambda x: 2 - x, X),
    "mul": (torch.mul, X, Y),
    "mul-bool": (torch.mul, X > 0, Y > 0),
    "mul-bool-float": (torch.mul, X > 0, Y),
    "div": (torch.div, X, POSITIVE),
    "div-int": (torch.div, N, J),
    "div-int-number": (lambda x: x / 3, N),
    "div-floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), N, J),
    "div-floor-negative": (lambda x, y: x // y, N, -J),
    "div-trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), N, -J),
    "div-floor-float": (lambda x, y: torch.div(x, y, rounding_mode="floor"), X, Y),
    "div-floor-tenth": (lambda x: x // 0.1, torch.tensor([1.0, -1.0, 0.3, 0.7, 2.0])),
    "div-trunc-float": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), X, Y),
    "remainder": (torch.remainder, X, Y),
    "remainder-int": (lambda x, y: x % y, N, -J),
    "fmod": (torch.fmod, X, Y),
    "fmod-int": (torch.fmod, N, -J),
    "pow": (torch.pow, POSITIVE, Y),
    "pow-number": (lambda x: x**3.5, POSITIVE),
    "pow-half": (lambda x: x**0.5, POSITIVE),
    "pow-of-number": (lambda x: 2**x, X),
    "pow-int": (lambda x: x**3, N),
    "pow-int-4": (lambda x: x**4, N),
    "atan2": (torch.atan2, X, Y),
    "atan2-axes": (
        torch.atan2,
        torch.tensor([0.0, 1.0, -1.0, 2.0]),
        torch.tensor([-1.0, 0.0, 0.0, 1.0]),
    ),
    "maximum": (torch.maximum, X, ROW),
    "minimum-int": (torch.minimum, N, J),
    "fmax": (torch.fmax, X, Y),
    "hypot": (torch.hypot, X, Y),
    "logaddexp": (torch.logaddexp, X, Y),
    "xlogy": (torch.xlogy, X, POSITIVE),
    "eq": (torch.eq, N, J),
    "ne-number": (lambda x: x != 1, N),
    "lt": (torch.lt, X, Y),
    "le-number": (lambda x: x <= 0.5, X),
    "gt-mixed": (lambda x, y: x > y, N, draw(2, 3)),
    "ge-number-of-int": (lambda x: x >= 0.5, N),
    "lt-bool": (torch.lt, X > 0, Y > 0),
    "logical-and": (torch.logical_and, N, J),
    "logical-or": (torch.logical_or, X > 0, N[0, 0] > 0),
    "logical-xor": (torch.logical_xor, X, Y),
    "bitwise-and": (torch.bitwise_and, N, J),
    "bitwise-or": (lambda x: x | 5, N),
    "bitwise-xor-bool": (lambda x, y: x ^ y, X > 0, Y > 0),
    "bitwise-not": (torch.bitwise_not, N),
    "bitwise-not-bool": (lambda x: ~x, X > 0),
    "shift-left": (lambda x, y: x << y, N, J),
    "shift-right": (lambda x: x >> 1, N),
    "where": (lambda c, x, y: torch.where(c, x, y), X > 0, X, ROW),
    "where-number": (lambda x: torch.where(x > 0, x, 0.0), X),
    "where-types": (lambda c, x, y: torch.where(c, x, y), draw(2, 3, dtype="bool"), N, draw(2, 3)),
    "clamp": (lambda x: torch.clamp(x, -0.5, 0.5), X),
    "clamp-min": (lambda x: torch.clamp(x, min=0.1), X),
    "clamp-crossed": (lambda x: torch.clamp(x, 1, -1), X),
    "clamp-tensors": (lambda x, y: torch.clamp(x, y, y + 1), X, ROW),
    "clamp-int": (lambda x: x.clamp(-1, 2), N),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), X, Y),
    "addcmul": (lambda x, y: torch.addcmul(x, y, y, value=0.5), X, Y),
    "addcdiv": (lambda x, y: torch.addcdiv(x, y, y.abs() + 1), X, Y),
    "round-decimals": (lambda x: torch.round(x, decimals=2), X),
    "to-int": (lambda x: x.to(torch.int32), X * 3),
    "to-bool": (lambda x: x.bool(), N),
    "to-half": (lambda x: x.half().float(), X),
    "uint8": (lambda x, y: x + y, draw(3, dtype="uint8"), draw(3, dtype="uint8", seed=1)),
    "uint8-int8": (lambda x, y: x * y, draw(3, dtype="uint8"), draw(3, dtype="int8", seed=1)),
    "heaviside": (torch.heaviside, X, Y),
    "masked-fill": (lambda x, m: x.masked_fill(m, -1e9), X, X > 0),
}


@pytest.mark.parametrize("name", BINARY)
def test_elementwise(name):
    function, *inputs = BINARY[name]
    check(function, *inputs)


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "sum-dim": lambda x: x.sum(-1),
    "sum-dims-keep": lambda x: x.sum((0, -1), keepdim=True),
    "sum-none": lambda x: torch.sum(x, dim=()),
    "sum-dtype": lambda x: x.sum(1, dtype=torch.float64),
    "mean": lambda x: x.mean(),
    "mean-dim": lambda x: x.mean(1, keepdim=True),
    "prod": lambda x: x.prod(),
    "prod-dim": lambda x: x.prod(-2),
    "amax": lambda x: x.amax((0, 2)),
    "amin-all": lambda x: x.amin(),
    "max": lambda x: x.max(),
    "max-dim": lambda x: tuple(x.max(-1)),
    "min-dim-keep": lambda x: tuple(x.min(0, keepdim=True)),
    "argmax": lambda x: x.argmax(),
    "argmin-dim": lambda x: x.argmin(-1, keepdim=True),
    "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)),
    "any": lambda x: (x > 1).any(),
    "any-dim": lambda x: (x > 1).any(1),
    "all": lambda x: (x > -9).all(-1, keepdim=True),
    "all-of-ints": lambda x: x.int().all(),
    "std": lambda x: x.std(),
    "std-dim": lambda x: x.std(-1, keepdim=True),
    "var": lambda x: x.var(1, unbiased=False),
    "var-correction": lambda x: torch.var(x, (0, 2), correction=2),
    "var-mean": lambda x: torch.var_mean(x, 1),
    "norm": lambda x: x.norm(),
    "norm-1": lambda x: x.norm(1, dim=-1),
    "vector-norm-inf": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=-1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "logsumexp": lambda x: torch.logsumexp(x, (1, 2)),
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(1),
    "cumsum-int": lambda x: x.int().cumsum(0),
    "count-nonzero": lambda x: torch.count_nonzero(x > 0, 1),
    "sum-bool": lambda x: (x > 0).sum(),
    "sum-int": lambda x: x.int().sum(1),
    "softmax": lambda x: x.softmax(-1),
    "softmax-1": lambda x: F.softmax(x, 1),
    "log-softmax": lambda x: x.log_softmax(-2),
    "softmin": lambda x: F.softmin(x, dim=-1),
    "sort": lambda x: tuple(torch.sort(x, -1)),
    "sort-down": lambda x: tuple(torch.sort(x, 1, descending=True)),
    "argsort": lambda x: x.argsort(0),
    "topk": lambda x: tuple(x.topk(2)),
    "topk-least": lambda x: tuple(x.topk(2, 1, largest=False)),
    "scalar-sum": lambda x: x.sum().sum(0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_and_order(name):
    check(REDUCTIONS[name], X)


MOVES = {
    "reshape": lambda x: x.reshape(4, -1),
    "view-of-transposed": lambda x: x.transpose(0, 1).reshape(3, 8),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(-1, (2, 2)),
    "permute": lambda x: x.permute(2, 0, -2),
    "T": lambda x: x[0].T,
    "mT": lambda x: x.mT,
    "squeeze": lambda x: x[:, :1].squeeze(),
    "squeeze-dim": lambda x: x[:, :1].squeeze(1),
    "squeeze-none": lambda x: x.squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(-2),
    "expand": lambda x: x[:, :1].expand(5, 2, 3, -1),
    "cat": lambda x: torch.cat([x, x * 2], -1),
    "cat-types": lambda x: torch.cat([x, x.int()], 1),
    "stack": lambda x: torch.stack([x, x], -1),
    "hstack": lambda x: torch.hstack([x, x]),
    "split": lambda x: torch.split(x, 3, -1),
    "split-sizes": lambda x: torch.split(x, [1, 2], 1),
    "chunk": lambda x: x.chunk(2, -1),
    "unbind": lambda x: x.unbind(1),
    "select": lambda x: x.select(-1, -2),
    "slice": lambda x: x[:, 1:, ::2],
    "slice-negative": lambda x: x[..., -3:-1],
    "slice-empty": lambda x: x[:, 2:1],
    "ellipsis-none": lambda x: x[..., None, 1],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat-more": lambda x: x[0].repeat(2, 1, 1),
    "tile": lambda x: x.tile(2),
    "repeat-interleave": lambda x: x.repeat_interleave(2, 1),
    "flip": lambda x: x.flip(0, -1),
    "roll": lambda x: x.roll(1, -1),
    "roll-two": lambda x: x.roll((1, -1), (0, 2)),
    "roll-flat": lambda x: x.roll(3),
    "rot90": lambda x: torch.rot90(x, 1, (1, 2)),
    "movedim": lambda x: x.movedim(0, -1),
    "diagonal": lambda x: x.diagonal(0, 1, 2),
    "diagonal-offset": lambda x: torch.diagonal(x, 1, -1, 0),
    "diag-embed": lambda x: torch.diag_embed(x[0]),
    "trace": lambda x: torch.trace(x[0]),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "unfold": lambda x: x.unfold(-1, 2, 1),
    "unfold-first": lambda x: x.unfold(1, 2, 1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "pad-value": lambda x: F.pad(x, (0, 1, 2, 0), value=3.0),
    "pad-negative": lambda x: F.pad(x, (-1, 1)),
    "pad-reflect": lambda x: F.pad(x, (2, 1), mode="reflect"),
    "pad-replicate": lambda x: F.pad(x, (2, 1), mode="replicate"),
    "pad-circular": lambda x: F.pad(x, (2, 1), mode="circular"),
    "meshgrid": lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"),
    "zeros-like": lambda x: x + torch.zeros_like(x) + torch.ones(4) + torch.full((3, 1), 2.0),
    "arange": lambda x: x + torch.arange(4) + torch.arange(0, 2, 0.5),
    "linspace": lambda x: x + torch.linspace(0, 1, 4),
    "eye": lambda x: x[0] + torch.eye(3, 4),
    "new-full": lambda x: x.new_full((2, 1), 7) + x[:, :1, 0],
    "in-place": lambda x: x.clone().add_(1).mul_(2),
    "assign": lambda x: _assigned(x),
    "assign-step": lambda x: _assigned(x, slice(None, None, 2)),
    "bool-as-number": lambda x: (x > 0) * 2.0,
    "one-hot": lambda x: F.one_hot(x.abs().long().clamp(max=4), 5),
    "block-diag": lambda x: torch.block_diag(x[0], x[1]),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])),
}


def _assigned(x, where=slice(1, 3)):
    y = x.clone()
    y[:, 0, where] = 5
    y[0] += 1
    return y


@pytest.mark.parametrize("name", MOVES)
def test_moves(name):
    check(MOVES[name], X)


AT, BY = torch.tensor([[1, 0], [-1, 2]]), torch.tensor([0, 3])
INDEXING = {
    "index": (lambda x, i: x[:, i], X, AT),
    "index-first": (lambda x, i: x[i], X.transpose(0, 1).contiguous(), AT),
    "index-two": (lambda x, i, j: x[:, i, j], X, AT, BY),
    "index-apart": (lambda x, i, j: x[i, :, j], X, torch.tensor([1, 0]), BY),
    "index-slice": (lambda x, i: x[i, 1:, ::2], X, torch.tensor([1, -1, 0])),
    "index-known": (lambda x: x[:, torch.tensor([2, 0])], X),
    "index-list": (lambda x: x[:, [0, 2]], X),
    "index-select": (lambda x, i: x.index_select(-1, i), X, BY),
    "gather": (lambda x, i: x.gather(-1, i), X[0], torch.tensor([[0, 3], [1, 1], [2, 0]])),
    "take-along": (
        lambda x, i: torch.take_along_dim(x, i, 1),
        X[0],
        torch.tensor([[0, 3], [1, 1], [2, 0]]),
    ),
    "take": (torch.take, X, torch.tensor([3, 23, 0])),
    "scatter": (
        lambda x, i, s: x.scatter(1, i, s),
        X[0],
        torch.tensor([[0, 3], [1, 2], [2, 0]]),
        Y[0],
    ),
    "scatter-value": (lambda x, i: x.scatter(1, i, 2.0), X[0], torch.tensor([[0], [1]])),
    "scatter-add": (
        lambda x, i, s: x.scatter_add(1, i, s),
        X[0],
        torch.tensor([[0, 0], [1, 2], [2, 0]]),
        Y[0],
    ),
    "scatter-reduce": (
        lambda x, i, s: x.scatter_reduce(1, i, s, "amax"),
        X[0],
        torch.tensor([[0, 0], [1, 2], [2, 0]]),
        Y[0],
    ),
    "scatter-prod": (
        lambda x, i, s: x.scatter_reduce(1, i, s, "prod"),
        X[0],
        torch.tensor([[0, 0], [1, 2], [2, 0]]),
        Y[0],
    ),
    "index-put": (lambda x, i, v: x.index_put((i,), v), X[0], torch.tensor([2, 0]), Y[0, :2]),
    "index-put-add": (
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        X[0],
        torch.tensor([1, 1]),
        Y[0, :2],
    ),
    "index-put-two": (
        lambda x, i, j, v: x.index_put((i, j), v),
        X[0],
        torch.tensor([2, 0]),
        BY,
        Y[0, 0, :2],
    ),
    "assign-index": (lambda x, i: _put(x, i), X, BY),
    "assign-mask": (lambda x: _cleared(x), X),
    "index-add": (lambda x, i, v: x.index_add(1, i, v), X[0], BY, Y[0, :, :2]),
    "index-copy": (lambda x, i, v: x.index_copy(1, i, v), X[0], BY, Y[0, :, :2]),
    "index-fill": (lambda x, i: x.index_fill(1, i, 7.0), X[0], BY),
    "masked-scatter": (lambda x, m, s: x.masked_scatter(m, s), X, Y > 0, draw(24, seed=5)),
    "embedding": (lambda w, i: F.embedding(i, w), draw(7, 3), torch.tensor([[1, 6], [0, 2]])),
    "where-index": (lambda x, i: torch.where(i[:, None] == torch.arange(4), x[0, :2], 0), X, BY),
}


def _put(x, i):
    y = x.clone()
    y[:, :, i] = 1.5
    return y


def _cleared(x):
    y = x.clone()
    y[y > 0.5] = 0
    return y


@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name):
    function, *inputs = INDEXING[name]
    check(function, *inputs)


PRODUCTS = {
    "mm": (torch.mm, draw(3, 4), draw(4, 5)),
    "matmul-batched": (torch.matmul, draw(2, 1, 3, 4), draw(5, 4, 2)),
    "matmul-vector": (torch.matmul, draw(2, 3, 4), draw(4)),
    "vector-matmul": (torch.matmul, draw(4), draw(2, 4, 3)),
    "dot": (torch.dot, draw(5), draw(5, seed=1)),
    "mv": (torch.mv, draw(3, 4), draw(4)),
    "outer": (torch.outer, draw(3), draw(4)),
    "bmm": (torch.bmm, draw(2, 3, 4), draw(2, 4, 5)),
    "addmm": (
        lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2),
        draw(5),
        draw(3, 4),
        draw(4, 5),
    ),
    "baddbmm": (
        lambda c, a, b: torch.baddbmm(c, a, b, alpha=0.5),
        draw(2, 3, 5),
        draw(2, 3, 4),
        draw(2, 4, 5),
    ),
    "addmv": (torch.addmv, draw(3), draw(3, 4), draw(4)),
    "kron": (torch.kron, draw(2, 3), draw(3, 2)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([1], [0])), draw(2, 3, 4), draw(3, 5)),
    "int-mm": (torch.matmul, draw(2, 3, dtype="int64"), draw(3, 4, dtype="int64")),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), draw(2, 3, 4), draw(2, 5, 4)),
    "einsum-dots": (lambda a, b: torch.einsum("...ij,jk->...ik", a, b), draw(2, 3, 4), draw(4, 5)),
    "einsum-diagonal": (lambda a: torch.einsum("bii->bi", a), draw(2, 3, 3)),
    "einsum-three": (
        lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c),
        draw(2, 3),
        draw(3, 4),
        draw(4, 2),
    ),
    "cross": (lambda a, b: torch.linalg.cross(a, b), draw(4, 3), draw(4, 3, seed=1)),
    "bilinear": (nn.Bilinear(3, 4, 5), draw(2, 3), draw(2, 4)),
    "linear": (nn.Linear(4, 5), X),
    "linear-vector": (nn.Linear(4, 5, bias=False), draw(4)),
    "sdpa": (
        F.scaled_dot_product_attention,
        draw(2, 3, 5, 4),
        draw(2, 3, 6, 4),
        draw(2, 3, 6, 4, seed=1),
    ),
    "sdpa-causal": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True),
        draw(1, 2, 5, 4),
        draw(1, 2, 5, 4, seed=1),
    ),
    "sdpa-mask": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        draw(1, 2, 4, 4),
        draw(4, 4, dtype="bool") | torch.eye(4).bool(),
    ),
    "sdpa-blind": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        draw(1, 2, 4, 4),
        torch.ones(4, 4).tril(-1).bool(),
    ),
    "sdpa-bias": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m, scale=0.3),
        draw(1, 2, 4, 4),
        draw(4, 4),
    ),
    "sdpa-grouped": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True),
        draw(1, 4, 5, 4),
        draw(1, 2, 5, 4),
    ),
    "multihead": (
        nn.MultiheadAttention(8, 2, batch_first=True),
        draw(2, 5, 8),
        draw(2, 5, 8, seed=1),
        draw(2, 5, 8, seed=2),
    ),
    "encoder-layer": (
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True),
        draw(2, 5, 8),
    ),
    "encoder": (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False),
        draw(5, 2, 8),
    ),
    "decoder-layer": (
        nn.TransformerDecoderLayer(8, 2, 16, activation="gelu"),
        draw(5, 2, 8),
        draw(6, 2, 8),
    ),
    "cosine-similarity": (lambda a, b: F.cosine_similarity(a, b, dim=-1), X, Y),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    function, *inputs = PRODUCTS[name]
    check(function, *inputs)


LAYERS = {
    "conv1d": (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2), SIGNAL),
    "conv1d-same": (nn.Conv1d(4, 6, 4, padding="same"), SIGNAL),
    "conv2d": (nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), bias=False), IMAGE),
    "conv2d-groups": (nn.Conv2d(4, 8, 3, groups=2, dilation=2), IMAGE),
    "conv2d-depthwise": (nn.Conv2d(4, 4, 3, groups=4, padding=1), IMAGE),
    "conv2d-same": (nn.Conv2d(4, 4, (2, 3), padding="same", dilation=2), IMAGE),
    "conv2d-reflect": (nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), IMAGE),
    "conv2d-circular": (nn.Conv2d(4, 4, 3, padding=(2, 1), padding_mode="circular"), IMAGE),
    "conv2d-replicate": (nn.Conv2d(4, 4, 3, padding=1, padding_mode="replicate"), IMAGE),
    "conv2d-unbatched": (nn.Conv2d(4, 6, 3), IMAGE[0]),
    "conv3d": (nn.Conv3d(2, 4, (3, 1, 2), padding=(1, 0, 1)), VOLUME),
    "transposed1d": (nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), SIGNAL),
    "transposed2d": (nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, dilation=2), IMAGE),
    "transposed3d": (nn.ConvTranspose3d(2, 3, 2, stride=2), VOLUME),
    "max-pool1d": (nn.MaxPool1d(3, 2, padding=1), SIGNAL),
    "max-pool2d": (nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), IMAGE),
    "max-pool2d-dilated": (nn.MaxPool2d((2, 3), stride=1, dilation=2), IMAGE),
    "max-pool2d-indices": (nn.MaxPool2d(3, 2, padding=1, return_indices=True), IMAGE),
    "max-pool2d-dilated-indices": (
        nn.MaxPool2d(2, 2, dilation=2, ceil_mode=True, return_indices=True),
        IMAGE,
    ),
    "max-pool3d": (nn.MaxPool3d(2, ceil_mode=True), VOLUME),
    "avg-pool1d": (nn.AvgPool1d(3, 2, padding=1, count_include_pad=False), SIGNAL),
    "avg-pool2d": (nn.AvgPool2d(3, stride=2, padding=1), IMAGE),
    "avg-pool2d-ceil": (nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True), IMAGE),
    "avg-pool2d-inside": (
        nn.AvgPool2d((2, 3), padding=1, ceil_mode=True, count_include_pad=False),
        IMAGE,
    ),
    "avg-pool2d-divisor": (nn.AvgPool2d(2, divisor_override=3), IMAGE),
    "avg-pool3d": (nn.AvgPool3d(2, stride=1), VOLUME),
    "lp-pool2d": (nn.LPPool2d(2, 3, stride=2), IMAGE),
    "adaptive-avg1d": (nn.AdaptiveAvgPool1d(4), SIGNAL),
    "adaptive-avg2d": (nn.AdaptiveAvgPool2d((4, None)), IMAGE),
    "adaptive-avg2d-one": (nn.AdaptiveAvgPool2d(1), IMAGE.to(memory_format=torch.channels_last)),
    "adaptive-avg3d": (nn.AdaptiveAvgPool3d((2, 3, 4)), VOLUME),
    "adaptive-max1d": (nn.AdaptiveMaxPool1d(4), SIGNAL),
    "adaptive-max2d": (nn.AdaptiveMaxPool2d((4, 3)), IMAGE),
    "batch-norm1d": (nn.BatchNorm1d(4), SIGNAL),
    "batch-norm2d": (nn.BatchNorm2d(4, affine=False), IMAGE),
    "batch-norm2d-no-stats": (nn.BatchNorm2d(4, track_running_stats=False), IMAGE),
    "instance-norm2d": (nn.InstanceNorm2d(4, affine=True), IMAGE),
    "instance-norm1d-tracked": (nn.InstanceNorm1d(4, track_running_stats=True), SIGNAL),
    "layer-norm": (nn.LayerNorm((9, 7)), IMAGE),
    "layer-norm-plain": (nn.LayerNorm(7, elementwise_affine=False, eps=1e-3), IMAGE),
    "layer-norm-no-bias": (nn.LayerNorm(7, bias=False), IMAGE),
    "rms-norm": (nn.RMSNorm(7), IMAGE),
    "rms-norm-eps": (nn.RMSNorm((9, 7), eps=1e-4, elementwise_affine=False), IMAGE),
    "group-norm": (nn.GroupNorm(2, 4), IMAGE),
    "group-norm1d": (nn.GroupNorm(4, 4, affine=False), SIGNAL),
    "local-response": (nn.LocalResponseNorm(3), IMAGE),
    "embedding": (nn.Embedding(9, 4, padding_idx=0), torch.tensor([[0, 8, 3]])),
    "embedding-tensor": (nn.Embedding(9, 4), torch.tensor(3)),
    "pixel-shuffle": (nn.PixelShuffle(2), IMAGE),
    "pixel-unshuffle": (nn.PixelUnshuffle(2), draw(1, 2, 4, 6)),
    "channel-shuffle": (nn.ChannelShuffle(2), IMAGE),
    "fold": (nn.Fold((5, 6), (2, 3), stride=2, padding=1), draw(2, 12, 9)),
    "unfold": (nn.Unfold((2, 3), dilation=2, padding=1, stride=2), IMAGE),
    "reflect-pad2d": (nn.ReflectionPad2d((1, 2, 3, 0)), IMAGE),
    "replicate-pad3d": (nn.ReplicationPad3d(1), VOLUME),
    "zero-pad": (nn.ZeroPad2d((1, -2, 0, 3)), IMAGE),
    "circular-pad": (nn.CircularPad2d((1, 2, 3, 0)), IMAGE),
    "upsample-nearest": (nn.Upsample(scale_factor=2.3), IMAGE),
    "upsample-nearest-size": (nn.Upsample(size=(4, 15)), IMAGE),
    "upsample-nearest-exact": (nn.Upsample(scale_factor=1.7, mode="nearest-exact"), IMAGE),
    "upsample-linear": (nn.Upsample(size=20, mode="linear"), SIGNAL),
    "upsample-bilinear": (nn.Upsample(scale_factor=(1.5, 2.2), mode="bilinear"), IMAGE),
    "upsample-bilinear-recomputed": (
        nn.Upsample(scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
        IMAGE,
    ),
    "upsample-bilinear-corners": (
        nn.Upsample(size=(13, 5), mode="bilinear", align_corners=True),
        IMAGE,
    ),
    "upsample-bicubic": (nn.Upsample(size=(13, 12), mode="bicubic"), IMAGE),
    "upsample-bicubic-corners": (
        nn.Upsample(size=(13, 12), mode="bicubic", align_corners=True),
        IMAGE,
    ),
    "upsample-trilinear": (nn.Upsample(scale_factor=2, mode="trilinear"), VOLUME),
    "upsample-nearest3d": (nn.Upsample(scale_factor=2), VOLUME),
    "interpolate-down": (lambda x: F.interpolate(x, scale_factor=0.6, mode="bilinear"), IMAGE),
    "grid-sample": (
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        IMAGE,
        draw(2, 3, 4, 2),
    ),
    "grid-sample-border": (
        lambda x, g: F.grid_sample(x, g, "nearest", "border", True),
        IMAGE,
        draw(2, 3, 4, 2),
    ),
    "grid-sample-reflection": (
        lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=True),
        IMAGE,
        draw(2, 3, 4, 2),
    ),
    "affine-grid": (lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), draw(2, 2, 3)),
    "dropout": (nn.Dropout(0.5), X),
    "lstm": (nn.LSTM(4, 3), X),
    "lstm-two-ways": (nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True, bias=False), X),
    "lstm-projected": (nn.LSTM(4, 3, proj_size=2), X),
    "lstm-unbatched": (nn.LSTM(4, 3), X[0]),
    "gru": (nn.GRU(4, 3, 2, bidirectional=True), X),
    "gru-state": (nn.GRU(4, 5), X, draw(1, 3, 5)),
    "rnn-relu": (nn.RNN(4, 3, nonlinearity="relu"), X),
    "lstm-cell": (nn.LSTMCell(4, 3), X[0]),
    "gru-cell": (nn.GRUCell(4, 3), X[0]),
}


def _flat(module):
    """A module whose nested results are given side by side."""
    return Call(lambda *args: _leaves(module(*args)))


def _leaves(value):
    return tuple(torch.utils._pytree.tree_leaves(value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    module, *inputs = LAYERS[name]
    if isinstance(module, nn.Module):
        for key, buffer in module.named_buffers():
            if "running" in key:
                buffer.copy_(draw(*buffer.shape).abs() + 0.5)
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        wrapped = _flat(module)
        wrapped.inner = module.eval()
        module = wrapped
    check(module, *inputs)


ACTIVATIONS = [
    nn.CELU(0.7),
    nn.ELU(0.5),
    nn.GELU(),
    nn.GELU("tanh"),
    nn.GLU(-1),
    nn.Hardshrink(0.3),
    nn.Hardsigmoid(),
    nn.Hardswish(),
    nn.Hardtanh(-0.5, 0.7),
    nn.LeakyReLU(0.2),
    nn.LogSigmoid(),
    nn.LogSoftmax(-1),
    nn.Mish(),
    nn.PReLU(),
    nn.PReLU(3),
    nn.ReLU(),
    nn.ReLU6(),
    nn.RReLU(),
    nn.SELU(),
    nn.SiLU(),
    nn.Sigmoid(),
    nn.Softmax(1),
    nn.Softmin(0),
    nn.Softplus(),
    nn.Softplus(2, 3),
    nn.Softshrink(0.3),
    nn.Softsign(),
    nn.Tanh(),
    nn.Tanhshrink(),
    nn.Threshold(0.1, 20),
]


@pytest.mark.parametrize("module", ACTIVATIONS, ids=repr)
def test_activations(module):
    check(module, X * 3)


CLASSES = torch.tensor([[1, 0, 2, 1], [0, 0, 1, 2]])
LOSSES = {
    "cross-entropy": (nn.CrossEntropyLoss(), X, CLASSES),
    "cross-entropy-weights": (
        nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5]), ignore_index=1),
        X,
        CLASSES,
    ),
    "cross-entropy-smooth": (nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum"), X, CLASSES),
    "cross-entropy-soft": (lambda x, y: F.cross_entropy(x, y.softmax(1)), X, Y),
    "nll": (lambda x, y: F.nll_loss(x.log_softmax(1), y, reduction="none"), X, CLASSES),
    "mse": (nn.MSELoss(), X, Y),
    "l1": (nn.L1Loss(reduction="sum"), X, Y),
    "smooth-l1": (nn.SmoothL1Loss(beta=0.5), X, Y),
    "huber": (nn.HuberLoss(delta=0.7), X, Y),
    "bce-logits": (nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)), X, Y.sigmoid()),
    "bce": (nn.BCELoss(), X.sigmoid(), Y.sigmoid()),
    "kl": (nn.KLDivLoss(reduction="batchmean"), X.log_softmax(-1), Y.softmax(-1)),
    "cosine-embedding": (nn.CosineEmbeddingLoss(), X[0], Y[0], torch.tensor([1, -1, 1])),
    "hinge": (nn.HingeEmbeddingLoss(), X, Y.sign()),
    "margin": (nn.MarginRankingLoss(0.1), X, Y, Y.sign()),
    "triplet": (nn.TripletMarginLoss(), X[0], Y[0], X[1]),
    "poisson": (nn.PoissonNLLLoss(), X, POSITIVE),
    "soft-margin": (nn.SoftMarginLoss(), X, Y.sign()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    module, *inputs = LOSSES[name]
    check(module, *inputs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["linear", "conv", "norm", "softmax"])
def test_dtypes(name, dtype):
    kind = getattr(torch, dtype)
    module, x = {
        "linear": (nn.Linear(4, 5), X),
        "conv": (nn.Conv2d(4, 6, 3), IMAGE),
        "norm": (nn.LayerNorm(4), X),
        "softmax": (nn.Softmax(-1), X),
    }[name]
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-6}[dtype]
    module = type(module)(*_arguments(module)).to(kind)
    check(module, x.to(kind), tolerance=tolerance)


def _arguments(module):
    torch.manual_seed(0)
    return {"Linear": (4, 5), "Conv2d": (4, 6, 3), "LayerNorm": (4,), "Softmax": (-1,)}[
        type(module).__name__
    ]
