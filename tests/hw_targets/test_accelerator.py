"""Declaring accelerators: what follows from a declaration, and what is refused."""

import dataclasses

import numpy as np
import pytest

import glenside
from glenside.errors import CheckFailed, ShapeError, TargetError
from glenside.hw_targets import Accelerator, find_target, targets
from glenside.hw_targets.registry import REGISTRY
from glenside.language import builders as b
from glenside.language import evaluate, find_unit, topological_order
from glenside.rewrites import rule_named
from glenside.rewrites.soundness import check_fires
from tests.effort import tries
from tests.models import onnxruntime_answers, small_network

GEMM = {
    "operands": {"x": "((M) (K))", "w": "((N) (K))"},
    "computes": "(compute dot (cart-prod ?x ?w))",
}


def matrices(m=5, k=7, n=3, dtype="float32"):
    return b.access(b.tensor("x", (m, k), dtype), 1), b.access(b.tensor("w", (n, k), dtype), 1)


def integers(terms, seed=0):
    rng = np.random.default_rng(seed)
    leaves = {t["name"]: t for t in topological_order(terms) if t.op == "tensor"}
    return {n: rng.integers(-4, 5, t.shape).astype(t.dtype) for n, t in leaves.items()}


# --- what follows from a declaration ------------------------------------------------------------


def test_one_declaration_gives_target_unit_and_rule():
    Accelerator("test-gemm", **GEMM, summary="a test")
    x, w = matrices()
    product = b.compute("dot", b.cart_prod(x, w))
    call = b.call("test-gemm", (), x, w)
    assert call.type == product.type
    env = integers([product])
    np.testing.assert_array_equal(*evaluate([call, product], env))
    assert find_target("test-gemm").units == ("test-gemm",)
    check_fires(rule_named("test-gemm"), examples=tries(15))
    program = glenside.optimize(product, "test-gemm")
    assert program.term is call
    assert program.report.offloads == {"test-gemm": 1}
    assert "test-gemm 1" in str(program.report)


def test_convolutions_and_layers_of_a_model_are_offloaded_grouped_ones_as_batches():
    image = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")
    (expected,) = onnxruntime_answers(small_network(), image=image)
    calls = {"vta": 2, "flexasr": 2, "hlscnn": 1, "tensor-core": 2}
    for target, count in calls.items():
        program = glenside.optimize(small_network(), target)
        assert sum(program.report.offloads.values()) == count, target
        np.testing.assert_allclose(program(image), expected, rtol=1e-4, atol=1e-5)


def test_units_of_several_targets_are_used_at_once():
    x = b.tensor("x", (1, 3, 6, 6))
    w, v, c = b.tensor("w", (4, 3, 3, 3)), b.tensor("v", (5, 64)), b.tensor("c", (5,))
    looks = b.squeeze(b.windows(b.access(x, 1), (3, 3, 3), (1, 1, 1)), 1)
    conv = b.transpose(b.compute("dot", b.cart_prod(b.access(w, 1), looks)), (1, 0, 2, 3))
    rows = b.access(b.reshape(conv, (1, 64)), 1)
    layer = b.elementwise("add", b.compute("dot", b.cart_prod(rows, b.access(v, 1))), c)
    report = glenside.optimize(layer, "flexasr+hlscnn").report
    assert report.target == "flexasr+hlscnn"
    assert report.offloads == {"flexasr": 1, "hlscnn": 1}
    assert [use.unit for use in report.units] == ["flex-linear", "hlscnn-conv2d"]


def test_what_has_no_units_cannot_be_joined():
    with pytest.raises(TargetError, match=r"cpu in 'vta\+cpu' is no accelerator"):
        find_target("vta+cpu")


