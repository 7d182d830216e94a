"""Operators that work element by element, with NumPy broadcasting between operands."""

from __future__ import annotations

from glenside.frontends.lowering.phrases import div, elementwise, like, maximum, minimum, select
from glenside.frontends.onnx.node import Node, dtype_name, operator
from glenside.language import Term, builders
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import FLOATS

_ATTRIBUTED = frozenset({"IsInf"})
"""Operators that have attributes, which say what else they mean."""


def _operators(kind: str) -> dict[str, str]:
    """ONNX operators that mean what one function does, and those functions."""
    return {
        f.onnx_operator: f.name
        for f in FUNCTIONS.values()
        if f.kind == kind and f.onnx_operator and f.onnx_operator not in _ATTRIBUTED
    }


_UNARY = _operators("map")
_BINARY = _operators("fold")
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add", "Mean": "add"}


@operator(*_UNARY)
def _unary(node: Node) -> Term:
    return elementwise(_UNARY[node.operator], node[0])


@operator(*_BINARY)
def _binary(node: Node) -> Term:
    a, b = _aligned(node)
    return elementwise(_BINARY[node.operator], a, b)


def _aligned(node: Node) -> tuple[Term, Term]:
    """Both operands; until opset 6 an attribute said where the second one's axes belong."""
    a, b = node.scalar(0), node.scalar(1)
    if node.opset >= 7:
        return a, b
    if not node.attributes.flag("broadcast"):
        if a.shape != b.shape:
            raise node.error(f"shapes {a.shape} and {b.shape} differ and broadcast is not set")
        node.attributes.ignore("axis")
        return a, b
    axis = node.attributes.integer("axis", a.type.rank - b.type.rank)
    for _ in range(a.type.rank - node.axis(axis, a.type.rank + 1) - b.type.rank):
        b = builders.unsqueeze(b, b.type.rank)
    return a, b


@operator(*_VARIADIC)
def _variadic(node: Node) -> Term:
    operands = [node.scalar(i) for i in range(len(node.inputs))]
    if not operands:
        raise node.error("takes at least one operand")
    total = elementwise(_VARIADIC[node.operator], *operands) if operands[1:] else operands[0]
    return div(total, len(operands)) if node.operator == "Mean" else total


@operator("Pow")
def _pow(node: Node) -> Term:
    base, exponent = _aligned(node)
    if base.dtype in FLOATS:
        return elementwise("pow", base, builders.cast(exponent, base.dtype))
    if exponent.dtype not in FLOATS:
        return elementwise("pow", base, builders.cast(exponent, base.dtype))
    # An integer to a broken power: formed in float64, truncated back.
    wide = elementwise("pow", builders.cast(base, "float64"), builders.cast(exponent, "float64"))
    return builders.cast(wide, base.dtype)


@operator("Mod")
def _mod(node: Node) -> Term:
    truncating = node.attributes.flag("fmod")
    return elementwise("fmod" if truncating else "mod", node.scalar(0), node.scalar(1))


@operator("BitShift")
def _bit_shift(node: Node) -> Term:
    direction = node.attributes.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.error(f"attribute direction is {direction!r}, accepted are LEFT, RIGHT")
    return elementwise(f"shift_{direction.lower()}", node.scalar(0), node.scalar(1))


@operator("IsInf")
def _is_inf(node: Node) -> Term:
    x = node[0]
    negative = node.attributes.flag("detect_negative", True)
    positive = node.attributes.flag("detect_positive", True)
    if negative and positive:
        return elementwise("is_inf", x)
    if not negative and not positive:
        return builders.constant(False, x.shape, "bool")
    return elementwise("equal", x, like(x, float("inf") if positive else float("-inf")))


@operator("Where")
def _where(node: Node) -> Term:
    return select(node.scalar(0), node.scalar(1), node.scalar(2))


@operator("Clip")
def _clip(node: Node) -> Term:
    x = node[0]
    low: Term | float | None = None
    high: Term | float | None = None
    if node.opset < 11:
        if "min" in node.attributes:
            low = node.attributes.real("min")
        if "max" in node.attributes:
            high = node.attributes.real("max")
    else:
        low = node.scalar(1) if node.get(1) is not None else None
        high = node.scalar(2) if node.get(2) is not None else None
    for bound in (low, high):
        if isinstance(bound, Term) and bound.type.size != 1:
            raise node.error(f"bounds must be single numbers, got shape {bound.shape}")
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


@operator("Cast")
def _cast(node: Node) -> Term:
    node.attributes.ignore("saturate", "round_mode")  # Only float8 and the like know them.
    return builders.cast(node[0], dtype_name(node.attributes.integer("to")))


@operator("CastLike")
def _cast_like(node: Node) -> Term:
    node.attributes.ignore("saturate", "round_mode")
    return builders.cast(node[0], node[1].dtype)


@operator("Dropout")
def _dropout(node: Node) -> list[Term | None]:
    x = node[0]
    node.attributes.ignore("ratio", "seed")
    if node.opset < 7 and not node.attributes.flag("is_test"):
        node.refuse("is_test=0 is not supported: only inference is")
    if node.opset >= 12 and node.get(2) is not None and node.number(2, "training_mode"):
        ratio = 0.5 if node.get(1) is None else node.number(1, "ratio")
        if ratio:
            node.refuse("training_mode=1 is not supported: only inference is")
    kept = builders.constant(True, x.shape, "bool") if node.opset >= 10 else None
    if kept is None and node.wants(1):
        kept = builders.constant(1, x.shape, x.dtype)
    return [x, kept]
