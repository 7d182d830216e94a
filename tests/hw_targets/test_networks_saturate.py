"""Whole networks reach a fixed point on every accelerator, with few e-nodes."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from glenside.frontends.onnx import import_model
from glenside.frontends.relay import import_relay
from glenside.hw_targets import find_target
from glenside.language import Term, topological_order
from glenside.rewrites import StopReason, saturate
from tests.models import LIGHT

DATA = Path(
    os.environ.get("GLENSIDE_RELAY_DATA", Path(__file__).parents[3] / "shared" / "data" / "relay")
)

TARGETS = (
    "systolic-array:16x16",
    "systolic-array:16x16:conv2d",
    "vta",
    "flexasr",
    "hlscnn",
    "tensor-core",
)
NODES = {
    "light_resnet50.onnx": 2_600,
    "efficientnet.relay": 4_000,
    "mobilenet_v1.relay": 2_000,
    "mobilenet_v2.relay": 4_100,
    "resnet50_from_onnx.relay": 2_800,
    "transformer.relay": 4_400,
}
"""The most e-nodes on any target; each is less than 2.25 times the terms of the program."""


@functools.lru_cache(maxsize=1)
def network(file: str) -> Sequence[Term]:
    if file.endswith(".onnx"):
        return import_model(str(Path(LIGHT, file))).roots
    path = DATA / file
    if not path.exists():
        pytest.skip(f"{path} is not there (GLENSIDE_RELAY_DATA names the folder)")
    return import_relay(path).roots


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("file", NODES)
def test_it_ends_by_itself(file: str, target: str) -> None:
    roots = network(file)
    result = saturate(roots, find_target(target).rules())
    assert result.stop_reason is StopReason.SATURATED
    assert result.nodes <= NODES[file] < 2.25 * len(topological_order(roots))
