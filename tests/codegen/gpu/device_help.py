"""Whole programs on the OpenCL device at hand (PoCL), on poisoned memory between guard zones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from glenside.codegen.device.compile import compile_for_device
from glenside.codegen.device.executable import DeviceExecutable
from glenside.codegen.device.limits import opencl_limits
from glenside.codegen.device.opencl import OpenCLDevice
from glenside.codegen.gpu.interface import DeviceLimits
from glenside.language import Term, evaluate, random_inputs
from tests.codegen.codegen_help import compare, leaves

pytest.importorskip("pyopencl")

ZONE = 4096
"""Bytes before and after every piece of memory; none of them may change."""
_POISON = 0xFF
"""NaN in floats: what is read but was never written, or lies outside, shows in the result."""


class GuardedDevice(OpenCLDevice):
    """Memory is poisoned, with guard zones around it; warnings of the compiler are errors."""

    def __init__(self) -> None:
        super().__init__(["-Werror"])
        self._whole: list[tuple[Any, int]] = []
        self._parents: dict[int, Any] = {}

    def allocate(self, size: int) -> Any:
        whole = super().allocate(size + 2 * ZONE)
        OpenCLDevice.write(self, whole, 0, np.full(size + 2 * ZONE, _POISON, np.uint8))
        self._whole.append((whole, size))
        inner = super().part(whole, ZONE, size)
        self._parents[id(inner)] = whole
        return inner

    def part(self, memory: Any, offset: int, size: int) -> Any:
        return super().part(self._parents[id(memory)], ZONE + offset, size)

    def check_zones(self, plan: Any) -> None:
        """Whether anything was written outside of what the program owns."""
        used = [
            (s.offset, s.offset + s.size * np.dtype(s.dtype).itemsize)
            for s in plan.slots
            if s.offset is not None
        ]
        for number, (whole, size) in enumerate(self._whole):
            held = np.empty(size + 2 * ZONE, np.uint8)
            self.read(whole, 0, held)
            free = np.ones(held.size, bool)
            for first, last in used if number == 0 else [(0, size)]:
                free[ZONE + first : ZONE + last] = False
            assert (held[free] == _POISON).all(), f"memory {number} was written outside its values"


def compiled(
    outputs: Sequence[Term],
    params: Mapping[str, np.ndarray] | None = None,
    limits: DeviceLimits | None = None,
    guarded: bool = True,
    staged: bool = False,
) -> DeviceExecutable:
    """A program for the device at hand; ``guarded``: no two values share memory or touch.

    Products are not ``staged`` unless asked for: PoCL takes seconds to build such a kernel.
    """
    params = params or {}
    types = {name: t for name, t in leaves(outputs).items() if name not in params}
    device = GuardedDevice() if guarded else OpenCLDevice(["-Werror"])
    program = compile_for_device(
        outputs,
        types,
        params,
        limits or opencl_limits(),
        "opencl",
        staged=staged,
        device=device,
    )
    if guarded:
        at = 0
        for slot in program.plan.slots:
            if slot.offset is not None:
                slot.offset = at
                at += -(-slot.size * np.dtype(slot.dtype).itemsize // ZONE) * ZONE + ZONE
        program.plan.arena = at
    return program


def run(
    outputs: Term | Sequence[Term],
    params: Mapping[str, np.ndarray] | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    staged: bool = False,
) -> tuple[list[np.ndarray], dict[str, np.ndarray], DeviceExecutable]:
    """Results, the inputs used and the program; its zones were checked."""
    terms = [outputs] if isinstance(outputs, Term) else list(outputs)
    program = compiled(terms, params, staged=staged)
    types = {name: t for name, t in leaves(terms).items() if name not in (params or {})}
    given = random_inputs(types) if inputs is None else dict(inputs)
    results = program.run(given)
    device = program._device
    assert isinstance(device, GuardedDevice)
    device.check_zones(program.plan)
    return results, given, program


def check(
    outputs: Term | Sequence[Term],
    params: Mapping[str, np.ndarray] | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    tolerance: float | None = None,
    staged: bool = False,
) -> DeviceExecutable:
    """Every element of every output equals what the interpreter says."""
    terms = [outputs] if isinstance(outputs, Term) else list(outputs)
    results, given, program = run(terms, params, inputs, staged)
    with np.errstate(all="ignore"):
        expected = evaluate(terms, {**given, **(params or {})})
    for got, wanted in zip(results, expected, strict=True):
        compare(got, wanted, tolerance)
    return program
