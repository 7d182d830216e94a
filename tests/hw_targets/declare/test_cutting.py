"""Which terms may be cut and padded along a size: by structure, whatever small arrays say."""

import numpy as np
import pytest

from glenside.errors import TargetError
from glenside.hw_targets import Accelerator
from glenside.hw_targets.declare import cutting
from glenside.hw_targets.declare.template import OperandType, parse
from glenside.language import builders as b
from glenside.language import evaluate

ROWS = {"x": "((M) (K))"}
MATRICES = {"x": "((M) (K))", "w": "((N) (K))"}
LAYER = {**MATRICES, "b": "((N) ())"}
IMAGE = {"x": "((B C H W) ())", "w": "((O C kh kw) ())"}
DOT = "(compute dot (cart-prod ?x ?w))"
BIAS = "(broadcast (M N) (unsqueeze 0 ?b))"
CONV = """(compute dot (cart-prod (access 1 ?w)
    (squeeze 1 (windows (C kh kw) (1 1 1) (access 1 ?x)))))"""


def fold(function, a, b_):
    return f"(access 2 (compute {function} (pair (access 0 {a}) (access 0 {b_}))))"


def number(value):
    return f"(broadcast (M N) (unsqueeze 0 (unsqueeze 0 (constant {value} ()))))"


def declared(operands, computes, **options):
    return Accelerator("test-cut", operands=operands, computes=computes, **options)


TILED = {
    "pointwise": (ROWS, "(compute exp ?x)", "K", "outer"),
    "rows of a softmax": (ROWS, "(compute softmax ?x)", "M", "outer"),
    "depth of a product": (MATRICES, DOT, "K", "sum"),
    "rows of a product": (MATRICES, DOT, "N", "outer"),
    "negated": (MATRICES, f"(compute neg {DOT})", "K", "sum"),
    "bias": (LAYER, fold("add", DOT, BIAS), "K", "sum"),
    "taken from a bias": (LAYER, fold("sub", BIAS, DOT), "K", "sum"),
    "times a number": (MATRICES, fold("mul", DOT, number(3)), "K", "sum"),
    "by a number": (MATRICES, fold("div", DOT, number(4)), "K", "sum"),
    "sum of powers": (ROWS, "(compute sum (compute exp ?x))", "K", "sum"),
    "a maximum": (ROWS, "(compute max ?x)", "K", "max"),
    "relu of a maximum": (ROWS, "(compute relu (compute max ?x))", "K", "max"),
    "least of maxima": (
        {**ROWS, "b": "((M) ())"}, "(compute minimum (pair (compute max ?x) ?b))", "K", "max"),
    "channels of a convolution": (IMAGE, CONV, "C", "sum"),
    "filters of a convolution": (IMAGE, CONV, "O", "outer"),
    "flattened and added up": (
        {"x": "((M) (K L))"}, "(compute sum (flatten ?x))", "K", "sum"),
}  # fmt: skip


@pytest.mark.parametrize("case", TILED)
def test_what_may_be_cut_is_cut_and_gives_the_whole(case):
    operands, computes, name, role = TILED[case]
    unit = declared(
        operands, computes, tile={name: 4}, simulate=lambda sizes, *arrays: _value(unit, arrays)
    )
    assert unit.tiling.roles[name].kind == role
    lengths = {"M": 3, "N": 5, "K": 3, "L": 2, "B": 2, "C": 3, "H": 5, "W": 6, "O": 3}
    for length in (1, 4, 7, 11):  # Less than a tile, one, and several with a rest.
        sizes = {**lengths, "kh": 2, "kw": 3, name: length}
        leaves = _leaves(unit, sizes)
        rng = np.random.default_rng(length)
        arrays = {t["name"]: rng.integers(-4, 5, t.shape).astype("float32") for t in leaves}
        own = [b.access(t, OperandType.parse(operands[t["name"]]).split) for t in leaves]
        whole, in_tiles = unit.term((), own), b.call("test-cut", (), *own)
        expected, got = evaluate([whole, in_tiles], arrays)
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def _leaves(unit, sizes):
    shapes = {n: OperandType.parse(t).of(sizes, "float32").shape for n, t in unit.operands.items()}
    return [b.tensor(name, shape) for name, shape in shapes.items()]


def _value(unit, arrays):
    """The term itself as a simulator, on one tile."""
    types = [OperandType.parse(each) for each in unit.operands.values()]
    names = list(unit.operands)
    leaves = [
        b.access(b.tensor(n, a.shape, a.dtype.name), t.split)
        for n, a, t in zip(names, arrays, types, strict=True)
    ]
    term = unit.term((), leaves)
    return evaluate([term], dict(zip(names, arrays, strict=True)))[0]


