"""Every operator: its type rule, its value, and each thing it refuses.

One class an operator. Values are worked out by hand or by a plain NumPy statement.
"""

import math
import re

import numpy as np
import pytest

from glenside.errors import GlensideError, InputError, ShapeError
from glenside.language import OPERATORS, TRANSFORMERS, Term, evaluate, make
from glenside.language.builders import (
    access,
    blocked,
    broadcast,
    broadcast_shapes,
    broadcast_to,
    call,
    cart_prod,
    cast,
    compute,
    concat,
    constant,
    elementwise,
    flatten,
    gather,
    host_op,
    item_only,
    outer_only,
    pad,
    pair,
    reshape,
    slice_,
    squeeze,
    tensor,
    transpose,
    unsqueeze,
    where,
    windows,
)

X23 = np.array([[1, 2, 3], [4, 5, 6]], "float32")
x = tensor("x", (2, 3))
y = tensor("y", (2, 3))


def value(term: Term, **arrays) -> np.ndarray:
    (result,) = evaluate([term], arrays)
    assert result.shape == term.shape
    assert result.dtype == term.dtype
    return result


def is_typed(term: Term, outer, item, dtype="float32") -> bool:
    return (term.outer, term.item, term.dtype) == (tuple(outer), tuple(item), dtype)


def refuses(*fragments: str):
    """A ShapeError of one line that names all the fragments, in order."""
    return pytest.raises(ShapeError, match=".*".join(map(re.escape, fragments)))


def same(actual, expected) -> None:
    np.testing.assert_array_equal(actual, expected, strict=False)


class TestTensor:
    def test_all_axes_are_outer(self):
        assert is_typed(tensor("t", (2, 3), "int8"), (2, 3), (), "int8")
        assert is_typed(tensor("t", ()), (), ())

    def test_is_what_the_environment_holds(self):
        same(value(x, x=X23), X23)

    def test_name_shape_and_dtype_are_checked(self):
        with refuses("tensor: name must be a name", "5"):
            tensor(5, (2,))
        with refuses("tensor: shape must be a list of integers", "2"):
            tensor("t", 2)
        with refuses("tensor: shape", "must be an integer", "2.0"):
            tensor("t", (2.0,))
        with refuses("tensor t", "must not be negative", "-2"):
            tensor("t", (-2,))
        with refuses("'float8'", "float16, float32"):
            tensor("t", (2,), "float8")
        with refuses("at most 64"):
            tensor("t", (1,) * 65)


class TestConstant:
    def test_fills_an_outer_shape(self):
        term = constant(7, (2, 2), "int16")
        assert is_typed(term, (2, 2), (), "int16")
        same(value(term), [[7, 7], [7, 7]])

    def test_of_rank_zero(self):
        same(value(constant(0.1)), np.float32(0.1))

    def test_negative_zero_and_nan_survive(self):
        assert math.copysign(1, value(constant(-0.0))) == -1
        assert np.isnan(value(constant(math.nan, (), "float16")))

    def test_a_number_beyond_a_float_dtype_rounds_to_infinity(self):
        assert value(constant(1e300)) == math.inf
        assert value(constant(-70000, (), "float16")) == -math.inf

    def test_the_extremes_of_64_bits(self):
        assert value(constant(2**64 - 1, (), "uint64")) == 2**64 - 1
        assert value(constant(-(2**63), (), "int64")) == -(2**63)

    def test_one_number_is_one_term_however_it_is_given(self):
        assert constant(1) is constant(1.0) is constant(np.float32(1)) is constant(np.int8(1))
        assert constant(True, (), "int8") is constant(1, (), "int8")
        assert constant(1, (), "bool") is constant(np.True_, (), "bool")
        assert constant(0.0) is not constant(-0.0)

    def test_refuses_what_the_dtype_does_not_hold(self):
        for number, dtype in ((300, "int8"), (-1, "uint8"), (0.5, "int8"), (2, "bool")):
            with refuses("constant", str(number), "not a value of", dtype):
                constant(number, (), dtype)
        with refuses("number beyond every dtype"):
            constant(10**5000)
        for wrong in ("zero", None, 1j, np.zeros(2)):
            with refuses("constant: value must be number"):
                constant(wrong)


