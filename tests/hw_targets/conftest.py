"""What tests that declare accelerators share."""

import pytest

from glenside.hw_targets import offload, target
from glenside.language import units
from glenside.rewrites.declared import DECLARED


@pytest.fixture(autouse=True)
def forget_declarations():
    """What a test declares is known in that test only."""
    registries = [units._UNITS, DECLARED, target._KINDS, offload._OF_UNIT]
    before = [dict(each) for each in registries]
    members = {name: dict(each) for name, each in offload._TARGETS.items()}
    yield
    for registry, known in zip((*registries, offload._TARGETS), (*before, members), strict=True):
        registry.clear()
        registry.update(known)
