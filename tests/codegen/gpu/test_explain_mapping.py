"""How products are mapped, as it is told: loops, constraints, Lift's seven, other kinds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import glenside
from glenside.cli import app
from glenside.codegen.device.explain import explain_mappings
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.mapping.choose import best_mapping
from glenside.codegen.gpu.mapping.explain import explained
from glenside.codegen.gpu.mapping.kinds import KINDS
from glenside.codegen.gpu.mapping.lift import NAMES
from glenside.codegen.gpu.mapping.solver import GROUPS, Quantity
from glenside.frontends.lowering.normalization import standardised
from glenside.language.builders import (
    access,
    cart_prod,
    compute,
    outer_only,
    tensor,
    transpose,
)
from tests.codegen.codegen_help import convolution, weights
from tests.codegen.gpu.gpu_help import space_and_step

MALI = device_profile("opencl:mali-g72")
H200 = device_profile("cuda:sm_90")


def layer(size: int = 14):
    x, w = tensor("x", (1, 16, size, size)), tensor("w", (32, 16, 3, 3))
    return space_and_step(convolution(x, w, pads=(1, 1, 1, 1)), {"w": weights(32, 16, 3, 3)})[0]


def product(dtype: str = "float16"):
    x, w = tensor("x", (64, 64), dtype), tensor("w", (32, 64), dtype)
    term = compute("dot", cart_prod(access(w, 1), access(x, 1)))
    return space_and_step(term, {"w": weights(32, 64).astype(dtype)})[0]


def test_loops_say_where_in_the_term_they_come_from():
    rows, down, across, channels, *taps = explained("step_0", layer(), MALI).loops
    assert (rows.name, rows.size) == ("m0", 32)
    assert rows.comes_from == (
        "axis 0 of the result, rows of the resident operand; moves 1 along axis 0 of w"
    )
    assert (down.name, down.size, across.name) == ("n0", 14, "n1")
    assert down.comes_from.startswith("axis 2 of the result, rows of the streamed operand")
    assert down.comes_from.endswith("its windows are k1")
    assert channels.comes_from.startswith("reduced, item axis 0 of both operands")
    assert [(each.name, each.size) for each in taps] == [("k1", 3), ("k2", 3)]


def test_every_constraint_has_its_numbers():
    """What is told of a mapping is what its solver was told: all of it holds, as Python has it."""
    space = layer()
    told = explained("step_0", space, MALI)
    mapping = best_mapping(space, MALI)
    assert {each.group for each in told.constraints} <= {*GROUPS}
    assert all(each.holds for each in told.constraints)
    threads = next(each for each in told.constraints if each.says == "threads <= 384")
    assert threads.value == np.prod(mapping.threads)
    assert told.defined["threads"] == " * ".join(f"threads[{name}]" for name in space.names)
    (used,) = [each for each in told.constraints if each.says == "sums + rows + run + 30 <= 64"]
    assert used.group == "registers" and 30 < used.value <= 64


def test_a_mapping_that_breaks_a_constraint_is_told_to():
    space = layer()
    broken = replace(best_mapping(space, MALI), threads=(64, 14, 1, 1, 1, 1))
    told = explained("step_0", space, MALI, mapping=broken)
    assert any(each.group == "threads" and not each.holds for each in told.constraints)
    assert "DOES NOT HOLD" in str(told)


def test_lifts_seven_are_named():
    told = explained("step_0", layer(), MALI)
    assert [name for name in NAMES if any(each.group == name for each in told.lift)] == [*NAMES]
    assert all(each.holds for each in told.lift)


@pytest.mark.parametrize(
    ("limits", "dtype", "kind", "others"),
    [
        (H200, "float16", "warpgroups", {"warps": "whole warpgroups", "streams": "cannot bring"}),
        (device_profile("cuda:sm_80"), "float16", "warps", {"warpgroups": "local memory"}),
        (H200, "float32", "threads", {"warpgroups": "tf32", "matrices": "without borders"}),
    ],
    ids=["warpgroups", "warps", "threads"],
)
def test_other_kinds_are_told_with_the_reason(limits, dtype, kind, others):
    told = explained("step_0", product(dtype), limits)
    assert told.mapping is not None and told.mapping["kind"] == kind
    says = {each.name: each.says for each in told.kinds}
    assert says[kind].startswith("chosen")
    for name, why in others.items():
        assert why in says[name]


def test_what_a_time_goes_by_is_told():
    space = product("float32")
    assert "fitted on an H200" in explained("step_0", space, H200).chosen
    bare = replace(H200, name="bare", fit=None)
    assert explained("step_0", space, bare).chosen == (
        "predicted to be fastest, by first principles: none were fitted"
    )


def test_quantities_say_what_they_are_made_of():
    a, b = Quantity(3, "a"), Quantity(4, "b")
    made = 2 * (a + b) - 1
    assert made == 13 and made.text == "2 * (a + b) - 1"
    assert (1 * a).text == "a" and (a * (b - 1)).text == "a * (b - 1)"


def test_a_program_tells_it_and_so_does_the_command_line(tmp_path):
    x, w = tensor("x", (1, 8, 6, 6)), tensor("w", (8, 8, 3, 3))
    term = convolution(x, w)
    program = glenside.optimize(
        term, "opencl:mali-g72", params={"w": weights(8, 8, 3, 3)}, check=False
    )
    told = program.explain_mapping()
    assert told.device == "opencl:mali-g72" and len(told.products) >= 1
    program.save(tmp_path / "saved")
    done = CliRunner().invoke(app, ["explain", str(tmp_path / "saved"), "--mapping", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == json.loads(json.dumps(told.to_json()))
    plain = CliRunner().invoke(app, ["explain", str(tmp_path / "saved"), "--mapping"])
    assert "mapped to threads" in plain.stdout


@pytest.mark.parametrize(
    ("kind", "limits", "dtype"),
    [
        ("threads", MALI, "float32"),
        ("matrices", MALI, "float32"),
        ("warpgroups", H200, "float16"),
        ("streams", replace(H200, name="few units", compute_units=2), "float16"),
        ("warps", device_profile("cuda:sm_80"), "float16"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_what_is_told_is_what_was_solved(kind, limits, dtype):
    """All that is told of a solution holds."""
    (kind,) = [each for each in KINDS if each.name == kind]
    w = weights(128, 64).astype(dtype)
    x = tensor("x", (64, 600) if kind.name == "matrices" else (600, 64), dtype)
    columns = transpose(access(x, 1), (1, 0)) if kind.name == "matrices" else access(x, 1)
    rows = access(tensor("w", w.shape, dtype), 1)
    # The copy engine is for results whose rows lie innermost.
    pairs = cart_prod(columns, rows) if kind.name == "streams" else cart_prod(rows, columns)
    space = space_and_step(outer_only(compute("dot", pairs)), {"w": w})[0]
    assert not kind.unfit(space, limits)
    problem = kind.problems(space, limits)[0]
    solutions = problem.solutions()
    assert len(solutions) > 10
    for each in solutions[:: max(1, len(solutions) // 40)]:
        assert all(stated.holds for stated in problem.stated(each).stated), each
        assert problem.mapping(problem.row(each)) == each
        kind.check(space, each, limits)


def test_reductions_over_rows_are_told_likewise():
    """Of a program with a norm and a product: rows, constraints with their numbers, the choice."""
    x = tensor("x", (64, 96))
    norm = standardised(x, [1], 1e-5)
    out = compute("dot", cart_prod(access(norm, 1), access(tensor("w", (32, 96)), 1)))
    params = {"w": weights(32, 96)}
    told = explain_mappings([out], {"x": x.type}, params, H200, "cuda", None, {}, {})
    rows, product = told.products
    assert rows.computes == "mean, then mean over 64 rows of 96, a result for each element"
    assert [(each.name, each.size) for each in rows.loops] == [("row", 64), ("element", 96)]
    assert rows.loops[0].comes_from == "rows of x"
    assert rows.mapping["kind"] == "rows" and product.mapping["kind"] != "rows"
    assert all(each.holds for each in rows.constraints)
    assert {"threads", "tiles", "coalescing", "registers", "local memory", "grid"} == {
        each.group for each in rows.constraints
    }
    team, count = rows.mapping["team"], rows.mapping["rows"]
    assert f"threads <= 1024 ({team * count})" in str(rows)
