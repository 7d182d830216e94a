"""Einsum."""

from __future__ import annotations

from glenside.frontends.lowering.einsum import einsum
from glenside.frontends.onnx.node import Node, operator
from glenside.language import Term


@operator("Einsum")
def _einsum(node: Node) -> Term:
    return einsum(node, node.attributes.text("equation"), node.given())
