"""Whole networks, imported and explored once for the tests that look at them."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from glenside.frontends.onnx import import_model
from glenside.frontends.relay import import_relay
from glenside.hw_targets import find_target
from glenside.language import Model
from glenside.rewrites import Saturation, saturate
from tests.models import LIGHT

DATA = Path(
    os.environ.get("GLENSIDE_RELAY_DATA", Path(__file__).parents[3] / "shared" / "data" / "relay")
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
def network(file: str) -> Model:
    if file.endswith(".onnx"):
        return import_model(str(Path(LIGHT, file)))
    path = DATA / file
    if not path.exists():
        pytest.skip(f"{path} is not there (GLENSIDE_RELAY_DATA names the folder)")
    return import_relay(path)


@functools.lru_cache(maxsize=1)
def explored(file: str, target: str) -> Saturation:
    return saturate(network(file).roots, find_target(target).rules())