class TestAccess:
    def test_moves_the_split_only(self):
        assert is_typed(access(x, 1), (2,), (3,))
        assert is_typed(access(access(x, 0), 2), (2, 3), ())
        same(value(access(x, 1), x=X23), X23)

    def test_where_the_split_stands_already_nothing_is_added(self):
        assert access(x, 2) is x

    def test_refuses_a_split_outside_the_rank(self):
        for split in (-1, 3):
            with refuses(f"access {split} of ((2 3) ()) float32", "0 to 2"):
                access(x, split)
        for wrong in (1.0, True, "1", None):
            with refuses("access: split must be an integer"):
                access(x, wrong)

    def test_refuses_operands_that_are_no_terms(self):
        with refuses("access: operands are terms, got ndarray"):
            access(X23, 1)


class TestTranspose:
    def test_permutes_axes_and_keeps_the_split_position(self):
        t = access(tensor("t", (1, 2, 3, 4)), 1)
        assert is_typed(transpose(t, (1, 3, 2, 0)), (2,), (4, 3, 1))
        same(value(transpose(x, (1, 0)), x=X23), [[1, 4], [2, 5], [3, 6]])

    def test_refuses_what_is_no_permutation(self):
        for order in ((0, 0), (0,), (0, 1, 2), (1, 2), (-1, 0)):
            with refuses("transpose of ((2 3) ())", str(order), "not a permutation of 0 to 1"):
                transpose(x, order)


class TestCartProd:
    a = access(tensor("a", (2, 3)), 1)
    b = access(tensor("b", (4, 3)), 1)

    def test_pairs_every_item_with_every_item(self):
        term = cart_prod(self.a, self.b)
        assert is_typed(term, (2, 4), (2, 3))
        a, b = np.arange(6.0).reshape(2, 3), -np.arange(12.0).reshape(4, 3)
        result = value(term, a=a.astype("float32"), b=b.astype("float32"))
        for i in range(2):
            for j in range(4):
                same(result[i, j], [a[i], b[j]])

    def test_shares_batch_axes(self):
        a = access(tensor("a", (5, 2, 3), "int8"), 2)
        b = access(tensor("b", (5, 4, 3), "int8"), 2)
        term = cart_prod(a, b, batch=1)
        assert is_typed(term, (5, 2, 4), (2, 3), "int8")
        left = np.arange(30, dtype="int8").reshape(5, 2, 3)
        right = -np.arange(60, dtype="int8").reshape(5, 4, 3)
        result = value(term, a=left, b=right)
        same(result[3, 1, 2], [left[3, 1], right[3, 2]])

    def test_of_scalars_and_of_empty_accesses(self):
        assert is_typed(cart_prod(tensor("s", ()), x), (2, 3), (2,))
        empty = access(tensor("e", (0, 3)), 1)
        assert value(cart_prod(empty, self.b), **_zeros(empty, self.b)).shape == (0, 4, 2, 3)

    def test_of_products(self):
        once = cart_prod(self.a, self.b)
        twice = cart_prod(once, once)
        assert is_typed(twice, (2, 4, 2, 4), (2, 2, 3))
        arrays = {"a": X23, "b": np.arange(12, dtype="float32").reshape(4, 3)}
        result, inner = value(twice, **arrays), value(once, **arrays)
        same(result[1, 2, 0, 3], [inner[1, 2], inner[0, 3]])

    def test_refuses_unlike_items_dtypes_and_batches(self):
        with refuses("cart-prod of", "item shapes must be equal"):
            cart_prod(self.a, access(tensor("c", (4, 2)), 1))
        with refuses("cart-prod of", "dtypes differ: float32, int8"):
            cart_prod(self.a, access(tensor("c", (4, 3), "int8"), 1))
        with refuses("batch 2 exceeds"):
            cart_prod(self.a, self.b, 2)
        with refuses("batch -1 exceeds"):
            cart_prod(self.a, self.b, -1)
        with refuses("the first 1 outer axes must be equal"):
            cart_prod(self.a, self.b, 1)


class TestPair:
    def test_puts_two_side_by_side_in_the_item(self):
        term = pair(access(x, 1), access(y, 1))
        assert is_typed(term, (2,), (2, 3))
        same(value(term, x=X23, y=-X23), np.stack([X23, -X23], axis=1))

    def test_refuses_unlike_types(self):
        for other in (access(y, 1), tensor("z", (3, 2)), tensor("z", (2, 3), "float64")):
            with refuses("pair of ((2 3) ()) float32 and", "the same type"):
                pair(x, other)
        with refuses("pair takes 2 operands, got 1"):
            make("pair", [x])


