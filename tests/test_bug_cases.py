"""Reported bugs of other tools that are about more than importing a model.

Tests are named after their cases; ``tests/frontends/onnx/test_bug_cases.py`` has the importers'.
"""

import ast
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from egglog import RewriteOrRule, String, Vec, eq, i64, rewrite, rule, ruleset, union, var, vars_

import glenside
from glenside.errors import GlensideError, NotOptimised, UnsoundRewrite
from glenside.extraction import MaximiseOffload, dag_cost, extract
from glenside.frontends.lowering.convolution import correlate
from glenside.frontends.lowering.window import window
from glenside.frontends.onnx import import_model
from glenside.hw_targets import find_target
from glenside.language import Model, Term, builders, evaluate, topological_order
from glenside.report import count_offloads
from glenside.rewrites import (
    EGraph,
    Rule,
    RuleSet,
    StopReason,
    contains,
    rewrite_rule,
    rule_named,
    saturate,
)
from glenside.rewrites.rules.blocking import BLOCKING, split_into
from glenside.rewrites.rules.im2col import IM2COL
from glenside.rewrites.rules.layout import LAYOUT
from glenside.rewrites.rules.padding import PADDING, pad_then_slice
from glenside.rewrites.rules.tensorize import systolic
from glenside.rewrites.ruleset import as_ruleset
from glenside.rewrites.soundness import check_program
from glenside.rewrites.vocabulary import Access
from tests.bug_cases import (
    ANSWERED,
    FOLDER,
    OWN,
    answers,
    assert_right,
    load,
    named,
    present,
    shapes_of,
)
from tests.exporters.running import checked, run

SMALL = [name for name in ANSWERED if name != "deep_chain_3000.onnx"]
"""To compile the chain takes as long as all others; ``test_egg_deep_term`` has it."""