def test_the_layout_of_operands_and_result_belongs_to_the_unit():
    # The unit wants x and gives its result by columns.
    Accelerator(
        "test-columns",
        operands={"x": "(() (K M))", "w": "((N) (K))"},
        computes="(access 0 (compute dot (cart-prod (transpose (1 0) (access 1 ?x)) ?w)))".replace(
            "(transpose (1 0) (access 1 ?x))", "(access 1 (transpose (1 0) ?x))"
        ),
    )
    check_fires(rule_named("test-columns"), examples=tries(15))
    x, w = matrices()
    program = glenside.optimize(b.compute("dot", b.cart_prod(x, w)), "test-columns")
    assert program.report.offloads == {"test-columns": 1}
    (call,) = [t for t in topological_order(program.terms) if t.op == "call"]
    assert call.children[0].type.item == (7, 5)


FILTERED = "(compute dot (cart-prod {}))"
LOOKS = "(squeeze 1 (windows (C kh kw) (1 sh sw) (access 1 ?x)))"


@pytest.mark.parametrize(
    "declaration",
    [
        {
            "operands": {"x": "((N C H W) ())", "w": "((O C kh kw) ())"},
            "computes": FILTERED.format(order),
        }
        for order in (f"{LOOKS} (access 1 ?w)", f"(access 1 ?w) {LOOKS}")
    ],
)
def test_a_product_is_found_whichever_operand_comes_first(declaration):
    unit = Accelerator("test-filters", **declaration)
    check_fires(unit.rule(), examples=tries(20))
    image = np.random.default_rng(3).standard_normal((2, 3, 9, 8)).astype("float32")
    x, w = b.tensor("x", image.shape), b.tensor("w", (5, 3, 2, 3))
    looks = b.squeeze(b.windows(b.access(x, 1), (3, 2, 3), (1, 2, 1)), 1)
    filters = b.access(w, 1)
    for product in (b.cart_prod(looks, filters), b.cart_prod(filters, looks)):
        program = glenside.optimize(b.compute("dot", product), "test-filters")
        assert program.report.offloads == {"test-filters": 1}
        assert program.report.left == ()


def test_a_batched_product_is_found_whichever_operand_comes_first():
    unit = Accelerator(
        "test-weighed",
        operands={"s": "((B M) (K))", "v": "((B D) (K))"},
        computes="(compute dot (cart-prod :batch 1 (compute relu ?s) ?v))",
    )
    check_fires(unit.rule(), examples=tries(20))
    s, v = (b.access(b.tensor(n, (2, m, 4)), 2) for n, m in (("s", 3), ("v", 5)))
    s = b.compute("relu", s)
    for factors in ((s, v), (v, s)):
        product = b.compute("dot", b.cart_prod(*factors, 1))
        program = glenside.optimize(product, "test-weighed")
        assert program.report.offloads == {"test-weighed": 1}


def test_parameters_are_what_only_the_term_has():
    unit = Accelerator(
        "test-pool",
        operands={"x": "((C) (T))"},
        computes="(compute max (windows (k) (s) (pad lowest 1 p p ?x)))",
        parameters=("s", "k", "p"),
        constraints=["s <= k", "2 * p <= k"],
    )
    check_fires(rule_named("test-pool"), examples=tries(30))
    x = b.access(b.tensor("x", (3, 9)), 1)
    for padding in (0, 1):
        pool = b.compute("max", b.windows(b.pad(x, 1, padding, padding, "lowest"), (3,), (2,)))
        program = glenside.optimize(pool, find_target("test-pool"), rules=[rule_named("test-pool")])
        assert program.term is b.call("test-pool", (2, 3, padding), x)
    assert unit.sizes((2, 3, 1), [x.type]) == {"s": 2, "k": 3, "p": 1, "C": 3, "T": 9}