class TestWindows:
    def test_slides_over_all_item_axes(self):
        term = windows(access(tensor("i", (3, 12, 12)), 0), (3, 3, 3), (1, 1, 1))
        assert is_typed(term, (1, 10, 10), (3, 3, 3))

    def test_values_by_hand(self):
        row = np.array([10, 11, 12, 13, 14, 15, 16], "float32")
        t = access(tensor("t", (7,)), 0)
        same(value(windows(t, (3,), (2,)), t=row), [[10, 11, 12], [12, 13, 14], [14, 15, 16]])
        same(value(windows(t, (3,), (1,), (3,)), t=row), [[10, 13, 16]])
        same(value(windows(t, (2,), (3,), (2,)), t=row), [[10, 12], [13, 15]])

    def test_outer_axes_stay_in_front(self):
        t = access(tensor("t", (2, 4, 5), "int8"), 1)
        term = windows(t, (2, 3), (2, 1))
        assert is_typed(term, (2, 2, 3), (2, 3), "int8")
        array = np.arange(40, dtype="int8").reshape(2, 4, 5)
        same(value(term, t=array)[1, 1, 2], array[1, 2:4, 2:5])

    def test_over_no_axes_nothing_slides(self):
        assert is_typed(windows(x, (), ()), (2, 3), ())
        same(value(windows(x, (), ()), x=X23), X23)

    def test_undilated_windows_are_spelled_one_way(self):
        t = access(x, 0)
        assert windows(t, (1, 2), (1, 1), (1, 1)) is windows(t, (1, 2), (1, 1))

    def test_refuses_windows_that_do_not_fit(self):
        t = access(x, 1)
        with refuses("windows (4,) of ((2) (3))", "reaches over (4,), the item is smaller"):
            windows(t, (4,), (1,))
        with refuses("reaches over (5,)"):
            windows(t, (3,), (1,), (2,))
        with refuses("one entry an item axis"):
            windows(t, (1, 1), (1, 1))
        with refuses("one entry an item axis"):
            windows(t, (1,), (1, 1))
        with refuses("one entry an item axis"):
            windows(t, (1,), (1,), (1, 1))
        for shape, stride, dilation in (((0,), (1,), (1,)), ((1,), (0,), (1,)), ((1,), (1,), (0,))):
            with refuses("at least 1"):
                windows(t, shape, stride, dilation)
        with refuses("windows (1,)", "the item is smaller"):
            windows(access(tensor("e", (0,)), 0), (1,), (1,))


class TestSlice:
    def test_of_an_outer_and_of_an_item_axis(self):
        t = access(x, 1)
        assert is_typed(slice_(t, 0, 1, 2), (1,), (3,))
        same(value(slice_(t, 0, 1, 2), x=X23), [[4, 5, 6]])
        same(value(slice_(t, 1, 1, 3), x=X23), [[2, 3], [5, 6]])

    @pytest.mark.parametrize(("low", "high", "step"), [(0, 7, 2), (1, 7, 3), (2, 3, 9), (4, 4, 1)])
    def test_steps_as_python_slices_do(self, low, high, step):
        row = np.arange(7, dtype="float32")
        term = slice_(tensor("t", (7,)), 0, low, high, step)
        same(value(term, t=row), row[low:high:step])

    def test_refuses_bounds_outside(self):
        for low, high, step in ((-1, 1, 1), (2, 1, 1), (0, 3, 1), (0, 2, 0), (0, 2, -1)):
            with refuses(f"slice {low}:{high}:{step} of ((2 3) ())", "0 <= low <= high <= 2"):
                slice_(x, 0, low, high, step)
        for axis in (-1, 2):
            with refuses(f"axis {axis} does not exist, axes are 0 to 1"):
                slice_(x, axis, 0, 1)
        with refuses("axis 0 does not exist, there are no axes"):
            slice_(tensor("s", ()), 0, 0, 0)


class TestConcat:
    def test_joins_along_an_axis(self):
        t = tensor("t", (2, 1))
        assert is_typed(concat(1, x, t), (2, 4), ())
        same(value(concat(1, x, t), x=X23, t=np.float32([[7], [8]])), [[1, 2, 3, 7], [4, 5, 6, 8]])

    def test_many_parts_nest_to_the_left(self):
        assert concat(0, x, y, x) is concat(0, concat(0, x, y), x)
        assert concat(0, x) is x

    def test_with_an_empty_part(self):
        empty = tensor("e", (0, 3))
        same(value(concat(0, empty, x), x=X23, e=np.zeros((0, 3), "float32")), X23)

    def test_refuses_unlike_parts(self):
        with refuses("concat of", "only axis 0 may differ"):
            concat(0, x, tensor("t", (2, 4)))
        with refuses("concat of", "ranks and splits must be equal"):
            concat(0, x, access(y, 1))
        with refuses("concat of", "ranks and splits must be equal"):
            concat(0, x, tensor("t", (2,)))
        with refuses("concat of", "dtypes differ"):
            concat(0, x, tensor("t", (2, 3), "int8"))
        with refuses("axis 2 does not exist"):
            concat(2, x, y)
        with refuses("concat needs at least one part"):
            concat(0)


