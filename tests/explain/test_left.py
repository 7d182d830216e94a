"""Why layers stayed on the host: the reason is the one that the program was made to have."""

import pytest

import glenside
from glenside.language import builders as b
from glenside.language import topological_order
from glenside.language.model import Model
from tests.explain.helpers import optimised
from tests.models import small_network


def gemm(**others):
    """A unit for products of matrices."""
    return glenside.Accelerator(
        "my-gemm",
        operands={"x": "((M) (K))", "w": "((N) (K))"},
        computes="(compute dot (cart-prod ?x ?w))",
        **others,
    )


def dense(m, k, n, dtype="float32", name="fc"):
    """``x wᵀ`` as a model with one layer of that name."""
    x = b.access(b.tensor("x", (m, k), dtype), 1)
    w = b.access(b.tensor("w", (n, k), dtype), 1)
    return model(**{name: b.compute("dot", b.cart_prod(x, w))})


def model(**outputs):
    """A model whose layers are its outputs."""
    leaves = {t["name"]: t.type for term in outputs.values() for t in _leaves(term)}
    names = {term: name for name, term in outputs.items()}
    return Model("net", leaves, {}, outputs, names)


def _leaves(term):
    return Model("", {}, {}, {"": term}).leaves()


def test_a_dtype_that_the_unit_does_not_take() -> None:
    gemm(dtypes=["int8"])
    assert optimised(dense(2, 3, 4, "float64"), "my-gemm").left == {
        "fc": "my-gemm: dtype float64 is not among int8"
    }
    assert optimised(dense(2, 3, 4, "int8"), "my-gemm").left == {}


def test_an_operand_with_a_dtype_of_its_own() -> None:
    assert optimised(dense(2, 3, 4), "vta:int8").left == {
        "fc": "vta-dense-int8: dtype float32 of x, w is not int8"
    }


@pytest.mark.parametrize(
    ("constraint", "said"),
    [
        ("K <= 2", "K <= 2 fails for K = 3"),
        ("M % 4 == 0", "M % 4 == 0 fails for M = 2"),
        ("M * N < K", "M * N < K fails for M = 2, N = 4, K = 3"),
    ],
)
def test_a_constraint_that_does_not_hold(constraint: str, said: str) -> None:
    gemm(constraints=[constraint])
    assert optimised(dense(2, 3, 4), "my-gemm").left == {"fc": f"my-gemm: {said}"}


def test_of_several_constraints_only_those_that_fail() -> None:
    gemm(constraints=["K >= 1", "N <= 3", "M >= 2"])
    assert optimised(dense(2, 3, 4), "my-gemm").left == {"fc": "my-gemm: N <= 3 fails for N = 4"}


def test_a_convolution_is_seen_as_the_matrices_that_it_is() -> None:
    gemm(constraints=["K <= 16"])
    x = b.pad(b.tensor("x", (1, 3, 8, 8)), 2, 1, 1)
    looks = b.squeeze(b.windows(b.access(x, 1), (3, 3, 3), (1, 1, 1)), 1)
    product = b.cart_prod(b.access(b.tensor("w", (4, 3, 3, 3)), 1), looks)
    conv = model(conv=b.transpose(b.compute("dot", product), (1, 0, 2, 3)))
    assert optimised(conv, "my-gemm").left == {"conv": "my-gemm: K <= 16 fails for K = 27"}


def pool(length, window, function):
    """A pool over windows side by side of three rows."""
    rows = b.transpose(b.access(b.tensor("x", (length, 3)), 1), (1, 0))
    return model(pool=b.compute(function, b.windows(rows, (window,), (window,))))


def test_the_length_of_a_pool() -> None:
    glenside.Accelerator(
        "my-pairs",
        operands={"x": "((H) (T))"},
        computes="(compute sum (windows (2) (2) ?x))",
        constraints=["T % 2 == 0"],
    )
    assert optimised(pool(8, 2, "sum"), "my-pairs").left == {}
    assert optimised(pool(7, 2, "sum"), "my-pairs").left == {
        "pool": "my-pairs: T % 2 == 0 fails for T = 7"
    }


def test_windows_of_another_size() -> None:
    for size in (3, 9):
        assert optimised(pool(9, size, "mean"), "flexasr").left == {
            "pool": f"flex-meanpool: windows: shape must be 2, is {size}; "
            f"windows: stride must be 2, is {size}"
        }
    row = b.access(b.tensor("x", (3, 9)), 1)
    assert optimised(model(most=b.compute("max", row)), "flexasr").left == {
        "most": "flex-maxpool: windows of 2 do not cover an item of 9 elements"
    }


def test_the_layers_of_a_network_by_name() -> None:
    left = optimised(small_network(), "flexasr").left
    assert list(left) == ["pooled"]  # Grouped convolutions are products of a batch.
    assert left["pooled"].startswith("flex-meanpool: it takes windows where the layer has access")


