"""The type of an access: outer axes, item axes and a dtype.

An *access pattern* is an array whose axes are split in two: the **outer** axes are iterated over,
the **item** axes are computed on (Glenside, section 3: "access patterns"). Axis numbers always
count over ``outer ++ item``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import ShapeError

try:
    import ml_dtypes

    BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # Saved programs run without it, unless they have values of that dtype.
    BFLOAT16 = np.dtype("V2")
"""NumPy's dtype of that name, which it knows once ``ml_dtypes`` is there."""

HALVES = ("float16", "bfloat16")
"""Floats of 16 bits. They are computed with in float32, and results rounded once."""
FLOATS = (*HALVES, "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
DTYPES = (*NUMBERS, "bool")

Shape = tuple[int, ...]

MAX_RANK = 64
"""NumPy's limit: an access of more axes could be built but never evaluated."""

MAX_SIZE = 2**59
"""Elements of eight bytes that 63 bits still count; axes of length 0 are passed over, as NumPy does
in its own limit. Offsets in compiled code and in the e-graph's analyses stay exact."""


@dataclass(frozen=True, slots=True)
class AccessType:
    """Shape and dtype of an access, written ``((outer), (item)) dtype``."""

    outer: Shape
    item: Shape
    dtype: str

    @property
    def shape(self) -> Shape:
        """All axes, outer first."""
        return self.outer + self.item

    @property
    def split(self) -> int:
        """Number of outer axes."""
        return len(self.outer)

    @property
    def rank(self) -> int:
        return len(self.outer) + len(self.item)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.outer) * math.prod(self.item)

    @property
    def nbytes(self) -> int:
        return self.size * np.dtype(self.dtype).itemsize

    def with_shape(self, shape: Sequence[int], split: int | None = None) -> AccessType:
        """The same dtype over other axes; ``split`` defaults to the present one."""
        at = self.split if split is None else split
        return AccessType(tuple(shape[:at]), tuple(shape[at:]), self.dtype)

    def __str__(self) -> str:
        def axes(part: Shape) -> str:
            return f"({' '.join(map(str, part))})"

        return f"({axes(self.outer)} {axes(self.item)}) {self.dtype}"


def check_dtype(dtype: object) -> str:
    """``dtype`` as one of :data:`DTYPES`; accepts NumPy dtypes and scalar types too."""
    if dtype is None:  # Which NumPy would take for float64.
        raise ShapeError(f"None is not a dtype; there are {', '.join(DTYPES)}")
    try:
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name  # type: ignore[call-overload]
    except (TypeError, ValueError) as problem:
        raise ShapeError(f"{dtype!r} is not a dtype: {problem}") from None
    if name not in DTYPES:
        raise ShapeError(f"dtype {name!r} is not one of {', '.join(DTYPES)}")
    return str(name)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a NumPy dtype is one of :data:`FLOATS`; its ``kind`` says nothing of bfloat16."""
    return dtype.name in FLOATS


def check_shape(dims: Iterable[object], what: str) -> Shape:
    """``dims`` as a tuple of non-negative ints."""
    result = tuple(check_int(dim, f"{what}: axis length") for dim in dims)
    if any(dim < 0 for dim in result):
        raise ShapeError(f"{what}: axis lengths must not be negative, got {result}")
    return result


def check_int(value: object, what: str) -> int:
    """``value`` as an int of 64 bits; bools and fractions are refused, NumPy integers taken."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ShapeError(f"{what} must be an integer, got {value!r}")
    if not -(2**63) <= value < 2**63:
        raise ShapeError(f"{what} must be an integer of 64 bits, got one of {_bits(value)}")
    return int(value)


def check_number(value: float | int | bool, dtype: str, what: str) -> float | int | bool:
    """``value`` as the Python number that stands for it in ``dtype``: a float, int or bool.

    Floats are rounded to the dtype, so that numbers that are equal there are equal here.
    """
    if dtype == "float64":
        return float(value)
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            return float(np.array(value, dtype))
    if dtype == "bool" and value in (0, 1):
        return bool(value)
    if isinstance(value, float) or not lowest(dtype) <= value <= highest(dtype):
        raise ShapeError(f"{what} {value!r} is not a value of {dtype}")
    return int(value)


def _bits(value: int | np.integer[Any]) -> str:
    return f"{int(value).bit_length()} bits"  # Python refuses to print ints of many digits.


def lowest(dtype: str) -> float | int | bool:
    """The least value of a dtype: the neutral element of ``max`` (-inf for floats)."""
    if dtype == "bool":
        return False
    return -math.inf if dtype in FLOATS else int(np.iinfo(dtype).min)


def highest(dtype: str) -> float | int | bool:
    """The greatest value of a dtype: the neutral element of ``min`` (+inf for floats)."""
    if dtype == "bool":
        return True
    return math.inf if dtype in FLOATS else int(np.iinfo(dtype).max)
