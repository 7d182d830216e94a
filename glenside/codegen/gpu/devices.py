"""Profiles of devices by name, for compiling where the device is not."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from glenside.codegen.gpu.fits import H200, LIKE_H200
from glenside.codegen.gpu.interface import DeviceLimits
from glenside.errors import TargetError

_KIB = 1 << 10

_NVIDIA: dict[str, Any] = {
    "threads_per_group": 1024,
    "group_size": (1024, 1024, 64),
    "static_local_bytes": 48 * _KIB,
    "unit_registers": 65536,
    "thread_registers": 255,
    "warp": 32,
    "fp16": True,
    "fp64": True,
    "launch_seconds": 2e-6,
}
"""What NVIDIA's devices from Ampere on have in common."""

# Peaks, bandwidth and launch time as measured on an H200; the rest from CUDA's occupancy rules for
# compute capability 9.0.
_H200 = DeviceLimits(
    name="cuda:sm_90",
    fit=H200,
    **_NVIDIA,
    local_bytes=227 * _KIB,
    unit_local_bytes=227 * _KIB,
    unit_threads=2048,
    unit_groups=32,
    compute_units=132,
    cluster_groups=8,
    peak={"float32": 60e12, "float64": 30e12, "float16": 60e12},
    tensor_peak={"float16": 790e12, "bfloat16": 790e12, "tf32": 395e12},
    bandwidth=4.25e12,
    cache_bandwidth=4.5e12,
    cache_bytes=60 << 20,
    clock=1.755e9,
    architecture="sm_90",
    warpgroups=True,
)

_PROFILES = (
    _H200,
    # A100 of 80 GB: NVIDIA's data sheet and white paper; rates of its cache are estimates.
    DeviceLimits(
        name="cuda:sm_80",
        **_NVIDIA,
        fit=LIKE_H200,
        local_bytes=163 * _KIB,
        unit_local_bytes=164 * _KIB,
        unit_threads=2048,
        unit_groups=32,
        compute_units=108,
        peak={"float32": 19.5e12, "float64": 9.7e12, "float16": 78e12},
        tensor_peak={"float16": 312e12, "bfloat16": 312e12, "tf32": 156e12},
        bandwidth=2.04e12,
        cache_bandwidth=4e12,
        cache_bytes=40 << 20,
        clock=1.41e9,
        architecture="sm_80",
    ),
    # GeForce RTX 3090 and 4090: the same sources. Products of halves are added up in float32, which
    # these units do at half of their rate.
    DeviceLimits(
        name="cuda:sm_86",
        fit=LIKE_H200,
        **_NVIDIA,
        local_bytes=99 * _KIB,
        unit_local_bytes=100 * _KIB,
        unit_threads=1536,
        unit_groups=16,
        compute_units=82,
        peak={"float32": 35.6e12, "float64": 0.56e12, "float16": 35.6e12},
        tensor_peak={"float16": 71e12, "bfloat16": 71e12, "tf32": 35.6e12},
        bandwidth=0.936e12,
        cache_bandwidth=2.2e12,
        cache_bytes=6 << 20,
        clock=1.695e9,
        architecture="sm_86",
    ),
    DeviceLimits(
        name="cuda:sm_89",
        fit=LIKE_H200,
        **_NVIDIA,
        local_bytes=99 * _KIB,
        unit_local_bytes=100 * _KIB,
        unit_threads=1536,
        unit_groups=24,
        compute_units=128,
        peak={"float32": 82.6e12, "float64": 1.29e12, "float16": 82.6e12},
        tensor_peak={"float16": 165.2e12, "bfloat16": 165.2e12, "tf32": 82.6e12},
        bandwidth=1.008e12,
        cache_bandwidth=5e12,
        cache_bytes=72 << 20,
        clock=2.52e9,
        architecture="sm_89",
    ),
    # NVIDIA's OpenCL on the same chip: no half floats, 48 KiB of local memory; kernels of a queue
    # follow each other 0.9 microseconds later than in CUDA's graphs.
    replace(
        _H200,
        name="opencl:nvidia-h200",
        local_bytes=48 * _KIB,
        cluster_groups=1,
        fp16=False,
        peak={"float32": 60e12, "float64": 30e12},
        tensor_peak={},
        launch_seconds=3e-6,
        architecture="",
        warpgroups=False,
    ),
    # ARM's optimisation guide for Bifrost: 12 cores of 3 engines with 4 lanes, 64 registers a
    # thread (more halve the threads), local memory lies in the ordinary cache. Phones' processors
    # and GPUs share little memory: a byte held is worth moving it seven times, so that no
    # convolution of VGG or ResNet is computed in a form that holds more than im2col would.
    DeviceLimits(
        name="opencl:mali-g72",
        fit=LIKE_H200,
        threads_per_group=384,
        group_size=(384, 384, 384),
        local_bytes=32 * _KIB,
        static_local_bytes=32 * _KIB,
        unit_local_bytes=32 * _KIB,
        unit_threads=384,
        unit_groups=12,
        unit_registers=24576,
        thread_registers=64,
        warp=4,
        compute_units=12,
        fp16=True,
        peak={"float32": 2.4e11, "float16": 4.9e11},
        bandwidth=2.4e10,
        cache_bandwidth=6e10,
        cache_bytes=1 << 20,
        clock=8.5e8,
        launch_seconds=3e-5,
        byte_seconds=3e-10,
    ),
    DeviceLimits(
        name="opencl:adreno-640",
        fit=LIKE_H200,
        threads_per_group=1024,
        group_size=(1024, 1024, 1024),
        local_bytes=32 * _KIB,
        static_local_bytes=32 * _KIB,
        unit_local_bytes=32 * _KIB,
        unit_threads=2048,
        unit_groups=16,
        unit_registers=65536,
        thread_registers=128,
        warp=64,
        compute_units=2,
        fp16=True,
        peak={"float32": 8.9e11, "float16": 1.8e12},
        bandwidth=3.4e10,
        cache_bandwidth=1e11,
        cache_bytes=1 << 20,
        clock=5.85e8,
        launch_seconds=3e-5,
        byte_seconds=2e-10,
    ),
    # PoCL on a processor: groups run one after the other on each core.
    DeviceLimits(
        name="opencl:cpu",
        fit=LIKE_H200,
        threads_per_group=4096,
        group_size=(4096, 4096, 4096),
        local_bytes=512 * _KIB,
        static_local_bytes=512 * _KIB,
        unit_local_bytes=512 * _KIB,
        unit_threads=4096,
        unit_groups=1,
        unit_registers=1 << 18,
        thread_registers=64,
        warp=8,
        compute_units=2,
        fp64=True,
        peak={"float32": 1e11, "float64": 5e10},
        bandwidth=2e10,
        cache_bandwidth=1e11,
        cache_bytes=1 << 21,
        clock=3e9,
        launch_seconds=2e-5,
    ),
)

PROFILES = {profile.name: profile for profile in _PROFILES}


def device_profile(name: str) -> DeviceLimits:
    """The profile of that name, ``cuda:sm_90`` say.

    :raises TargetError: there is none; says which there are.
    """
    found = PROFILES.get(name)
    if found is None:
        close = difflib.get_close_matches(name, PROFILES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        known = ", ".join(sorted(PROFILES))
        raise TargetError(f"no profile of a device {name!r}: {hint}known are {known}")
    return found
