"""Matrix products."""

from __future__ import annotations

from glenside.frontends.lowering.phrases import add, dot, matmul, mul, transpose
from glenside.frontends.onnx.node import Node, operator
from glenside.language import Term
from glenside.language.builders import access


@operator("MatMul")
def _mat_mul(node: Node) -> Term:
    a, b = node[0], node[1]
    check_product(node, a, b)
    return matmul(a, b)


def check_product(node: Node, a: Term, b: Term) -> None:
    """The operands of ``numpy.matmul`` must fit."""
    if not a.shape or not b.shape or a.shape[-1] != b.shape[max(b.type.rank - 2, 0)]:
        raise node.error(f"shapes {a.shape} and {b.shape} do not multiply")


@operator("Gemm")
def _gemm(node: Node) -> Term:
    a, b, c = node[0], node[1], node.get(2)
    alpha = node.attributes.real("alpha", 1.0)
    beta = node.attributes.real("beta", 1.0)
    if node.opset < 7:
        node.attributes.ignore("broadcast")  # It only forbids what the shapes show.
    rows = transpose(a, [1, 0]) if node.attributes.flag("transA") else a
    columns = b if node.attributes.flag("transB") else transpose(b, [1, 0])
    if rows.type.rank != 2 or columns.type.rank != 2 or rows.shape[1] != columns.shape[1]:
        raise node.error(f"shapes {a.shape} and {b.shape} do not multiply")
    result = dot(access(rows, 1), access(columns, 1))
    if alpha != 1.0:
        result = mul(result, alpha)
    if c is None or beta == 0.0:
        return result
    offset = node.scalar(2)
    return add(result, offset if beta == 1.0 else mul(offset, beta))
