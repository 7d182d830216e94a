"""Kernels that a device turns out not to run, on PoCL with a driver that says less than is so."""

from __future__ import annotations

import re

import numpy as np
import pytest

import glenside
from glenside.codegen.device.compile import compile_for_device
from glenside.codegen.device.device import Refused
from glenside.codegen.device.limits import opencl_limits
from glenside.codegen.device.opencl import OpenCLDevice
from glenside.codegen.device.trials import make_trials, measure
from glenside.codegen.gpu.dispatch import space_of
from glenside.codegen.gpu.interface import make_builder
from glenside.codegen.gpu.mapping import tuning
from glenside.codegen.gpu.mapping.choose import InfeasibleMapping, best_mappings, chosen_mapping
from glenside.codegen.program.cut import cut_program
from glenside.errors import TargetError
from glenside.language import evaluate
from glenside.language.builders import elementwise, tensor
from glenside.tune import tune
from tests.codegen.codegen_help import compare, convolution, leaves, weights
from tests.models import small_network

pytest.importorskip("pyopencl")


class Device(OpenCLDevice):
    """PoCL, whose driver says of kernels that so many threads run them."""

    def __init__(self, most=1 << 20, states=False, launches=True, builds=True):
        super().__init__(["-Werror"])
        self.most, self.states, self.launches, self.builds = most, states, launches, builds
        self.attempted = []

    def _group_sizes(self, kernel):
        return self.most, super()._group_sizes(kernel)[1] if self.states else [0, 0, 0]

    def _ready(self, launch):
        if np.prod(launch.entry.block) > self.most:
            self.attempted.append(launch.kernel)
            if not self.launches:
                raise Refused({launch.kernel: "out of resources"})
        return super()._ready(launch)

    def _built(self, source):
        if not self.builds and "reqd_work_group_size(180" in source:
            raise TargetError("cannot build the source: 180 are too many")
        return super()._built(source)


def layer():
    """A convolution, its parameters, and values of its input."""
    x, w = tensor("x", (1, 8, 9, 9)), tensor("w", (16, 8, 3, 3))
    term = convolution(x, w, pads=(1, 1, 1, 1))
    return term, {"w": weights(16, 8, 3, 3)}, {"x": weights(1, 8, 9, 9, seed=3)}


def layer_cut():
    """The convolution cut into steps, the number of its product's step, and the product's space."""
    term, params, _ = layer()
    cut = cut_program([term], {"x": leaves([term])["x"]}, params, plain=True)
    builder = make_builder(cut)
    builder.at_step(0)
    return cut, 0, space_of(builder, cut.steps[0], opencl_limits())


def program_on(device, term, params):
    types = {name: t for name, t in leaves([term]).items() if name not in params}
    return compile_for_device([term], types, params, opencl_limits(), "opencl", device=device)


@pytest.fixture(scope="module")
def ranked():
    """The layer's mappings, best predicted first: of 180, 180 and 100 threads and on."""
    found = best_mappings(layer_cut()[2], opencl_limits(), 16)
    assert [int(np.prod(each.threads)) for each in found[:3]] == [180, 180, 100]
    return found


@pytest.mark.parametrize(
    ("device", "taken"),
    [
        ({}, 0),
        ({"most": 128}, 2),
        # It states the size of its groups: whether it runs is found out, not believed.
        ({"most": 128, "states": True}, 0),
        ({"most": 128, "states": True, "launches": False}, 2),
        ({"builds": False}, 2),
    ],
)
def test_the_next_mapping_that_runs_is_taken(ranked, device, taken):
    term, params, values = layer()
    opened = Device(**device)
    program = program_on(opened, term, params)
    assert program.plan.kernels["step_0"].block == [180, 1, 1]
    first = program.source
    assert program.unavailable() is None
    threads = int(np.prod(ranked[taken].threads))
    assert program.plan.kernels["step_0"].block == [threads, 1, 1]
    assert (program.source == first) == (taken == 0)
    assert tuple(program.products[0].mapping["threads"]) == ranked[taken].threads
    (expected,) = evaluate([term], {**values, **params})
    compare(program.run(values)[0], expected, 1e-4)
    traced = program.trace(values)
    assert len(traced) == 2
    for got, wanted in zip(traced.values(), evaluate([*traced], values | params), strict=True):
        compare(got, wanted, 1e-4)
    assert bool(opened.attempted) == device.get("states", False)


