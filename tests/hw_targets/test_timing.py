"""Cycles and areas of units, and the cost model that chooses by them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glenside
from glenside.errors import ExtractionError
from glenside.extraction import Roofline, extract, find_cost_model
from glenside.extraction.cycles import Cycles, term_cycles
from glenside.hw_targets import targets
from glenside.hw_targets.offload import OffloadTarget
from glenside.hw_targets.operation import accelerator_of
from glenside.hw_targets.registry import find_target
from glenside.hw_targets.units.systolic_array import NAME, pass_cycles
from glenside.language import Term, find_unit
from glenside.language.builders import access, blocked, call, cart_prod, compute, tensor, transpose
from glenside.report import count_units
from glenside.rewrites import saturate


def matrix(name: str, *shape: int, split: int = 1, dtype: str = "float32") -> Term:
    return access(tensor(name, shape, dtype), split)


def price(term: Term, model: Cycles) -> tuple[float, ...] | None:
    operands = [child.type for child in term.children]
    return model.node_cost(term.op, term.attributes, term.type, operands)


def simulated_pass(rows: int, columns: int, stream: int) -> int:
    """Counts cycles on an array of cells: weights move in row by row, then each row of the stream
    enters cell (r, 0) at its r-th cycle and moves on by one column a cycle, sums by one row."""
    loading = rows
    last_out = 0
    for number in range(stream):
        for r in range(rows):
            for c in range(columns):
                last_out = max(last_out, number + r + c + 1)
    return loading + last_out


@given(*[st.integers(1, 7)] * 3)
def test_a_pass_loads_streams_and_drains(rows: int, columns: int, stream: int) -> None:
    assert pass_cycles(rows, columns, stream) == simulated_pass(rows, columns, stream)
    assert pass_cycles(rows, columns, 0) == 0


def test_a_product_takes_a_pass_for_each_tile_of_weights() -> None:
    a, b = matrix("a", 100, 33), matrix("b", 17, 33)
    assert term_cycles(blocked(NAME, (16, 8), a, b)) == 3 * 3 * (2 * 16 + 8 + 100 - 2)
    a, b = matrix("a", 5, 100, 33, split=2), matrix("b", 5, 17, 33, split=2)
    assert term_cycles(blocked(NAME, (16, 8), a, b, 1)) == 5 * 3 * 3 * (2 * 16 + 8 + 100 - 2)
    one = call(NAME, (3, 4), matrix("a", 9, 3), matrix("w", 3, 4, split=0))
    assert term_cycles(one) == 2 * 3 + 4 + 9 - 2
    assert [u.cycles for u in count_units([one, one])] == [2 * (2 * 3 + 4 + 9 - 2)]


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_convolution_takes_as_long_as_its_products(layout: str) -> None:
    w, x = tensor("w", (8, 6, 3, 3), "float32"), tensor("x", (2, 6, 9, 7), "float32")
    if layout == "nhwc":
        w, x = transpose(w, (2, 3, 1, 0)), transpose(x, (0, 2, 3, 1))
    stream = 2 * 7 * 5
    plain = call(f"systolic-conv2d-{layout}", (3, 4, 3, 3, 1, 1), w, x)
    assert term_cycles(plain) == 9 * (6 // 3) * (8 // 4) * pass_cycles(3, 4, stream)
    strided = call(f"systolic-conv2d-im2col-{layout}", (16, 5, 3, 3, 2, 2), w, x)
    tiles = math.ceil(54 / 16) * math.ceil(8 / 5)
    assert term_cycles(strided) == tiles * pass_cycles(16, 5, 2 * 4 * 3)


def test_every_unit_that_ships_says_its_area_and_cycles() -> None:
    sizes = {NAME: f"{NAME}:8x4"}
    seen = 0
    for kind in targets():
        if kind.name.startswith("test-"):
            continue
        target = find_target(sizes.get(kind.name, kind.name))
        if not isinstance(target, OffloadTarget):
            continue
        seen += 1
        assert target.area, kind.name
        for unit in target.units:
            declared = accelerator_of(unit)
            assert declared is None or (declared.cycles and declared.area), unit
    assert seen >= 5
    assert find_target(f"{NAME}:8x4").area == 32


def test_no_unit_multiplies_more_in_a_cycle_than_its_area() -> None:
    """Multiplications of a large product, against multipliers times cycles."""
    m, k, n = 512, 512, 512
    x, w, c = matrix("x", m, k), matrix("w", n, k), matrix("c", m, n, split=2)
    bias = access(tensor("b", (n,)), 1)
    calls = {
        "vta": call("vta-dense", (), x, w),
        "flexasr": call("flex-linear", (), x, w, bias),
        "tensor-core": call("tensor-core", (), x, w, c),
        f"{NAME}:16x8": blocked(NAME, (16, 8), x, w),
        "hlscnn": call(
            "hlscnn-conv2d", (1, 1, 0, 0, 0, 0),
            access(tensor("d", (1, k, m, 1)), 4), access(tensor("f", (n, k, 1, 1)), 4),
        ),
    }  # fmt: skip
    for name, term in calls.items():
        cycles, area = term_cycles(term), find_target(name).area
        assert cycles is not None and area is not None
        busy = m * k * n / (cycles * area)
        assert 0.9 < busy <= 1, name


class TestCostModel:
    host = Roofline(peak_flops=4e9, bandwidth=16e9, launch_seconds=1e-6)
    model = Cycles(host=host)

    def test_a_call_takes_the_longer_of_unit_and_dma(self) -> None:
        small = blocked(NAME, (4, 4), matrix("a", 100, 32), matrix("b", 16, 32))
        large = blocked(NAME, (64, 64), matrix("a", 100, 32), matrix("b", 16, 32))
        moved = 4 * (100 * 32 + 16 * 32 + 100 * 16)
        assert price(small, self.model) == (8 * 4 * (2 * 4 + 4 + 100 - 2), moved, 1)
        assert price(large, self.model) == (math.ceil(moved / 16), moved, 1)
        faster = Cycles(clock=2e9, host=self.host)
        assert price(large, faster) == (math.ceil(2 * moved / 16), moved, 1)

    def test_the_host_takes_what_the_roofline_says(self) -> None:
        relu = compute("relu", matrix("x", 10, 100, split=0))
        assert price(relu, self.model) == (8000 / 16 + 1000, 0, 1)
        dot = compute("dot", cart_prod(matrix("x", 64, 64), matrix("w", 64, 64)))
        assert price(dot, self.model) == (2 * 64**3 / 4 + 1000, 0, 1)

    def test_data_movement_takes_no_time(self) -> None:
        assert price(transpose(tensor("x", (3, 5)), (1, 0)), self.model) == (0, 60, 1)

    def test_units_that_the_target_lacks_are_not_chosen(self) -> None:
        term = blocked(NAME, (4, 4), matrix("a", 8, 8), matrix("b", 8, 8))
        assert price(term, Cycles(units=["vta-dense"])) is None
        assert price(term, Cycles(units=[NAME])) is not None

    def test_a_unit_must_say_its_cycles(self) -> None:
        glenside.Accelerator(
            "test-silent",
            operands={"x": "((M) (K))", "w": "((N) (K))"},
            computes="(compute dot (cart-prod ?x ?w))",
        )
        term = call("test-silent", (), matrix("a", 8, 8), matrix("b", 8, 8))
        with pytest.raises(ExtractionError, match="unit test-silent does not declare the cycles"):
            price(term, self.model)

    @pytest.mark.parametrize("batch", [(1,), (4,), (2, 3), (0,)])
    @pytest.mark.parametrize("unit", ["vta-dense", "flex-linear"])
    def test_a_batch_takes_as_long_as_its_calls_one_after_the_other(self, unit, batch) -> None:
        shapes = [(5, 7), (3, 7), (3,)][: len(accelerator_of(unit).operands)]
        splits = [1, 1, 1]

        def invoked(shared):
            operands = [
                matrix(f"x{i}", *shared, *shape, split=len(shared) + split)
                for i, (shape, split) in enumerate(zip(shapes, splits, strict=False))
            ]
            return term_cycles(call(unit, (), *operands, batch=len(shared)))

        one = invoked(())
        assert one == {"vta-dense": 5, "flex-linear": 5}[unit]  # One row of tiles a cycle.
        assert invoked(batch) == math.prod(batch) * one

    def test_the_clock_is_positive(self) -> None:
        with pytest.raises(ValueError, match="clock must be positive"):
            Cycles(clock=0)

    def test_it_is_found_by_name(self) -> None:
        assert find_cost_model("cycles") == Cycles()

    def test_the_size_of_the_array_decides(self) -> None:
        """Tall weights on a tall array, wide ones on a wide one, the tiniest on the host."""
        rules = find_target(f"{NAME}:64x4+{NAME}:4x64").rules()

        def sizes(k: int, n: int, m: int = 200, host: Roofline = self.host) -> set[object]:
            term = compute("dot", cart_prod(matrix("x", m, k), matrix("w", n, k)))
            found = extract(saturate([term], rules).egraph, Cycles(host=host), extractor="ilp")
            assert found.optimal
            return {t["parameters"] for t in found.classes.values() if t.op == "blocked"}

        slow_memory_aside = Roofline(4e9, 1e12, 0)
        assert sizes(64, 4, host=slow_memory_aside) == {(64, 4)}
        assert sizes(4, 64, host=slow_memory_aside) == {(4, 64)}
        assert sizes(2, 2, m=1, host=slow_memory_aside) == set()


def test_programs_chosen_by_cycles_compute_the_same() -> None:
    term = compute("dot", cart_prod(matrix("x", 50, 40), matrix("w", 30, 40)))
    program = glenside.optimize(
        term, f"{NAME}:8x8", cost_model=Cycles(host=Roofline(1e9, 16e9, 0)), extractor="ilp"
    )
    report = program.report
    assert report.offloads == {NAME: 1} and report.optimal
    (use,) = report.units
    assert use.cycles == 5 * 4 * (2 * 8 + 8 + 50 - 2)
    assert f"{use.cycles:,.0f} cycles)" in str(report) and "proved optimal" in str(report)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype("float32") for s in ((50, 40), (30, 40)))
    np.testing.assert_allclose(program(x=x, w=w), x @ w.T, rtol=1e-4, atol=1e-5)
    assert find_unit(NAME).array is not None