class TestPad:
    t = tensor("t", (3,))
    row = np.array([1, 2, 3], "float32")

    def test_before_after_and_between(self):
        term = pad(self.t, 0, 1, 2, interior=1)
        assert is_typed(term, (8,), ())
        same(value(term, t=self.row), [0, 1, 0, 2, 0, 3, 0, 0])

    def test_keeps_the_split(self):
        assert is_typed(pad(access(x, 1), 0, 1, 3), (6,), (3,))
        assert is_typed(pad(access(x, 1), 1, 1, 3), (2,), (7,))

    def test_the_kinds_of_filling(self):
        same(value(pad(self.t, 0, 0, 1, "lowest"), t=self.row), [1, 2, 3, -np.inf])
        same(value(pad(self.t, 0, 0, 1, -2.5), t=self.row), [1, 2, 3, -2.5])
        i = tensor("i", (1,), "int8")
        same(value(pad(i, 0, 1, 0, "lowest"), i=np.int8([5])), [-128, 5])
        u = tensor("u", (1,), "uint8")
        same(value(pad(u, 0, 1, 0, "lowest"), u=np.uint8([5])), [0, 5])
        b = tensor("b", (1,), "bool")
        same(value(pad(b, 0, 1, 0, "lowest"), b=np.array([True])), [False, True])
        same(value(pad(b, 0, 1, 0, True), b=np.array([False])), [True, False])

    def test_of_one_element_and_of_none(self):
        one, none = tensor("t", (1,)), tensor("t", (0,))
        same(value(pad(one, 0, 1, 0, interior=3), t=self.row[:1]), [0, 1])
        same(value(pad(none, 0, 1, 1, interior=3), t=self.row[:0]), [0, 0])

    def test_by_nothing_is_the_term_itself(self):
        assert pad(self.t, 0, 0, 0) is self.t
        assert pad(tensor("o", (1,)), 0, 0, 0, interior=2) is tensor("o", (1,))

    def test_one_number_is_one_term(self):
        assert pad(self.t, 0, 1, 0, 1) is pad(self.t, 0, 1, 0, 1.0)
        assert pad(self.t, 0, 1, 0, -0.0) is not pad(self.t, 0, 1, 0, 0.0)

    def test_refuses_wrong_widths_axes_and_values(self):
        for widths in ((-1, 0, 0), (0, -1, 0), (0, 0, -1)):
            with refuses("pad of ((3) ()) float32", "must not be negative"):
                pad(self.t, 0, *widths[:2], interior=widths[2])
        for axis in (-1, 1):
            with refuses(f"axis {axis} does not exist"):
                pad(self.t, axis, 0, 0)
        for number in (1.5, 200, -200):
            with refuses("pad value", str(number), "not a value of int8"):
                pad(tensor("i", (3,), "int8"), 0, 1, 1, number)
        for wrong in ("highest", None, np.zeros(2), 1j):
            with refuses("pad: value must be zero, lowest or a number"):
                pad(self.t, 0, 1, 1, wrong)


class TestSqueeze:
    def test_before_the_split_the_split_moves_with_it(self):
        t = access(tensor("t", (1, 2, 3, 1)), 1)
        assert is_typed(squeeze(t, 0), (), (2, 3, 1))
        assert is_typed(squeeze(t, 3), (1,), (2, 3))
        first_item_axis = access(tensor("t", (2, 1, 3)), 1)
        assert is_typed(squeeze(first_item_axis, 1), (2,), (3,))
        same(value(squeeze(t, 0), t=X23.reshape(1, 2, 3, 1)), X23[..., None])

    def test_refuses_longer_and_missing_axes(self):
        with refuses("squeeze of ((2 3) ())", "axis 1 has not length 1"):
            squeeze(x, 1)
        with refuses("axis 0 has not length 1"):
            squeeze(tensor("e", (0,)), 0)
        with refuses("axis 2 does not exist"):
            squeeze(x, 2)