def test_kernels_state_the_groups_they_are_launched_with():
    program = glenside.optimize(small_network(), "opencl", check=False)
    executable = program._executable
    stated = re.findall(
        r"__kernel __attribute__\(\(reqd_work_group_size\((\d+), (\d+), (\d+)\)\)\) void (\w+)\(",
        program.source,
    )
    assert len(stated) == program.source.count("__kernel")
    blocks = {name: [int(size) for size in sizes] for *sizes, name in stated}
    assert blocks == {name: entry.block for name, entry in executable.plan.kernels.items()}


def test_without_another_mapping_one_thread_computes_an_element(ranked):
    space, limits = layer_cut()[2], opencl_limits()
    assert chosen_mapping(space, limits, None, ranked[:2]) == ranked[2]
    with pytest.raises(InfeasibleMapping, match="refused the kernels of all 16 mappings"):
        chosen_mapping(space, limits, None, ranked)
    # What is measured elsewhere comes first, and is passed over likewise.

    def choose(space, limits):
        return ranked[5]

    assert chosen_mapping(space, limits, choose, ranked[:1]) == ranked[5]
    assert chosen_mapping(space, limits, choose, [ranked[5]]) == ranked[0]


def test_what_is_no_product_is_computed_in_smaller_groups():
    x = tensor("x", (25, 40))
    term, values = elementwise("relu", x), {"x": weights(25, 40)}
    warp = opencl_limits().warp
    program = program_on(Device(most=warp), term, {})
    assert program.plan.kernels["step_0"].block == [128, 1, 1]
    np.testing.assert_array_equal(program.run(values)[0], np.maximum(values["x"], 0))
    assert program.plan.kernels["step_0"].block == [warp, 1, 1]
    program = program_on(Device(most=warp - 1), term, {})
    with pytest.raises(TargetError, match=f"kernel step_0: {warp} threads .* at most {warp - 1}"):
        program.run(values)


def test_a_loaded_program_says_what_to_do(tmp_path, monkeypatch):
    program = glenside.optimize(small_network(), "opencl")
    program.save(tmp_path / "net")
    monkeypatch.setattr(OpenCLDevice, "_group_sizes", lambda self, kernel: (1, [0, 0, 0]))
    loaded = glenside.load(tmp_path / "net")
    with pytest.raises(
        TargetError, match=r"kernel \w+: .* at most 1.*: optimise the model on this machine"
    ):
        loaded(np.ones((1, 4, 9, 7), "float32"))


def test_optimize_checks_what_the_device_runs(monkeypatch, tmp_path):
    known = glenside.optimize(small_network(), "opencl")
    largest = max(np.prod(e.block) for e in known._executable.plan.kernels.values())
    monkeypatch.setattr(
        OpenCLDevice, "_group_sizes", lambda self, kernel: (int(largest) - 1, [0, 0, 0])
    )
    program = glenside.optimize(small_network(), "opencl")
    entries = program._executable.plan.kernels.values()
    assert max(np.prod(entry.block) for entry in entries) < largest
    assert program.report.max_rel_error < 1e-4
    # What is saved is what runs.
    program.save(tmp_path / "net")
    values = np.ones((1, 4, 9, 7), "float32")
    np.testing.assert_array_equal(glenside.load(tmp_path / "net")(values), program(values))


@pytest.mark.parametrize("device", [{"most": 128}, {"builds": False},
                                    {"most": 128, "states": True, "launches": False}])  # fmt: skip
def test_a_refused_mapping_does_not_take_others_along(ranked, device):
    cut, number, space = layer_cut()
    trials = make_trials(
        cut, number, space.key(), opencl_limits(), "opencl", [ranked[0], ranked[2]]
    )
    plain, refused, run = measure(trials, Device(**device), repeat=1)
    assert refused is None and plain is not None and run is not None and run > 0


def test_a_product_of_which_nothing_runs_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(OpenCLDevice, "_group_sizes", lambda self, kernel: (0, [0, 0, 0]))
    file = tmp_path / "tuning.json"
    with pytest.warns(UserWarning, match="is not measured: kernel .* at most 0"):
        assert tune(small_network(), "opencl", candidates=1, file=file) == []
    assert tuning.read(file, opencl_limits().name) == {}
