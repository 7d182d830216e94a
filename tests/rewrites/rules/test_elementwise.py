"""A reshape moves out of what is computed of elements, to where units look for products."""

import pytest

from glenside.errors import GlensideError
from glenside.rewrites.rules.elementwise import reshape_out_of
from glenside.rewrites.soundness import check_fires
from tests.effort import tries


@pytest.mark.parametrize("function", ["mul", "add", "neg"])
def test_it_is_sound(function: str) -> None:
    check_fires(reshape_out_of(function), examples=tries(40))


@pytest.mark.parametrize("function", ["dot", "softmax", "max", "no"])
def test_it_is_of_functions_of_elements_only(function: str) -> None:
    with pytest.raises(GlensideError, match="a function of elements"):
        reshape_out_of(function)
