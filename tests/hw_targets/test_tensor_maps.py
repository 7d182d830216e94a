"""Kernels that take maps of tensors: saved, and handed to a driver that writes down its calls."""

from __future__ import annotations

import ctypes

import pytest

from glenside.errors import TargetError
from glenside.hw_targets.codegen.device import driver
from glenside.hw_targets.codegen.launch import Entry, Plan, TensorMap

MAP = TensorMap(1, 64, "float16", (96, 13, 7), (192, 2496), (64, 9, 1), (1, 2, 1), 128)
ENTRY = Entry([132, 1, 1], [384, 1, 1], 200_000, [MAP])


class Driver:
    """Writes a mark into each map, and reads the parameters of a launch."""

    def __init__(self, code=0):
        self.code, self.maps, self.launches = code, [], []

    def cuTensorMapEncodeTiled(self, target, kind, rank, start, sizes, strides, box, steps, *rest):
        assert target % 64 == 0
        (ctypes.c_uint8 * 128).from_address(target)[0] = 77
        listed = [list(each) for each in (sizes, strides, box, steps)]
        self.maps.append((kind, rank, start, *listed, *rest))
        return self.code

    def cuLaunchKernel(self, *given):
        places = list(given[9])
        pointers = [ctypes.c_uint64.from_address(place).value for place in places[:2]]
        marks = [ctypes.c_uint8.from_address(place).value for place in places[2:]]
        self.launches.append((given[:9], pointers, marks))
        return self.code


def test_a_launch_hands_the_driver_pointers_and_maps(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    launch = driver.MappedLaunch(5, ENTRY, [4096, 8192], 9)
    assert fake.maps == [(6, 3, 8256, [96, 13, 7], [192, 2496], [64, 9, 1], [1, 2, 1], 0, 3, 3, 0)]
    launch()
    assert fake.launches == [((5, 132, 1, 1, 384, 1, 1, 200_000, 9), [4096, 8192], [77])]


def test_what_the_driver_refuses_is_told(monkeypatch):
    monkeypatch.setattr(driver, "_driver", lambda: Driver(1))
    with pytest.raises(TargetError, match="refuses a map of a tensor, error 1: TensorMap"):
        driver.MappedLaunch(5, ENTRY, [4096, 8192], 9)
    plain = driver.MappedLaunch(5, Entry([1, 1, 1], [32, 1, 1]), [4096], 9)
    with pytest.raises(TargetError, match="does not launch a kernel: error 1"):
        plain()


def test_a_plan_keeps_maps():
    plan = Plan(arena=0, device="cuda", kernels={"step_0": ENTRY})
    assert Plan.from_json(plan.to_json()) == plan
