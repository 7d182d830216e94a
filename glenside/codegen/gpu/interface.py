"""What the kernels of a GPU are made for (:class:`DeviceLimits`) and what they are
(:class:`DeviceKernel`).

A program is cut by ``cut_program(..., plain=True)``; :mod:`~glenside.codegen.gpu.dispatch` turns
each of its steps into kernels. They are launched in order on the program's buffers: scratch buffers
and packed parameters are added to the builder's memory, so that whoever plans it sees them like any
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from glenside.codegen.kernel.builder import Argument, KernelBuilder
from glenside.codegen.plan import TensorMap
from glenside.codegen.program.record import Cut
from glenside.codegen.storage import Memory
from glenside.errors import TargetError

if TYPE_CHECKING:
    from glenside.codegen.gpu.mapping.product import ProductMapping
    from glenside.codegen.gpu.space import ProductSpace

NAME = "GLENSIDE_KERNEL"
"""What a kernel is called in its source."""
Dialect = Literal["opencl", "cuda"]
Triple = tuple[int, int, int]
Choose = Callable[["ProductSpace", "DeviceLimits"], "ProductMapping | None"]
"""Names the mapping of a product, from a tuning file say; None: the one predicted to be fastest."""


Numbers = int | np.ndarray[Any, Any]
"""One number, or one for each of several mappings."""
Model = Mapping[str, float]
"""Constants of a model of time, by name."""


@dataclass(frozen=True)
class Fit:
    """Constants of the models of time by kind of mapping, and the device they were fitted on."""

    device: str
    models: Mapping[str, Model]


@dataclass(frozen=True)
class DeviceLimits:
    """What a device allows and how fast it is; profiles by name, or read from the device.

    Bytes, seconds, operations (a multiply-add is two) per second.
    """

    name: str
    threads_per_group: int = 256
    group_size: Triple = (256, 256, 64)
    """Most threads of a group along each dimension."""
    grid_size: Triple = (2**31 - 1, 65535, 65535)
    """Most groups of a launch along each dimension."""
    local_bytes: int = 16 << 10
    """Local (CUDA: shared) memory that one group may have."""
    static_local_bytes: int = 48 << 10
    """What of it can be declared in the source; above, CUDA's launch has to ask for it."""
    unit_local_bytes: int = 32 << 10
    """Local memory of one compute unit, shared by the groups that run on it."""
    unit_threads: int = 1024
    """Threads that one compute unit holds."""
    unit_groups: int = 16
    """Groups that one compute unit holds."""
    unit_registers: int = 32768
    """32-bit registers of one compute unit."""
    thread_registers: int = 128
    """32-bit registers that one thread can address."""
    warp: int = 32
    """Threads that issue together."""
    compute_units: int = 16
    cluster_groups: int = 1
    """Most groups of a cluster, whose groups read each other's local memory; 1: no clusters."""
    vector_bytes: int = 16
    """Widest load of one thread."""
    fp16: bool = False
    fp64: bool = False
    peak: Mapping[str, float] = field(default_factory=lambda: {"float32": 1e12})
    """Operations a second outside of matrix units, by dtype."""
    tensor_peak: Mapping[str, float] = field(default_factory=dict)
    """Operations a second of the matrix units, by operand dtype; none: no such units."""
    bandwidth: float = 1e11
    """Bytes a second of the device's memory."""
    cache_bandwidth: float = 3e11
    """Bytes a second of the cache that all compute units share."""
    cache_bytes: int = 1 << 20
    clock: float = 1e9
    """Cycles a second of a compute unit."""
    launch_seconds: float = 5e-6
    """Between two dependent kernels of one queue or graph."""
    architecture: str = ""
    """CUDA's name of the instruction set: ``sm_90``."""
    warpgroups: bool = False
    """Whether matrix units take operands from local memory, for four warps at a time: Hopper's."""
    tf32: bool = False
    """Whether products of float32 may be rounded to 10 bits of mantissa, for the matrix units."""
    scratch_bytes: int = 1 << 26
    """Most memory that the partial sums of one split reduction may take."""
    byte_seconds: float = 0.0
    """What holding a byte more for values on the way is worth, in time: above 0 where memory is
    scarce, since it is the host's and other programs' as well."""
    fit: Fit | None = field(default=None, repr=False)
    """What the models of time go by; None: first principles."""

    def model(self, kind: str) -> Model | None:
        """The fitted constants for a kind of mapping."""
        return None if self.fit is None else self.fit.models.get(kind)

    @property
    def copies_in_background(self) -> bool:
        """Whether threads go on while what they fetch for local memory is under way (CUDA's
        asynchronous copies, from compute capability 8.0 on)."""
        number = self.architecture.removeprefix("sm_").rstrip("a")
        return number.isdigit() and int(number) >= 80

    @property
    def has_matrix_units(self) -> bool:
        """Whether there are matrix units that kernels are made for: from sm_80 on."""
        return bool(self.tensor_peak) and self.generation >= 80

    @property
    def generation(self) -> int:
        """The number in the architecture's name; 0 without one."""
        return int("".join(c for c in self.architecture if c.isdigit()) or 0)

    def occupancy(self, threads: Numbers, local_bytes: Numbers, registers: Numbers) -> Any:
        """Groups that one compute unit holds at a time, at least 1.

        :param local_bytes: of a group; the device keeps 1,024 more for itself.
        :param registers: of a thread.
        """
        held: Any = np.minimum(self.unit_groups, self.unit_threads // threads)
        held = np.minimum(held, self.unit_local_bytes // (local_bytes + 1024))
        return np.maximum(1, np.minimum(held, self.unit_registers // (registers * threads)))

    def check(self, kernel: DeviceKernel) -> None:
        """Refuses a kernel that the device would not launch.

        :raises TargetError: names the limit.
        """
        limits = [
            ("threads in a group", kernel.threads, self.threads_per_group),
            ("bytes of local memory", kernel.local_bytes, self.local_bytes),
            ("groups in a cluster", kernel.cluster, self.cluster_groups),
        ]
        limits += [
            (f"threads along {axis}", size, most)
            for axis, size, most in zip("xyz", kernel.block, self.group_size, strict=True)
        ]
        limits += [
            (f"groups along {axis}", size, most)
            for axis, size, most in zip("xyz", kernel.grid, self.grid_size, strict=True)
        ]
        for what, size, most in limits:
            if size > most:
                raise TargetError(f"kernel {kernel.name}: {size} {what}, {self.name} allows {most}")


@dataclass
class DeviceKernel:
    """One launch: a thread-bound TIR function, or text in the device's language, and its arguments.

    ``function`` takes one buffer an argument, in the order of ``arguments``; each is ``extent``
    elements of a buffer of the program from element ``base`` on. ``source`` is given instead of
    ``function`` where TIR cannot say what is meant; its entry point is called :data:`NAME` there,
    which stands for ``name``, it takes pointers in the same order, and all its local memory is
    asked for at the launch; of functions only what goes beyond the device's ``static_local_bytes``
    is.
    """

    name: str
    arguments: list[Argument]
    grid: Triple
    block: Triple
    function: Any = None
    source: str | None = None
    library: tuple[str, ...] = ()
    """Texts that ``source`` builds upon, each of which a program has once."""
    local_bytes: int = 0
    cluster: int = 1
    """Groups that run together and read each other's local memory (CUDA only)."""
    maps: tuple[TensorMap, ...] = ()
    """What the entry point takes behind the pointers (CUDA only)."""
    writes: Any = None
    """The term whose value is complete after this launch, if any."""
    predicted: float | None = None
    """Seconds, by the model."""

    @property
    def text(self) -> str:
        """The source under the kernel's name; empty where it is a function."""
        return (self.source or "").replace(NAME, self.name)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


def make_builder(cut: Cut, memory: Memory | None = None) -> KernelBuilder:
    """What a program's kernels share."""
    return KernelBuilder(cut, memory)


def check_dtypes(cut: Cut, limits: DeviceLimits) -> None:
    """Refuses a program that holds values of a dtype the device cannot compute with.

    :raises TargetError: names the dtype and the device.
    """
    used = {np.dtype(buffer.dtype).name for buffer in cut.memory.buffers}
    for dtype, present in (("float16", limits.fp16), ("float64", limits.fp64)):
        if dtype in used and not present:
            raise TargetError(f"{limits.name} has no {dtype}, which the program uses")
