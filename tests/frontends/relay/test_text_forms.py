"""Functions, branches, free variables and the names that frameworks give: as TVM printed them."""

import numpy as np
import pytest

from glenside.errors import ModelError, UnsupportedOperator
from glenside.frontends import load_model
from glenside.frontends.relay import import_relay

X = np.arange(-3, 3, dtype="float32").reshape(2, 3)
HEAD = "def @main(%x: Tensor[(2, 3), float32]) { "
RELU = np.maximum(X, 0)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("dense.weight", ""), ("layer.0.weight", ""), ("base/w", ""), ("a::b", ""), ("w:0", ""),
        ("conv-1/kernel", ""), ("layer.0", ""), ("block.1.2", ""), ("w", "/* a comment */"),
    ],
)  # fmt: skip
def test_names_as_frameworks_give_them(run_text, name, use):
    text = (
        f"def @main(%x: Tensor[(2, 3), float32], %{name}{use}: Tensor[(3), float32]) "
        f"{{ %{name}_0 = add(%x, %{name}{use}); multiply(%{name}_0, 2f) }}"
    )
    w = np.array([1, 2, 3], "float32")
    np.testing.assert_array_equal(run_text(text, {"x": X, name: w})[0], (X + w) * 2)


def test_a_name_that_ends_in_a_number_is_no_projection_of_another(run_text):
    text = HEAD.replace(") {", ", %p.0: float32) {") + "%t = (%p.0, %x); add(%t.1, %t.0) }"
    np.testing.assert_array_equal(run_text(text, {"x": X, "p.0": np.float32(2)})[0], X + 2)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("def @f(%a: Tensor[(2, 3), float32], Primitive=1, Compiler=\"dnnl\") -> Tensor[(2, 3), "
         "float32] { nn.relu(%a) }\n" + HEAD + "@f(%x) }", RELU),
        (HEAD + "%0 = fn (%p: Tensor[(2, 3), float32], Primitive=1) -> Tensor[(2, 3), float32] "
         "{ %0 = nn.relu(%p); add(%0, %0) } /* ty=fn (Tensor[(2, 3), float32]) -> "
         "Tensor[(2, 3), float32] */; %0(%x) }", 2 * RELU),
        (HEAD + "%y = nn.relu(%x); %f = fn (%p: float32) { multiply(%y, %p) }; %f(3f) }", 3 * RELU),
        (HEAD + "%f = fn (%g: fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32]) { %g(%x) };"
         " %f(fn (%q: Tensor[(2, 3), float32]) { negative(%q) }) }", -X),
        ("free_var %x: Tensor[(2, 3), float32];\nfree_var %y: float32 /* ty=float32 */;\n"
         "%0 = add(%x, 1f);\nnn.relu(%0)", np.maximum(X + 1, 0)),
        (HEAD + "if (True) { nn.relu(%x) } else { %x } }", RELU),
        (HEAD + "if (False) { nn.fancy(%x) } else { %1 = negative(%x); nn.relu(%1) } }",
         np.maximum(-X, 0)),
        (HEAD + "%0 = max(%x); %1 = greater(%0, 5f); if (%1) { %x } else { nn.relu(%x) } }", RELU),
        (HEAD + "let %a: Tensor[(2, 3), float32] = nn.relu(%x); let %b = (%a, %x); %b.0 }", RELU),
        (HEAD + "%0 = arange(0f, 3f, 1f, start=0f /* ty=float32 */, stop=meta[relay.Constant][0], "
         'step=%x, dtype="float32"); add(%x, %0) }', X + np.arange(3)),
    ],
)  # fmt: skip
def test_functions_branches_and_free_variables(run_text, text, wanted):
    np.testing.assert_array_equal(run_text(text, {"x": X, "y": np.float32(0)})[0], wanted)
    assert next(iter(load_model(text).inputs)) == "x"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("@f(%x)", "the module has no function @f"),
        ("%0 = fn (%p: float32) { %p }; %0(%x)", "%p of fn is stated to be float32, but is given"),
        ("%0 = fn (%p: float32) { %p }; %0()", "fn takes 1 operands, got 0"),
        ("%x(%x)", r"Tensor\[\(2, 3\), float32\] is called, which is no function"),
        ("fn (%p: float32) { %p }", "a function stands where a tensor is needed"),
        ("nn.relu(fn (%p: float32) { %p })", "operand 1 of nn.relu must be a tensor, got fn"),
        ("if (%x) { %x } else { %x }", "the condition of if must be one bool"),
        ("@main(%x)", "functions stand in each other more than 32 deep"),
    ],
)
def test_calls_that_are_wrong(body, message):
    with pytest.raises(ModelError, match=message) as caught:
        import_relay(HEAD + body + " }")
    assert "\n" not in str(caught.value)


def test_branches_of_different_types_need_a_known_condition():
    text = HEAD + "%0 = greater(max(%x), 0f); if (%0) { %x } else { max(%x) } }"
    with pytest.raises(UnsupportedOperator, match="tensors of one type"):
        import_relay(text)


def test_an_unknown_length_is_asked_for():
    with pytest.raises(ModelError, match=r"give its shape with shapes=\{'x': \(...\)\}"):
        import_relay("def @main(%x: Tensor[(?, 3), float32]) { %x }")
