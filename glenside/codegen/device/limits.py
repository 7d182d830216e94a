"""Limits of the device at hand, read from its driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from glenside.codegen.gpu.devices import PROFILES, device_profile
from glenside.codegen.gpu.fits import LIKE_H200
from glenside.codegen.gpu.interface import DeviceLimits
from glenside.errors import TargetError

_KIB = 1 << 10


def opencl_limits(device: Any = None) -> DeviceLimits:
    """What an OpenCL device allows, the machine's by default.

    They are called as the device's profile is, if it has one: ``opencl:nvidia-h200`` for the device
    that its driver calls NVIDIA H200. So tuning files know it by either way. Rates are not in
    OpenCL: they are the profile's, or estimated from compute units and clock.

    :raises TargetError: there is no device.
    """
    from glenside.codegen.device.opencl import find_device, pyopencl

    cl = pyopencl()
    found = find_device() if device is None else device
    extensions = str(found.extensions).split()
    units, clock = int(found.max_compute_units), float(found.max_clock_frequency) * 1e6
    processor = bool(found.type & cl.device_type.CPU)
    name = f"opencl:{'-'.join(str(found.name).lower().split())}"
    known = PROFILES.get(name)
    if known is not None:
        base = known
    elif processor:
        base = device_profile("opencl:cpu")
    elif "nvidia" in str(found.vendor).lower():
        base = device_profile("opencl:nvidia-h200")
    else:
        base = DeviceLimits("")
    lanes = 16 if processor else 128
    x, y, z = (int(size) for size in list(found.max_work_item_sizes)[:3])
    local = int(found.local_mem_size)
    if known is None:
        base = replace(
            base,
            peak={**base.peak, "float32": 2 * lanes * units * (clock or base.clock)},
            clock=clock or base.clock,
            cache_bytes=int(found.global_mem_cache_size) or base.cache_bytes,
        )
    return replace(
        base,
        name=name,
        threads_per_group=int(found.max_work_group_size),
        group_size=(x, y, z),
        local_bytes=local,
        static_local_bytes=local,
        unit_local_bytes=max(local, base.unit_local_bytes),
        compute_units=units,
        fp16="cl_khr_fp16" in extensions,
        fp64="cl_khr_fp64" in extensions,
    )


def cuda_limits() -> DeviceLimits:
    """What the CUDA device at hand allows; rates are those of the nearest profile.

    :raises TargetError: there is no device, or no CuPy.
    """
    from glenside.codegen.device.cuda import CudaDevice, cupy

    device = CudaDevice()
    known = PROFILES.get(f"cuda:{device.architecture}")
    base = known or _nearest(device.architecture)
    attributes = cupy().cuda.Device().attributes
    units = int(attributes["MultiProcessorCount"])
    share = 1.0 if known else units / base.compute_units
    return replace(
        base,
        name=f"cuda:{device.architecture}",
        fit=base.fit if known else LIKE_H200,
        architecture=device.architecture,
        warpgroups=device.architecture == "sm_90",
        threads_per_group=int(attributes["MaxThreadsPerBlock"]),
        group_size=_triple(attributes, "MaxBlockDim"),
        grid_size=_triple(attributes, "MaxGridDim"),
        local_bytes=int(attributes["MaxSharedMemoryPerBlockOptin"]),
        static_local_bytes=int(attributes["MaxSharedMemoryPerBlock"]),
        unit_local_bytes=int(attributes["MaxSharedMemoryPerMultiprocessor"]),
        unit_threads=int(attributes["MaxThreadsPerMultiProcessor"]),
        unit_registers=int(attributes["MaxRegistersPerMultiprocessor"]),
        warp=int(attributes["WarpSize"]),
        compute_units=units,
        peak={dtype: share * rate for dtype, rate in base.peak.items()},
        tensor_peak={dtype: share * rate for dtype, rate in base.tensor_peak.items()},
        cache_bytes=int(attributes["L2CacheSize"]),
    )


def _nearest(architecture: str) -> DeviceLimits:
    """The profile of the last generation up to an architecture; before all, without matrix units
    that kernels are made for."""
    of = replace(device_profile("cuda:sm_80"), architecture=architecture).generation
    profiles = [p for p in PROFILES.values() if p.architecture]
    older = [p for p in profiles if p.generation <= of]
    if not older:
        return replace(device_profile("cuda:sm_80"), tensor_peak={})
    return max(older, key=lambda profile: profile.generation)


def _triple(attributes: Mapping[str, int], name: str) -> tuple[int, int, int]:
    x, y, z = (int(attributes[name + axis]) for axis in "XYZ")
    return x, y, z


def named_limits(dialect: str, option: str) -> DeviceLimits:
    """The profile ``dialect:option``.

    :raises TargetError: there is none; says which there are.
    """
    if f"{dialect}:{option}" not in PROFILES:
        known = ", ".join(sorted(name for name in PROFILES if name.startswith(f"{dialect}:")))
        raise TargetError(f"no profile of a device {dialect}:{option}: known are {known}")
    return device_profile(f"{dialect}:{option}")