def test_constraints_and_dtypes_decide_what_is_offloaded():
    Accelerator(
        "test-narrow", **GEMM, constraints=["K % 4 == 0", "1 <= M <= 8"], dtypes=["float32"]
    )
    check_fires(rule_named("test-narrow"), examples=tries(30))
    cases = [((8, 4, 3, "float32"), 1), ((9, 4, 3, "float32"), 0), ((8, 5, 3, "float32"), 0)]
    for size, calls in [*cases, ((8, 4, 3, "float64"), 0)]:
        product = b.compute("dot", b.cart_prod(*matrices(*size)))
        report = glenside.optimize(product, "test-narrow").report
        assert sum(report.offloads.values()) == calls, size


def test_a_call_that_breaks_its_declaration_is_ill_shaped():
    Accelerator("test-even", **GEMM, constraints=["K % 2 == 0"], dtypes=["float32"])
    x, w = matrices(k=7)
    says = r"test-even takes x \(\(M\) \(K\)\), w \(\(N\) \(K\)\); got .* \(by K % 2 == 0\)"
    with pytest.raises(ShapeError, match=says):
        b.call("test-even", (), x, w)
    x, w = matrices(k=6, dtype="float64")
    with pytest.raises(ShapeError, match="by dtypes"):
        b.call("test-even", (), x, w)
    with pytest.raises(ShapeError, match=r"\(by K\)"):
        b.call("test-even", (), matrices(k=6)[0], matrices(k=4)[1])
    with pytest.raises(ShapeError, match="test-even takes"):
        b.call("test-even", (1,), *matrices(k=6))


def test_cost_is_an_expression_or_a_function_of_sizes():
    text = Accelerator("test-cost", **GEMM, cycles="M * tiles(K, 16) + N", area=2.5)
    code = Accelerator("test-cost-2", **GEMM, cycles=lambda s: s["M"] / 2)
    types = [each.type for each in matrices(m=10, k=33, n=4)]
    assert text.cycles_of((), types) == 34
    assert code.cycles_of((), types) == 5
    assert Accelerator("test-cost-3", **GEMM).cycles_of((), types) is None


def test_an_operand_may_be_left_out():
    check_fires(rule_named("flex-linear"), examples=tries(30))
    x, w = matrices()
    bias = b.tensor("b", (3,))
    product = b.compute("dot", b.cart_prod(x, w))
    for term in (product, b.elementwise("add", product, bias), b.elementwise("add", bias, product)):
        program = glenside.optimize(term, "flexasr")
        assert program.report.offloads == {"flexasr": 1}
        assert not any(t.op == "compute" for t in topological_order(program.terms))


@pytest.mark.parametrize(
    ("a", "b_", "batch"), [((5,), (6, 5), 0), ((4, 5), (5,), 0), ((2, 3, 4, 5), (2, 3, 6, 5), 2)]
)
def test_vectors_and_several_batch_axes_are_offloaded(a, b_, batch):
    x, y = (b.access(b.tensor(n, s), len(s) - 1) for n, s in (("x", a), ("y", b_)))
    product = b.compute("dot", b.cart_prod(x, y, batch))
    program = glenside.optimize(product, "vta")
    assert program.report.offloads == {"vta": 1}
    assert not any(t.op == "compute" for t in topological_order(program.terms))


def test_other_ways_to_say_the_term_are_found_too():
    x = "((N) ())"
    unit = Accelerator(
        "test-ratio",
        operands={"x": x, "y": x},
        computes="(compute div (pair ?x ?y))",
        also=["(compute mul (pair ?x (compute recip ?y)))"],
    )
    check_fires(unit.rule(), examples=tries(20))
    with pytest.raises(TargetError, match="has another type than the term"):
        dataclasses.replace(unit, also=["(compute less (pair ?x ?y))"])
    with pytest.raises(TargetError, match="has operands or sizes that the term has not"):
        dataclasses.replace(unit, also=["(compute div (pair ?x ?z))"])


