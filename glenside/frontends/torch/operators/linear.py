"""Matrix products and attention."""

from __future__ import annotations

import math

import numpy as np

from glenside.frontends.lowering import phrases
from glenside.frontends.lowering.einsum import einsum as product_by
from glenside.frontends.lowering.phrases import elementwise, reduce, select, swap_last
from glenside.frontends.refusal import Refused
from glenside.frontends.torch.signature import Node, operator
from glenside.language import Term, builders
from glenside.language.shape import FLOATS


@operator("mm", "bmm", "matmul", "mv", "dot", "vdot")
def product(
    x: Term,
    other: Term | None = None,
    mat2: Term | None = None,
    vec: Term | None = None,
    tensor: Term | None = None,
) -> Term:
    """``numpy.matmul``."""
    (right,) = (each for each in (other, mat2, vec, tensor) if each is not None)
    return phrases.matmul(x, right)


def _plus(node: Node, x: Term, product: Term, beta: float, alpha: float) -> Term:
    """``beta * x + alpha * product``"""
    if alpha != 1:
        product = phrases.mul(product, alpha)
    if beta == 0:
        return product
    return phrases.add(product, x if beta == 1 else phrases.mul(x, beta))


@operator("addmm")
def addmm(node: Node, x: Term, mat1: Term, mat2: Term, beta: float = 1, alpha: float = 1) -> Term:
    """``beta * x + alpha * mat1 @ mat2``"""
    return _plus(node, x, phrases.matmul(mat1, mat2), beta, alpha)


@operator("baddbmm")
def baddbmm(
    node: Node, x: Term, batch1: Term, batch2: Term, beta: float = 1, alpha: float = 1
) -> Term:
    """``beta * x + alpha * batch1 @ batch2``"""
    return _plus(node, x, phrases.matmul(batch1, batch2), beta, alpha)


@operator("addmv")
def addmv(node: Node, x: Term, mat: Term, vec: Term, beta: float = 1, alpha: float = 1) -> Term:
    """``beta * x + alpha * mat @ vec``"""
    return _plus(node, x, phrases.matmul(mat, vec), beta, alpha)


@operator("linear")
def linear(input: Term, weight: Term, bias: Term | None = None) -> Term:
    """``input @ weight' + bias``"""
    across = weight if weight.type.rank < 2 else swap_last(weight)
    result = phrases.matmul(input, across)
    return result if bias is None else phrases.add(result, bias)


@operator("einsum")
def einsum(
    node: Node, equation: str, tensors: tuple[Term, ...], path: tuple[int, ...] | None = None
) -> Term:
    """``numpy.einsum``, operands from left to right."""
    del path
    return product_by(node, equation, tensors)


@operator("bilinear")
def bilinear(
    node: Node, input1: Term, input2: Term, weight: Term, bias: Term | None = None
) -> Term:
    """``input1 @ weight[o] @ input2`` for each output o."""
    result = product_by(node, "...i,oij,...j->...o", (input1, weight, input2))
    return result if bias is None else phrases.add(result, bias)


@operator("scaled_dot_product_attention")
def attention(
    node: Node,
    query: Term,
    key: Term,
    value: Term,
    attn_mask: Term | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Term:
    """``softmax(scale * Q K' + mask) V``; a query that may see no key gives zeros."""
    if dropout_p:
        raise Refused("drops elements at random, as in training: call .eval() on the module")
    if enable_gqa:
        key, value = (
            phrases.repeat(each, query.shape[-3] // each.shape[-3], each.type.rank - 3)
            for each in (key, value)
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = phrases.mul(phrases.matmul(query, swap_last(key)), scale)
    if is_causal:
        rows, columns = scores.shape[-2:]
        node.make_room((rows, columns), "the mask")
        attn_mask = node.parameter(np.tril(np.ones((rows, columns), bool)), "seen")
    blind: Term | None = None
    if attn_mask is not None:
        blind = _blind(node, attn_mask)
        if attn_mask.dtype == "bool":
            scores = select(attn_mask, scores, -math.inf)
        else:
            scores = phrases.add(scores, builders.cast(attn_mask, scores.dtype))
    shares = phrases.along("softmax", scores, scores.type.rank - 1)
    if blind is not None:
        shares = select(blind, 0, shares)
    return phrases.matmul(shares, value)


def _blind(node: Node, mask: Term) -> Term | None:
    """Which queries see no key, for each of them; None where it is known that all see one."""
    last = [mask.type.rank - 1]
    if mask.dtype == "bool":
        seen = reduce("max", mask, last, True)
        blind = elementwise("not", seen)
    else:
        most = reduce("max", mask, last, True)
        blind = elementwise("equal", most, phrases.like(most, -math.inf))
    known = node.known(blind)
    return None if known is not None and not known.any() else blind


@operator("_softmax")
def softmax(node: Node, x: Term, dim: int) -> Term:
    """``exp(x) / sum(exp(x))`` along one axis."""
    wide = builders.cast(x, node.dtype) if x.dtype in FLOATS else x
    return phrases.along("softmax", wide, dim % x.type.rank) if x.type.rank else _one(node)


@operator("_safe_softmax")
def safe_softmax(node: Node, x: Term, dim: int, dtype: str | None = None) -> Term:
    """As softmax, and zeros where everything is minus infinity."""
    x = x if dtype is None else builders.cast(x, dtype)
    most = reduce("max", x, [dim % x.type.rank], True)
    nothing = elementwise("equal", most, phrases.like(most, -math.inf))
    return select(nothing, 0, softmax(node, x, dim))


def _one(node: Node) -> Term:
    return builders.constant(1, (), node.dtype)
