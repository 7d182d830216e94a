"""What tests that declare accelerators share."""

import pytest


@pytest.fixture(autouse=True)
def _nothing_stays_declared(forget_declarations):
    """Each test here may declare what it likes."""