class TestUnsqueeze:
    def test_at_or_before_the_split_the_axis_is_outer(self):
        t = access(x, 1)
        assert is_typed(unsqueeze(t, 0), (1, 2), (3,))
        assert is_typed(unsqueeze(t, 1), (2, 1), (3,))
        assert is_typed(unsqueeze(t, 2), (2,), (3, 1))
        same(value(unsqueeze(t, 1), x=X23), X23[:, None])

    def test_refuses_axes_past_the_end(self):
        for axis in (-1, 3):
            with refuses("unsqueeze of", f"axis {axis} does not exist, axes are 0 to 2"):
                unsqueeze(x, axis)


class TestBroadcast:
    def test_repeats_axes_of_length_one(self):
        t = access(tensor("t", (1, 3)), 1)
        assert is_typed(broadcast(t, (4, 3)), (4,), (3,))
        same(value(broadcast(t, (2, 3)), t=X23[:1]), [[1, 2, 3], [1, 2, 3]])

    def test_to_nothing(self):
        t = tensor("t", (1, 3))
        assert value(broadcast(t, (0, 3)), t=X23[:1]).shape == (0, 3)

    def test_to_the_same_is_the_term_itself(self):
        assert broadcast(x, (2, 3)) is x

    def test_refuses_other_lengths_and_ranks(self):
        for shape in ((4, 3), (2,), (1, 2, 3), (2, 1)):
            with refuses("broadcast of ((2 3) ())", str(shape), "equal or 1"):
                broadcast(x, shape)
        with refuses("must not be negative"):
            broadcast(tensor("t", (1,)), (-1,))


class TestFlatten:
    def test_each_part_becomes_one_axis_and_an_empty_part_stays_empty(self):
        t = tensor("t", (2, 2, 4, 3))
        assert is_typed(flatten(access(t, 2)), (4,), (12,))
        assert is_typed(flatten(access(t, 0)), (), (48,))
        assert is_typed(flatten(t), (48,), ())
        assert is_typed(flatten(tensor("s", ())), (), ())

    def test_is_row_major_also_after_a_transpose(self):
        same(value(flatten(transpose(x, (1, 0))), x=X23), [1, 4, 2, 5, 3, 6])


class TestReshape:
    def test_each_part_by_itself(self):
        t = access(tensor("t", (2, 6, 4)), 2)
        assert is_typed(reshape(t, (3, 4), (2, 2)), (3, 4), (2, 2))
        assert is_typed(reshape(x, (6, 1)), (6, 1), ())

    def test_is_row_major_also_after_a_transpose(self):
        same(value(reshape(transpose(x, (1, 0)), (2, 3)), x=X23), [[1, 4, 2], [5, 3, 6]])

    def test_of_empty_parts(self):
        t = access(tensor("t", (0, 3)), 1)
        assert is_typed(reshape(t, (5, 0), (3, 1)), (5, 0), (3, 1))

    def test_to_the_same_is_the_term_itself(self):
        assert reshape(access(x, 1), (2,), (3,)) is access(x, 1)

    def test_nothing_crosses_the_split(self):
        with refuses("reshape of ((2) (3))", "the outer part has 2 elements", "(3,) has 3"):
            reshape(access(x, 1), (3,), (2,))
        with refuses("the item part has 3 elements", "() has 1"):
            reshape(access(x, 1), (2,), ())
        with refuses("must not be negative"):
            reshape(x, (-2, -3))


