"""What real Relay text holds and a naive reader stumbles over."""

import time
from importlib import resources

import numpy as np
import pytest

from glenside.errors import ModelError
from glenside.frontends.relay import import_relay
from glenside.frontends.relay.parser import parse_module, stated_type
from glenside.frontends.relay.syntax_tree import Call
from glenside.frontends.relay.types import spell

X = np.arange(6, dtype="float32").reshape(2, 3)
HEAD = "def @main(%x: Tensor[(2, 3), float32]) {\n"


def test_the_grammar_is_package_data():
    assert resources.files("glenside.frontends.relay").joinpath("grammar.lark").is_file()


def test_comments_may_stand_anywhere(run_text):
    text = """#[version = "0.0.5"]
    /* between */ // to the end of the line; "with (brackets
    def /* a */ @main(%x /* b */ : Tensor[(2, /* c */ 3), float32] /* ty=Tensor[(2, 3), float32]
      span=from_string:8:18 */ /* two in a row */) -> /* d */ Tensor[(2, 3), float32] {
      %0 = add(%x /* e */, 1f /* ty=float32 */ /* f */) /* ty=Tensor[(2, 3), float32] */ /* g */ ;
      // %0 = nothing;
      %1 = (%0, 1f /* ty=float32 */) /* ty=(Tensor[(2, 3), float32], float32) span=a:1:2 */;
      /* h */ %1.0 /* i */
    } /* ty=fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] */
    """
    np.testing.assert_array_equal(run_text(text, {"x": X})[0], X + 1)


def test_a_function_may_stand_alone(run_text):
    text = """#[version = "0.0.5"]
    fn (%x: Tensor[(2, 3), float32] /* ty=Tensor[(2, 3), float32] */) -> Tensor[(2, 3), float32] {
      %0 = add(%x, 1f) /* ty=Tensor[(2, 3), float32] */;
      nn.relu(%0)
    } /* ty=fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] */
    """
    np.testing.assert_array_equal(run_text(text, {"x": X})[0], X + 1)
    with pytest.raises(ModelError, match=r"'def' cannot stand here; expected .* the end"):
        import_relay("fn (%x: float32) { %x } def @main() { 1 }")
    with pytest.raises(ModelError, match=r"line 1, column 4: '\[' cannot stand here"):
        import_relay("fn [a] (%x: float32) { %x }")


def test_a_type_comment_before_its_expression_states_nothing(run_text):
    (y,) = run_text(HEAD + "%0 = /* ty=float32 */ nn.relu(/* ty=int8 */ %x); %0 }", {"x": X})
    assert y.shape == (2, 3)


@pytest.mark.parametrize(
    "body",
    [
        "nn.relu(%x) /* ty=Tensor[(2, 4), float32] */",
        "nn.relu(%x) /* ty=Tensor[(2, 3), float16] */",
        "nn.relu(%x) /* ty=(Tensor[(2, 3), float32],) */",
        "%0 = nn.relu(%x) /* ty=Tensor[(3), float32] */; %0",
        "add(%x, 1f /* ty=float16 */)",
        "%0 = (%x, %x) /* ty=(Tensor[(2, 3), float32], Tensor[(3, 2), float32]) */; %0.0",
        "%0: Tensor[(6), float32] = nn.relu(%x); %0",
        "nn.relu(%x) /* ty=List[float32] */",
    ],
)
def test_a_stated_type_that_is_wrong_is_an_error(body):
    with pytest.raises(ModelError, match=r"line 2, column \d+: .* is stated to be .*, but is "):
        import_relay(HEAD + body + "\n}")


def test_a_wrong_result_or_parameter_type_is_an_error():
    with pytest.raises(ModelError, match="the result of @main is stated to be"):
        import_relay("def @main(%x: float32) -> Tensor[(1), float32] { %x }")
    with pytest.raises(ModelError, match="%x is stated to be float16, but is float32"):
        import_relay("def @main(%x: float32 /* ty=float16 */) { %x }")


def test_stated_lengths_may_be_unknown():
    import_relay(HEAD + "nn.relu(%x) /* ty=Tensor[(?, 3), float32] */ }")


def test_projection_of_the_tenth_item(run_text):
    text = HEAD + "%0 = split(%x, indices_or_sections=3, axis=1);\n"
    items = ", ".join(f"{i}f" for i in range(10))
    text += f"%2 = ({items}, %0.2); (%2.10, %2 . 1, ((%x, %2),).0.1.3) }}"
    third, one, three = run_text(text, {"x": X})
    np.testing.assert_array_equal(third, X[:, 2:])
    assert (one, three) == (1, 3)


