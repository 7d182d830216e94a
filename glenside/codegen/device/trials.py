"""Several ways to compute one step, built into one source and measured side by side.

Building needs TVM, measuring the device alone: a set can be saved here and measured elsewhere.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from glenside.codegen.device.device import Code, Device, Launch, Refused
from glenside.codegen.plan import Entry
from glenside.errors import TargetError
from glenside.files import replacing, write_bytes, write_text
from glenside.language.shape import is_float

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import (
        Choose,
        DeviceKernel,
        DeviceLimits,
        Dialect,
    )
    from glenside.codegen.gpu.mapping.product import ProductMapping
    from glenside.codegen.program.record import Cut, Kernel
    from glenside.codegen.storage import Origin
    from glenside.language.term import Term

Array = np.ndarray[Any, Any]

TOLERANCE = {"bfloat16": 1e-1, "float16": 2e-2, "float32": 1e-3, "float64": 1e-9}
"""Largest difference between two ways, relative to the largest result."""
_NAME = "trial_{}_{}"
_MOST_TOLD = 1 << 25
"""Elements up to which the packing of a parameter is told."""
_COPIES = 512
"""Of parameters, so that none is in the cache when its turn comes."""
_PERIOD = 1_000_003
"""Random numbers that are drawn; more elements repeat them."""


@dataclass
class Trial:
    """Kernels launched in order, each with the numbers of the buffers it is given.

    ``mapping`` is what the mapping says of itself, None for one thread an element.
    """

    mapping: dict[str, Any] | None
    launches: list[tuple[str, list[int]]]


@dataclass
class Trials:
    """The ways, their code, and the buffers: dtype and elements of each, contents of some.

    ``complete`` says that the contents of all parameters are known, so that results can be compared
    though each way has them packed differently. Where the model's parameters do not fit into the
    device's cache, of ``cache`` bytes, each run finds its own outside of it; 0: they do fit.
    """

    space: str
    code: Code
    entries: dict[str, Entry]
    buffers: dict[int, tuple[str, int]]
    result: int
    trials: list[Trial]
    arrays: dict[int, Array] = field(default_factory=dict)
    origins: dict[int, Origin] = field(default_factory=dict)
    complete: bool = True
    cache: int = 0

    def with_machine_code(self, architecture: str) -> Trials:
        """The same with machine code of CUDA C, where there is none yet and nvcc is here.

        :raises TargetError: nvcc refuses the source.
        """
        from glenside.codegen.device.nvcc import compiled, find_nvcc

        if self.code.binary is not None or not architecture or find_nvcc() is None:
            return self
        return replace(self, code=compiled(self.code.source, architecture))

    def save(self, folder: Path, name: str) -> None:
        """Writes ``name.json``, the code and how parameters are packed, not what they hold."""
        from glenside.codegen.device.recipes import recipe_of

        sources: dict[Term, int] = {}
        told, orders = {}, {}
        for number, origin in self.origins.items():
            if origin.term.type.size <= _MOST_TOLD:
                recipe = recipe_of(origin)
                source = sources.setdefault(origin.term, len(sources))
                shape = list(origin.term.shape)
                told[number] = [source, shape, list(recipe.repeated), recipe.rounded]
                orders[str(number)] = np.frombuffer(recipe.order, np.uint8)
        data = {
            "space": self.space,
            "architecture": self.code.architecture,
            "entries": {key: asdict(entry) for key, entry in self.entries.items()},
            "buffers": {str(key): buffer for key, buffer in self.buffers.items()},
            "result": self.result,
            "trials": [asdict(trial) for trial in self.trials],
            "parameters": told,
            "complete": self.arrays.keys() <= told.keys(),
            "cache": self.cache,
        }
        with replacing(folder / f"{name}.npz") as file:
            np.savez(file, **orders)  # type: ignore[arg-type]
        if self.code.binary is not None:
            write_bytes(folder / f"{name}.cubin", self.code.binary)
        else:
            write_text(folder / f"{name}.source", self.code.source)
        # Last, since it says that the others are there.
        write_text(folder / f"{name}.json", json.dumps(data))

    @staticmethod
    def load(folder: Path, name: str) -> Trials:
        """What :meth:`save` wrote, with random numbers for parameters.

        :raises TargetError: a file is missing or damaged.
        """
        try:
            return Trials._load(folder, name)
        except (OSError, EOFError, LookupError, TypeError, ValueError, AttributeError,
                BadZipFile, zlib.error) as problem:  # fmt: skip
            path = folder / f"{name}.json"
            raise TargetError(
                f"what was built at {path} is damaged: {problem}: remove it and build it again"
            ) from problem

    @staticmethod
    def _load(folder: Path, name: str) -> Trials:
        from glenside.codegen.device.recipes import Recipe

        data = json.loads((folder / f"{name}.json").read_text())
        binary, source = folder / f"{name}.cubin", folder / f"{name}.source"
        code = Code(
            source.read_text() if source.is_file() else "",
            binary.read_bytes() if binary.is_file() else None,
            data["architecture"],
        )
        buffers = {int(key): (dtype, size) for key, (dtype, size) in data["buffers"].items()}
        arrays = {}
        with np.load(folder / f"{name}.npz") as orders:
            for key, (source, shape, repeated, rounded) in data["parameters"].items():
                value = _drawn(source, shape, repeated, buffers[int(key)][0])
                recipe = Recipe(tuple(repeated), orders[key].tobytes(), rounded)
                arrays[int(key)] = recipe.apply(value)
        return Trials(
            data["space"],
            code,
            {key: Entry.from_json(entry) for key, entry in data["entries"].items()},
            buffers,
            data["result"],
            [
                Trial(each["mapping"], [(name, list(b)) for name, b in each["launches"]])
                for each in data["trials"]
            ],
            arrays,
            complete=data["complete"],
            cache=data["cache"],
        )


def make_trials(
    cut: Cut,
    number: int,
    space: str,
    limits: DeviceLimits,
    dialect: Dialect,
    mappings: Sequence[ProductMapping],
    build: Callable[[str], Code] | None = None,
    reference: bool = True,
    cache: int = 0,
) -> Trials:
    """The ways to compute step ``number`` of a program, one for each mapping that can be lowered.

    :param cache: bytes of the device's cache if the model's parameters do not fit into it, else 0.
    :param reference: whether the first way is one thread an element, as a check of the others.
    """
    from glenside.codegen.device.text import entry_of
    from glenside.codegen.gpu.dispatch import make_kernels
    from glenside.codegen.gpu.emit import emit
    from glenside.codegen.gpu.fallback import element_kernel
    from glenside.codegen.gpu.interface import make_builder

    # What the ways add (packed parameters, scratch memory) is let go of with them.
    memory = cut.memory.copy()
    step: Kernel = cut.steps[number]  # type: ignore[assignment]
    place = step.into or memory.stored[step.tail]
    result = Trials(space, Code(""), {}, {}, place.buffer, [], cache=cache)
    kernels: list[DeviceKernel] = []
    ways: list[ProductMapping | None] = [None] if reference else []
    for mapping in [*ways, *mappings]:
        builder = make_builder(cut, memory)
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
            kernels.append(replace(kernel, name=name))
            trial.launches.append((name, [each.buffer for each in kernel.arguments]))
        result.trials.append(trial)
    if not kernels:
        raise TargetError(f"no mapping of {space} can be lowered for {limits.name}")
    program = emit(kernels, dialect, limits)
    result.entries = {kernel.name: entry_of(kernel, program, dialect) for kernel in kernels}
    for trial in result.trials:
        for launch in trial.launches:
            for buffer in launch[1]:
                held = memory.buffers[buffer]
                result.buffers[buffer] = (held.dtype, held.size)
                if buffer in memory.arrays:
                    result.arrays[buffer] = memory.arrays[buffer]
                if buffer in memory.origins:
                    result.origins[buffer] = memory.origins[buffer]
    result.code = Code(program.text) if build is None else build(program.text)
    return result


def _always(mapping: ProductMapping) -> Choose:
    return lambda space, limits: mapping


def measure(trials: Trials, device: Device, repeat: int = 7) -> list[float | None]:
    """Seconds of each way, by the device's clock; None for one whose result is wrong, or that the
    device does not run.

    The plain way, one thread an element, runs once only: it may be a thousand times slower.
    Results are only held against the first way's where that is one thread an element and what
    parameters hold is known: what is packed is packed differently for each way.
    """
    refused = _built(trials, device)
    rng = np.random.default_rng(0)
    common: dict[int, Any] = {}
    times: list[float | None] = []
    plain = trials.trials[0]
    known = plain.mapping is None and trials.complete and not refused & _kernels(plain)
    right: Array | None = None
    for trial in trials.trials:
        if refused & _kernels(trial):
            times.append(None)
            continue
        memory = {}
        for buffer in {b for _, buffers in trial.launches for b in buffers}:
            if buffer not in common:
                common[buffer] = _fill(trials, buffer, device, rng)
            memory[buffer] = common[buffer]
        dtype, size = trials.buffers[trials.result]
        poison = np.full(size * np.dtype(dtype).itemsize, 0xFF, np.uint8)
        device.write(memory[trials.result], 0, poison)
        launches = _launches(trials, trial, memory)
        try:
            device.attempt(launches)
            device.prepare(launches)()
        except Refused:
            times.append(None)
            continue
        got = poison.view(dtype)
        device.read(memory[trials.result], 0, poison)
        if known:
            right = got.copy() if right is None else right
            if not _agree(got, right):
                times.append(None)
                continue
        if trial.mapping is None:
            times += device.time(device.prepare(launches), 1)
        else:
            times.append(_seconds(trials, trial, memory, device, repeat))
    return times


def _built(trials: Trials, device: Device) -> set[str]:
    """The kernels that the device refuses; all others are ready to be launched.

    :raises TargetError: it refuses all of them.
    """
    entries = dict(trials.entries)
    while True:
        try:
            device.build(trials.code, entries)
            return trials.entries.keys() - entries.keys()
        except Refused as problem:
            entries = {name: e for name, e in entries.items() if name not in problem.kernels}
            if not entries:
                raise


def _kernels(trial: Trial) -> set[str]:
    return {name for name, _ in trial.launches}


def _launches(trials: Trials, trial: Trial, memory: dict[int, Any]) -> list[Launch]:
    return [
        Launch(name, trials.entries[name], [memory[b] for b in buffers])
        for name, buffers in trial.launches
    ]


def _seconds(
    trials: Trials, trial: Trial, memory: dict[int, Any], device: Device, repeat: int
) -> float:
    """The median of one run's times; with parameters out of the cache, each run has its own."""
    constant = [b for b in memory if b in trials.arrays]
    size = sum(trials.arrays[b].nbytes for b in constant)
    copies = min(-(-2 * trials.cache // max(size, 1)), _COPIES) if size else 0
    if copies < 2:
        return median(device.seconds(_launches(trials, trial, memory), repeat))
    launches: list[Launch] = []
    for _ in range(copies):
        own = dict(memory)
        for buffer in constant:
            array = np.ascontiguousarray(trials.arrays[buffer]).reshape(-1)
            own[buffer] = device.allocate(array.nbytes)
            device.write(own[buffer], 0, array.view(np.uint8))
        launches += _launches(trials, trial, own)
    return median(device.time(device.prepare(launches), repeat)) / copies


def _fill(trials: Trials, buffer: int, device: Device, rng: np.random.Generator) -> Any:
    dtype, size = trials.buffers[buffer]
    array = trials.arrays.get(buffer)
    if array is None:
        values = np.resize(rng.standard_normal(min(size, _PERIOD), np.float32), size)
        array = values.astype(dtype) if is_float(np.dtype(dtype)) else np.zeros(size, dtype)
    array = np.broadcast_to(np.asarray(array).reshape(-1), (size,))
    memory = device.allocate(size * np.dtype(dtype).itemsize)
    device.write(memory, 0, np.ascontiguousarray(array).view(np.uint8))
    return memory


def _drawn(seed: int, shape: Sequence[int], repeated: Sequence[int], dtype: str) -> Array:
    """Random numbers for a parameter, such that sums of products stay small."""
    small = [1 if k in repeated else size for k, size in enumerate(shape)]
    size = int(np.prod(small, dtype=np.int64))
    if is_float(np.dtype(dtype)):
        rng = np.random.default_rng(seed)
        values = np.resize(rng.standard_normal(min(size, _PERIOD), np.float32), size)
        values *= np.float32(max(int(np.prod(small[1:])), 1) ** -0.5)
    else:
        values = np.zeros(size, np.float32)
    return np.broadcast_to(values.astype(dtype).reshape(small), shape)


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