class TestGather:
    data = np.arange(12, dtype="float32").reshape(3, 4)
    d = tensor("d", (3, 4))

    @pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
    def test_takes_slices(self, dtype):
        i = tensor("i", (2,), dtype)
        indices = np.array([2, 0], dtype)
        same(value(gather(self.d, i, 0), d=self.data, i=indices), self.data[[2, 0]])
        same(value(gather(self.d, i, 1), d=self.data, i=indices), self.data[:, [2, 0]])

    def test_negative_indices_count_from_the_end(self):
        i = constant(-1, (1,), "int32")
        same(value(gather(self.d, i, 1), d=self.data), self.data[:, 3:])

    def test_the_axes_of_the_indices_stand_where_the_axis_stood(self):
        d, i = access(self.d, 1), tensor("i", (5, 6), "int64")
        assert is_typed(gather(d, i, 0), (5, 6), (4,))
        assert is_typed(gather(d, i, 1), (3,), (5, 6))
        scalar = tensor("s", (), "int64")
        assert is_typed(gather(d, scalar, 0), (), (4,))
        assert is_typed(gather(d, scalar, 1), (3,), ())

    def test_the_split_of_the_indices_does_not_matter(self):
        i = access(constant(1, (2,), "int8"), 0)
        same(value(gather(self.d, i, 0), d=self.data), self.data[[1, 1]])

    def test_no_indices_take_nothing_even_from_an_empty_axis(self):
        e, i = tensor("e", (0, 4)), constant(0, (0,), "int64")
        assert value(gather(e, i, 0), e=self.data[:0]).shape == (0, 4)

    def test_positions_outside_are_an_error_when_run(self):
        for position, dtype in ((3, "int64"), (-4, "int64"), (255, "uint8")):
            term = gather(self.d, constant(position, (), dtype), 0)
            with pytest.raises(InputError, match="gather: an index is outside -3 to 2"):
                value(term, d=self.data)

    def test_refuses_indices_that_are_no_integers_and_missing_axes(self):
        for dtype in ("float32", "bool"):
            with refuses("gather from", dtype, "indices must be integers"):
                gather(self.d, tensor("i", (2,), dtype), 0)
        with refuses("axis 2 does not exist"):
            gather(self.d, tensor("i", (2,), "int8"), 2)


class TestCast:
    def test_floats_to_integers_toward_zero(self):
        t = tensor("t", (4,))
        row = np.array([1.9, -1.9, 0.5, -0.5], "float32")
        same(value(cast(t, "int8"), t=row), [1, -1, 0, 0])

    def test_integers_wrap_around(self):
        t = tensor("t", (3,), "int32")
        same(value(cast(t, "uint8"), t=np.int32([256, -1, 511])), [0, 255, 255])

    def test_to_bool_is_whether_it_differs_from_zero(self):
        t = tensor("t", (4,))
        row = np.array([0.0, -0.0, 0.5, np.nan], "float32")
        same(value(cast(t, "bool"), t=row), [False, False, True, True])

    def test_from_bool_is_zero_or_one(self):
        t = tensor("t", (2,), "bool")
        same(value(cast(t, "float16"), t=np.array([True, False])), [1, 0])

    def test_to_float16_overflows_to_infinity(self):
        same(value(cast(tensor("t", (1,)), "float16"), t=np.float32([1e6])), [np.inf])

    def test_keeps_the_split_and_is_dropped_where_it_changes_nothing(self):
        assert is_typed(cast(access(x, 1), "int8"), (2,), (3,), "int8")
        assert cast(x, "float32") is x

    def test_refuses_unknown_dtypes(self):
        with refuses("'int4'"):
            cast(x, "int4")
        with refuses("None is not a dtype"):
            cast(x, None)


class TestWhere:
    c = tensor("c", (2, 3), "bool")

    def test_chooses_by_element(self):
        condition = np.array([[True, False, True], [False, True, False]])
        term = where(self.c, x, y)
        assert is_typed(term, (2, 3), ())
        same(value(term, c=condition, x=X23, y=-X23), [[1, -2, 3], [-4, 5, -6]])

    def test_what_is_not_chosen_may_be_nan(self):
        nothing = np.full((2, 3), np.nan, "float32")
        same(value(where(self.c, x, y), c=np.full((2, 3), True), x=X23, y=nothing), X23)

    def test_refuses_unlike_operands(self):
        with refuses("where", "the condition must be bool"):
            where(x, x, y)
        for a, b in ((x, access(y, 1)), (x, cast(y, "int8")), (access(x, 1), access(y, 1))):
            with refuses("where", "the same shape, both values one dtype"):
                where(self.c, a, b)


