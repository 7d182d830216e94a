"""The list of targets and units: what is on it, what puts it there, and other distributions."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import glenside
from glenside.errors import ShapeError, TargetError
from glenside.hw_targets import Accelerator, find_target, register_target, targets
from glenside.hw_targets.registry import REGISTRY, SHIPPED
from glenside.language import Unit, evaluate, find_unit, units
from glenside.language import builders as b

GEMM = {
    "operands": {"x": "((M) (K))", "w": "((N) (K))"},
    "computes": "(compute dot (cart-prod ?x ?w))",
}


def product(m: int = 3, k: int = 4, n: int = 5):
    rows = [b.access(b.tensor(name, (i, k)), 1) for name, i in (("x", m), ("w", n))]
    return b.compute("dot", b.cart_prod(*rows))


@pytest.fixture
def distribution(tmp_path, monkeypatch):
    """Makes a distribution that is installed for one test: its module, and its entry points."""

    def install(name: str, module: str, **points: str) -> None:
        folder = tmp_path / name
        info = folder / f"{name}-1.5.dist-info"
        info.mkdir(parents=True)
        (folder / f"{name}.py").write_text(textwrap.dedent(module))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        lines = [f"{each} = {value}" for each, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[glenside.targets]", *lines, ""]))
        monkeypatch.syspath_prepend(folder)

    yield install
    for name in [each for each in sys.modules if each.startswith("tiny_")]:
        del sys.modules[name]


ONE = """
from glenside import Accelerator