NOT_TILED = {
    **{
        f"{f} of a product": (MATRICES, f"(compute {f} {DOT})", f"{f} of a sum along K is not the")
        for f in ("relu", "abs", "sign", "exp", "erf", "tanh", "sigmoid", "sqrt")
    },
    "softmax": (ROWS, "(compute softmax ?x)", "softmax is computed over all of K"),
    "softmax of a product": (MATRICES, f"(compute softmax (access 1 {DOT}))", "softmax of a sum"),
    "bias and gelu": (LAYER, f"(compute erf {fold('add', DOT, BIAS)})", "erf of a sum along K"),
    "max of a product": (MATRICES, f"(compute max (access 1 {DOT}))", "max of a sum along K"),
    "a mean": (ROWS, "(compute mean ?x)", "mean is computed over all of K"),
    "a number added": (MATRICES, fold("add", DOT, number(3)), "would do so in every part"),
    "scaled": (LAYER, fold("mul", DOT, BIAS), "multiplied by an operand without K"),
    "abs of a maximum": (ROWS, "(compute abs (compute max ?x))", "abs of a maximum is not"),
    "squares of sums": (ROWS, "(compute mul (pair (compute sum ?x) (compute sum ?x)))", "mul of a"),
    "windows": (ROWS, "(compute sum (windows (2) (1) ?x))", "windows slide along K"),
}


@pytest.mark.parametrize("case", NOT_TILED)
def test_what_may_not_be_cut_is_refused_with_reason_and_least_sizes(case):
    operands, computes, reason = NOT_TILED[case]
    with pytest.raises(TargetError, match=reason) as refused:
        declared(operands, computes, tile={"K": 4})
    said = str(refused.value)
    assert "K cannot be cut into tiles of 4" in said and "\n" not in said
    assert "the result differs for " in said and "K = 5" in said


PADDED = {
    "depth of a product": (MATRICES, f"(compute relu {DOT})", "K", "zero"),
    "rows of a product": (MATRICES, DOT, "N", "zero"),
    "a softmax": (ROWS, "(compute softmax ?x)", "K", "lowest"),
    "a maximum": (ROWS, "(compute max ?x)", "K", "lowest"),
    "sum of powers": (ROWS, "(compute sum (compute exp ?x))", "K", "lowest"),
    "sum of parts that are not negative": (ROWS, "(compute sum (compute relu ?x))", "K", "zero"),
}


@pytest.mark.parametrize("case", PADDED)
def test_padding_is_that_which_the_term_keeps_apart(case):
    operands, computes, name, fill = PADDED[case]
    unit = declared(operands, computes, lanes={name: 4})
    assert unit.tiling.lowest == ({name} if fill == "lowest" else set())


@pytest.mark.parametrize(
    ("computes", "reason"),
    [
        ("(compute mean ?x)", "mean along K takes padding, 0, for elements"),
        ("(compute prod ?x)", "prod along K takes padding, 0, for elements"),
        ("(compute min ?x)", "min along K takes padding"),
        ("(compute sum (compute cos ?x))", "sum along K takes padding, 1, for elements"),
    ],
)
def test_padding_that_would_count_is_refused(computes, reason):
    with pytest.raises(TargetError, match=reason) as refused:
        declared(ROWS, computes, lanes={"K": 4})
    assert "K cannot be padded to a multiple of 4" in str(refused.value)
    assert "the result differs for K = 1, M = 1" in str(refused.value)


def test_nothing_is_believed_where_a_size_hides_the_difference():
    """With N = 0 every array is empty and with one block nothing is cut."""
    for constraints in ([], ["N >= 0"], ["M <= 1"]):
        with pytest.raises(TargetError, match="relu of a sum"):
            declared(MATRICES, f"(compute relu {DOT})", tile={"K": 4}, constraints=constraints)
    with pytest.raises(TargetError, match="its constraints leave no sizes with K = 8"):
        declared(MATRICES, DOT, tile={"K": 4}, constraints=["K <= 4"])


def test_several_sizes_are_cut_at_once():
    simulate = lambda sizes, x, w, bias: x @ w.T + bias  # noqa: E731
    tile = {"M": 2, "N": 3, "K": 4}
    unit = declared(LAYER, fold("add", DOT, BIAS), tile=tile, simulate=simulate)
    assert {n: r.kind for n, r in unit.tiling.roles.items()} == {
        "M": "outer", "N": "outer", "K": "sum"}  # fmt: skip


def test_an_axis_that_is_merged_in_another_order_is_not_taken_for_the_same():
    x = OperandType.parse("((M) (K L))")
    w = OperandType.parse("((N) (L K))")
    term = parse("(compute dot (cart-prod (flatten ?x) (flatten ?w)))")
    leaves = {
        n: b.leaf(n, each.of({"M": 2, "N": 3, "K": 4, "L": 5}, "float32"))
        for n, each in (("x", x), ("w", w))
    }
    types = cutting.types_of(term, {"M": 2, "N": 3, "K": 4, "L": 5}, leaves)
    with pytest.raises(cutting.NotCuttable, match="runs along two axes"):
        cutting.cut(term, {"x": x, "w": w}, "K", "sum", types)
