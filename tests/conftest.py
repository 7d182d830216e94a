"""Settings that every test shares."""

import os
import signal

import pytest
from hypothesis import settings

# Test processes share the cores: threads of NumPy in each would only wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What a test compiles is not found by another run, and leaves nothing with the user.
os.environ["GLENSIDE_CACHE"] = "off"

# Shells start what runs in the background with Ctrl-C ignored, for which tests of it would wait.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every run and machine: a red suite is red for everybody. For a wider search,
# run `make test ARGS=--hypothesis-profile=search`.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("search", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _nothing_stays_declared():
    """What a test declares is known in that test only."""
    from glenside.hw_targets.registry import REGISTRY

    with REGISTRY.forgetting():
        yield