GEMM = Accelerator(
    "tiny-gemm",
    operands={"x": "((M) (K))", "w": "((N) (K))"},
    computes="(compute dot (cart-prod ?x ?w))",
    summary="a unit of somebody else's",
    known=False,
)
"""


# --- what ships ---------------------------------------------------------------------------------


def test_importing_what_ships_puts_nothing_on_the_list():
    code = f"""
    import importlib
    import glenside
    from glenside.hw_targets.registry import REGISTRY
    from glenside.language import invocation
    invocation.found_by(lambda name: None)
    for name in {SHIPPED}:
        importlib.import_module("glenside.hw_targets." + name)
    assert not invocation.listed(), invocation.listed()
    assert not REGISTRY._kinds, REGISTRY._kinds
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_what_ships_is_found_by_a_call_in_a_text_alone():
    code = """
    from glenside.language import parse
    term = parse("(call vta-dense () (access 1 (tensor x (2 3))) (access 1 (tensor w (5 3))))")
    assert term.shape == (2, 5)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_one_table_tells_all_of_a_unit():
    unit = find_unit("vta-dense")
    x, w = product().children[0].children
    assert unit.declaration.name == "vta-dense"
    assert unit.target == "vta"
    assert unit.area(()) == 256
    assert unit.cycles("call", (), 0, [x.type, w.type]) == 3 * 1 * 1
    assert unit.rule().name == "vta-dense"
    array = find_unit("systolic-array")
    assert (array.target, array.area((8, 4)), array.declaration) == ("systolic-array", 32, None)
    assert find_unit("systolic-conv2d-nchw").target == "systolic-array"


# --- what a program of one's own adds -----------------------------------------------------------


def test_a_declaration_is_known_at_once_unless_that_is_left_to_the_list():
    Accelerator("test-now", **GEMM)
    assert find_target("test-now").units == ("test-now",)
    later = Accelerator("test-later", known=False, **GEMM)
    with pytest.raises(TargetError, match="unknown target 'test-later'"):
        find_target("test-later")
    with pytest.raises(ShapeError, match="no accelerator unit is called 'test-later'"):
        find_unit("test-later")
    REGISTRY.add(later)
    assert find_target("test-later").units == ("test-later",)
    assert find_unit("test-later").rule() is later.rule()


def test_what_is_no_declaration_is_refused():
    with pytest.raises(TargetError, match="42 declares no unit and no target"):
        REGISTRY.add(42)


def test_what_a_block_adds_is_taken_off_behind():
    with REGISTRY.forgetting():
        Accelerator("test-gone", **GEMM)
        register_target("test-alias", find_target, "another name of others")
        assert {"test-gone", "test-alias"} <= {kind.name for kind in targets()}
        assert find_target("test-alias:cpu").name == "cpu"
    assert not {"test-gone", "test-alias"} & {kind.name for kind in targets()}
    assert not units.is_unit("test-gone")


# --- other distributions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "value"),
    [
        pytest.param(ONE, "tiny_unit", id="a module"),
        pytest.param(ONE, "tiny_unit:GEMM", id="one declaration"),
        pytest.param(ONE + "\nBOTH = [GEMM]\n", "tiny_unit:BOTH", id="several"),
        pytest.param(ONE + "\nDECLARED = (GEMM,)\nOTHER = 1\n", "tiny_unit", id="what it says"),
        pytest.param(ONE.replace("    known=False,\n", ""), "tiny_unit", id="by itself"),
    ],
)
def test_a_target_of_another_distribution_is_found_by_its_name(module, value, distribution):
    distribution("tiny_unit", module, **{"tiny-gemm": value})
    x, w = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(5, 4)
    program = glenside.optimize(product(), target="tiny-gemm")
    assert program.report.offloads == {"tiny-gemm": 1}
    given = {"x": x.astype("float32"), "w": w.astype("float32")}
    np.testing.assert_allclose(program(given), x @ w.T)


def test_a_target_of_another_distribution_is_listed_and_its_calls_are_known(distribution):
    distribution("tiny_unit", ONE, anything="tiny_unit")
    x, w = product().children[0].children
    call = b.call("tiny-gemm", (), x, w)
    ones = {"x": np.ones((3, 4), "float32"), "w": np.ones((5, 4), "float32")}
    np.testing.assert_array_equal(evaluate([call], ones)[0], np.full((3, 5), 4))
    summaries = {kind.name: kind.summary for kind in glenside.targets()}
    assert summaries["tiny-gemm"] == "a unit of somebody else's"
    # Under another name than its entry point has, too, and beside others.
    assert find_target("vta+tiny-gemm").name == "vta+tiny-gemm"


def test_a_target_with_options_and_a_unit_of_the_language_are_declarations_too(distribution):
    module = """
    from glenside.hw_targets import TargetKind, find_target
    from glenside.language import Unit

    class Threads:
        def __init__(self, options):
            self.own = find_target(f"cpu:{options}")
        def __getattr__(self, name):
            return getattr(self.own, name)

    KIND = TargetKind("tiny-cpu", "so many threads", Threads)
    NEGATION = Unit("tiny-identity", lambda parameters, operands: operands[0])
    """
    distribution("tiny_cpu", module, **{"tiny-cpu": "tiny_cpu"})
    assert find_target("tiny-cpu:3").threads == 3
    assert isinstance(find_unit("tiny-identity"), Unit)


BROKEN = {
    "raises": ("raise OSError('no such card')", "OSError: no such card"),
    "imports": ("import tiny_missing", "ModuleNotFoundError: No module named 'tiny_missing'"),
    "empty": ("x = 1", "tiny_broken declares no unit and no target"),
    "wrong": (
        "from glenside import Accelerator\nAccelerator('tiny-wrong', {'x': '((M))'}, '?x')",
        "accelerator tiny-wrong: ",
    ),
    "taken": (
        "from glenside.hw_targets import TargetKind\nT = TargetKind('cpu', 'mine', print)",
        "there is a target cpu already",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_one_is_one_clear_error_and_hinders_no_other(kind, distribution):
    module, told = BROKEN[kind]
    distribution("tiny_broken", module, **{"tiny-broken": "tiny_broken"})
    distribution("tiny_unit", ONE, **{"tiny-gemm": "tiny_unit"})
    with pytest.raises(TargetError) as problem:
        glenside.optimize(product(), target="tiny-broken")
    whole = str(problem.value)
    assert whole.startswith("entry point tiny-broken (tiny_broken) of tiny_broken 1.5")
    assert told in whole
    assert "\n" not in whole
    assert find_target("tiny-gemm").units == ("tiny-gemm",)
    assert find_target("cpu").name == "cpu"
    assert "tiny-gemm" in {kind.name for kind in targets()}
    assert [str(each) for each in REGISTRY.broken()] == [whole]
    with pytest.raises(TargetError, match=r"unknown target 'nothing'.*entry point tiny-broken"):
        find_target("nothing")


def test_a_missing_attribute_is_named(distribution):
    distribution("tiny_unit", ONE, **{"tiny-gemm": "tiny_unit:GEMMM"})
    with pytest.raises(TargetError, match=r"tiny_unit:GEMMM\) of tiny_unit 1.5 .*'GEMMM'"):
        find_target("tiny-gemm")


def test_the_command_line_lists_them_and_what_is_broken(distribution, tmp_path):
    distribution("tiny_broken", "raise OSError('no such card')", card="tiny_broken")
    distribution("tiny_unit", ONE, **{"tiny-gemm": "tiny_unit"})
    paths = [str(tmp_path / each) for each in ("tiny_broken", "tiny_unit")]
    code = f"import sys; sys.path[:0] = {paths}\nfrom glenside.cli import main\nmain()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "targets"], capture_output=True, text=True, check=True
    )
    assert "tiny-gemm" in ran.stdout
    assert "a unit of somebody else's" in ran.stdout
    assert "systolic-array" in ran.stdout
    told = " ".join(ran.stderr.split())
    assert "entry point card (tiny_broken) of tiny_broken 1.5" in told
    assert "no such card" in told