LINEAR = """(access 2 (compute add (pair (access 0 (compute dot (cart-prod ?x ?w)))
    (access 0 (broadcast (M N) (unsqueeze 0 ?b))))))"""
BIASED = {"x": "((M) (K))", "w": "((N) (K))", "b": "((N) ())"}


def biased(*leading, function=None):
    """A linear layer over these leading axes, a function of its elements behind."""
    x = b.reshape(b.access(b.tensor("x", (*leading, 4)), len(leading)), leading, (4,))
    w = b.access(b.tensor("w", (3, 4)), 1)
    result = b.elementwise("add", b.compute("dot", b.cart_prod(x, w)), b.tensor("b", (3,)))
    return model(fc=result if function is None else b.elementwise(function, result))


def batch(g, m, k, n):
    x, w = (b.access(b.tensor(name, (g, r, k)), 2) for name, r in (("x", m), ("w", n)))
    return model(fc=b.compute("dot", b.cart_prod(x, w, 1)))


GEMM = {
    "operands": {"x": "((M) (K))", "w": "((N) (K))"},
    "computes": "(compute dot (cart-prod ?x ?w))",
}
BEHIND = {"operands": BIASED, "computes": f"(compute relu {LINEAR})"}

# Of each kind of reason: a declaration and a layer that is left, what is said, and the same with
# what is said no longer so, by another declaration or another layer.
REASONS = {
    "dtype": ({**GEMM, "dtypes": ["int8"]}, dense(2, 3, 4), "dtype float32 is not among int8",
              {**GEMM, "dtypes": ["int8", "float32"]}, None),
    "dtype of an operand": (
        {**GEMM, "operands": {"x": "((M) (K)) int8", "w": "((N) (K)) int8"}}, dense(2, 3, 4),
        "dtype float32 of x, w is not int8", None, dense(2, 3, 4, "int8")),
    "constraint": ({**GEMM, "constraints": ["K <= 2"]}, dense(2, 3, 4), "K <= 2 fails for K = 3",
                   None, dense(2, 2, 4)),
    "batch": ({**GEMM, "loops": False}, batch(2, 3, 4, 5), "products with 0 batch axes",
              GEMM, None),
    "nothing behind": (BEHIND, biased(2), "no relu follows the add", None,
                       biased(2, function="relu")),
    "nothing behind, more axes": (BEHIND, biased(2, 3), "no relu follows the add", None,
                                  biased(2, 3, function="relu")),
    "something else behind": (BEHIND, biased(2, function="abs"), "no relu follows the add",
                              {**BEHIND, "computes": f"(compute abs {LINEAR})"}, None),
}  # fmt: skip


@pytest.mark.parametrize("kind", REASONS)
def test_a_layer_is_offloaded_once_the_reason_is_gone(kind: str) -> None:
    declared, layer, reason, other, cured = REASONS[kind]
    unit = glenside.Accelerator("my-unit", **declared)
    left = optimised(layer, "my-unit").left
    assert left["fc"].startswith(f"my-unit: {reason}") or reason in left["fc"]
    if other is not None:
        unit = glenside.Accelerator("my-unit", **other)
    run = optimised(layer if cured is None else cured, "my-unit")
    assert run.left == {}, unit
    assert any(t.op == "call" for t in topological_order(run.extracted.terms))


def test_of_several_units_the_nearest() -> None:
    gemm(constraints=["K <= 2"])
    left = optimised(dense(2, 3, 4), "hlscnn+my-gemm").left
    assert left == {"fc": "my-gemm: K <= 2 fails for K = 3"}
    assert optimised(dense(2, 3, 4), "hlscnn").left["fc"].startswith("hlscnn-conv2d: it takes ")


def test_what_stands_around_the_work_is_missed() -> None:
    glenside.Accelerator(
        "my-relu-gemm",
        operands={"x": "((M) (K))", "w": "((N) (K))"},
        computes="(compute relu (compute dot (cart-prod ?x ?w)))",
    )
    assert optimised(dense(2, 3, 4), "my-relu-gemm").left == {
        "fc": "my-relu-gemm: no relu follows the dot"
    }


def test_a_cost_model_that_wants_no_calls() -> None:
    gemm()
    left = optimised(dense(2, 3, 4), "my-gemm", cost_model="roofline").left
    assert left == {"fc": "my-gemm: it fits, but roofline finds another program cheaper"}


def test_exploration_that_was_stopped() -> None:
    gemm()
    left = optimised(dense(2, 3, 4), "my-gemm", iter_limit=0).left
    assert left == {"fc": "my-gemm: exploration stopped before its end (iter_limit)"}
    left = optimised(small_network(), "vta", iter_limit=0).left
    assert left["conv"].endswith("; exploration stopped before its end (iter_limit)")


