"""Of every unit that ships: its simulator sees its own size only, a fault in one tile is seen in
the result, and nothing is rounded or quantised unless that is asked for."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import glenside
from glenside.check import relative_error
from glenside.hw_targets import Accelerator, find_target
from glenside.hw_targets.declare.samples import varied
from glenside.hw_targets.operation import accelerator_of
from glenside.hw_targets.units import systolic_array
from glenside.language import builders as b
from glenside.language import evaluate, topological_order
from glenside.language.invocation import run_blocked
from glenside.language.shape import FLOATS
from glenside.language.units import known_units
from tests.models import onnxruntime_answers, small_network

SIMULATED = sorted(
    unit.name for unit in known_units() if getattr(unit.declaration, "simulate", None) is not None
)
IN_PASSES = [name for name in SIMULATED if isinstance(accelerator_of(name), Accelerator)]
"""Units of a size of their own; those of whole layers take any."""
RNG = np.random.default_rng(0)


def test_the_list_is_not_empty():
    assert {"vta-dense-int8", "flex-linear-af", "hlscnn-conv2d-fixed", "amx-tdpbssd"} <= {
        *IN_PASSES
    }
    assert [name for name in SIMULATED if name not in IN_PASSES] == ["flex-lstm-af"]


def array(declared, sizes, dtype):
    wanted = declared.of(sizes, dtype)
    if wanted.dtype in FLOATS:
        return RNG.standard_normal(wanted.shape).astype(wanted.dtype)
    limits = np.iinfo(wanted.dtype)
    return RNG.integers(limits.min, limits.max, wanted.shape, endpoint=True).astype(wanted.dtype)


def call_of(unit):
    """Sizes of a call of two tiles and a bit each way (or lanes and a bit), and its operands."""
    checked = unit.checked
    lengths = {name: 2 * length for name, length in (unit.tile | unit.lanes).items()}
    odd = {name: length + 1 for name, length in lengths.items()}
    for fixed in (odd, lengths):
        for sizes in varied(checked.names, checked.conditions, fixed):
            arrays = [array(each, sizes, "float32") for each in checked.operands.values()]
            leaves = [
                b.access(b.tensor(name, x.shape, x.dtype.name), each.split)
                for (name, each), x in zip(checked.operands.items(), arrays, strict=True)
            ]
            if not all(x.size for x in arrays):
                continue
            parameters = tuple(sizes[name] for name in checked.parameters)
            try:
                unit.term(parameters, leaves)
            except glenside.GlensideError:
                continue
            return parameters, leaves, dict(zip(checked.operands, arrays, strict=True))
    raise AssertionError(f"no call of {unit.name} was found")


@pytest.mark.parametrize("name", IN_PASSES)
def test_a_simulator_sees_its_own_size_and_a_fault_in_one_tile_is_seen(name):
    shipped = accelerator_of(name)
    seen = []
    fault = None

    def simulate(sizes, *arrays):
        seen.append((dict(sizes), [each.shape for each in arrays]))
        result = np.array(shipped.simulate(sizes, *arrays))
        if len(seen) - 1 == fault:
            # The first element is never padding.
            result.flat[0] += 1 if result.dtype.kind in "iu" else 1 + abs(result.flat[0])
        return result

    watched = dataclasses.replace(
        shipped, name=f"test-{name}", target=f"test-{name}", simulate=simulate
    )
    parameters, leaves, arrays = call_of(watched)
    (right,) = evaluate([b.call(name, parameters, *leaves)], arrays)
    call = b.call(watched.name, parameters, *leaves)
    (clean,) = evaluate([call], arrays)
    np.testing.assert_array_equal(clean, right)
    passes = len(seen)
    assert passes >= 2 ** len(watched.tile)  # Two tiles at least, along each.
    declared = watched.checked.operands.values()
    for sizes, shapes in seen:
        assert all(sizes[name] == length for name, length in watched.tile.items())
        assert all(sizes[name] % length == 0 for name, length in watched.lanes.items())
        assert shapes == [each.of(sizes, "float32").shape for each in declared]
    for fault in {0, passes // 2, passes - 1}:
        seen.clear()
        (faulty,) = evaluate([call], arrays)
        assert not np.array_equal(faulty, clean), f"a fault in pass {fault} of {passes} is lost"


def test_a_fault_in_one_call_of_an_lstm_layer_is_seen():
    shipped = accelerator_of("flex-lstm-af")
    shapes = [(3, 2, 5), (2, 4), (2, 4), (4, 4, 5), (4, 4, 4), (4, 4)]
    arrays = [RNG.standard_normal(shape).astype("float32") for shape in shapes]
    faulty = dataclasses.replace(
        shipped,
        name="test-flex-lstm-af",
        target="test-flex-lstm-af",
        simulate=lambda *operands: shipped.simulate(*operands) + 1,
    )
    leaves = [b.tensor(name, x.shape) for name, x in zip(shipped.operands, arrays, strict=True)]
    calls = [b.call(each.name, (), *leaves) for each in (shipped, faulty)]
    clean, wrong = evaluate(calls, dict(zip(shipped.operands, arrays, strict=True)))
    np.testing.assert_array_equal(clean, shipped.simulate(*arrays))
    np.testing.assert_allclose(wrong, clean + 1)


def test_a_fault_in_one_tile_of_a_systolic_array_is_seen():
    passes = []

    def simulate(parameters, arrays):
        assert arrays[0].shape[-1] == 4
        assert arrays[1].shape == (4, 3)
        passes.append(parameters)
        return systolic_array.UNIT.simulate(parameters, arrays) + (len(passes) == fault)

    unit = dataclasses.replace(systolic_array.UNIT, simulate=simulate)
    x, w = RNG.integers(-9, 9, (5, 9)), RNG.integers(-9, 9, (7, 9))
    for fault in (0, 1, 5, 9):
        passes.clear()
        got = run_blocked(unit, (4, 3), x, w, 0, "int64")
        assert len(passes) == 9
        assert np.array_equal(got, x @ w.T) == (fault == 0)


PLAIN = ("flexasr", "hlscnn", "tensor-core", "vta", "amx", "systolic-array:4x4", "flexasr+hlscnn")


@pytest.mark.parametrize("target", PLAIN)
def test_nothing_is_rounded_or_quantised_unless_that_is_asked_for(target):
    image = RNG.standard_normal((1, 4, 9, 7)).astype("float32")
    (expected,) = onnxruntime_answers(small_network(), image=image)
    program = glenside.optimize(small_network(), target)
    assert relative_error(program(image), expected) < 1e-5
    used = [accelerator_of(use.unit) for use in program.report.units]
    assert not any(unit.numerics for unit in used if unit is not None)
    order = topological_order(program.terms)
    assert {t.dtype for t in order if t.op in ("compute", "call", "cast")} == {"float32"}
    if target == "amx":
        assert program.report.offloads == {}
        assert "quantise the model with quantize=" in program.report.note


def test_every_target_without_options_is_in_the_list():
    names = {kind.name for kind in glenside.targets() if not kind.name.startswith(("test", "my"))}
    plain = {target.partition(":")[0] for target in PLAIN}
    units = {name for name in names if name not in ("cpu", "opencl", "cuda")}
    assert {name for name in units if hasattr(find_target(_sized(name)), "units")} <= plain


def _sized(name):
    return f"{name}:4x4" if name == "systolic-array" else name
