"""Several ways to compute one step, built into one source and measured side by side.

Building needs TVM, measuring the device alone: a set can be saved here and measured elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import TargetError
from glenside.hw_targets.codegen.device.device import Code, Device, Launch
from glenside.hw_targets.codegen.launch import Entry
from glenside.language.shape import is_float

if TYPE_CHECKING:
    from glenside.hw_targets.codegen.gpu.interface import (
        Choose,
        DeviceKernel,
        DeviceLimits,
        Dialect,
    )
    from glenside.hw_targets.codegen.mapping import AnyMapping
    from glenside.hw_targets.codegen.partition import Kernel, Partition

Array = np.ndarray[Any, Any]

TOLERANCE = {"bfloat16": 1e-1, "float16": 2e-2, "float32": 1e-3, "float64": 1e-9}
"""Largest difference between two ways, relative to the largest result."""
_NAME = "trial_{}_{}"


@dataclass
class Trial:
    """Kernels launched in order, each with the numbers of the buffers it is given.

    ``mapping`` is what :class:`GpuMapping` says of itself, None for one thread an element.
    """

    mapping: dict[str, Any] | None
    launches: list[tuple[str, list[int]]]


@dataclass
class Trials:
    """The ways, their code, and the buffers: dtype and elements of each, contents of some."""

    space: str
    code: Code
    entries: dict[str, Entry]
    buffers: dict[int, tuple[str, int]]
    result: int
    trials: list[Trial]
    arrays: dict[int, Array] = field(default_factory=dict)

    def save(self, folder: Path, name: str) -> None:
        """Writes all but the arrays: ``name.json`` and the code beside it."""
        data = {
            "space": self.space,
            "architecture": self.code.architecture,
            "entries": {key: asdict(entry) for key, entry in self.entries.items()},
            "buffers": {str(key): buffer for key, buffer in self.buffers.items()},
            "result": self.result,
            "trials": [asdict(trial) for trial in self.trials],
        }
        (folder / f"{name}.json").write_text(json.dumps(data))
        if self.code.binary is not None:
            (folder / f"{name}.cubin").write_bytes(self.code.binary)
        else:
            (folder / f"{name}.source").write_text(self.code.source)

    @staticmethod
    def load(folder: Path, name: str) -> Trials:
        """What :meth:`save` wrote."""
        data = json.loads((folder / f"{name}.json").read_text())
        binary, source = folder / f"{name}.cubin", folder / f"{name}.source"
        code = Code(
            source.read_text() if source.is_file() else "",
            binary.read_bytes() if binary.is_file() else None,
            data["architecture"],
        )
        return Trials(
            data["space"],
            code,
            {key: Entry.from_json(entry) for key, entry in data["entries"].items()},
            {int(key): (dtype, size) for key, (dtype, size) in data["buffers"].items()},
            data["result"],
            [
                Trial(each["mapping"], [(name, list(b)) for name, b in each["launches"]])
                for each in data["trials"]
            ],
        )


def make_trials(
    cut: Partition,
    number: int,
    space: str,
    limits: DeviceLimits,
    dialect: Dialect,
    mappings: Sequence[AnyMapping],
    build: Callable[[str], Code] | None = None,
    reference: bool = True,
) -> Trials:
    """The ways to compute step ``number`` of a partition, one for each mapping that can be lowered.

    :param reference: whether the first way is one thread an element, as a check of the others.
    """
    from glenside.hw_targets.codegen.device.text import tidied
    from glenside.hw_targets.codegen.gpu.emit import emit
    from glenside.hw_targets.codegen.gpu.fallback import element_kernel
    from glenside.hw_targets.codegen.gpu.interface import make_builder, make_kernels

    # What the ways add (packed parameters, scratch memory) is let go of with them.
    cut = replace(cut, buffers=list(cut.buffers), stored=dict(cut.stored), arrays=dict(cut.arrays))
    step: Kernel = cut.steps[number]  # type: ignore[assignment]
    place = step.into or cut.stored[step.tail]
    result = Trials(space, Code(""), {}, {}, place.buffer, [])
    kernels: list[DeviceKernel] = []
    ways: list[AnyMapping | None] = [None] if reference else []
    for mapping in [*ways, *mappings]:
        builder = make_builder(cut)
        try:
            if mapping is None:
                made = [element_kernel(builder, step, number, limits)]
            else:
                made = make_kernels(builder, step, number, limits, dialect, _always(mapping))
            emit(made, dialect, limits)  # One that cannot be lowered must not take others along.
        except Exception:  # TVM's passes raise errors of many kinds; other ways remain.
            continue
        trial = Trial(None if mapping is None else json.loads(mapping.to_json()), [])
        for kernel in made:
            name = _NAME.format(len(result.trials), kernel.name)
            kernels.append(replace(kernel, name=name, source=_renamed(kernel, name)))
            trial.launches.append((name, [each.buffer for each in kernel.arguments]))
        result.trials.append(trial)
    if not kernels:
        raise TargetError(f"no mapping of {space} can be lowered for {limits.name}")
    program = emit(kernels, dialect, limits)
    printed = {entry.name: entry for entry in program.entries}
    for kernel in kernels:
        entry = printed[kernel.name]
        result.entries[kernel.name] = Entry(
            list(kernel.grid), list(kernel.block), entry.dynamic_bytes, list(kernel.maps)
        )
    for trial in result.trials:
        for launch in trial.launches:
            launch[1][:] = [launch[1][k] for k in printed[launch[0]].order]
            for buffer in launch[1]:
                held = cut.buffers[buffer]
                result.buffers[buffer] = (held.dtype, held.size)
                if buffer in cut.arrays:
                    result.arrays[buffer] = cut.arrays[buffer]
    text = tidied(program.text, dialect)
    result.code = Code(text) if build is None else build(text)
    return result


def _always(mapping: AnyMapping) -> Choose:
    return lambda space, limits: mapping


def _renamed(kernel: DeviceKernel, name: str) -> str | None:
    source = kernel.source
    return None if source is None else re.sub(rf"\b{kernel.name}\b", name, source)


def measure(trials: Trials, device: Device, repeat: int = 7) -> list[float | None]:
    """Seconds of each way, by the device's clock; None for one whose result is wrong.

    Results are only held against the first way's where that is one thread an element and the
    buffers' contents are known: what is packed is packed differently for each way.
    """
    device.build(trials.code, trials.entries)
    rng = np.random.default_rng(0)
    common: dict[int, Any] = {}
    times: list[float | None] = []
    known = trials.trials[0].mapping is None and bool(trials.arrays)
    right: Array | None = None
    for trial in trials.trials:
        memory = {}
        for buffer in {b for _, buffers in trial.launches for b in buffers}:
            if buffer not in common:
                common[buffer] = _fill(trials, buffer, device, rng)
            memory[buffer] = common[buffer]
        dtype, size = trials.buffers[trials.result]
        poison = np.full(size * np.dtype(dtype).itemsize, 0xFF, np.uint8)
        device.write(memory[trials.result], 0, poison)
        launches = [
            Launch(name, trials.entries[name], [memory[b] for b in buffers])
            for name, buffers in trial.launches
        ]
        device.prepare(launches)()
        got = poison.view(dtype)
        device.read(memory[trials.result], 0, poison)
        if known:
            right = got.copy() if right is None else right
            if not _agree(got, right):
                times.append(None)
                continue
        times.append(median(device.seconds(launches, repeat)))
    return times


def _fill(trials: Trials, buffer: int, device: Device, rng: np.random.Generator) -> Any:
    dtype, size = trials.buffers[buffer]
    array = trials.arrays.get(buffer)
    if array is None:
        values = rng.standard_normal(size, np.float32)
        array = values.astype(dtype) if is_float(np.dtype(dtype)) else np.zeros(size, dtype)
    array = np.broadcast_to(np.asarray(array).reshape(-1), (size,))
    memory = device.allocate(size * np.dtype(dtype).itemsize)
    device.write(memory, 0, np.ascontiguousarray(array).view(np.uint8))
    return memory


def _agree(got: Array, right: Array) -> bool:
    if not is_float(right.dtype):
        return bool(np.array_equal(got, right))
    a, b = got.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    worst = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
    return worst <= TOLERANCE[right.dtype.name] * scale