class TestCompute:
    """The type rules by kind of function; ``test_functions.py`` has the values."""

    def test_reduce_takes_the_whole_item(self):
        assert is_typed(compute("sum", access(x, 1)), (2,), ())
        same(value(compute("sum", access(x, 1)), x=X23), [6, 15])
        assert is_typed(compute("max", access(x, 0)), (), ())

    def test_fold_combines_along_the_first_item_axis(self):
        assert is_typed(compute("sub", access(x, 0)), (), (3,))
        same(value(compute("sub", access(x, 0)), x=X23), [-3, -3, -3])

    def test_map_and_vector_keep_the_item(self):
        assert is_typed(compute("neg", access(x, 1)), (2,), (3,))
        assert is_typed(compute("softmax", access(x, 1)), (2,), (3,))

    def test_the_accumulate_dtype_is_the_results(self):
        t = access(tensor("t", (2, 3), "int8"), 0)
        assert is_typed(compute("dot", t, "int32"), (), (), "int32")
        assert is_typed(compute("dot", t), (), (), "int8")

    def test_the_operands_dtype_is_the_default_accumulate_dtype(self):
        t = access(x, 0)
        assert compute("sum", t, "float32") is compute("sum", t)
        assert compute("sum", t, "float64") is not compute("sum", t)

    def test_refuses_unknown_functions_and_what_a_function_does_not_take(self):
        with refuses("compute tangent: the functions are", "softmax"):
            compute("tangent", x)
        with refuses("compute dot of ((2 3) ()) float32", "needs a first item axis"):
            compute("dot", x)
        with refuses("compute add of ((2 3) ())", "needs a first item axis"):
            compute("add", x)
        with refuses("compute add of (() (0 2))", "must have length at least 1"):
            compute("add", access(tensor("e", (0, 2)), 0))
        with refuses("compute less of (() (3 2))", "must have length 2"):
            compute("less", access(tensor("t", (3, 2)), 0))
        with refuses("compute softmax of (() (2 3))", "items with 1 axis"):
            compute("softmax", access(x, 0))
        with refuses("compute argmax of (() (0))", "an empty item has no such element"):
            compute("argmax", access(tensor("e", (0,)), 0))
        with refuses("compute exp of (() (2)) int8", "takes float16, bfloat16, float32, float64"):
            compute("exp", access(tensor("t", (2,), "int8"), 0))
        with refuses("compute and of", "takes bool"):
            compute("and", access(x, 0))

    def test_refuses_an_accumulate_dtype_where_nothing_is_accumulated(self):
        for dtype in ("float32", "float64"):
            with refuses("compute max", "only sum, mean, prod and dot have an accumulate dtype"):
                compute("max", access(x, 0), dtype)
        with refuses("compute mean", "cannot accumulate in int32"):
            compute("mean", access(x, 0), "int32")
        with refuses("compute sum", "cannot accumulate in bool"):
            compute("sum", access(x, 0), "bool")


class TestCall:
    def test_has_the_type_and_value_of_what_the_unit_computes(self):
        stream, weights = access(x, 1), access(tensor("w", (3, 4)), 0)
        term = call("systolic-array", (3, 4), stream, weights)
        assert is_typed(term, (2, 4), ())
        w = np.arange(12, dtype="float32").reshape(3, 4)
        same(value(term, x=X23, w=w), X23 @ w)

    def test_refuses_unknown_units_naming_those_there_are(self):
        with refuses("'nobody'", "registered:", "systolic-array"):
            call("nobody", (), x)


class TestBlocked:
    def test_is_the_dot_of_the_cart_prod(self):
        a, b = access(x, 1), access(tensor("b", (5, 3)), 1)
        term = blocked("systolic-array", (2, 2), a, b)
        assert is_typed(term, (2, 5), ())
        array = np.arange(15, dtype="float32").reshape(5, 3)
        same(value(term, x=X23, b=array), X23 @ array.T)

    def test_shares_batch_axes_and_accumulates(self):
        a = access(tensor("a", (4, 2, 3), "int8"), 2)
        b = access(tensor("b", (4, 5, 3), "int8"), 2)
        term = blocked("systolic-array", (2, 2), a, b, 1, "int32")
        assert is_typed(term, (4, 2, 5), (), "int32")
        left = np.full((4, 2, 3), 100, "int8")
        right = np.full((4, 5, 3), -100, "int8")
        same(value(term, a=left, b=right), np.full((4, 2, 5), -30000))

    def test_the_operands_dtype_is_the_default_accumulate_dtype(self):
        a = access(x, 1)
        explicit = blocked("systolic-array", (2, 2), a, a, 0, "float32")
        assert explicit is blocked("systolic-array", (2, 2), a, a)

    def test_refuses_what_is_no_product_for_the_unit(self):
        a = access(x, 1)
        with refuses("blocked systolic-array (2, 2)", "items must have one axis"):
            blocked("systolic-array", (2, 2), x, y)
        with refuses("item shapes must be equal"):
            blocked("systolic-array", (2, 2), a, access(tensor("b", (5, 4)), 1))
        with refuses("two positive parameters", "(2, 0)"):
            blocked("systolic-array", (2, 0), a, a)
        for parameters in ((), (2,), (2, 2, 2)):
            with refuses("two positive parameters", str(parameters)):
                blocked("systolic-array", parameters, a, a)
        with refuses("batch 2 exceeds"):
            blocked("systolic-array", (2, 2), a, a, 2)
        with refuses("cannot accumulate in bool"):
            blocked("systolic-array", (2, 2), a, a, 0, "bool")
        with refuses("dtypes differ"):
            blocked("systolic-array", (2, 2), a, cast(a, "float64"))


