"""Hardware and program chosen together, against trying every set of units."""

import builtins
import itertools
import json
import xml.etree.ElementTree as ET
from dataclasses import dataclass

import pytest

import glenside
from glenside.errors import GlensideError, InputError, TargetError
from glenside.explore_hardware import systolic_arrays
from glenside.extraction import Roofline, dag_cost, extract
from glenside.extraction.cycles import Cycles
from glenside.hw_targets.registry import find_target
from glenside.language import Term
from glenside.language import builders as b
from glenside.rewrites import saturate
from tests.models import small_network

SLOW_HOST = Cycles(host=Roofline(peak_flops=1e9, bandwidth=16e9, launch_seconds=0))
SIZES = ("16x4", "4x16", "8x8", "2x2", "4x4")
CANDIDATES = [f"systolic-array:{size}" for size in SIZES]
AREAS = (3, 4, 16, 20, 64, 80, 128, 1000)


def product(name: str, m: int, k: int, n: int) -> Term:
    x, w = b.tensor(f"x{name}", (m, k), "int8"), b.tensor(f"w{name}", (n, k), "int8")
    return b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1)))


def network() -> list[Term]:
    """Products that suit different arrays, one of them twice."""
    return [
        product("tall", 100, 64, 4),
        product("wide", 100, 4, 64),
        product("wide again", 100, 4, 64),
        product("small", 5, 3, 2),
    ]


def model() -> Term:
    flat = [b.reshape(b.access(each, 0), (), (each.type.size,)) for each in network()]
    return b.concat(0, *flat)


@dataclass(frozen=True)
class Only:
    """The same times where only arrays of those sizes are built."""

    sizes: tuple[tuple[int, ...], ...]
    name = "only"

    def node_cost(self, op, attributes, result, operands):
        if op in ("call", "blocked") and attributes["parameters"] not in self.sizes:
            return None
        return SLOW_HOST.node_cost(op, attributes, result, operands)


@pytest.fixture(scope="module")
def front():
    return glenside.explore_hardware(model(), AREAS, CANDIDATES, cost_model=SLOW_HOST)


@pytest.fixture(scope="module")
def every():
    """The fewest cycles of every set of units."""
    egraph = saturate([model()], find_target("+".join(CANDIDATES)).rules()).egraph
    result = {}
    for count in range(len(CANDIDATES) + 1):
        for units in itertools.combinations(CANDIDATES, count):
            sizes = tuple(find_target(unit).parameters for unit in units)
            found = extract(egraph, Only(sizes), extractor="ilp")
            assert found.optimal
            result[units] = found.cost[0]
    return result


def test_no_set_of_units_within_the_area_is_faster(front, every) -> None:
    area = {name: find_target(name).area for name in CANDIDATES}
    several = 0
    for point in front.points:
        fitting = {u: c for u, c in every.items() if sum(map(area.get, u)) <= point.area}
        best = min(fitting.values())
        assert point.optimal
        assert point.cycles == best
        assert point.used == min(
            sum(map(area.get, u)) for u, cycles in fitting.items() if cycles == best
        )
        several += len(point.units) > 1
    assert several, "no budget was worth two units: the test shows too little"


def test_the_front_falls_and_its_units_get_the_calls(front) -> None:
    assert [point.area for point in front.points] == [0, *AREAS]
    cycles = [point.cycles for point in front.points]
    assert cycles == sorted(cycles, reverse=True)
    assert front.points[0].target == "cpu" and not front.points[0].units
    assert front.points[1].units == {}, "nothing fits into 3"
    for point in front.points:
        assert point.used <= point.area
        assert all(calls > 0 for calls in point.units.values())
    pareto = front.pareto
    assert len({point.cycles for point in pareto}) == len(pareto) < len(front.points)


def test_a_point_is_what_optimize_does_with_its_target() -> None:
    network = small_network()
    found = glenside.explore_hardware(network, [64], CANDIDATES, cost_model=SLOW_HOST)
    point = found.points[-1]
    program = glenside.optimize(
        network, point.target, cost_model=SLOW_HOST, extractor="ilp", check=True
    )
    assert program.report.cost_after[0] == point.cycles
    assert program.report.optimal
    calls = sum(program.report.offloads.values())
    assert calls == sum(point.units.values()) > 0
    assert dag_cost(program.terms, SLOW_HOST)[0] == point.cycles


