"""Rules that give matrix products to units."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glenside.language import Term, builders
from glenside.rewrites import matches
from tests.effort import FEW
from tests.rewrites.instances import check, dots, leaf, products
from tests.strategies import shapes

matrix_products = products(item=shapes(1, 1), rest=1)


@FEW
@given(dots(matrix_products), st.integers(1, 4), st.integers(1, 4))
def test_systolic_padded_takes_matrices_of_any_size(term: Term, rows: int, columns: int) -> None:
    name = f"systolic-padded({rows},{columns})"
    result = check(term, name)
    assert result.rules[name] == 1
    pattern = f"(blocked systolic-array ({rows} {columns}) ?a ?b)"
    assert [number for number, _ in matches(result.egraph, pattern)] == [result.egraph.roots[0]]


@FEW
@given(dots(products()))
def test_systolic_padded_takes_only_matrices(term: Term) -> None:
    product = term.children[0]
    fits = all(x.type.split <= product["batch"] + 1 and len(x.item) == 1 for x in product.children)
    assert check(term, "systolic-padded(2,3)").rules["systolic-padded(2,3)"] == fits


@FEW
@given(dots(matrix_products), st.integers(1, 4), st.integers(1, 4))
def test_systolic_blocked_takes_whole_tiles(term: Term, rows: int, columns: int) -> None:
    product = term.children[0]
    y = product.children[1]
    n = math.prod(y.outer[product["batch"] :])
    fits = y.item[0] % rows == 0 and n % columns == 0
    name = f"systolic-blocked({rows},{columns})"
    assert check(term, name).rules[name] == fits


@FEW
@given(dots(matrix_products))
def test_systolic_takes_one_product_of_two_matrices_in_one_dtype(term: Term) -> None:
    product = term.children[0]
    x, y = product.children
    fits = (
        product["batch"] == 0
        and len(x.outer) <= 1 == len(y.outer)
        and term["accumulate"] is None
        and min(y.shape) > 0
    )
    result = check(term, "systolic")
    assert result.rules["systolic"] == fits


@pytest.mark.parametrize(("rows", "columns", "fits"), [(5, 4, 1), (4, 5, 0), (5, 5, 0), (1, 4, 0)])
def test_systolic_of_one_size_takes_products_of_that_size(
    rows: int, columns: int, fits: int
) -> None:
    a, b = leaf((3,), (5,), "int32", "a"), leaf((4,), (5,), "int32", "b")
    name = f"systolic({rows},{columns})"
    assert check(builders.compute("dot", builders.cart_prod(a, b)), name).rules[name] == fits


def test_a_vector_streams_as_one_row() -> None:
    a, b = leaf((), (5,), "int32", "a"), leaf((4,), (5,), "int32", "b")
    result = check(builders.compute("dot", builders.cart_prod(a, b)), "systolic")
    assert result.rules["systolic"] == 1