@pytest.mark.parametrize(
    ("term", "other", "said"),
    [
        ("(compute relu ?x)", "(compute abs ?x)", "with N = 2 it gives .*, the term 0"),
        ("(compute relu ?x)", "(compute exp ?x)", "does not compute what the term does"),
        ("(compute sub (pair ?x ?y))", "(compute sub (pair ?y ?x))", "does not compute"),
        ("(compute less (pair ?x ?y))", "(compute less_equal (pair ?x ?y))", "it gives 1, .* 0"),
        ("(compute mul (pair ?x (access 1 (constant 0.5 (N)))))",
         "(compute mul (pair ?x (access 1 (constant 0.501 (N)))))", "does not compute"),
    ],
)  # fmt: skip
def test_another_way_to_say_the_term_that_says_something_else_is_refused(term, other, said):
    operands = {name: "((N) ())" for name in "xy" if f"?{name}" in term}
    Accelerator("test-honest", operands=operands, computes=term)
    with pytest.raises(TargetError, match=said):
        Accelerator("test-other", operands=operands, computes=term, also=[other])


def test_other_ways_may_round_and_may_be_undefined_where_the_term_is_not():
    x = {"x": "((N) ())", "y": "((N) ())"}
    logs = "(compute add (pair (compute log ?x) (compute log ?y)))"
    Accelerator("test-log", operands=x, computes="(compute log (compute mul (pair ?x ?y)))",
                also=[logs])  # fmt: skip
    Accelerator("test-digits", operands={"x": "((N) ())"},
                computes="(compute mul (pair ?x (access 1 (constant 0.7071067811865476 (N)))))",
                also=["(compute mul (pair ?x (access 1 (constant 0.70710678 (N)))))"])  # fmt: skip


# --- what is refused ------------------------------------------------------------------------------