def test_every_case_has_a_test():
    cases = json.loads((OWN / "cases.json").read_text())["cases"]
    tests = {
        node.name
        for file in Path(__file__).parent.rglob("test_*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    for case in cases:
        # What an importer has to get right is compared for all models of the case.
        compared = case["kind"].startswith("import") and bool(case["models"])
        own = f"test_{case['id'].replace('-', '_')}" in tests
        assert own or compared, case["id"]


@functools.cache
def optimised(name: str, target: str = "cpu", **options: object) -> glenside.Program:
    return glenside.optimize(FOLDER / name, target, shapes=shapes_of(name), check=False, **options)


def assert_computes(program: glenside.Program, name: str) -> None:
    inputs, wanted = answers(name)
    assert_right(program.run({key: inputs[key] for key in program.inputs}), wanted)


# --- all models ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", named(SMALL))
def test_cpu_gpu_differ(name):
    """Each backend is held against what is right, not against another."""
    assert_computes(optimised(name), name)
    model, *_ = load(name)
    if all(term.dtype != "float16" for term in model.terms()):  # PoCL has none.
        assert_computes(optimised(name, "opencl"), name)


@pytest.mark.parametrize("name", named(SMALL))
def test_opt_level_changes_result(name):
    """Rules or none, calls or none: the numbers are the same.

    What happens where optimisation crashes is in ``tests/test_fallback.py``.
    """
    without = glenside.optimize(FOLDER / name, shapes=shapes_of(name), rules=[], check=False)
    assert sum(use.matches for use in without.report.rules) == 0
    assert_computes(without, name)
    assert_computes(optimised(name, "systolic-array:4x4"), name)


@present("conv_bn_relu.onnx")
@pytest.mark.parametrize(
    "options",
    [{"iter_limit": 1}, {"node_limit": 30}, {"time_limit": 0}, {"cost_model": "roofline"},
     {"extractor": "bottom-up"}, {"extractor": "greedy-dag"}],
    ids=str,
)  # fmt: skip
def test_opt_level_changes_result_with_no_option(options):
    assert_computes(optimised("conv_bn_relu.onnx", "systolic-array:4x4", **options),
                    "conv_bn_relu.onnx")  # fmt: skip


@pytest.mark.parametrize("name", named(SMALL))
def test_export_valid(name):
    inputs, wanted = answers(name)
    for target in ("cpu", "systolic-array:4x4"):
        model = checked(optimised(name, target).to_onnx())
        assert_right(run(model, inputs), wanted)


# --- rewrites that have to carry their conditions -----------------------------------------------


@present("bias_softmax_axis.onnx")
@pytest.mark.parametrize("target", ["cpu", "systolic-array:4x4", "flexasr"])
def test_fused_softmax_axis(target):
    """The axis is a condition of whatever takes a softmax."""
    program = optimised("bias_softmax_axis.onnx", target)
    assert_computes(program, "bias_softmax_axis.onnx")
    inputs, _ = answers("bias_softmax_axis.onnx")
    (got,) = program.run(inputs)
    np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-5)
    assert not np.allclose(got.sum(axis=2), 1)


@present("bn_eps.onnx", "conv_bn_relu.onnx")
@pytest.mark.parametrize("name", ["bn_eps.onnx", "conv_bn_relu.onnx"])
@pytest.mark.parametrize("target", ["cpu", "systolic-array:4x4"])
def test_bn_epsilon(name, target):
    """Folded into constants, and with every parameter an input, so that nothing can be folded."""
    inputs, (wanted,) = answers(name)
    proto = onnx.load(FOLDER / name)
    held = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    inside = {each.name for each in proto.graph.input}
    for each in proto.graph.initializer:
        if each.name not in inside:
            kind = each.data_type
            info = onnx.helper.make_tensor_value_info(each.name, kind, each.dims)
            proto.graph.input.append(info)
    del proto.graph.initializer[:]
    unfolded = glenside.optimize(proto, target)
    assert unfolded.inputs.keys() == inputs.keys() | held.keys()
    for program in (optimised(name, target), unfolded):
        (got,) = program.run({key: {**held, **inputs}[key] for key in program.inputs})
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


# --- accelerators -------------------------------------------------------------------------------


@present("dense_reshape_add.onnx")
def test_match_reshaped_bias():
    program = optimised("dense_reshape_add.onnx", "flexasr")
    assert [(use.unit, use.calls) for use in program.report.units] == [("flex-linear", 1)]
    assert not any(t.op == "compute" for t in topological_order(program.terms))
    assert_computes(program, "dense_reshape_add.onnx")


@present("conv1d_dil.onnx", "conv1d_nodil.onnx")
@pytest.mark.parametrize("name", ["conv1d_dil.onnx", "conv1d_nodil.onnx"])
def test_conv_1d(name):
    """A matrix unit finds it by im2col."""
    program = optimised(name, "systolic-array:4x4")
    assert program.report.offloads == {"systolic-array": 1}


@present("conv_depthwise_x8.onnx")
@pytest.mark.parametrize("target", ["vta", "flexasr", "hlscnn"])
def test_conv_depthwise_multiplier(target):
    """Given to a unit or left alone, but never as if it had one group."""
    assert_computes(optimised("conv_depthwise_x8.onnx", target), "conv_depthwise_x8.onnx")


@rewrite_rule("cases-untranspose", exact=True)
def untranspose() -> Iterator[RewriteOrRule]:
    """``transpose(transpose(X, (1, 0)), (1, 0)) -> X``"""
    x = var("x", Access)
    flip = Vec(i64(1), i64(0))
    yield rewrite(x.transpose(flip).transpose(flip)).to(x)


def test_match_differs_by_pass():
    """The decorator, the name and egglog's own rules, in both of its forms, match the same."""
    x, whole = vars_("x whole", Access)
    flip = Vec(i64(1), i64(0))
    twice = x.transpose(flip).transpose(flip)
    given = [
        untranspose(),
        rule_named("cases-untranspose"),
        ruleset(rewrite(twice).to(x), name="short"),
        ruleset(rule(eq(whole).to(twice)).then(union(whole).with_(x)), name="long"),
        [untranspose()],
    ]
    t = builders.tensor("t", (2, 3))
    flipped = builders.transpose(builders.transpose(t, (1, 0)), (1, 0))
    roots = [flipped, builders.elementwise("neg", builders.transpose(flipped, (1, 0)))]
    found = [saturate(roots, [as_ruleset(each)]) for each in given]
    for each in found:
        assert [*each.rules.values()] == [*found[0].rules.values()] and each.rules
        assert sum(each.rules.values()) > 0
        assert each.egraph == found[0].egraph
        assert contains(each.egraph, t) == contains(each.egraph, flipped)


# --- the e-graph --------------------------------------------------------------------------------


def test_egg_bare_variable():
    """What egglog cannot match is refused, and the way out that the message tells works."""
    x = var("x", Access)
    program = builders.access(builders.tensor("t", (2, 3, 4)), 1)

    @rewrite_rule("cases-bare", exact=True)
    def bare() -> Iterator[RewriteOrRule]:
        yield rewrite(x).to(x.flatten().reshape(x.outer, x.item))

    said = r"cases-bare .*such as eq\(s\)\.to\(x\.outer\); a bare variable binds nothing"
    with pytest.raises(GlensideError, match=said):
        saturate([program], [RuleSet("mine", (bare(),))])

    @rewrite_rule("cases-grounded", exact=True)
    def grounded() -> Iterator[RewriteOrRule]:
        s, t = vars_("s t", Vec[i64])
        yield rule(eq(s).to(x.outer), eq(t).to(x.item)).then(
            union(x).with_(x.flatten().reshape(s, t))
        )

    # What it makes can be matched again without end: a limit has to stop it.
    result = check_program(
        [program],
        [RuleSet("mine", (grounded(),))],
        {"t": np.ones((2, 3, 4), "float32")},
        iter_limit=3,
    )
    assert result.rules["cases-grounded"] > 0
    again = builders.reshape(builders.flatten(program), (2,), (3, 4))
    assert contains(result.egraph, again) == result.egraph.roots[0]


def test_egg_error_text():
    x, y, whole = vars_("x y whole", Access)

    @rewrite_rule("cases-unbound", exact=True)
    def unbound() -> Iterator[RewriteOrRule]:
        yield rule(eq(whole).to(x.flatten())).then(union(whole).with_(y))

    line = unbound().where.rpartition(":")[2]
    said = rf"^rule cases-unbound \(.*test_bug_cases\.py:{line}\) is not accepted .*y"
    with pytest.raises(GlensideError, match=said) as caught:
        saturate([builders.tensor("t", (2,))], [LAYOUT, RuleSet("mine", (unbound(),))])
    assert int(line) > 0 and "\n" not in str(caught.value)


def chain(length: int) -> Term:
    term = builders.tensor("x", (4,))
    for position in range(length):
        function = ("neg", "abs", "tanh")[position % 3]
        term = builders.elementwise(function, term)
    return term


@present("deep_chain_3000.onnx")
@pytest.mark.parametrize("length", [400, 3000])
def test_egg_deep_term(length):
    model, x, right = None, np.array([0.5, -1, 2, -3], "float32"), None
    if length == 3000:
        model, inputs, (right,) = load("deep_chain_3000.onnx")
        (x,) = inputs.values()
    (root,) = [chain(length)] if model is None else model.roots
    target = find_target("systolic-array:16x16")
    explored = saturate([root], target.rules())
    assert explored.stop_reason is StopReason.SATURATED
    found = extract(explored.egraph, target.cost_model(), original=[root])
    env = {leaf["name"]: x for leaf in topological_order([root]) if leaf.op == "tensor"}
    (got,) = evaluate(found.terms, env)
    np.testing.assert_allclose(got, evaluate([root], env)[0] if right is None else right, rtol=1e-5)


@rewrite_rule("cases-commute", exact=False)
def commute() -> Iterator[RewriteOrRule]:
    """``X + Y -> Y + X``"""
    x, y, whole = vars_("x y whole", Access)
    d = var("d", String)
    yield rule(eq(whole).to(x.pair(y).compute("add", d))).then(
        union(whole).with_(y.pair(x).compute("add", d))
    )


@rewrite_rule("cases-associate", exact=False)
def associate() -> Iterator[RewriteOrRule]:
    """``X + (Y + Z) -> (X + Y) + Z``"""
    x, y, z, whole = vars_("x y z whole", Access)
    d = var("d", String)
    yield rule(eq(whole).to(x.pair(y.pair(z).compute("add", d)).compute("add", d))).then(
        union(whole).with_(x.pair(y).compute("add", d).pair(z).compute("add", d))
    )


SUMS = RuleSet("sums", (commute(), associate()))


def sum_of(terms: int) -> Term:
    leaves = [builders.access(builders.tensor(f"x{i}", (3,)), 0) for i in range(terms)]
    total = leaves.pop()
    while leaves:
        total = builders.compute("add", builders.pair(leaves.pop(), total))
    return total


@pytest.mark.parametrize(
    ("limit", "reason"),
    [({"node_limit": 2_000}, "node_limit"), ({"time_limit": 0.0}, "time_limit"),
     ({"iter_limit": 3}, "iter_limit")],
)  # fmt: skip
def test_egg_blowup(limit, reason):
    """A sum of ten has millions of forms: a limit stops it, is named, and nothing is lost."""
    total = sum_of(10)
    program = glenside.optimize(total, rules=[SUMS], **limit)
    report = program.report
    assert report.stop_reason == reason and report.cost_after <= report.cost_before
    if "node_limit" in limit:
        assert 100 < report.nodes <= 2_000
    arrays = {f"x{i}": np.full(3, 2.0**i, "float32") for i in range(10)}
    np.testing.assert_array_equal(program(arrays), np.full(3, 1023, "float32"))


@rewrite_rule("cases-grow", exact=True)
def grow() -> Iterator[RewriteOrRule]:
    """Pads ever more and slices it off again: explodes."""
    x = var("x", Access)
    s = var("s", Vec[i64])
    n = var("n", i64)
    for count in range(1, 5):
        padded = x.pad("zero", 0, 0, count, 0)
        yield rule(eq(s).to(x.outer), eq(n).to(s[0])).then(union(x).with_(padded.slice(0, 0, n, 1)))


def flips(count: int) -> Term:
    term = builders.tensor("t", (2, 3))
    for _ in range(count):
        term = builders.transpose(term, (1, 0))
    return term


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_egg_backoff_bans_all(order):
    """No rule is ever banned: every pass gives each of them its turn, however often one matches."""
    rules = [(grow(), untranspose())[at] for at in order]
    result = saturate([flips(4)], [RuleSet("mine", tuple(rules))], node_limit=3_000)
    assert result.stop_reason is StopReason.NODE_LIMIT and result.untried == ()
    for iteration in result.iterations[:-1]:
        assert iteration.matches["cases-grow"] > 0
    assert result.rules["cases-untranspose"] > 0
    assert contains(result.egraph, flips(0)) == result.egraph.roots[0]


def test_rules_that_a_limit_kept_from_a_turn_are_told():
    rules = [RuleSet("mine", (grow(), untranspose()))]
    report = glenside.optimize(flips(4), rules=rules, node_limit=5).report
    assert (report.stop_reason, report.untried) == ("node_limit", ("cases-untranspose",))
    assert "cases-untranspose" in str(report)
    assert glenside.optimize(flips(4), rules=rules, node_limit=300).report.untried == ()


@pytest.mark.parametrize("target", ["systolic-array:4x4", "flexasr", "hlscnn"])
def test_saturated_is_said_after_a_pass_that_changed_nothing(target):
    rules = find_target(target).rules()
    x, w = builders.tensor("x", (1, 2, 5, 5)), builders.tensor("w", (3, 2, 3, 3))
    looks = window((5, 5), (3, 3), (1,), (1,), (1,), False)
    roots = [builders.elementwise("relu", correlate(x, w, looks)), flips(3)]
    result = saturate(roots, rules)
    assert result.stop_reason is StopReason.SATURATED and sum(result.rules.values())
    last = {each.stage: each.changed for each in result.iterations}
    assert not any(last.values())
    # The same steps once more, and then every rule of every stage: no limit, no order of ours.
    every = [each for one in sorted(rules, key=lambda one: one.stage) for each in one]
    egraph = EGraph(tuple(dict.fromkeys(every)))
    egraph.load(roots)
    for _ in result.iterations:
        for each in every:
            egraph.apply(each)
    assert egraph.size() == (result.nodes, result.classes)
    assert not any(egraph.apply(each).changed for each in every)


@rewrite_rule("cases-drop-transpose", exact=True)
def drop_transpose() -> Iterator[RewriteOrRule]:
    """Unsound."""
    x, whole = vars_("x whole", Access)
    p = var("p", Vec[i64])
    yield rule(eq(whole).to(x.transpose(p))).then(union(whole).with_(x))


@rewrite_rule("cases-one-is-two", exact=True)
def one_is_two() -> Iterator[RewriteOrRule]:
    """Unsound."""
    s, d = var("s", Vec[i64]), var("d", String)
    yield rewrite(Access.constant("1.0", s, d)).to(Access.constant("2.0", s, d))


@pytest.mark.parametrize(
    ("unsound", "said"),
    [
        (drop_transpose(), r"\(transpose .* type \(\(3 2\) .* with \(tensor .* type \(\(2 3\) "),
        (one_is_two(), r"\(constant 1\.0 \(3 2\)\) of type .* with \(constant 2\.0 \(3 2\)\) of "),
    ],
    ids=["shape", "constant"],
)
def test_egg_unsound_union(unsound: Rule, said: str):
    """Both values are named, with their types, beside the rule and where it stands."""
    term = builders.elementwise("add", flips(1), builders.constant(1.0, (3, 2)))
    rules = [LAYOUT, RuleSet("mine", (unsound,))]
    named = rf"rule {unsound.name} \(.*:\d+\) .*equates {said}"
    with pytest.raises(UnsoundRewrite, match=named):
        saturate([term], rules)
    with pytest.warns(NotOptimised, match=named):
        program = glenside.optimize(term, rules=rules)
    assert list(program.terms) == [term] and re.search(named, program.report.failure)


# --- as in Glenside's own tests -----------------------------------------------------------------


def mobilenet_v1() -> Model:
    """MobileNet v1 of 224 by 224 pixels, its batch norms folded into the convolutions."""
    nodes, inputs = [], [("image", (1, 3, 224, 224))]

    def layer(channels: int, wide: int, kernel: int, stride: int, group: int) -> None:
        at = len(inputs)
        above = nodes[-1].output[0] if nodes else "image"
        inputs.append((f"w{at}", (wide, channels // group, kernel, kernel)))
        inputs.append((f"b{at}", (wide,)))
        pads = [kernel // 2] * 4
        nodes.append(onnx.helper.make_node(
            "Conv", [above, f"w{at}", f"b{at}"], [f"c{at}"], group=group, pads=pads,
            strides=[stride, stride]))  # fmt: skip
        nodes.append(onnx.helper.make_node("Relu", [f"c{at}"], [f"r{at}"]))

    layer(3, 32, 3, 2, 1)
    channels = 32
    for wide, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
                         *[(512, 1)] * 5, (1024, 2), (1024, 1)]:  # fmt: skip
        layer(channels, channels, 3, stride, channels)
        layer(channels, wide, 1, 1, 1)
        channels = wide
    nodes.append(onnx.helper.make_node("GlobalAveragePool", [nodes[-1].output[0]], ["pooled"]))
    nodes.append(onnx.helper.make_node("Flatten", ["pooled"], ["flat"]))
    nodes.append(onnx.helper.make_node("Gemm", ["flat", "v", "u"], ["y"], transB=1))
    inputs += [("v", (1000, 1024)), ("u", (1000,))]
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes, "mobilenet_v1",
        [onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs],
        [onnx.helper.make_tensor_value_info("y", kind, (1, 1000))],
    )  # fmt: skip
    opsets = [onnx.helper.make_opsetid("", 17)]
    return import_model(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9))


def test_glenside_mobilenet():
    """All 13 pointwise layers, the first convolution and the classifier, and the 13 depthwise ones
    as batches of products, are tiled onto the array; the report counts them."""
    model, target = mobilenet_v1(), find_target("systolic-array:64x64")
    explored = saturate(model.roots, target.rules())
    assert explored.stop_reason is StopReason.SATURATED
    found = extract(explored.egraph, target.cost_model(), original=model.roots)
    assert count_offloads(topological_order(found.terms)) == {"systolic-array": 28}


def test_glenside_conv_slice_extract():
    """Padded to the array's size, cut into its tiles, and a program of single tiles extracted."""
    x, w = builders.tensor("x", (1, 3, 32, 32)), builders.tensor("w", (128, 3, 3, 3))
    term = correlate(x, w, window((32, 32), (3, 3), (1,), (1,), (1,), False))
    unit = RuleSet("unit", (systolic(64, 64),))
    cuts = RuleSet("cuts", (pad_then_slice(1, 64), split_into(0, 64)))
    explored = saturate([term], [IM2COL, LAYOUT, PADDING, BLOCKING, cuts, unit])
    assert explored.stop_reason is StopReason.SATURATED
    costs = MaximiseOffload()
    found = extract(explored.egraph, costs, original=[term])
    assert found.cost < dag_cost([term], costs)
    order = topological_order(found.terms)
    calls = [each for each in order if each.op == "call"]
    assert len(calls) >= 2 and {each["parameters"] for each in calls} == {(64, 64)}
    assert not any(each.op == "compute" for each in order)
    rng = np.random.default_rng(0)
    env = {"x": rng.integers(-4, 5, x.shape), "w": rng.integers(-4, 5, w.shape)}
    arrays = {name: array.astype("float32") for name, array in env.items()}
    (mine,), (right,) = evaluate(found.terms, arrays), evaluate([term], arrays)
    np.testing.assert_array_equal(mine, right)