class TestHostOp:
    pytest.importorskip("onnxruntime")

    def test_runs_an_onnx_operator(self):
        term = host_op("Elu", [x], (2, 3), version=6, attributes='{"alpha": 2.0}')
        assert is_typed(term, (2, 3), ())
        expected = np.where(X23 > 3, X23 - 3, 2 * (np.exp(X23 - 3) - 1))
        np.testing.assert_allclose(value(term, x=X23 - 3), expected, rtol=1e-6)

    def test_of_scalars(self):
        term = host_op("Identity", [tensor("s", ())], (), version=14)
        same(value(term, s=np.float32(3)), 3)

    def test_gives_one_of_several_outputs(self):
        operands = [tensor("t", (4,)), constant(2, (1,), "int64")]
        row = np.array([3, 9, 1, 4], "float32")
        values = host_op("TopK", operands, (2,), version=11)
        positions = host_op("TopK", operands, (2,), "int64", version=11, output=1)
        same(value(values, t=row), [9, 4])
        same(value(positions, t=row), [1, 3])

    def test_of_operands_in_any_memory_order(self):
        term = host_op("Identity", [transpose(x, (1, 0))], (3, 2), version=14)
        same(value(term, x=X23), X23.T)

    def test_a_wrong_declaration_is_found_when_it_runs(self):
        for shape, dtype in (((3, 2), "float32"), ((2, 3), "float64")):
            term = host_op("Identity", [x], shape, dtype, version=14)
            with pytest.raises(GlensideError, match="host-op Identity"):
                value(term, x=X23)

    def test_what_onnxruntime_refuses_is_one_line_naming_the_operator(self):
        for term in (
            host_op("Unheard", [x], (2, 3), version=14),
            host_op("Elu", [x], (2, 3), version=6, attributes="{"),
        ):
            with pytest.raises(GlensideError, match=r"^host-op (Unheard|Elu) \(opset \d+\): .+$"):
                value(term, x=X23)


class TestPhrases:
    def test_elementwise_broadcasts_as_numpy_does(self):
        a, b = tensor("a", (2, 1)), tensor("b", (3,))
        term = elementwise("sub", a, b)
        assert is_typed(term, (2, 3), ())
        left, right = np.float32([[10], [20]]), np.float32([1, 2, 3])
        same(value(term, a=left, b=right), left - right)

    def test_elementwise_of_one_and_of_many(self):
        same(value(elementwise("neg", x), x=X23), -X23)
        same(value(elementwise("add", x, y, x), x=X23, y=X23), 3 * X23)
        with refuses("add needs at least one operand"):
            elementwise("add")

    def test_broadcast_to_adds_axes_in_front(self):
        assert is_typed(broadcast_to(tensor("b", (3,)), (4, 2, 3)), (4, 2, 3), ())
        with refuses("broadcast of"):
            broadcast_to(x, (3,))

    def test_broadcast_shapes_is_numpys(self):
        assert broadcast_shapes((2, 1), (3,), ()) == (2, 3)
        assert broadcast_shapes((0,), (1,)) == (0,)
        assert broadcast_shapes() == ()
        with refuses("(2,), (3,) do not broadcast together"):
            broadcast_shapes((2,), (3,))

    def test_outer_only_and_item_only(self):
        assert is_typed(outer_only(access(x, 1)), (2, 3), ())
        assert is_typed(item_only(x), (), (2, 3))


def _zeros(*terms: Term) -> dict[str, np.ndarray]:
    leaves = [term.children[0] if term.children else term for term in terms]
    return {leaf["name"]: np.zeros(leaf.shape, leaf.dtype) for leaf in leaves}


class TestTable:
    def test_every_operator_has_its_class_here(self):
        for name in OPERATORS:
            assert f"Test{name.title().replace('_', '')}" in globals()

    def test_every_operator_says_what_it_does(self):
        assert all(operator.summary.endswith(".") for operator in OPERATORS.values())

    def test_transformers_are_those_that_move_bits(self):
        moves = {"access", "transpose", "cart_prod", "pair", "windows", "slice", "concat", "pad"}
        moves |= {"squeeze", "unsqueeze", "broadcast", "flatten", "reshape", "gather"}
        assert moves == TRANSFORMERS