def test_locals_may_be_numbers_words_and_shadowed(run_text):
    text = HEAD + "%0 = nn.relu(%x); %0a_1 = negative(%0); %0 = negative(%0a_1); add(%0, %x) }"
    np.testing.assert_array_equal(run_text(text, {"x": X})[0], 2 * X)


def test_tuples_bound_nested_empty_and_returned(run_text):
    text = HEAD + "%0 = (%x,); %1 = (); %2 = (%0, %1, ((%x))); (%1, %2.0, (%2.2, 1i8, True)) }"
    outputs = run_text(text, {"x": X})
    assert [y.dtype.name for y in outputs] == ["float32", "float32", "int8", "bool"]
    np.testing.assert_array_equal(outputs[0], X)


def test_a_tuple_parameter_becomes_tensors(run_text):
    text = "def @main(%d: float32, %s: (Tensor[(2), float32], (int32, float32))) { (%s.1, %s.0) }"
    model = import_relay(text)
    assert list(model.inputs) == ["d", "s.0", "s.1.0", "s.1.1"]
    assert [leaf["name"] for leaf in model.roots] == ["s.1.0", "s.1.1", "s.0"]


def test_operators_that_return_tuples(run_text):
    text = HEAD + "%0 = nn.dropout(%x, rate=0.2f); %1 = %0.0; nn.relu(%1) }"
    np.testing.assert_array_equal(run_text(text, {"x": X})[0], X)
    with pytest.raises(ModelError, match=r"operand 1 of nn.relu must be a tensor, got \(Tensor"):
        import_relay(HEAD + "%0 = nn.dropout(%x); nn.relu(%0) }")


def test_bfloat16(run_text):
    text = (
        "def @main(%x: Tensor[(3), bfloat16]) { %0 = multiply(%x, %x); "
        '(%0, cast(%0, dtype="float32"), cast(1.00390625f, dtype="bfloat16")) }'
    )
    x = np.array([1.5, -3, 257]).astype("bfloat16")
    half, wide, one = run_text(text, {"x": x})
    assert (half.dtype, wide.dtype, one.dtype) == ("bfloat16", "float32", "bfloat16")
    np.testing.assert_array_equal(wide, [2.25, 9, 65536])
    assert one == 1


@pytest.mark.parametrize(
    ("literal", "value", "dtype"),
    [
        ("1f", 1, "float32"),
        ("-1e-05f", -1e-5, "float32"),
        ("1.001e-05f", 1.001e-5, "float32"),
        ("0.5f64", 0.5, "float64"),
        ("2f16", 2, "float16"),
        ("2i64", 2, "int64"),
        ("-3i8", -3, "int8"),
        ("255u8", 255, "uint8"),
        ("7", 7, "int32"),
        ("1.5", 1.5, "float32"),
        ("1e3", 1000, "float32"),
        ("-inff", -np.inf, "float32"),
        ("False", 0, "bool"),
    ],
)
def test_literals(run_text, literal, value, dtype):
    (y,) = run_text(f"def @main(%x: float32) {{ {literal} }}", {"x": np.float32(0)})
    assert y.dtype.name == dtype and y == np.array(value, dtype)


def test_attributes_keep_their_python_types():
    attributes = r'a=-1, b=0.2f, c="s \"t\"", d=None, e=True, g=[[0, 1], []], h=[2,]'
    call = parse_module(f"def @main() {{ f({attributes}) }}", "t").functions["main"].body.result
    assert isinstance(call, Call)
    values = call.attributes
    assert values == {
        "a": -1, "b": 0.2, "c": 's "t"', "d": None, "e": True, "g": ((0, 1), ()), "h": (2,)
    }  # fmt: skip
    assert values["e"] is True and type(values["a"]) is int


def test_scalar_parameters_are_typed_by_a_bare_dtype(run_text):
    text = "def @main(%x: Tensor[(2, 3), float32], %max: float32) { minimum(%x, %max) }"
    (y,) = run_text(text, {"x": 2 * X})
    np.testing.assert_array_equal(y, np.minimum(2 * X, 6))


def test_type_declarations_are_skipped():
    text = """type tensor_int8_t { tensor_nil_int8, tensor0_int8(int8),
      tensor2_int8(Tensor[(?, ?), int8]), }
    type Option[A] { Some(A), None, }
    type Tree[A, B] { Rose(A, List[Tree[A, B]]), }
    def @main(%x: float32) { %x }"""
    assert list(import_relay(text).inputs) == ["x"]


