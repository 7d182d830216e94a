"""What a user names, held against what the model says."""

import pytest

from glenside.errors import InputError
from glenside.frontends.lengths import OpenModel
from glenside.shapes.asked import asked, in_numbers
from glenside.shapes.names import Named, Range
from tests.models import small_network


def model(lengths, **more):
    def load(shapes, params=None):
        raise AssertionError("nothing is imported to find out")

    return OpenModel(lengths, load, None, **more)


TEXT = model({"ids": ["batch", "seq"], "mask": ["batch", "seq"], "scale": [1]})
UNNAMED = model({"x": [None, 3], "y": [None, 3]})


@pytest.mark.parametrize(
    ("shapes", "ranges", "expected"),
    [
        (
            {"batch": "1..8", "seq": 16},
            {"batch": Range(1, 8)},
            {"ids": ("batch", 16), "mask": ("batch", 16)},
        ),
        (
            {"ids": ("n=0..", 16)},
            {"n": Range(0)},
            {"ids": ("n", 16), "mask": ("n", 16)},
        ),
        (
            {"ids": ("batch", "seq=1..512")},
            {"batch": Range(), "seq": Range(1, 512)},
            {"ids": ("batch", "seq"), "mask": ("batch", "seq")},
        ),
        ({"batch": range(1, 9), "seq": (4,)}, {"batch": Range(1, 8)}, {"ids": ("batch", 4)}),
    ],
)
def test_a_name_that_the_user_says_stays_open(shapes, ranges, expected):
    found = asked(shapes, TEXT)
    assert isinstance(found, Named)
    assert found.ranges == ranges
    assert expected.items() <= found.shapes.items()


def test_all_numbers_are_whole_shapes():
    assert asked({"batch": 4, "seq": 2}, TEXT) == {"ids": (4, 2), "mask": (4, 2)}


def test_names_are_shared_between_inputs():
    found = asked({"x": ("n", 3), "y": ("n", 3)}, UNNAMED)
    assert isinstance(found, Named) and list(found.ranges) == ["n"]


def test_whoever_made_the_model_may_mean_its_lengths_to_stay_open():
    found = asked({}, model({"x": ["batch", 3]}, ranges={"batch": (1, 64)}, meant=True))
    assert isinstance(found, Named) and found.ranges == {"batch": Range(1, 64)}


@pytest.mark.parametrize(
    ("shapes", "of", "told"),
    [
        ({"batch": 4}, TEXT, r"open, give them as shapes={'ids': \(4, seq\), 'mask': \(4, seq\)}"),
        ({"x": ("n", 3)}, UNNAMED, r"shapes={'y': \(d0, 3\)}"),
        ({"batc": 4}, TEXT, r"'batc' is no input \('ids'.*\) and no name of a length \(batch, seq"),
        ({"idx": (1, 2)}, TEXT, None),
        ({"idx": ("n", 2)}, TEXT, "shapes names 'idx', the inputs are 'ids', 'mask', 'scale'"),
        ({"ids": (4, 5), "batch": 3, "seq": 5}, TEXT, "batch is 4, and 3 by"),
        ({"ids": (4, 5), "mask": (3, 5)}, TEXT, "batch is 4, and 3 by axis 0 of 'mask'"),
        ({"ids": ("batch",)}, TEXT, r"the model says \(batch, seq\), got 1 lengths"),
        ({"scale": ("n",), "batch": 1, "seq": 1}, TEXT, "n cannot be axis 0 of 'scale'"),
        ({"scale": (2,), "batch": 1, "seq": 1}, TEXT, "gives 2 for axis 0 of 'scale'"),
        ({"ids": ("n=1..4", 2), "mask": ("n=5..9", 2)}, TEXT, r"cannot be both"),
        ({"batch": "1-4", "seq": 2}, TEXT, "batch is a number or a range|a length is a number"),
        ({"batch": 70}, model({"x": ["batch"]}, ranges={"batch": (1, 64)}), r"must be 1\.\.64"),
    ],
)
def test_what_does_not_fit_is_one_error(shapes, of, told):
    if told is None:  # Importing knows of inputs that are not asked for.
        with pytest.raises(InputError):
            asked(shapes, of)
        return
    with pytest.raises(InputError, match=told):
        asked(shapes, of)


def test_what_is_for_one_size_takes_numbers_by_name():
    assert in_numbers(small_network("n"), None, {"n": 3}) == {"image": (3, 4, 9, 7)}
    with pytest.raises(InputError, match="must give numbers for n"):
        in_numbers(small_network("n"), None, {"n": "1..3"})
