import pytest

import glenside
from glenside.language import builders


@pytest.fixture
def convolution():
    """A convolution of 4 filters of 3x3 over 2 channels, in the paper's form."""
    weights = builders.tensor("w", (4, 2, 3, 3))
    image = builders.access(builders.tensor("x", (1, 2, 8, 8)), 1)
    windows = builders.squeeze(builders.windows(image, (2, 3, 3), (1, 1, 1)), 1)
    product = builders.cart_prod(builders.access(weights, 1), windows)
    return builders.transpose(builders.compute("dot", product), (1, 0, 2, 3))


@pytest.fixture
def exploration(convolution):
    return glenside.explore(convolution, target="systolic-array:16x16")
