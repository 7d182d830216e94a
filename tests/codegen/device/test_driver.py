"""Launches that CuPy cannot make, handed to a driver that writes down its calls."""

from __future__ import annotations

import ctypes

import pytest

from glenside.codegen.device import driver
from glenside.codegen.plan import Entry, Plan, TensorMap
from glenside.errors import TargetError

MAP = TensorMap(1, 64, "float16", (96, 13, 7), (192, 2496), (64, 9, 1), (1, 2, 1), 128)
ENTRY = Entry([132, 1, 1], [384, 1, 1], 200_000, maps=[MAP])


class Driver:
    """Writes a mark into each map, and reads what a launch is told."""

    def __init__(self, code=0):
        self.code, self.maps, self.launches = code, [], []

    def cuTensorMapEncodeTiled(self, target, kind, rank, start, sizes, strides, box, steps, *rest):
        assert target.value % 64 == 0
        (ctypes.c_uint8 * 128).from_address(target.value)[0] = 77
        listed = [list(each) for each in (sizes, strides, box, steps)]
        self.maps.append((kind, rank.value, start.value, *listed, *rest))
        return self.code

    def cuLaunchKernelEx(self, where, function, parameters, extra):
        assert extra is None
        told = ctypes.cast(where, ctypes.POINTER(driver._Configuration)).contents
        shape = list(told.grid), list(told.block), told.local_bytes, told.stream
        attributes = [told.attributes[k] for k in range(told.count)]
        early = [(each.number, each.value[0]) for each in attributes]
        places = list(parameters)
        pointers = [ctypes.c_uint64.from_address(place).value for place in places[:2]]
        marks = [ctypes.c_uint8.from_address(place).value for place in places[2:]]
        self.launches.append((function.value, *shape, early, pointers, marks))
        return self.code

    def cuTensorMapReplaceAddress(self, target, start):
        struct = ctypes.cast(target, ctypes.POINTER(ctypes.c_uint8 * 128)).contents
        assert ctypes.addressof(struct) % 64 == 0
        self.maps.append(start.value)
        return self.code


def test_a_launch_hands_the_driver_pointers_and_maps(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    launch = driver.DriverLaunch(5, ENTRY, [4096, 8192])
    assert fake.maps == [(6, 3, 8256, [96, 13, 7], [192, 2496], [64, 9, 1], [1, 2, 1], 0, 3, 3, 0)]
    launch(9)
    assert fake.launches == [
        (5, [132, 1, 1], [384, 1, 1], 200_000, 9, [], [4096, 8192], [77]),
    ]


def test_a_launch_is_pointed_elsewhere_with_the_maps_of_what_lies_there(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    launch = driver.DriverLaunch(5, ENTRY, [4096, 8192])
    del fake.maps[:]
    launch.point(0, 1024)
    assert fake.maps == []
    launch.point(1, 2048)
    assert fake.maps == [2048 + MAP.offset]
    launch(9)
    assert fake.launches[0][-2] == [1024, 2048]


def test_a_kernel_that_waits_by_itself_is_launched_early(monkeypatch):
    """As the driver's headers lay it out: the attribute, and the launch that points to it."""
    assert ctypes.sizeof(driver._Attribute) == 72 and ctypes.sizeof(driver._Configuration) == 56
    fake = Driver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    entry = Entry([5, 6, 7], [32, 1, 1], 4096)
    driver.DriverLaunch(1234, entry, [1 << 40, 99], early=True)(77)
    assert fake.launches == [
        (1234, [5, 6, 7], [32, 1, 1], 4096, 77, [(6, 1)], [1 << 40, 99], []),
    ]


def test_what_the_driver_refuses_is_told(monkeypatch):
    monkeypatch.setattr(driver, "_driver", lambda: Driver(1))
    with pytest.raises(TargetError, match="refuses a map of a tensor, error 1: TensorMap"):
        driver.DriverLaunch(5, ENTRY, [4096, 8192])
    plain = driver.DriverLaunch(5, Entry([1, 1, 1], [32, 1, 1]), [4096, 8192])
    with pytest.raises(TargetError, match="does not launch a kernel: error 1"):
        plain(9)


def test_a_driver_without_a_function_is_told(monkeypatch):
    monkeypatch.setattr(driver, "_driver", lambda: object())
    with pytest.raises(TargetError, match="the CUDA driver has no cuLaunchKernelEx"):
        driver.DriverLaunch(5, Entry([1, 1, 1], [32, 1, 1]), [4096])


def test_a_plan_keeps_maps():
    plan = Plan(arena=0, device="cuda", kernels={"step_0": ENTRY})
    assert Plan.from_json(plan.to_json()) == plan
