"""Runs the text of matrix-unit kernels on the processor: see ``tensor_emulator.hpp``."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.dispatch import space_of
from glenside.codegen.gpu.interface import DeviceKernel, DeviceLimits, make_builder
from glenside.codegen.gpu.mapping.kinds import kind_of
from glenside.codegen.gpu.tensor.geometry import geometry_of
from glenside.codegen.gpu.tensor.mapping import UnitMapping
from glenside.codegen.gpu.tensor.tiling import UnitTiling
from glenside.codegen.plan import TensorMap
from glenside.codegen.program.cut import cut_program
from glenside.codegen.program.record import Cut, Kernel
from glenside.language import Term, topological_order

HOPPER = replace(device_profile("cuda:sm_90"), tf32=True)
_GUARD = 4096
_HEADER = Path(__file__).with_name("tensor_emulator.hpp")


@dataclass
class Case:
    """A program of one product, its kernel, and the arrays it is run on."""

    name: str
    cut: Cut
    kernel: DeviceKernel
    inputs: Mapping[str, np.ndarray]
    tiling: UnitTiling | None
    rest: Sequence[DeviceKernel] = ()
    """The kernels behind the first, which adds nothing up where there are any."""


def make_case(
    name: str,
    term: Term,
    inputs: Mapping[str, np.ndarray],
    params: Mapping[str, np.ndarray],
    mapping: UnitMapping | Any,
    limits: DeviceLimits = HOPPER,
) -> Case:
    """The first kernel of the product in ``term``; ``mapping`` may be a function of its
    geometry."""
    leaves = {t["name"]: t for t in topological_order([term]) if t.op == "tensor"}
    cut = cut_program([term], {k: leaves[k].type for k in inputs}, params, plain=True)
    (step,) = cut.steps
    assert isinstance(step, Kernel)
    builder = make_builder(cut)
    builder.at_step(0)
    space = space_of(builder, step, limits)
    assert space is not None
    if callable(mapping):
        geometry = geometry_of(space, limits)
        assert geometry is not None
        mapping = mapping(geometry)
    nest = kind_of(mapping).nest(builder, step, limits, space, mapping)
    first, *rest = nest.kernels(name)
    cut = replace(cut, memory=builder.memory)
    return Case(name, cut, first, inputs, nest.tiling, rest)


def emulate(cases: Sequence[Case], folder: Path, told: list[str] | None = None) -> list[np.ndarray]:
    """The results, of products in parts the parts; all memory is poisoned first, guard zones are
    checked after.

    :param told: takes what the emulator says of each case, which otherwise must be nothing.
    """
    library = build(cases, folder)
    results = []
    for case in cases:
        hosts = _memory(case)
        before = [host.copy() for host in hosts]
        pointers = [_inner(hosts[a.buffer]).ctypes.data for a in case.kernel.arguments]
        sizes = [_inner(hosts[a.buffer]).size for a in case.kernel.arguments]
        run = library[f"run_{case.name}"]
        run.restype = ctypes.c_char_p
        said = run(
            (ctypes.c_void_p * len(pointers))(*pointers),
            (ctypes.c_long * len(sizes))(*sizes),
            (ctypes.c_int * 3)(*case.kernel.grid),
            case.kernel.block[0],
            case.kernel.local_bytes,
        )
        if told is not None:
            told.append(said.decode())
        assert told is not None or not said, f"{case.name}: {said.decode()}"
        for number, (old, new) in enumerate(zip(before, hosts, strict=True)):
            for zone in (slice(None, _GUARD), slice(-_GUARD, None)):
                assert old[zone].tobytes() == new[zone].tobytes(), f"{case.name}: {number} overrun"
        (output,) = case.cut.outputs
        if case.rest:
            results.append(_inner(hosts[case.kernel.arguments[-1].buffer]).view(np.float32))
        else:
            results.append(_window(case.cut, hosts, output))
    return results


def build(cases: Sequence[Case], folder: Path) -> ctypes.CDLL:
    """One library of all kernels."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ to run kernels with")
    library: dict[str, None] = {}
    products: dict[str, None] = {}
    for case in cases:
        for part in case.kernel.library:
            if "asm volatile" not in part:
                library[part] = None
        called = re.findall(r"multiply_(half|bfloat|tf32)_(\d+)", case.kernel.text)
        for kind, columns in called:
            count, of = int(columns) // 2, ("tf32", "half", "bfloat").index(kind)
            name = f"multiply_{kind}_{columns}"
            products[
                f"namespace glenside {{ inline void {name}(float (&d)[{count}], "
                "unsigned long long a, unsigned long long b, bool add) { "
                f"emulator::give(d, {count}, {of}, a, b, add); }} }}\n"
            ] = None
    parts = [f'#include "{_HEADER}"\n', *products, *library]
    for case in cases:
        parts += [case.kernel.text, _entry(case)]
    source, target = folder / "kernels.cpp", folder / "kernels.so"
    source.write_text("\n".join(parts))
    options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-fno-strict-aliasing"]
    done = subprocess.run(
        [compiler, *options, "-o", str(target), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr[:3000]
    return ctypes.CDLL(str(target))


def _entry(case: Case) -> str:
    signature = re.search(rf"{case.name}\(\s*(.*?)\) {{", case.kernel.text, re.DOTALL)
    assert signature
    pointers = [each for each in signature[1].split(",") if "*" in each]
    types = [each.rsplit("*", 1)[0] + "*" for each in pointers]
    names = [f"({kind})p[{k}]" for k, kind in enumerate(types)]
    maps = "".join(_map(number, each) for number, each in enumerate(case.kernel.maps))
    arguments = ", ".join([*names, *(f"map{k}" for k in range(len(case.kernel.maps)))])
    return f"""
extern "C" const char* run_{case.name}(void** p, const long* sizes, const int* grid, int threads,
                                       int local_bytes) {{
  emulator::problem.clear();
  emulator::memory.clear();
  for (int k = 0; k < {len(types)}; ++k) {{
    const auto* start = (const unsigned char*)p[k];
    emulator::memory.push_back({{start, start + sizes[k]}});
  }}
{maps}  emulator::launch(grid, threads, local_bytes, [=] {{ {case.name}({arguments}); }});
  return emulator::problem.c_str();
}}
"""


def _map(number: int, described: TensorMap) -> str:
    rank = len(described.sizes)
    size = np.dtype(described.dtype).itemsize

    def listed(values: Sequence[int]) -> str:
        return f"{{{', '.join(map(str, values))}}}"

    return (
        f"  const glenside::TensorMap map{number} = {{(const unsigned char*)p[{described.argument}]"
        f" + {described.offset}, {rank}, {listed(described.sizes)}, "
        f"{listed([size, *described.strides])}, {listed(described.box)}, "
        f"{listed(described.steps)}, {described.line}, {size}}};\n"
    )


def _memory(case: Case) -> list[np.ndarray]:
    cut, hosts = case.cut, []
    for number, buffer in enumerate(cut.memory.buffers):
        size = buffer.size * np.dtype(buffer.dtype).itemsize
        whole = np.full(size + 2 * _GUARD + 64, 0xFF, np.uint8)
        shift = -whole.ctypes.data % 64
        host = whole[shift : shift + size + 2 * _GUARD]
        if number in cut.memory.arrays:
            array = np.ascontiguousarray(cut.memory.arrays[number]).reshape(-1)
            _inner(host)[: array.nbytes] = array.view(np.uint8)
        hosts.append(host)
    for name, term in cut.inputs.items():
        window = _window(cut, hosts, term)
        window[...] = case.inputs[name].reshape(window.shape)
    return hosts


def _inner(host: np.ndarray) -> np.ndarray:
    return host[_GUARD : host.size - _GUARD]


def _window(cut: Cut, hosts: Sequence[np.ndarray], term: Term) -> np.ndarray:
    place = cut.memory.stored[term]
    dtype = np.dtype(term.dtype)
    atoms = [atom for axis in place.view.axes for atom in axis]
    data = _inner(hosts[place.buffer]).view(dtype)[place.base + place.view.offset :]
    strides = [stride * dtype.itemsize for _, stride in atoms]
    made = np.lib.stride_tricks.as_strided(data, [size for size, _ in atoms], strides)
    shape = term.shape
    return made if made.shape == shape or term in cut.inputs.values() else made.reshape(shape)
