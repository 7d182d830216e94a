"""Operators without a meaning as access patterns, left to onnxruntime as ``host_op`` terms."""

from __future__ import annotations

from typing import NoReturn

import onnx

from glenside.frontends.onnx.node import Node, Refused

DOMAINS = ("", "ai.onnx.ml")
"""Domains whose operators onnx knows the types of."""


def knows(domain: str, operator: str) -> bool:
    """Whether onnx declares such an operator."""
    return domain in DOMAINS and onnx.defs.has(operator, domain)


def lower(node: Node, reason: str) -> NoReturn:
    """Refuses: no operator is left to the host yet."""
    raise Refused(reason)
