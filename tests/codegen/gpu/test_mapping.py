"""Mappings as solutions of constraints that are read off the term and the device."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import threading
import time

import pytest

from glenside.codegen.gpu.devices import PROFILES, device_profile
from glenside.codegen.gpu.dispatch import make_kernels
from glenside.codegen.gpu.mapping.choose import (
    InfeasibleMapping,
    best_mapping,
    best_mappings,
    best_of,
)
from glenside.codegen.gpu.mapping.kinds import THREADS
from glenside.codegen.gpu.mapping.reading import read_mapping
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.threads.kind import Threads
from glenside.codegen.gpu.threads.problem import ThreadProblem
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.codegen.gpu.threads.time import predict
from glenside.deadline import Deadline, within
from glenside.errors import TargetError
from glenside.language.builders import access, cart_prod, compute, tensor
from tests.codegen.codegen_help import convolution, weights
from tests.codegen.gpu.gpu_help import space_and_step

MALI = device_profile("opencl:mali-g72")
H200 = device_profile("cuda:sm_90")


def layer(
    channels: int = 32, filters: int = 64, size: int = 28, kernel: int = 3, stride: int = 1
) -> ProductSpace:
    pads = (kernel // 2,) * 4
    x = tensor("x", (1, channels, size, size))
    w = tensor("w", (filters, channels, kernel, kernel))
    term = convolution(x, w, (stride, stride), pads)
    return space_and_step(term, {"w": weights(filters, channels, kernel, kernel)})[0]


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 2), (1, 1), (3, 3)])
def test_lifts_constraints_follow(kernel: int, stride: int) -> None:
    """The seven that Mogers et al. wrote by hand for convolutions hold for every solution.

    t tile, k kernel, s stride, K filters, C channels. They are Lift's conditions for a mapping
    without masks; ours masks what does not divide, so where a loop's tiles cover more than the
    loop, the condition is that what is beyond is masked: ``Tiling.groups`` counts whole tiles.
    """
    space = layer(kernel=kernel, stride=stride)
    filters, rows, columns = space.of("m", "n")
    solutions = ThreadProblem(space, MALI).solutions()
    assert solutions
    for each in solutions[:: max(1, len(solutions) // 200)]:
        tiling = Tiling(space, each)
        for axis, dimension in ((rows, 2), (columns, 3)):
            tile = tiling.extents[dimension]
            if space.windows_of(axis):
                # 1. (t - (k - s)) mod s = 0: a tile of the input holds whole windows.
                assert (tile - (kernel - stride)) % stride == 0
            # 2. Tiles divide the padded input: they follow by whole strides and cover it.
            assert tiling.tile[axis] * stride == (tile - kernel) + stride or kernel == 1
            assert tiling.groups[axis] * tiling.tile[axis] >= space.axes[axis].size
        # 3. K divisible by kernels per group: none is left out, and no group has none.
        beyond = tiling.groups[filters] * tiling.tile[filters] - space.axes[filters].size
        assert 0 <= beyond < tiling.tile[filters]
        # 4. k²C divisible by the elements per thread.
        reduced = math.prod(space.axes[k].size for k in space.of("k"))
        steps = math.prod(each.chunk) // tiling.reduced_in_group
        covered = math.prod(each.split) * math.prod(tiling.stages) * math.prod(each.chunk)
        assert covered % steps == 0 and reduced <= covered <= 1.25 * reduced
        # 5. Elements per thread divisible by the vector's length.
        assert all(r % v == 0 for r, v in zip(each.registers, each.vector, strict=True))
        # 6. The partial buffer fits.
        assert tiling.partial_elements * 4 <= 1 << 28
        # 7. The group is within the device's limit, and so is its local memory.
        assert tiling.threads <= MALI.threads_per_group
        assert tiling.local_bytes() <= MALI.local_bytes


def test_solutions_are_within_the_devices_limits() -> None:
    space = layer()
    for limits in PROFILES.values():
        for each in best_mappings(space, limits, 5):
            tiling = Tiling(space, each)
            assert tiling.threads <= limits.threads_per_group
            assert tiling.threads % limits.warp == 0
            assert tiling.local_bytes() <= limits.local_bytes
            assert all(g <= most for g, most in zip(tiling.grid, limits.grid_size, strict=True))


@pytest.mark.parametrize(
    ("change", "conflict"),
    [
        ({"local_bytes": 512, "unit_local_bytes": 512}, "local memory"),
        ({"threads_per_group": 24, "group_size": (24, 24, 24), "warp": 32}, "threads"),
        ({"thread_registers": 34}, "registers"),
        ({"grid_size": (1, 1, 1)}, "grid"),
    ],
)
def test_an_infeasible_problem_says_what_conflicts(change: dict, conflict: str) -> None:
    limits = dataclasses.replace(MALI, name="too small", **change)
    with pytest.raises(InfeasibleMapping, match="cannot be mapped to too small") as caught:
        best_mapping(layer(), limits)
    assert conflict in caught.value.groups
    assert isinstance(caught.value, TargetError)


def test_the_same_problem_has_the_same_solution() -> None:
    space = layer(filters=48, size=14)
    first, second = (Threads().ranked(space, H200).mappings for _ in range(2))
    assert first == second
    assert [each.predicted for each in first] == sorted(each.predicted for each in first)
    assert first[0] == best_mapping(space, H200)
    assert predict(space, [first[0]], H200)[0] == pytest.approx(first[0].predicted)


def test_best_mappings_differ_in_more_than_a_detail() -> None:
    found = best_mappings(layer(), H200, 8)
    assert len(found) == 8 == len({each.to_json() for each in found})
    assert len({(each.registers, each.split) for each in found}) >= 4


def test_a_mapping_reads_back() -> None:
    mapping = best_mapping(layer(), H200)
    assert read_mapping(mapping.to_json()) == mapping


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ({"threads": [4], "registers": [1], "vector": [1], "chunk": [1], "split": [1],
          "staged": [True, False]}, "threads"),
        ({"rows": 64, "columns": 32, "depth": 8, "tile": [8, 8], "parts": 2}, "matrices"),
        ({"kept": 1, "gathered": True, "boxes": 0, "apart": False, "warps": False}, "warpgroups"),
        ({"boxes": 2, "apart": True, "kept": 0, "gathered": False, "warps": False}, "streams"),
        ({"boxes": 0, "apart": False, "kept": 0, "gathered": True, "warps": True}, "warps"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_mappings_from_before_the_kind_was_written_are_read(written: dict, kind: str) -> None:
    if kind not in ("threads", "matrices"):
        units = {"tile": [4, 8], "rows": 64, "groups": [1, 2], "chunk": 32, "stages": 3, "split": 1}
        written = {**units, **written}
    mapping = read_mapping({**written, "predicted": 1e-6})
    assert mapping.kind == kind and mapping.predicted == 1e-6
    assert '"kind": ' in mapping.to_json() and read_mapping(mapping.to_json()) == mapping
    fields = mapping.to_fields()
    assert all(fields[name] in (value, tuple(value) if isinstance(value, list) else value)
               for name, value in written.items() if name in fields)  # fmt: skip


def test_a_reduction_is_split_where_results_are_few() -> None:
    """512 x 49 results leave most of the device idle, 64 x 12544 do not."""
    small = best_mapping(layer(512, 512, 7), H200)
    assert math.prod(small.split) * small.threads[3] >= 8
    large = best_mapping(layer(64, 64, 112), H200)
    assert math.prod(large.split) == 1


@pytest.mark.parametrize(
    "scarce", ["peak", "cache_bandwidth", "bandwidth"], ids=lambda name: f"less {name}"
)
def test_what_is_scarce_decides_the_time(scarce: str) -> None:
    """A kernel takes as long as the slower of computing and fetching, whichever it is."""
    space = layer()
    (chosen,) = best_mappings(space, H200, 1)
    plenty = getattr(H200, scarce)
    less = (
        {dtype: rate / 1e4 for dtype, rate in plenty.items()} if scarce == "peak" else plenty / 1e4
    )
    slower = dataclasses.replace(H200, **{scarce: less})
    assert predict(space, [chosen], slower)[0] > 10 * predict(space, [chosen], H200)[0]


def test_any_product_has_a_mapping() -> None:
    """Vectors, single rows, prime sizes, long reductions, results of more than 64 MiB."""
    for a, b in (
        ((1, 4096), (1000, 4096)),
        ((7, 13), (1, 13)),
        ((757, 1), (3, 1)),
        ((1, 1), (1, 1)),
        ((8192, 16), (4096, 16)),
    ):
        term = compute("dot", cart_prod(access(tensor("a", a), 1), access(tensor("b", b), 1)))
        space, _ = space_and_step(term)
        for limits in (MALI, H200):
            assert len(best_mapping(space, limits).threads) == len(space.axes)


def test_steps_between_barriers_need_be_no_power_of_two() -> None:
    """48 reduced steps are taken 24 or 48 at a time: 32 would waste a third, 16 are too few."""
    space = layer(channels=48, filters=192, size=13, kernel=1)
    (mapping,) = best_of(THREADS, space, H200, 1)
    assert mapping.chunk[-1] in (24, 48)


def test_large_results_need_no_room_for_partial_sums() -> None:
    x, w = tensor("x", (1 << 20, 16)), tensor("w", (64, 16))
    term = compute("dot", cart_prod(access(w, 1), access(x, 1)))
    space, _ = space_and_step(term, {"w": weights(64, 16)})
    assert space.size("m", "n") * 4 > 1 << 26
    assert math.prod(best_mapping(space, H200).split) == 1


def test_unknown_profiles_are_named() -> None:
    with pytest.raises(TargetError, match="did you mean 'opencl:mali-g72'"):
        device_profile("opencl:mali-g7")


def test_a_search_ends_when_the_time_is_up() -> None:
    """What was found by then is taken, and a search that was cut short is made again later."""
    space = layer(filters=80, size=30)
    with within(Deadline(0.0)), pytest.raises(InfeasibleMapping, match="no time is left"):
        best_mapping(space, H200)
    frozen = Deadline(0.2, clock=lambda: 0.0)
    with within(frozen):
        found = Threads().ranked(space, H200)
    assert not found.whole and len(found.mappings) < len(Threads().ranked(space, H200).mappings)
    assert best_mapping(space, H200).predicted <= min(m.predicted for m in found.mappings)


def test_without_time_one_thread_computes_an_element() -> None:
    space, (builder, step) = space_and_step(
        convolution(tensor("x", (1, 8, 9, 9)), tensor("w", (8, 8, 3, 3))),
        {"w": weights(8, 8, 3, 3)},
    )
    with within(Deadline(0.0)):
        (kernel,) = make_kernels(builder, step, 0, MALI, "opencl")
    assert kernel.local_bytes == 0
    (mapped,) = make_kernels(builder, step, 0, MALI, "opencl")
    assert mapped.local_bytes > 0 and space.size("m") == 8


def test_ctrl_c_ends_a_search() -> None:
    space = layer(filters=96, size=36)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for number in range(100):  # Another device each time: nothing is remembered.
            best_mapping(space, dataclasses.replace(H200, name=f"H200 number {number}"))
    assert time.monotonic() - began < 5
