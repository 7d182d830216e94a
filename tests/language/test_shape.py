"""The type of an access, and the checks of what users pass as shapes, numbers and dtypes."""

import dataclasses
import math

import numpy as np
import pytest

from glenside.errors import GlensideError, ShapeError
from glenside.language.shape import (
    DTYPES,
    AccessType,
    check_dtype,
    check_int,
    check_number,
    check_shape,
    highest,
    lowest,
)

MATRIX_OF_VECTORS = AccessType((2, 3), (4,), "float16")


def test_a_type_counts_its_axes_outer_first():
    assert MATRIX_OF_VECTORS.shape == (2, 3, 4)
    assert MATRIX_OF_VECTORS.split == 2
    assert MATRIX_OF_VECTORS.rank == 3
    assert MATRIX_OF_VECTORS.size == 24
    assert MATRIX_OF_VECTORS.nbytes == 48


def test_a_type_is_written_as_the_paper_writes_shapes():
    assert str(MATRIX_OF_VECTORS) == "((2 3) (4)) float16"
    assert str(AccessType((), (), "bool")) == "(() ()) bool"


def test_a_scalar_has_one_element_and_an_empty_axis_none():
    assert AccessType((), (), "int8").size == 1
    assert AccessType((3, 0), (4,), "int8").size == 0


def test_with_shape_keeps_the_dtype_and_the_split_unless_told():
    assert MATRIX_OF_VECTORS.with_shape((5, 6, 7)) == AccessType((5, 6), (7,), "float16")
    assert MATRIX_OF_VECTORS.with_shape((5, 6, 7), 0) == AccessType((), (5, 6, 7), "float16")


def test_types_are_values():
    assert AccessType((2,), (), "int8") == AccessType((2,), (), "int8")
    assert AccessType((2,), (), "int8") != AccessType((), (2,), "int8")
    assert len({AccessType((2,), (), "int8"), AccessType((2,), (), "int8")}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        MATRIX_OF_VECTORS.dtype = "int8"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_known_by_name_by_numpy_dtype_and_by_scalar_type(dtype):
    assert check_dtype(dtype) == dtype
    assert check_dtype(np.dtype(dtype)) == dtype
    assert check_dtype(np.dtype(dtype).type) == dtype


@pytest.mark.parametrize("given", ["float8", "", "f4", "complex64", "object", None, 3, complex])
def test_other_dtypes_are_refused_with_those_that_exist(given):
    with pytest.raises(ShapeError, match=r"dtype.*float16, float32, float64|not a dtype"):
        check_dtype(given)


@pytest.mark.parametrize("given", [[("a", "i4")], {"names": 3}, ">U3"])
def test_structured_and_text_dtypes_are_refused(given):
    with pytest.raises(ShapeError, match="dtype"):
        check_dtype(given)


def test_ints_may_be_numpys_but_neither_bools_nor_fractions():
    assert check_int(np.int8(3), "x") == 3
    assert type(check_int(np.int8(3), "x")) is int
    for wrong in (True, np.True_, 2.0, np.float32(2), "2", None, [2]):
        with pytest.raises(ShapeError, match=r"^x must be an integer, got"):
            check_int(wrong, "x")


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**5000], ids=["high", "low", "huge"])
def test_ints_have_64_bits(value):
    with pytest.raises(ShapeError, match="integer of 64 bits"):
        check_int(value, "x")


def test_shapes_have_no_negative_lengths():
    assert check_shape([2, np.int64(0)], "x") == (2, 0)
    with pytest.raises(ShapeError, match=r"x: axis lengths must not be negative, got \(2, -1\)"):
        check_shape((2, -1), "x")


def test_a_number_becomes_the_one_that_spells_it_in_the_dtype():
    for value, dtype, expected in (
        (1, "float32", 1.0),
        (True, "float16", 1.0),
        (True, "int8", 1),
        (1, "bool", True),
        (0.0, "bool", False),
        (255, "uint8", 255),
    ):
        result = check_number(value, dtype, "x")
        assert (result, type(result)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (256, "uint8"),
        (-1, "uint64"),
        (-129, "int8"),
        (2**64, "uint64"),
        (1.0, "int8"),
        (math.inf, "int64"),
        (math.nan, "bool"),
        (2, "bool"),
    ],
)
def test_a_number_outside_the_dtype_is_refused(value, dtype):
    with pytest.raises(ShapeError, match=f"x .* is not a value of {dtype}"):
        check_number(value, dtype, "x")


def test_lowest_and_highest_bound_the_dtype():
    assert (lowest("bool"), highest("bool")) == (False, True)
    assert (lowest("int8"), highest("int8")) == (-128, 127)
    assert (lowest("uint64"), highest("uint64")) == (0, 2**64 - 1)
    assert (lowest("float16"), highest("float16")) == (-math.inf, math.inf)


def test_a_shape_error_is_caught_as_ours_and_as_a_value_error():
    assert issubclass(ShapeError, GlensideError)
    assert issubclass(ShapeError, ValueError)