def test_without_time_nothing_is_called_optimal_and_the_program_stands() -> None:
    found = glenside.explore_hardware(
        model(), [64], CANDIDATES, cost_model=SLOW_HOST, solver_limit=0
    )
    assert not found.points[-1].optimal
    assert found.points[-1].cycles <= found.points[0].cycles
    assert "no" in str(found)


def test_declared_units_are_candidates(front) -> None:
    found = glenside.explore_hardware(
        model(), [64, 300], ["vta", "systolic-array:4x16"], cost_model=SLOW_HOST
    )
    assert found.candidates == {"vta": 256, "systolic-array:4x16": 64}
    assert found.points[2].cycles <= found.points[1].cycles < found.points[0].cycles


def test_the_arrays_that_are_tried_by_default() -> None:
    sizes = [name.partition(":")[2] for name in systolic_arrays(64)]
    assert sizes == ["4x4", "4x8", "4x16", "8x4", "8x8", "16x4"]


class TestWhatItTells:
    def test_a_table(self, front) -> None:
        table = str(front)
        assert "time against area" in table
        for point in front.points:
            assert f"{point.cycles:,.0f}" in table
            assert all(unit in table for unit in point.units)

    def test_json(self, front) -> None:
        data = json.loads(json.dumps(front.to_json()))
        assert data["candidates"] == {name: front.candidates[name] for name in CANDIDATES}
        assert [point["cycles"] for point in data["points"]] == [p.cycles for p in front.points]
        assert [point["target"] for point in data["points"]] == [p.target for p in front.points]
        assert sum(point["pareto"] for point in data["points"]) == len(front.pareto)

    def test_a_chart(self, front, tmp_path) -> None:
        pytest.importorskip("altair")
        pytest.importorskip("vl_convert")
        front.save_plot(tmp_path / "front.svg")
        drawn = "".join(ET.parse(tmp_path / "front.svg").getroot().itertext())
        for point in front.pareto:
            assert all(unit in drawn for unit in point.units)
        front.save_plot(tmp_path / "front.png")
        assert (tmp_path / "front.png").read_bytes().startswith(b"\x89PNG")

    def test_what_is_missing_is_named(self, front, tmp_path, monkeypatch) -> None:
        original = builtins.__import__

        def absent(name: str, *rest: object, **others: object) -> object:
            if name == "altair":
                raise ImportError(name)
            return original(name, *rest, **others)

        monkeypatch.setattr(builtins, "__import__", absent)
        with pytest.raises(GlensideError, match=r"needs altair: pip install 'glenside\[explore\]'"):
            front.save_plot(tmp_path / "front.svg")

    def test_a_chart_has_a_known_suffix(self, front) -> None:
        with pytest.raises(InputError, match=r"front.pdf: charts are written as .html, .png, .svg"):
            front.save_plot("front.pdf")


class TestErrors:
    def test_a_candidate_is_one_accelerator(self) -> None:
        for name in ("cpu", "vta+flexasr"):
            with pytest.raises(TargetError, match="is the target of one accelerator"):
                glenside.explore_hardware(model(), [64], [name])

    def test_a_candidate_says_its_area_and_cycles(self) -> None:
        gemm = {
            "operands": {"x": "((M) (K))", "w": "((N) (K))"},
            "computes": "(compute dot (cart-prod ?x ?w))",
        }
        glenside.Accelerator("test-no-area", **gemm, cycles="M")
        with pytest.raises(TargetError, match="test-no-area does not declare its area"):
            glenside.explore_hardware(model(), [64], ["test-no-area"])
        glenside.Accelerator("test-no-cycles", **gemm, area=2.5)
        with pytest.raises(GlensideError, match="unit test-no-cycles does not declare the cycles"):
            glenside.explore_hardware(model(), [64], ["test-no-cycles"])

    @pytest.mark.parametrize("areas", [[], [0], [-1], [float("nan")], [float("inf")]])
    def test_areas_are_positive(self, areas) -> None:
        with pytest.raises(InputError, match="areas must be positive"):
            glenside.explore_hardware(model(), areas)

    def test_a_model_that_calls_units_itself_needs_them(self) -> None:
        x, w = b.tensor("x", (8, 8)), b.tensor("w", (8, 8))
        term = b.blocked("systolic-array", (8, 8), b.access(x, 1), b.access(w, 1))
        with pytest.raises(GlensideError, match="no program was found within an area of 0"):
            glenside.explore_hardware(term, [64], ["systolic-array:8x8"])

    def test_limits_are_not_negative(self) -> None:
        with pytest.raises(InputError, match="solver_limit must be seconds"):
            glenside.explore_hardware(model(), [64], solver_limit=float("nan"))
