"""Whole networks reach a fixed point on every accelerator, with few e-nodes."""

import pytest

from glenside.language import topological_order
from glenside.rewrites import StopReason
from tests.hw_targets.networks import NODES, explored, network
from tests.hw_targets.test_offload_counts import COUNTS
from tests.hw_targets.test_offload_counts import TARGETS as COUNTED

TARGETS = (*COUNTED, "systolic-array:16x16", "systolic-array:16x16:conv2d", "tensor-core")
CASES = [
    (file, target)
    for file in NODES
    for target in TARGETS
    # These are looked at where their calls are counted.
    if not (target in COUNTED and file.removesuffix(".relay") in COUNTS)
]


@pytest.mark.parametrize(("file", "target"), CASES)
def test_it_ends_by_itself(file: str, target: str) -> None:
    result = explored(file, target)
    assert result.stop_reason is StopReason.SATURATED
    assert result.nodes <= NODES[file] < 2.25 * len(topological_order(network(file).roots))
