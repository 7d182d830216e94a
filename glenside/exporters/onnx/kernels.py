"""Which element types onnxruntime's CPU kernels compute, and where the others are computed instead.

ONNX defines most operators for every element type; onnxruntime implements few of these. The table
is narrow on purpose: what it names has been there since onnxruntime 1.20, so that a model does not
need the newest release for a cast less. 16-bit floats are always computed in float32 and rounded
once.
"""

from __future__ import annotations

from glenside.language.shape import DTYPES, FLOATS, INTEGERS

_FLOATS = frozenset({"float32", "float64"})
_BASIC = _FLOATS | {"int32", "int64"}
_INTEGERS = frozenset(INTEGERS)

KERNELS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Pow"), _BASIC),
    "Div": _BASIC | {"uint64"},
    "Mod": _FLOATS | _INTEGERS,
    **dict.fromkeys(("Max", "Min"), _BASIC | {"uint32", "uint64"}),
    **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), _BASIC),
    "Equal": _BASIC | {"bool"},
    **dict.fromkeys(("And", "Or", "Xor", "Not"), frozenset({"bool"})),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), _INTEGERS),
    "BitShift": frozenset({"uint8", "uint32", "uint64"}),
    "Relu": _FLOATS | {"int8", "int32"},
    "Neg": _BASIC | {"int8"},
    **dict.fromkeys(("Abs", "Sign"), _FLOATS | _INTEGERS),
    **dict.fromkeys(
        ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf"),
        frozenset({"float32"}),
    ),
    **dict.fromkeys(
        ("Sqrt", "Exp", "Log", "Sin", "Cos", "Tanh", "Sigmoid", "Reciprocal", "Softmax"), _FLOATS
    ),
    **dict.fromkeys(("Floor", "Ceil", "Round", "IsNaN", "IsInf"), _FLOATS),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceMean"), _FLOATS),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), _BASIC | {"int8", "uint8"}),
    "MatMul": _BASIC | {"uint32", "uint64"},
    **dict.fromkeys(
        ("Conv", "ConvTranspose", "Gemm", "AveragePool", "Clip"), frozenset({"float32"})
    ),
    **dict.fromkeys(("MaxPool", "BatchNormalization", "LayerNormalization"), _FLOATS),
    "Where": _BASIC | {"uint8"},
    "Pad": _BASIC | {"int8", "uint8", "uint32", "uint64", "bool"},
    **dict.fromkeys(
        ("Transpose", "Reshape", "Concat", "Slice", "Gather", "Identity"), frozenset(DTYPES)
    ),
    **dict.fromkeys(("Expand", "ConstantOfShape"), frozenset(DTYPES) - {"bfloat16"}),
}
"""Element types by operator."""

_CARRIERS = {
    "float16": "float32",
    "bfloat16": "float32",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "uint32": "int64",
    # Wraps around and back: right for whatever does not compare.
    "uint64": "int64",
    "bool": "uint8",
}


def float_dtype(operator: str, dtype: str) -> str | None:
    """That in which ``operator`` is computed for floats; None where it is not, or for others."""
    if dtype not in FLOATS:
        return None
    carried = dtype if dtype in KERNELS[operator] else _CARRIERS.get(dtype)
    return carried if carried in KERNELS[operator] else None


def working_dtype(operator: str, dtype: str) -> str:
    """The dtype in which ``operator`` is computed for operands of ``dtype``."""
    if dtype in KERNELS[operator]:
        return dtype
    carrier = _CARRIERS[dtype]
    assert carrier in KERNELS[operator], (operator, dtype)
    return carrier
