"""How lengths are named, and what sizes a call has."""

import numpy as np
import pytest

from glenside.errors import InputError
from glenside.shapes.names import Name, Named, Range, parse_length, parse_range

NAMED = Named(
    {"batch": Range(1, 8), "seq": Range(0)}, {"ids": ("batch", "seq"), "mask": ("batch", "seq", 2)}
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3),
        (np.int64(3), 3),
        ("batch", Name("batch")),
        ("batch=1..64", Name("batch", Range(1, 64))),
        ("batch=0..", Name("batch", Range(0))),
        ("batch=..9", Name("batch", Range(1, 9))),
        ("past_sequence+1", None),
        ("4", None),
        ("batch=4", None),
        ("batch=9..3", None),
        (-1, None),
        (True, None),
        (1.5, None),
    ],
)
def test_a_length_is_a_number_or_a_name(given, expected):
    if expected is None:
        with pytest.raises(InputError, match="shapes"):
            parse_length(given, "shapes")
    else:
        assert parse_length(given, "shapes") == expected


def test_a_range_holds_its_ends():
    assert 1 in parse_range("1..3", "") and 3 in parse_range("1..3", "")
    assert 0 not in parse_range("1..3", "") and 4 not in parse_range("1..3", "")
    assert 10**9 in parse_range("2..", "") and str(parse_range("2..", "")) == "2.."


def arrays(ids, mask):
    return {"ids": np.zeros(ids), "mask": np.zeros(mask)}


def test_sizes_are_those_of_the_inputs():
    assert NAMED.sizes_of(arrays((3, 5), (3, 5, 2))) == (3, 5)
    assert NAMED.sizes_of({"ids": [[1, 2]], "mask": np.zeros((1, 2, 2))}) == (1, 2)
    assert NAMED.shapes_at((3, 5)) == {"ids": (3, 5), "mask": (3, 5, 2)}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            arrays((3, 5), (4, 5, 2)),
            r"batch is 3 by input 'ids' \(axis 0 of \(3, 5\)\), and 4 by input 'mask'",
        ),
        (arrays((9, 5), (9, 5, 2)), r"batch is 9; the program takes 1\.\.8"),
        (arrays((0, 5), (0, 5, 2)), r"batch is 0; the program takes 1\.\.8"),
        (arrays((3, 5), (3, 5, 3)), r"'mask' must be of shape \(batch, seq, 2\), got \(3, 5, 3\)"),
        (arrays((3,), (3, 5, 2)), r"'ids' must be of shape \(batch, seq\), got \(3,\)"),
        ({"ids": np.zeros((3, 5))}, "input 'mask' is missing"),
    ],
)
def test_what_does_not_fit_is_told(given, told):
    with pytest.raises(InputError, match=told):
        NAMED.sizes_of(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([{"batch": 2, "seq": 4}, {"batch": 2, "seq": 4}], [(2, 4)]),
        ({"batch": [1, 2], "seq": [4, 8]}, [(1, 4), (1, 8), (2, 4), (2, 8)]),
        ({"batch": 1, "seq": 4}, [(1, 4)]),
    ],
)
def test_sizes_are_listed(given, expected):
    assert NAMED.read(given) == expected


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([4], "one is written {'batch': 8, 'seq': 8}"),
        ([{"batch": 2}], "one is written"),
        ([{"batch": 9, "seq": 1}], "batch is 9"),
        ([{"batch": "a", "seq": 1}], "sizes are numbers"),
        ("8", "one is written"),
    ],
)
def test_sizes_that_are_none_are_refused(given, told):
    with pytest.raises(InputError, match=told):
        NAMED.read(given)


def test_one_name_takes_numbers():
    one = Named({"batch": Range()}, {"x": ("batch", 2)})
    assert one.read([1, 8]) == [(1,), (8,)]
    assert one.read(3) == [(3,)]


def test_json_reads_back():
    assert Named.from_json(NAMED.to_json()) == NAMED