def test_types_read_back_as_they_are_written():
    for text in (
        "Tensor[(2, ?), float32]",
        "float32",
        "(float32,)",
        "()",
        "(Tensor[(1), int8], (bool, int8))",
    ):
        assert spell(stated_type(f"/* ty={text} span=x:1:2 */")) == text


BATCHES = """def @main(%a: Tensor[(2, 3, 4), float32], %b: Tensor[(2, 4, 5), float32]) {
  nn.batch_matmul(%a, %b, meta[relay.attrs.BatchMatmulAttrs][1])
}
#[metadata]
{"root": 1, "nodes": [
  {"type_key": ""},
  {"type_key": "Map", "keys": ["relay.attrs.BatchMatmulAttrs"], "data": [2]},
  {"type_key": "Array", "data": [3, 4]},
  {"type_key": "relay.attrs.BatchMatmulAttrs",
   "attrs": {"out_dtype": "", "transpose_a": "0", "transpose_b": "1"}},
  {"type_key": "relay.attrs.BatchMatmulAttrs",
   "attrs": {"out_dtype": "", "transpose_a": "0", "transpose_b": "0"}}
], "b64ndarrays": [], "attrs": {"tvm_version": "0.8.dev0"}}"""


def test_attributes_in_the_metadata_section(run_text):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 3, 4)).astype("f")
    b = rng.standard_normal((2, 4, 5)).astype("f")
    np.testing.assert_allclose(run_text(BATCHES, {"a": a, "b": b})[0], a @ b, rtol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Attrs][1]", "Attrs][2]", r"meta\[relay.attrs.BatchMatmulAttrs\]\[2\] is not in the"),
        ('"root": 1', '"root": 9', "is not in the #.metadata. section"),
        ('{"root": 1', '{"root" 1', "#.metadata. is not a JSON object"),
        ("#[metadata]", "//", "cannot stand here"),
    ],
)
def test_metadata_that_is_missing_or_malformed(old, new, message):
    assert old in BATCHES
    with pytest.raises(ModelError, match=message):
        import_relay(BATCHES.replace(old, new))


def test_a_constant_in_the_metadata_section(run_text):
    import base64
    import struct

    array = np.array([[1, 2, 3]], "float32")
    data = struct.pack("<QQiiiBBHqqq", 0xDD5E40F096B4A13F, 0, 1, 0, 2, 2, 32, 1, 1, 3, 12)
    encoded = base64.b64encode(data + array.tobytes()).decode()
    nodes = (
        '{"root": 1, "nodes": [{"type_key": ""}, '
        '{"type_key": "Map", "keys": ["relay.Constant"], "data": [2]}, '
        '{"type_key": "Array", "data": [3]}, '
        '{"type_key": "relay.Constant", "attrs": {"data": "0", "span": "0"}}], '
        f'"b64ndarrays": ["{encoded}"]}}'
    )
    text = (
        HEAD + "add(%x, meta[relay.Constant][0] /* ty=Tensor[(1, 3), float32] */) }\n#[metadata]\n"
    )
    np.testing.assert_array_equal(run_text(text + nodes, {"x": X})[0], X + array)
    broken = nodes.replace(encoded, encoded[:40])
    with pytest.raises(ModelError, match="holds no array"):
        import_relay(text + broken)


@pytest.mark.parametrize(
    "text",
    [
        "".join(
            ["def @main(%x: float32) {\n  %0 = nn.relu(%x);\n"]
            + [f"  %{i} = nn.relu(%{i - 1}) /* ty=float32 */;\n" for i in range(1, 10_000)]
            + ["  %9999\n}"]
        ),
        "def @main(%x: float32) { " + "nn.relu(" * 10_000 + "%x" + ")" * 10_000 + " }",
        "def @main(%x: float32) { " + "(" * 10_000 + "%x" + ")" * 10_000 + " }",
        "def @main(%x: float32) { " + "(" * 5_000 + "%x" + ",)" * 5_000 + " }",
        "def @main(%x: " + "(" * 1_000 + "float32" + ",)" * 1_000 + ") { %x" + ".0" * 1_000 + " }",
    ],
    ids=["bindings", "calls", "brackets", "tuples", "types"],
)
def test_long_and_deep_programs_take_no_recursion(text):
    started = time.process_time()  # What others do meanwhile does not count.
    assert len(import_relay(text).outputs) == 1
    assert time.process_time() - started < 20
