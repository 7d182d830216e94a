"""How to call every operator of ONNX: operands of shapes that fit, and attributes worth changing.

Values are written as float64 and take the dtype that an operator's declaration asks for. Operands
with a ``name`` were attributes of that name in older versions, or have become some since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Operand:
    """A value for an operand: known while importing where ``fixed``."""

    value: Array
    fixed: bool = False
    name: str = ""
    dtype: str = ""
    """Set where the declaration allows several dtypes, but only this makes sense."""


@dataclass(frozen=True)
class Recipe:
    """One way to call an operator; ``vary`` lists, by attribute, other values to try."""

    operands: Sequence[Operand | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[Any]] = field(default_factory=dict)
    outputs: int = 1
    special: bool = False
    """Whether NaN and infinities are defined operands."""
    since: int = 1
    until: int = 1000
    """Opsets for which it is right."""


def x(*shape: int, seed: int = 0) -> Operand:
    """Numbers of both signs, some of them whole, no two alike nearby."""
    rng = np.random.default_rng([seed, *shape])
    return Operand(np.round(rng.standard_normal(shape) * 2, 2))


def positive(*shape: int, seed: int = 0) -> Operand:
    return Operand(np.abs(x(*shape, seed=seed).value) + 0.5)


def ints(values: Any, name: str = "", dtype: str = "") -> Operand:
    """Whole numbers that must be constants."""
    return Operand(np.asarray(values, np.float64), True, name, dtype)


def at(values: Any) -> Operand:
    """Whole numbers that come when the model runs: indices, labels, lengths."""
    return Operand(np.asarray(values, np.float64))


def number(value: float, name: str = "", dtype: str = "") -> Operand:
    return Operand(np.float64(value), True, name, dtype)


def bools(values: Any, fixed: bool = False) -> Operand:
    return Operand(np.asarray(values, np.float64), fixed)


def typed(operand: Operand, dtype: str) -> Operand:
    return Operand(operand.value, operand.fixed, operand.name, dtype)


FLOAT_UNARY = [
    "Acos",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "IsNaN",
    "LeakyRelu",
    "Mish",
    "Reciprocal",
    "Round",
    "Selu",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Abs",
    "Neg",
    "Relu",
    "Sign",
    "Sqrt",
    "Log",
    "Shrink",
    "Identity",
    "Not",
    "BitwiseNot",
    "IsInf",
]
PARAMETERS: dict[str, dict[str, list[Any]]] = {
    "Celu": {"alpha": [0.5, 2.0]},
    "Elu": {"alpha": [0.5, 0.0]},
    "Gelu": {"approximate": ["none", "tanh"]},
    "HardSigmoid": {"alpha": [0.5], "beta": [0.1]},
    "LeakyRelu": {"alpha": [0.3, 0.0, -1.0]},
    "Selu": {"alpha": [1.0], "gamma": [2.0]},
    "Swish": {"alpha": [0.5]},
    "ThresholdedRelu": {"alpha": [0.0, -1.0]},
    "Shrink": {"bias": [0.5, -1.0], "lambd": [0.0, 1.0]},
    "IsInf": {"detect_negative": [0], "detect_positive": [0]},
}
BINARY = [
    "Add",
    "And",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Mul",
    "Or",
    "Sub",
    "Xor",
]
REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]
POOL = {
    "strides": [[2, 1], [3, 3]],
    "pads": [[1, 0, 1, 1], [0, 1, 0, 0]],
    "auto_pad": ["SAME_UPPER", "SAME_LOWER", "VALID"],
    "ceil_mode": [1],
    "dilations": [[2, 1]],
}
CONV = {
    "strides": [[2, 1], [3, 3]],
    "pads": [[1, 0, 1, 1], [0, 2, 0, 0]],
    "auto_pad": ["SAME_UPPER", "SAME_LOWER", "VALID"],
    "dilations": [[2, 1]],
    "kernel_shape": [[3, 2]],
}


def recipes() -> Iterator[tuple[str, Recipe]]:
    """Operators and ways to call them."""
    yield from _elementwise()
    yield from _reducing()
    yield from _moving()
    yield from _indexing()
    yield from _windows()
    yield from _normalising()
    yield from _products()
    yield from _quantising()
    yield from _others()


def _elementwise() -> Iterator[tuple[str, Recipe]]:
    for name in FLOAT_UNARY:
        yield name, Recipe([x(2, 3)], vary=PARAMETERS.get(name, {}), special=True)
        yield name, Recipe([x()])
    yield "Acosh", Recipe([Operand(positive(2, 3).value + 1)], special=True)
    for name in BINARY:
        whole = Operand(np.array([[3.0, -2, 1], [2, 7, -5]]))
        yield name, Recipe([x(2, 3), whole], special=name not in ("Div",))
        yield name, Recipe([x(2, 3), Operand(np.array([2.0, -1, 3]))], since=7)
        yield name, Recipe([x(2, 1), Operand(np.array([2.0, -1, 3]))], since=7)
        yield name, Recipe([x(), x(2, seed=1)], since=7)
        yield name, Recipe([x(2, 3), x(3, seed=1)], {"broadcast": 1}, until=6)
        yield name, Recipe([x(2, 3, 4), x(3, seed=1)], {"broadcast": 1, "axis": 1}, until=6)
    yield "Div", Recipe([at([7, -7, 7, -7, 0]), at([2, 2, -2, -2, 3])])
    yield "Pow", Recipe([positive(2, 3), Operand(np.array([2.0, 0, 3]))], since=7)
    yield "Pow", Recipe([at([2, -3, 0]), typed(at([2, 3, 0]), "int64")], since=12)
    yield (
        "Pow",
        Recipe([at([2, 3, 4]), typed(Operand(np.array([0.5, 1.5, 2])), "float32")], since=12),
    )
    yield "Mod", Recipe([at([7, -7, 7, -7]), at([3, 3, -3, -3])], {"fmod": 1}, {"fmod": [0]})
    yield "Mod", Recipe([typed(at([7, -7, 7, -7]), "int32"), typed(at([3, 3, -3, -3]), "int32")])
    for direction in ("LEFT", "RIGHT"):
        yield "BitShift", Recipe([at([200, 3, 5]), at([1, 2, 0])], {"direction": direction})
        yield "BitShift", Recipe([at([200, 3]), at([[1], [7]])], {"direction": direction})
    for name in ("Max", "Min", "Sum", "Mean"):
        yield name, Recipe([x(2, 3), x(2, 3, seed=1)], special=True)
        yield name, Recipe([x(2, 3)])
        yield name, Recipe([x(2, 3), x(3, seed=1), x(1, seed=2)], since=8)
    yield "Where", Recipe([bools([[1, 0, 1]]), x(2, 3), x(2, 1, seed=1)], special=True)
    yield "Clip", Recipe([x(2, 3), number(-1, "min"), number(1.5, "max")], special=True)
    yield "Clip", Recipe([x(2, 3), number(2, "min"), number(-1, "max")])
    yield "Clip", Recipe([x(2, 3), at(-1), at(1)], since=11)
    yield "PRelu", Recipe([x(2, 3, 2), x(3, 1, seed=1)], since=7)
    yield "PRelu", Recipe([x(2, 3, 2), x(3, seed=1)], until=6)
    yield "PRelu", Recipe([x(2, 3), x(1, seed=1)])
    kinds = {"float16": 10, "float32": 1, "float64": 11, "int8": 3, "uint8": 2, "int32": 6}
    kinds |= {"int64": 7, "bool": 9, "bfloat16": 16, "uint16": 4, "int16": 5, "uint32": 12}
    for kind, number_of in kinds.items():
        yield "Cast", Recipe([at([1, 0, 3, 2])], {"to": number_of})
        yield "Cast", Recipe([Operand(np.array([1.5, -0.5, 0.3, -2.7]))], {"to": number_of})
        yield "CastLike", Recipe([at([1, 0, 3]), typed(x(1), kind)])
    yield (
        "Dropout",
        Recipe([x(2, 3), number(0.5, "ratio"), number(0, "", "bool")], outputs=2, since=12),
    )
    yield "Dropout", Recipe([x(2, 3)], {"ratio": 0.3}, outputs=2, since=7, until=11)
    yield "Dropout", Recipe([x(2, 3)], {"is_test": 1}, outputs=2, until=6)
    yield "SwiGLU", Recipe([x(2, 3), x(2, 3, seed=1)], vary={"alpha": [0.5]})


def _reducing() -> Iterator[tuple[str, Recipe]]:
    for name in REDUCTIONS:
        make = positive if name == "ReduceLogSum" else x
        yield name, Recipe([make(2, 3, 4), ints([1], "axes")], vary={"keepdims": [0]}, special=True)
        yield name, Recipe([make(2, 3, 4), ints([-1, 0], "axes")], vary={"keepdims": [0]})
        yield name, Recipe([make(2, 3, 4)], vary={"keepdims": [0], "noop_with_empty_axes": [1]})
        yield (
            name,
            Recipe([make(2, 3), ints([], "axes")], vary={"noop_with_empty_axes": [1]}, since=18),
        )
        yield name, Recipe([make()], vary={"keepdims": [0]})
        for shape in ((2, 0, 3), (0, 3)):
            yield name, Recipe([make(*shape), ints([1], "axes")], vary={"keepdims": [0]})
            yield name, Recipe([make(*shape)], vary={"keepdims": [0]})
            yield name, Recipe([make(*shape), ints([0], "axes")], vary={"keepdims": [0]})
    for name in ("ArgMax", "ArgMin"):
        vary = {"axis": [1, -1, -2], "keepdims": [0], "select_last_index": [1]}
        yield name, Recipe([x(2, 3)], vary=vary, special=True)
        yield name, Recipe([at([[1, 3, 3], [2, 2, 0]])], {"axis": 1}, vary)
        yield name, Recipe([x(0, 3)], {"axis": 1}, vary)
        yield name, Recipe([x(2, 0)], {"axis": 0}, vary)
    for name in ("Softmax", "LogSoftmax", "Hardmax"):
        yield name, Recipe([x(2, 3, 4)], vary={"axis": [0, 1, 2, -1, -2, -3]})
        yield name, Recipe([x(3)], {"axis": 0})
        yield name, Recipe([x(2, 0)], vary={"axis": [0, 1]})
        yield name, Recipe([x(0, 2)], vary={"axis": [0, 1]})
    for name in ("CumSum", "CumProd"):
        vary = {"exclusive": [1], "reverse": [1]}
        for axis in (0, 1, -1):
            yield name, Recipe([x(2, 3), ints(axis)], vary=vary)
        yield name, Recipe([x(2, 3), ints([1])], {"exclusive": 1, "reverse": 1})
        yield name, Recipe([x(0, 3), ints(0)], vary=vary)
    vary = {"axis": [0, 1, -2], "largest": [0], "sorted": [1]}
    yield "TopK", Recipe([x(3, 4), ints([2], "k")], {}, vary, outputs=2, special=True)
    yield "TopK", Recipe([at([[1, 3, 3, 1], [2, 2, 0, 2]]), ints([3], "k")], outputs=2)
    yield "TopK", Recipe([x(3, 4), ints([0], "k")], outputs=2)
    yield "TopK", Recipe([x(0, 4), ints([2], "k")], outputs=2)


def _moving() -> Iterator[tuple[str, Recipe]]:
    yield "Reshape", Recipe([x(2, 3, 2), ints([0, -1])], vary={"allowzero": [1]})
    yield "Reshape", Recipe([x(0, 3), ints([0, 3])], vary={"allowzero": [1]})
    yield "Reshape", Recipe([x(0, 3), ints([3, -1])], vary={"allowzero": [1]})
    yield "Reshape", Recipe([x(0, 3), ints([3, 0, 2])], {"allowzero": 1})
    yield "Reshape", Recipe([x(1), ints([])])
    yield "Flatten", Recipe([x(2, 3, 2)], vary={"axis": [0, 1, 2, 3, -1, -3]})
    yield "Flatten", Recipe([x()], {"axis": 0})
    yield "Flatten", Recipe([x(0, 3)])
    yield "Transpose", Recipe([x(2, 3, 4)], vary={"perm": [[1, 2, 0], [0, 2, 1]]})
    yield "Transpose", Recipe([x()])
    for axes in ([1], [-2], [1, 3], [-1, 1]):
        yield "Squeeze", Recipe([x(2, 1, 3, 1), ints(axes, "axes")])
    yield "Squeeze", Recipe([x(2, 1, 3, 1)])
    for axes in ([0], [-1], [0, 2], [2, 0], [-1, 0]):
        yield "Unsqueeze", Recipe([x(2, 3), ints(axes, "axes")])
    yield "Concat", Recipe([x(2, 3), x(2, 3, seed=1)], {"axis": 0}, {"axis": [1, -1, -2]})
    yield "Concat", Recipe([x(2, 3), x(0, 3)], {"axis": 0})
    yield "Concat", Recipe([x(2, 3)], {"axis": 1})
    for shape in ([2, 3, 4], [1], [3, 1], [], [2, 3, 0]):
        yield "Expand", Recipe([x(3, 1), ints(shape)])
    for repeats in ([2, 1], [0, 2], [1, 3]):
        yield "Tile", Recipe([x(2, 3), ints(repeats)], since=6)
    yield "Split", Recipe([x(4, 6), ints([1, 3], "split")], vary={"axis": [0]}, outputs=2)
    yield "Split", Recipe([x(4, 6), ints([2, 0, 4], "split")], {"axis": -1}, outputs=3)
    yield "Split", Recipe([x(4, 6)], vary={"axis": [1, -1]}, outputs=2, until=17)
    yield "Split", Recipe([x(7, 6)], {"num_outputs": 3}, {"axis": [1, -1]}, outputs=3, since=18)
    yield "Split", Recipe([x(0, 6)], {"num_outputs": 2}, outputs=2, since=18)
    cuts: list[tuple[Any, ...]] = [
        ([1], [3]), ([1, 0], [3, 2]), ([-3], [-1], [1]), ([0], [1000], [-1]),
        ([3], [-1000], [0], [-1]), ([-1], [-2**62], [1], [-2]), ([3], [1], [0]),
        ([0, 1], [4, 5], [1, 0], [2, 3]),
        ([-1000], [1000], [0], [3]), ([10], [20], [0]),
    ]  # fmt: skip
    for cut in cuts:
        names = ("starts", "ends", "axes", "steps")
        operands = [ints(c, n) for c, n in zip(cut, names, strict=False)]
        yield "Slice", Recipe([x(4, 5), *operands], since=10 if len(cut) > 3 else 1)
    for mode in ("constant", "reflect", "edge", "wrap"):
        for pads in ([1, 0, 0, 2], [0, 1, 2, 1], [-1, 0, 0, 1], [-1, 1, 1, -1]):
            yield "Pad", Recipe([x(3, 4), ints(pads, "pads"), number(1.5, "value")], {"mode": mode})
        yield (
            "Pad",
            Recipe([x(3, 4), ints([1, 1], "pads"), None, ints([-1])], {"mode": mode}, since=18),
        )
        yield "Pad", Recipe([x(0, 4), ints([0, 1, 0, 1], "pads")], {"mode": mode})
    yield "Pad", Recipe([x(0, 4), ints([1, 0, 0, 0], "pads")])
    for k in (0, 1, -1, 5, -5):
        yield "Trilu", Recipe([x(2, 3, 4), ints(k)], vary={"upper": [0]})
    yield "Trilu", Recipe([x(3, 3)], vary={"upper": [0]})
    yield "Trilu", Recipe([x(3, 0)], vary={"upper": [0]})
    yield "DepthToSpace", Recipe([x(1, 8, 2, 3)], {"blocksize": 2}, {"mode": ["CRD", "DCR"]})
    yield "SpaceToDepth", Recipe([x(1, 2, 4, 6)], {"blocksize": 2}, {"mode": ["CRD", "DCR"]})
    vary = {"start": [1, -1, -5, 5], "end": [1, -1, -5, 5]}
    yield "Shape", Recipe([x(2, 3, 4)], vary=vary)
    yield "Shape", Recipe([x()], vary=vary)
    yield "Size", Recipe([x(2, 3)])
    yield "Size", Recipe([x()])
    yield "EyeLike", Recipe([x(3, 4)], vary={"k": [1, -1, 7], "dtype": [1, 7, 11]})
    yield "CenterCropPad", Recipe([x(4, 5), ints([2, 8])])
    yield "CenterCropPad", Recipe([x(4, 5), ints([3])], {"axes": [1]}, {"axes": [[-1], [0]]})
    for args in ((0, 5, 1), (5, 0, -2), (0, 0, 1), (1, 8, 3)):
        yield "Range", Recipe([number(each) for each in args])
    yield "Range", Recipe([number(each, "", "float32") for each in (0, 1, 0.3)])
    yield "ConstantOfShape", Recipe([ints([2, 3])])
    yield "ConstantOfShape", Recipe([ints([])])
    yield "ConstantOfShape", Recipe([ints([0, 2])])


def _indexing() -> Iterator[tuple[str, Recipe]]:
    for indices in ([0, 2, 1], [[0, -1], [-3, 2]], 1, -1, []):
        yield "Gather", Recipe([x(3, 4), at(indices)], vary={"axis": [1, -1]})
        yield "Gather", Recipe([x(3, 4), ints(indices)], vary={"axis": [1, -2]})
    yield "Gather", Recipe([x(3, 0), at([0, 1])])
    yield "GatherElements", Recipe([x(3, 2), at([[0, 1], [-1, 0]])], vary={"axis": [1, -2]})
    yield "GatherElements", Recipe([x(3, 2), ints([[0, 1], [-1, 0]])], vary={"axis": [1, -2]})
    yield "GatherND", Recipe([x(2, 3, 2), at([[0, 1], [-1, 2]])])
    yield "GatherND", Recipe([x(2, 3, 2), at([[0], [-1]])], {"batch_dims": 1}, since=12)
    yield "GatherND", Recipe([x(2, 3, 2), at([[[0, 1, 1]]])])
    both = {"reduction": ["add", "mul", "max", "min"]}
    for name in ("Scatter", "ScatterElements"):
        vary = both if name != "Scatter" else {}
        indices, updates = [[0, 2], [-1, 1]], x(2, 2, seed=3)
        yield name, Recipe([x(3, 3), at(indices), updates], vary={"axis": [1, -1, -2], **vary})
        yield name, Recipe([x(3, 3), ints(indices), updates], vary={"axis": [1, -1, -2], **vary})
    for depth, shape in (([[0], [2]], (2, 2)), ([[0, 1], [-1, 0]], (2,))):
        yield "ScatterND", Recipe([x(3, 2), at(depth), x(*shape, seed=2)], vary=both)
        yield "ScatterND", Recipe([x(3, 2), ints(depth), x(*shape, seed=2)], vary=both)
    yield "ScatterND", Recipe([x(3), at([[1], [1]]), x(2, seed=2)], {"reduction": "add"}, since=16)
    yield "OneHot", Recipe([at([0, 2, -1, 5]), ints(3), x(2)], vary={"axis": [0, 1, -2]})
    yield "OneHot", Recipe([at([[0, 2]]), ints([3]), x(2)], vary={"axis": [0, 1, 2, -3]})
    yield "Compress", Recipe([x(3, 2), bools([1, 0, 1], True)], {"axis": 0}, {"axis": [-2]})
    yield "Compress", Recipe([x(3, 2), bools([0, 1, 1, 1], True)])
    yield "ReverseSequence", Recipe([x(4, 3), at([1, 4, 2])], vary={"batch_axis": [1]})
    yield "ReverseSequence", Recipe([x(3, 4, 2), at([1, 4, 2])], {"batch_axis": 0, "time_axis": 1})
    yield "NonZero", Recipe([Operand(np.array([[1.0, 0], [0, 2]]), True)])
    yield "NonZero", Recipe([Operand(np.array(1.0), True)])
    data = Operand(np.array([[2.0, 1, 1], [2, 1, 1], [3, 3, 0]]), True)
    yield "Unique", Recipe([data], vary={"axis": [0, 1, -1], "sorted": [0]}, outputs=4)
    yield "Unique", Recipe([data], {"axis": 0, "sorted": 0}, outputs=4)
    past, update = x(2, 1, 4, 2), x(2, 1, 2, 2, seed=1)
    yield "TensorScatter", Recipe([past, update, at([1, 2])], vary={"mode": ["circular"]})
    yield "TensorScatter", Recipe([past, update])


def _windows() -> Iterator[tuple[str, Recipe]]:
    image, filters = x(1, 4, 6, 5), x(4, 4, 3, 2, seed=1)
    yield "Conv", Recipe([image, filters, x(4, seed=2)], vary=CONV)
    yield "Conv", Recipe([image, x(4, 2, 3, 2, seed=1)], {"group": 2}, CONV)
    yield "Conv", Recipe([image, x(8, 1, 3, 2, seed=1)], {"group": 4})
    yield (
        "Conv",
        Recipe([x(2, 3, 7), x(4, 3, 3, seed=1)], vary={"pads": [[1, 2]], "strides": [[2]]}),
    )
    yield "Conv", Recipe([x(1, 2, 4, 4, 4), x(2, 2, 2, 2, 2, seed=1)])
    yield "Conv", Recipe([x(0, 4, 6, 5), filters])
    transposed = {**CONV, "output_padding": [[1, 0]], "output_shape": [[8, 7]]}
    yield "ConvTranspose", Recipe([image, filters, x(4, seed=2)], vary=transposed)
    yield "ConvTranspose", Recipe([image, filters], {"strides": [2, 3]}, transposed)
    yield "ConvTranspose", Recipe([image, x(4, 3, 3, 2, seed=1)], {"group": 2})
    yield "ConvTranspose", Recipe([x(1, 2, 5), x(2, 3, 3, seed=1)], {"strides": [2]})
    for name in ("MaxPool", "AveragePool", "LpPool"):
        more = {"AveragePool": {"count_include_pad": [1]}, "LpPool": {"p": [1, 3]}}.get(name, {})
        more = {"storage_order": [1]} if name == "MaxPool" else more
        both = 2 if name == "MaxPool" else 1
        base = {"kernel_shape": [3, 2]}
        yield name, Recipe([image], base, {**POOL, **more})
        yield name, Recipe([image], {**base, "pads": [1, 1, 1, 0]}, {**POOL, **more}, outputs=both)
        padded = {**base, "pads": [1, 1, 1, 0], "strides": [2, 2], "ceil_mode": 1}
        yield name, Recipe([image], padded, more, since=10)
        yield name, Recipe([x(1, 2, 7)], {"kernel_shape": [3]}, {"strides": [[2]]})
        yield name, Recipe([x(0, 2, 7)], {"kernel_shape": [3]})
    for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        vary = {"p": [1, 3]} if name == "GlobalLpPool" else {}
        yield name, Recipe([x(2, 3, 4, 2)], vary=vary, special=name != "GlobalLpPool")
        yield name, Recipe([x(2, 3, 4)], vary=vary)
        yield name, Recipe([x(2, 3, 0, 4)], vary=vary)
        yield name, Recipe([x(0, 3, 2, 4)], vary=vary)
    where = at([[[[5, 7], [13, 15]]]])
    yield "MaxUnpool", Recipe([x(1, 1, 2, 2), where], {"kernel_shape": [2, 2], "strides": [2, 2]})
    yield (
        "MaxUnpool",
        Recipe(
            [x(1, 1, 2, 2), where, ints([1, 1, 5, 5])], {"kernel_shape": [2, 2], "strides": [2, 2]}
        ),
    )
    boxes = Operand(np.array([[0.0, 0, 0, 3, 3], [0, 1, 1, 4, 3]]))
    yield "MaxRoiPool", Recipe([image, boxes], {"pooled_shape": [2, 2]}, {"spatial_scale": [0.5]})
    yield "RoiAlign", Recipe(
        [image, Operand(boxes.value[:, 1:]), at([0, 0])],
        {"output_height": 2, "output_width": 3},
        {
            "sampling_ratio": [2], "spatial_scale": [0.5], "mode": ["max"],
            "coordinate_transformation_mode": ["output_half_pixel", "half_pixel"],
        },
    )  # fmt: skip
    columns = x(1, 8, 4)
    yield (
        "Col2Im",
        Recipe(
            [columns, ints([4, 4]), ints([2, 2])], {"strides": [2, 2]}, {"pads": [[0, 0, 0, 0]]}
        ),
    )
    grid = Operand(np.clip(x(1, 3, 2, 2, seed=4).value / 2, -1.3, 1.3))
    vary = {
        "align_corners": [1],
        "mode": ["bilinear", "linear", "nearest", "bicubic", "cubic"],
        "padding_mode": ["border", "reflection"],
    }
    yield "GridSample", Recipe([image, grid], vary=vary)
    yield "AffineGrid", Recipe([x(1, 2, 3), ints([1, 2, 3, 4])], vary={"align_corners": [1]})
    yield "AffineGrid", Recipe([x(2, 3, 4), ints([2, 1, 2, 3, 4])], vary={"align_corners": [1]})
    yield (
        "DeformConv",
        Recipe([x(1, 2, 4, 4), x(2, 2, 2, 2, seed=1), x(1, 8, 3, 3, seed=2), x(2, seed=3)]),
    )
    for scales in ([1, 1, 2, 1.5], [1, 1, 0.5, 0.7]):
        yield (
            "Upsample",
            Recipe(
                [x(1, 1, 4, 3), ints(scales, "scales")],
                {"mode": "nearest"},
                {"mode": ["linear"]},
                since=7,
            ),
        )
        vary = {
            "mode": ["nearest", "linear", "cubic"],
            "coordinate_transformation_mode": [
                "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                "half_pixel_symmetric", "tf_half_pixel_for_nn",
            ],
            "nearest_mode": ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"],
            "antialias": [1], "exclude_outside": [1], "cubic_coeff_a": [-0.5],
        }  # fmt: skip
        scale = typed(ints(scales), "float32")
        for mode in ("nearest", "linear", "cubic"):
            image4 = x(1, 1, 4, 3)
            yield "Resize", Recipe([image4, scale], {"mode": mode}, until=10)
            yield "Resize", Recipe([image4, None, scale], {"mode": mode}, vary, since=13)
            roi = typed(ints([]), "float32")
            yield "Resize", Recipe([image4, roi, scale], {"mode": mode}, vary, since=11)
    sizes = ints([1, 1, 7, 2])
    yield "Resize", Recipe([x(1, 1, 4, 3), None, None, sizes], {"mode": "linear"}, since=13)
    vary = {"keep_aspect_ratio_policy": ["stretch", "not_larger", "not_smaller"]}
    yield (
        "Resize",
        Recipe([x(1, 1, 4, 3), None, None, ints([7, 2])], {"axes": [2, 3]}, vary, since=18),
    )


def _normalising() -> Iterator[tuple[str, Recipe]]:
    channels = [x(3, seed=1), x(3, seed=2), x(3, seed=3), positive(3, seed=4)]
    epsilon = {"epsilon": [0.1]}
    fixed = [Operand(each.value, True) for each in channels]
    for given in (channels, fixed):
        test = {"is_test": 1}
        yield "BatchNormalization", Recipe([x(2, 3, 4), *given], test, epsilon, until=6)
        yield "BatchNormalization", Recipe([x(2, 3, 4), *given], {}, epsilon, since=7)
    yield "BatchNormalization", Recipe([x(2, 3), *channels], since=7)
    training = {"training_mode": 1}
    vary = {"momentum": [0.5]}
    yield "BatchNormalization", Recipe([x(2, 3, 4), *channels], training, vary, outputs=3, since=14)
    yield "InstanceNormalization", Recipe([x(2, 3, 4), *channels[:2]], vary=epsilon, since=6)
    yield (
        "GroupNormalization",
        Recipe(
            [x(2, 4, 3), x(2, seed=1), x(2, seed=2)], {"num_groups": 2}, epsilon, since=18, until=20
        ),
    )
    four = [x(4, seed=1), x(4, seed=2)]
    yield "GroupNormalization", Recipe([x(2, 4, 3), *four], {"num_groups": 2}, epsilon, since=21)
    vary = {"axis": [-1, 2, -2, 1], **epsilon, "stash_type": [1]}
    yield "LayerNormalization", Recipe([x(2, 3, 4), *four], {}, vary, outputs=3)
    yield (
        "LayerNormalization",
        Recipe([x(2, 3, 4), x(3, 4), x(3, 4, seed=1)], {"axis": 1}, {"axis": [-2]}, outputs=3),
    )
    yield "LayerNormalization", Recipe([x(2, 0), x(0), x(0)])
    yield "LayerNormalization", Recipe([x(0, 4), *four])
    yield "RMSNormalization", Recipe([x(2, 3, 4), four[0]], {}, vary)
    yield "LpNormalization", Recipe([x(2, 3)], vary={"axis": [0, 1, -2], "p": [1, 2]})
    yield "LpNormalization", Recipe([Operand(np.array([[0.0, 0], [1, 2]]))], vary={"p": [1]})
    yield "MeanVarianceNormalization", Recipe([x(2, 3, 4, 2)], vary={"axes": [[1], [0, 2], [-1]]})
    vary = {"alpha": [0.5], "beta": [0.5], "bias": [2.0], "size": [1, 2, 4]}
    yield "LRN", Recipe([x(1, 5, 2, 2)], {"size": 3}, vary)
    for labels in ([1, 0], [2, 2]):
        score = [x(2, 3), at(labels)]
        vary = {"reduction": ["none", "sum", "mean"], "ignore_index": [0, 2]}
        yield "NegativeLogLikelihoodLoss", Recipe([*score, positive(3)], vary=vary)
        yield "SoftmaxCrossEntropyLoss", Recipe([*score, positive(3)], vary=vary, outputs=2)
    yield "NegativeLogLikelihoodLoss", Recipe([x(2, 3, 2), at([[1, 0], [2, 2]])], vary=vary)
    yield "SoftmaxCrossEntropyLoss", Recipe([x(2, 3, 2), at([[1, 0], [2, 2]])], vary=vary)


def _products() -> Iterator[tuple[str, Recipe]]:
    shapes = [
        ((2, 3), (3, 4)),
        ((3,), (3,)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((2, 1, 2, 3), (4, 3, 2)),
    ]
    shapes += [((2, 0), (0, 3)), ((0, 2), (2, 3)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2))]
    for a, b in shapes:
        yield "MatMul", Recipe([x(*a), x(*b, seed=1)])
    vary = {"alpha": [0.5], "beta": [2.0, 0.0]}
    yield "Gemm", Recipe([x(2, 3), x(3, 4), x(4, seed=2)], {}, vary, since=7)
    yield (
        "Gemm",
        Recipe([x(3, 2), x(4, 3), x(2, 1, seed=2)], {"transA": 1, "transB": 1}, vary, since=7),
    )
    yield "Gemm", Recipe([x(2, 3), x(3, 4), x(2, 4, seed=2)], {}, vary)
    yield "Gemm", Recipe([x(2, 3), x(3, 4), x(4, seed=2)], {"broadcast": 1}, vary, until=6)
    yield "Gemm", Recipe([x(2, 0), x(0, 4), x(4, seed=2)], since=7)
    for equation, shape in (
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ii->i", [(3, 3)]), ("ij->", [(2, 3)]), ("ij", [(2, 3)]),
        ("...ij,...jk->...ik", [(2, 2, 3), (3, 4)]), ("ba", [(2, 3)]), ("i,j", [(2,), (3,)]),
        ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]), (" i j , j k -> k i ", [(2, 3), (3, 4)]),
    ):  # fmt: skip
        operands = [x(*each, seed=i) for i, each in enumerate(shape)]
        yield "Einsum", Recipe(operands, {"equation": equation})
    yield "Det", Recipe([x(2, 3, 3)])
    signal = x(1, 8, 1)
    vary = {"inverse": [1], "onesided": [1]}
    yield "DFT", Recipe([signal], {}, {**vary, "axis": [1, -2]})
    yield "DFT", Recipe([x(1, 8, 2), ints(6)], {}, {"inverse": [1]})
    yield "DFT", Recipe([x(2, 8, 3, 1), None, ints(1)], {}, vary, since=20)
    window = Operand(np.hanning(4))
    yield "STFT", Recipe([x(1, 16, 1), ints(2), window, ints(4)], vary={"onesided": [0]})
    yield "STFT", Recipe([x(1, 16), ints(2), window], vary={"onesided": [0]})
    heads = [x(1, 2, 3, 4), x(1, 2, 3, 4, seed=1), x(1, 2, 3, 4, seed=2)]
    vary = {"is_causal": [1], "scale": [0.3], "softcap": [2.0]}
    yield "Attention", Recipe(heads, {}, vary)
    yield "Attention", Recipe([*heads, x(3, 3, seed=5)], {}, vary)
    flat = [x(1, 3, 8), x(1, 3, 8, seed=1), x(1, 3, 8, seed=2)]
    yield "Attention", Recipe(flat, {"q_num_heads": 2, "kv_num_heads": 2}, vary)
    caches = [x(4, 2, seed=3), x(4, 2, seed=4), at([[0, 1, 3]])]
    yield "RotaryEmbedding", Recipe([x(1, 2, 3, 4), *caches], vary={"interleaved": [1]})
    flat_caches = [x(1, 3, 2, seed=3), x(1, 3, 2, seed=4)]
    yield (
        "RotaryEmbedding",
        Recipe([x(1, 3, 8), *flat_caches], {"num_heads": 2}, {"interleaved": [1]}),
    )
    for name, gates, outputs in (("RNN", 1, 2), ("GRU", 3, 2), ("LSTM", 4, 3)):
        for directions in ("forward", "reverse", "bidirectional"):
            d = 1 + (directions == "bidirectional")
            weights = [
                x(d, gates * 2, 3, seed=1), x(d, gates * 2, 2, seed=2), x(d, gates * 4, seed=3),
                at([4, 2]), x(d, 2, 2, seed=4),
            ]  # fmt: skip
            if name == "LSTM":
                weights += [x(d, 2, 2, seed=5), x(d, 6, seed=6)]
            vary: dict[str, list[Any]] = {"clip": [0.5]}
            if name == "GRU":
                vary["linear_before_reset"] = [1]
            if name == "LSTM":
                vary["input_forget"] = [1]
            if name == "RNN":
                vary["activations"] = [["Relu"] * d]
            base = {"hidden_size": 2, "direction": directions}
            sequence = x(4, 2, 3)
            yield name, Recipe([sequence, *weights], base, vary, outputs=outputs, since=7)
            yield name, Recipe([sequence, *weights[:2]], base, vary, outputs=outputs, since=7)
        batched = [x(2, 4, 3), x(1, gates * 2, 3, seed=1), x(1, gates * 2, 2, seed=2)]
        yield name, Recipe(batched, {"hidden_size": 2, "layout": 1}, outputs=outputs, since=14)


def _quantising() -> Iterator[tuple[str, Recipe]]:
    image = Operand(np.array([[1.0, -2.5, 100], [0.25, -300, 7]]))
    yield "QuantizeLinear", Recipe([image, number(0.5), number(3)])
    yield "QuantizeLinear", Recipe([image, number(0.5)])
    each = [Operand(np.array([0.5, 1, 2]), True), ints([1, 0, 2])]
    yield "QuantizeLinear", Recipe([image, *each], {"axis": 1}, {"axis": [-1]}, since=13)
    two = [Operand(np.array([0.5, 2]), True), ints([1, 2])]
    yield "QuantizeLinear", Recipe([image, *two], {"axis": 0}, {"axis": [-2]}, since=13)
    codes = at([[1, 7, 100], [0, 3, 9]])
    yield "DequantizeLinear", Recipe([codes, number(0.5), number(3)])
    yield "DequantizeLinear", Recipe([codes, number(0.5)])
    yield "DequantizeLinear", Recipe([codes, *each], {"axis": 1}, {"axis": [-1]}, since=13)
    yield "DequantizeLinear", Recipe([codes, *two], {"axis": 0}, since=13)
    blocks = [Operand(np.array([[0.5], [2.0]]), True), ints([[1], [2]])]
    vary = {"block_size": [3]}
    yield "DequantizeLinear", Recipe([codes, *blocks], {"axis": 1, "block_size": 3}, vary, since=21)
    yield "QuantizeLinear", Recipe([image, *blocks], {"axis": 1, "block_size": 3}, vary, since=21)
    yield "DynamicQuantizeLinear", Recipe([image], outputs=3)
    yield "DynamicQuantizeLinear", Recipe([positive(2, 3)], outputs=3)
    yield "DynamicQuantizeLinear", Recipe([Operand(np.zeros((2, 2)))], outputs=3)
    a, b = at([[1, 7, 100], [0, 3, 9]]), at([[1, 2], [3, 4], [5, 6]])
    yield "MatMulInteger", Recipe([a, b, number(2), number(1)])
    yield "MatMulInteger", Recipe([a, b, ints([2, 1]), ints([1, 0])])
    scale = number(0.5)
    yield "QLinearMatMul", Recipe([a, scale, number(2), b, scale, number(1), number(4), number(3)])
    x8, w8 = at(np.arange(32).reshape(1, 2, 4, 4) % 11), at(np.arange(12).reshape(2, 2, 3, 1) % 5)
    yield "ConvInteger", Recipe([x8, w8, number(2), number(1)], vary={"pads": [[1, 0, 1, 0]]})
    args = [
        x8,
        scale,
        number(2),
        w8,
        scale,
        number(1),
        number(4),
        number(3),
        typed(at([5, 6]), "int32"),
    ]
    yield "QLinearConv", Recipe(args, vary={"pads": [[1, 0, 1, 0]], "strides": [[2, 1]]})


def _others() -> Iterator[tuple[str, Recipe]]:
    for name in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        for size in (1, 5, 8):
            vary = {"periodic": [0], "output_datatype": [11]}
            yield name, Recipe([ints(size)], vary=vary)
    mel = [number(each) for each in (4, 16, 8000)] + [number(0.0), number(4000.0)]
    yield "MelWeightMatrix", Recipe(mel, vary={"output_datatype": [11]})
    yield "BitCast", Recipe([typed(x(2, 3), "float32")], {"to": 6})
    boxes = Operand(np.array([[[0.0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]]]), True)
    scores = Operand(np.array([[[0.9, 0.75, 0.6]]]), True)
    yield "NonMaxSuppression", Recipe([boxes, scores, ints([3]), number(0.5), number(0.0)])
    yield (
        "CausalConvWithState",
        Recipe([x(1, 2, 5), x(2, 1, 3, seed=1), x(2, seed=2), x(1, 2, 2, seed=3)], outputs=2),
    )