def test_a_unit_without_a_declaration() -> None:
    x, w = b.tensor("x", (2, 3)), b.tensor("w", (2, 3))
    inner = model(inner=b.compute("dot", b.access(b.pair(b.access(x, 1), b.access(w, 1)), 1)))
    left = optimised(inner, "systolic-array:4x4").left
    assert list(left) == ["inner"]
    assert left["inner"].startswith("systolic-array: it takes cart-prod where the layer has pair")


def test_what_no_unit_computes_the_like_of_is_no_candidate() -> None:
    x = b.tensor("x", (2, 3))
    assert optimised(model(y=b.compute("sqrt", b.access(x, 0))), "vta").left == {}
    assert optimised(dense(2, 3, 4), "cpu").account.left == ()
    assert optimised(dense(2, 3, 4), "cpu").account.exact is None


def test_a_shared_layer_is_told_once() -> None:
    gemm(constraints=["K <= 2"])
    one = dense(2, 3, 4).outputs["fc"]
    both = model(fc=one, more=b.compute("sqrt", one))
    assert list(optimised(both, "my-gemm").left) == ["fc"]


def lstm_step(*, peephole=False, hidden=True, joined=True, accumulate=None):
    """A step of an LSTM, written out; a peephole lets the forget gate see the cell state."""
    x, h, c = b.tensor("x", (2, 3)), b.tensor("h", (2, 4)), b.tensor("c", (2, 4))
    inputs = b.concat(1, x, h) if joined else x
    depth = inputs.shape[1]

    def gate(name):
        w = b.access(b.tensor(f"w_{name}", (4, depth)), 1)
        bias = b.tensor(f"b_{name}", (4,))
        product = b.compute("dot", b.cart_prod(b.access(inputs, 1), w), accumulate)
        return b.elementwise("add", b.cast(product, "float32"), bias)

    i, f, g, o = map(gate, "ifgo")
    if peephole:
        f = b.elementwise("add", f, b.elementwise("mul", c, b.tensor("p", (2, 4))))
    kept = b.elementwise("mul", b.elementwise("sigmoid", f), c)
    fresh = b.elementwise("mul", b.elementwise("sigmoid", i), b.elementwise("tanh", g))
    cell = b.elementwise("add", kept, fresh)
    if not hidden:
        return model(cell=cell)
    return model(
        step=b.elementwise("mul", b.elementwise("sigmoid", o), b.elementwise("tanh", cell))
    )


@pytest.mark.parametrize(
    ("options", "layer", "says"),
    [
        ({"peephole": True}, "step", "gate f: each must be a linear layer [x h] Wᵀ + b"),
        ({"joined": False}, "step", "gates i, f, g, o: each must be a linear layer [x h]"),
        ({"accumulate": "float64"}, "step", "sums are formed in float32, not in float64"),
        ({"hidden": False}, "cell", "no hidden state sigmoid(o) tanh(c') follows"),
    ],
)
def test_steps_that_are_no_lstm(options, layer, says) -> None:
    left = optimised(lstm_step(**options), "flexasr").left
    assert left[layer].startswith(f"flex-lstm: {says}")


def attention(*, masked, single=False):
    """Of two heads, or of a single matrix, its scores masked or not."""
    batch = () if single else (1, 2)
    last = len(batch) + 1
    q, k = (b.access(b.tensor(name, (*batch, 4, 8)), last) for name in "qk")
    v = b.access(b.tensor("v", (*batch, 8, 4)), last)
    scores = b.compute("dot", b.cart_prod(q, k, batch=len(batch)))
    if masked:
        scores = b.elementwise("add", scores, b.tensor("mask", (4, 4)))
    shares = b.compute("softmax", b.access(scores, last))
    product = b.compute("dot", b.cart_prod(shares, v, batch=len(batch)))
    return model(shares=shares, product=product)


@pytest.mark.parametrize("single", [False, True])
def test_attention_with_a_mask_is_left_for_the_mask(single) -> None:
    left = optimised(attention(masked=True, single=single), "flexasr").left
    assert list(left) == ["shares"]
    assert left["shares"].startswith("flex-attention: it takes dot where the layer has add")
    assert ";" not in left["shares"]


def test_a_softmax_apart_from_attention_is_no_layer_of_a_unit() -> None:
    last = model(shares=b.compute("softmax", b.access(b.tensor("x", (4, 8)), 1)))
    assert optimised(last, "flexasr").left == {}


def test_a_step_that_is_one_is_not_left() -> None:
    run = optimised(lstm_step(), "flexasr")
    assert run.left == {}
    assert "flex-lstm" in str(run.extracted.terms[0])