REFUSED = {
    "operand is not in the term": (
        {"operands": {**GEMM["operands"], "b": "((N) ())"}}, "operand b is not in the term"),
    "unknown operand": (
        {"computes": "(compute dot (cart-prod ?x ?v))"}, "v is no operand; the operands are x, w"),
    "operands do not fit": (
        {"operands": {"x": "((M) (K))", "w": "((N) (L))"}}, "ill-shaped, for example with M = "),
    "ill-shaped": (
        {"computes": "(compute dot (cart-prod ?x (transpose (1 0) ?w)))"}, "ill-shaped"),
    "no operator": ({"computes": "(compute dot (product ?x ?w))"}, "'product' is no operator"),
    "no function": ({"computes": "(compute dots (cart-prod ?x ?w))"}, "the functions are"),
    "unreadable": ({"computes": "(compute dot (cart-prod ?x ?w)"}, "the term cannot be read"),
    "too few operands": ({"computes": "(compute dot (cart-prod ?x))"}, "takes 2 operands, got 1"),
    "no type": ({"operands": {"x": "(M K)", "w": "((N) (K))"}}, "is no type of an operand"),
    "no dtype": ({"operands": {"x": "((M) (K)) real", "w": "((N) (K))"}}, "real"),
    "unsatisfiable": (
        {"constraints": ["K % 2 == 0", "N > 0", "K == 3"]},
        "unsatisfiable: no sizes satisfy 'K % 2 == 0' and 'K == 3'"),
    "divided by zero": (
        {"computes": "(compute dot (cart-prod (reshape (M//0) (K) ?x) ?w))"}, "divided by zero"),
    "no constraint": ({"constraints": ["K * 2"]}, "must compare sizes"),
    "no size": ({"constraints": ["L > 2"]}, "L is no size; the sizes are M, K, N"),
    "no arithmetic": ({"constraints": ["len(K) > 2"]}, "is no size"),
    "unknown parameters": ({"parameters": ["s"]}, "the parameters are none"),
    "undetermined": (
        {"operands": {"x": "((M) (2*J))", "w": "((N) (2*J))"}}, "J never stands by itself"),
    "tile of nothing": ({"tile": {"L": 4}}, "L is no size"),
    "empty tile": ({"tile": {"K": 0}}, "positive tile"),
    "name": ({"name": "my unit"}, "is no name"),
    "dtype list": ({"dtypes": ["real"]}, "real"),
    "default": ({"defaults": {"b": 0}}, r"\?b is no operand"),
    "cost": ({"cycles": "M * L"}, "cycles: L is no size"),
    "cost of another kind": ({"cycles": 5}, "cycles must be an expression"),
    "area of another kind": ({"area": "4"}, "area must be a finite number from 0 up; got '4'"),
    "negative area": ({"area": -4}, "area must be a finite number from 0 up"),
    "tile of another kind": ({"tile": {"K": "8"}}, "tile must be a mapping .* whole numbers"),
    "broken tile": ({"tile": {"K": 8.0}}, "tile must be a mapping .* whole numbers"),
    "one text for a list": ({"constraints": "K <= 8"}, "constraints must be a list of texts"),
    "no operands": ({"operands": {}}, "at least one operand"),
    "operands of another kind": ({"operands": ["((M) (K))"]}, "operands must be a mapping"),
    "simulator of another kind": ({"simulate": 3}, "simulate must be a function"),
    "default of another kind": ({"defaults": {"w": "0"}}, "defaults must be a mapping .* numbers"),
    "no dtypes": ({"dtypes": []}, "dtypes must be at least one dtype, or None for all"),
    "loops of another kind": ({"loops": "no"}, "loops must be True or False"),
    "name of another kind": ({"name": 3}, "name must be a text"),
    "target that is joined": ({"target": "one+other"}, "is no name of a target"),
    "target with options of another kind": (
        {"target": "systolic-array:4x4"}, "systolic-array is another target"),
    "target that takes no units": ({"target": "cpu"}, "cpu is another target"),
    "name of another target": ({"name": "cpu"}, "cpu is another target"),
    "name of a unit that is not declared": (
        {"name": "systolic-array", "target": "test-other"}, "has a unit of that name"),
    "name of a unit of another target": (
        {"name": "vta-dense", "target": "test-other"}, "the target vta has a unit of that name"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["tile", "lanes"])
def test_a_unit_of_any_size_is_declared_at_once(kind):
    """What is argued of its term is not tried on operands that would fill the memory."""
    for each in ({"M": 1024, "K": 1024, "N": 1024}, {"K": 10**12}):
        unit = Accelerator("test-large", **GEMM, **{kind: each})
        sizes = unit.tiling.covered({"M": 1, "K": each["K"] + 1, "N": 1})
        assert sizes == {"M": each.get("M", 1), "K": 2 * each["K"], "N": each.get("N", 1)}
    with pytest.raises(TargetError, match=r"K cannot be (cut|padded)"):
        Accelerator("test-large", operands={"x": "((M) (K))"}, computes="(compute mean ?x)",
                    **{kind: {"K": 10**5}})  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_declaration_that_cannot_be_is_refused_with_the_reason(case):
    changes, says = REFUSED[case]
    before = targets()
    with pytest.raises(TargetError, match=says):
        Accelerator(**{"name": "test-refused", **GEMM, **changes})
    with pytest.raises(ShapeError):
        find_unit("test-refused")
    assert targets() == before


def test_a_unit_joins_a_target_that_exists_only_where_it_says_so():
    says = r"there is a target of that name, which has vta-dense, .*target='vta' to add the unit"
    with pytest.raises(TargetError, match=says):
        Accelerator("vta", **GEMM)
    assert "vta" not in find_target("vta").units
    Accelerator("vta", **GEMM, target="vta")
    assert "vta" in find_target("vta").units
    # One's own unit can be declared anew, as cells of a notebook are.
    for _ in range(2):
        Accelerator("test-mine", **GEMM)
    assert find_target("test-mine").units == ("test-mine",)


def test_numerics_alone_make_a_target():
    Accelerator("test-alone", **GEMM, target="test-family:int8")
    assert find_target("test-family:int8").units == ("test-alone",)
    with pytest.raises(TargetError, match="with its numerics: there is test-family:int8"):
        find_target("test-family")


@pytest.mark.parametrize("name", ["vta+", "+vta", "vta++hlscnn"])
def test_a_plus_has_a_target_on_both_sides(name):
    with pytest.raises(TargetError, match=r"lacks a target beside a \+"):
        find_target(name)


def raises(*_):
    raise KeyError("no such row")


@pytest.mark.parametrize(
    ("cycles", "says"),
    [
        ("8 // (M - M)", "ZeroDivisionError"),
        ("0 - M", "a finite number from 0 up, got -5 for M = 5"),
        (raises, "KeyError: 'no such row'"),
        (lambda sizes: "many", "got 'many'"),
        (lambda sizes: float("nan"), "got nan"),
    ],
)
def test_cycles_that_are_no_number_are_one_clear_error(cycles, says):
    Accelerator("test-cycles", **GEMM, cycles=cycles)
    product = b.compute("dot", b.cart_prod(*matrices()))
    for costs in (None, "cycles"):
        with pytest.raises(TargetError, match=says):
            glenside.optimize(product, "test-cycles", cost_model=costs)


@pytest.mark.parametrize("tile", [{}, {"K": 4}, {"N": 2, "K": 4}])
@pytest.mark.parametrize(
    ("simulate", "says"),
    [
        (raises, "the simulator of test-broken fails for M = 5, .*KeyError: 'no such row'"),
        (lambda x, w: x @ w.T, "the simulator of test-broken fails for .*TypeError"),
        (lambda sizes, x, w: w @ x.T, r"gives shape \(\d, 5\) for .*; its term has shape \(5, "),
        (lambda sizes, x, w: (x @ w.T)[:1], r"gives shape \(1, \d\) for"),
        (lambda sizes, x, w: None, r"gives shape \(\) for"),
    ],
)
def test_a_simulator_that_gives_nothing_right_is_one_clear_error(tile, simulate, says):
    Accelerator("test-broken", **GEMM, tile=tile, simulate=simulate)
    call = b.call("test-broken", (), *matrices(5, 7, 3))
    with pytest.raises(TargetError, match=says):
        evaluate([call], integers([call]))


def test_tiles_and_lanes_that_would_change_the_result_are_refused():
    softmax = {"operands": {"x": "((M) (K))"}, "computes": "(compute softmax ?x)"}
    Accelerator("test-softmax", **softmax, tile={"M": 4})
    with pytest.raises(TargetError, match="K cannot be cut into tiles of 4"):
        Accelerator("test-refused", **softmax, tile={"K": 4})
    with pytest.raises(TargetError, match="K cannot be padded to a multiple of 4"):
        Accelerator(
            "test-refused",
            operands={"x": "((M) (K))"},
            computes="(compute mean ?x)",
            lanes={"K": 4},
        )


# --- simulators -----------------------------------------------------------------------------------


def test_a_simulator_sees_its_own_size_only_and_its_faults_are_seen():
    seen = set()

    def simulate(sizes, x, w):
        seen.add((x.shape, w.shape, sizes["K"], sizes["N"]))
        return x @ w.T

    unit = Accelerator("test-tiles", **GEMM, tile={"K": 4, "N": 2}, simulate=simulate)
    for m, k, n in ((5, 7, 3), (1, 4, 2), (6, 1, 1), (2, 9, 8), (3, 0, 2), (0, 5, 2)):
        product = b.compute("dot", b.cart_prod(*matrices(m, k, n)))
        call = b.call("test-tiles", (), *matrices(m, k, n))
        np.testing.assert_array_equal(*evaluate([call, product], integers([product])))
    assert {(x[1], w, k, n) for x, w, k, n in seen} == {(4, (2, 4), 4, 2)}

    passes = []

    def faulty(sizes, x, w):
        passes.append(1)
        return x @ w.T + (len(passes) % 4 == 3)  # One tile of four, every time.

    product = b.compute("dot", b.cart_prod(*matrices()))
    glenside.optimize(product, "test-tiles")
    dataclasses.replace(unit, simulate=faulty)
    with pytest.raises(CheckFailed, match="what computes wrongly is <call test-tiles"):
        glenside.optimize(product, "test-tiles")

    def faulty_once(sizes, x, w):
        passes.append(1)
        return x @ w.T + (len(passes) == 1)

    passes.clear()
    dataclasses.replace(unit, simulate=faulty_once)
    told = "no rewrite is to blame but compiled code or the simulator of unit test-tiles, which"
    with pytest.raises(CheckFailed, match=told):
        glenside.optimize(product, "test-tiles")


def test_a_bias_is_added_in_one_pass_only():
    linear = find_unit("flex-linear")
    assert linear.simulate is None, "without numerics of its own the term is computed"
    Accelerator(
        "test-linear",
        operands={"x": "((M) (K))", "w": "((N) (K))", "b": "((N) ())"},
        computes="(access 2 (compute add (pair (access 0 (compute dot (cart-prod ?x ?w)))"
        " (access 0 (broadcast (M N) (unsqueeze 0 ?b))))))",
        tile={"K": 3, "N": 2, "M": 2},
        simulate=lambda sizes, x, w, bias: x @ w.T + bias,
    )
    x, w = matrices()
    bias = b.tensor("b", (3,))
    layer = b.elementwise("add", b.compute("dot", b.cart_prod(x, w)), bias)
    call = b.call("test-linear", (), x, w, bias)
    np.testing.assert_array_equal(*evaluate([call, layer], integers([layer])))


def test_maxima_are_cut_and_padded_with_the_lowest_value():
    Accelerator(
        "test-max",
        operands={"x": "((M) (K))"},
        computes="(compute max ?x)",
        tile={"K": 4},
        lanes={"M": 8},
        simulate=lambda sizes, x: x.max(axis=1),
    )
    for dtype in ("float32", "int8"):
        x = b.access(b.tensor("x", (3, 9), dtype), 1)
        call, whole = b.call("test-max", (), x), b.compute("max", x)
        env = {"x": -np.arange(1, 28).reshape(3, 9).astype(dtype)}
        np.testing.assert_array_equal(*evaluate([call, whole], env))


def test_a_saved_program_runs_the_simulator(tmp_path):
    product = b.compute("dot", b.cart_prod(*matrices()))
    program = glenside.optimize(product, "vta")
    program.save(tmp_path / "saved")
    loaded = glenside.load(tmp_path / "saved")
    arrays = integers([product])
    np.testing.assert_array_equal(loaded(**arrays), evaluate([product], arrays)[0])
    assert loaded.report == program.report


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("__main__", "test-own, which a script or notebook declared: declare it before loading"),
        ("my_units", r"test-own, which my_units declares: import that .*\(--import my_units\)"),
    ],
)
def test_a_saved_program_says_where_its_unit_was_declared(module, says, tmp_path, monkeypatch):
    def declare():
        exec("Accelerator('test-own', **GEMM)", {**globals(), "__name__": module})

    with REGISTRY.forgetting():
        declare()
        product = b.compute("dot", b.cart_prod(*matrices()))
        glenside.optimize(product, "test-own", check=False).save(tmp_path / "saved")
    # A module that would be found is not imported either.
    (tmp_path / "my_units.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    for trusted in (True, False):
        with pytest.raises(TargetError, match=says):
            glenside.load(tmp_path / "saved", trusted=trusted)
    declare()
    arrays = integers([product])
    (right,) = evaluate([product], arrays)
    for trusted in (True, False):
        loaded = glenside.load(tmp_path / "saved", trusted=trusted)
        np.testing.assert_array_equal(loaded(**arrays), right)
