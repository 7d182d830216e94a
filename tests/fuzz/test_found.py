"""What fuzzing has found, in its smallest form: files that were answered, and are refused now."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import glenside
from glenside.errors import GlensideError, InputError, ModelError, ShapeError
from glenside.frontends.onnx import import_model
from glenside.language import builders, evaluate, random_inputs


def read(body: str, opset: int = 17, more: str = "") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}{more}]> g {body}')


PAIR = "(float[2,3] x) => (float[2,3] y)"
WRONG = {
    "operands of another type": (
        read("(bool[2] x) => (bool[2] y) { y = Min(x, x) }"),
        r"\(Min\).*unsupported type: tensor\(bool\)",
    ),
    "a result that is not the operator's": (
        read("(float[1,3] a, float[3,2] b, float[4,2] c) => (float[4,2] y) { y = Gemm(a, b, c) }"),
        r"\(Gemm\).*not what ONNX says",
    ),
    "a bias that is a tensor": (
        read(
            "(float[1,1,4,4] x, float[1,1,3,3] w) => (float[1,1,6,6] y) "
            "{ y = ConvTranspose(x, w, w) }"
        ),
        r"\(ConvTranspose\): a bias of shape",
    ),
    "one bias for many channels": (
        read(
            "(float[1,1,4,4] x, float[2,1,3,3] w, float[1] b) => (float[1,2,2,2] y) "
            "{ y = Conv(x, w, b) }"
        ),
        r"\(Conv\): a bias of shape \(1,\) does not fit 2 channels",
    ),
    "indices that reach over the data": (
        read("(float[2,3] x, int64[2,5] i) => (float[2,5] y) { y = GatherElements(x, i) }"),
        r"\(GatherElements\): indices \(2, 5\) reach over data \(2, 3\)",
    ),
    "a known index out of range": (
        read("(float[2,3] x) => (float y) <int64[2] i = {0, 3}> { y = GatherND(x, i) }"),
        r"\(GatherND\): takes indices from -3 to 2 along axis 1 of 3 positions, got 3",
    ),
    "dots on one side of an equation": (
        read('(float[2,3] x) => (float[3] y) { y = Einsum <equation = "...i->i"> (x) }'),
        r"\(Einsum\): equation '\.\.\.i->i'",
    ),
    "an output of another type": (
        read("(float[2] x) => (int32[2] y) { y = Neg(x) }"),
        "'y' is declared as int32, it is float32",
    ),
    "two versions of one opset": (
        read(f"{PAIR} {{ y = Neg(x) }}", more=', "ai.onnx": 13'),
        "two opsets of '': 17 and 13",
    ),
    "an opset that is no version": (
        read(f"{PAIR} {{ y = Neg(x) }}", more=', "mine": 1099511627776'),
        "opset 1099511627776 of 'mine'",
    ),
    "an attribute that refers to nothing": (
        read(f"{PAIR} {{ y = Softmax <axis: int = @a> (x) }}"),
        r"\(Softmax\): attribute axis refers to 'a'",
    ),
    "more elements than can be addressed": (
        read("(float[4611686018427387904, 4] x) => (float y) { y = ReduceSum(x) }"),
        "input 'x'.*more elements",
    ),
    "a function that is called as an operator": (
        read(
            '(float[2] x) => (float[2] y) { y = Relu(x) } '
            '<opset_import: ["": 17], domain: ""> Relu (a) => (b) { b = Neg(a) }'
        ),
        "function 'Relu' has the name of a standard operator",
    ),
    "a sequence of a trillion parts": (
        read(
            "(float[1099511627776] x) => (float[2] y) <int64 at = {0}, int64 two = {2}> "
            "{ s = SplitToSequence(x, two)  y = SequenceAt(s, at) }"
        ),
        r"\(SplitToSequence\): a sequence of 549755813888 parts",
    ),
    "n-grams that have no place": (
        read(
            "(int32[4] x) => (float[3] y) { y = TfIdfVectorizer <max_gram_length = 2, "
            'max_skip_count = 0, min_gram_length = 2, mode = "TF", ngram_counts = [0, 0], '
            "ngram_indexes = [0], pool_int64s = [5, 6, 7, 8, 6, 7]> (x) }"
        ),
        r"\(TfIdfVectorizer\): ngram_indexes \[0\] does not place 3 n-grams",
    ),
    "n-grams that are cut short": (
        read(
            "(int32[4] x) => (float[3] y) { y = TfIdfVectorizer <max_gram_length = 2, "
            'max_skip_count = 0, min_gram_length = 2, mode = "TF", ngram_counts = [0, 1], '
            "ngram_indexes = [0, 1], pool_int64s = [5, 6, 7, 8]> (x) }"
        ),
        r"\(TfIdfVectorizer\): ngram_counts \[0, 1\] does not cut a pool of 4",
    ),
    "a subgraph for an operator that takes none": (
        read(f"{PAIR} {{ y = ThresholdedRelu <to = g () => (float z) {{ z = Neg(x) }}> (x) }}"),
        r"\(ThresholdedRelu\): Unrecognized attribute: to",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_is_refused(what):
    proto, says = WRONG[what]
    with pytest.raises(ModelError, match=says) as caught:
        import_model(proto)
    assert "\n" not in str(caught.value)


def test_a_message_is_one_line_whatever_the_names():
    proto = read("(float[N] x) => (float[N] y) { y = Neg(x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "two\nlines"
    with pytest.raises(ModelError, match="two lines"):
        import_model(proto)


def test_constants_of_negative_length_and_place_are_refused():
    proto = read("(float[2] x) => (float[2] y) { y = Add(x, c) }")
    broken = numpy_helper.from_array(np.ones(2, "float32"), "c")
    broken.dims[0] = -1
    proto.graph.initializer.append(broken)
    with pytest.raises(ModelError, match=r"'c'.*negative lengths"):
        import_model(proto)

    del proto.graph.initializer[:]
    values = helper.make_tensor("c", TensorProto.FLOAT, [1], [1.0])
    places = helper.make_tensor("places", TensorProto.INT64, [1], [-1])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2]))
    with pytest.raises(ModelError, match="'c': its indices"):
        import_model(proto)


def test_few_lines_do_not_become_billions_of_nodes():
    text = (
        '<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[2] x) => (float[2] y) '
        "{ y = f.n0(x) }"
    )
    for i in range(20):
        text += f' <opset_import: ["": 17, "f": 1], domain: "f"> n{i} (a) => (c) '
        text += f"{{ b = f.n{i + 1}(a)  c = f.n{i + 1}(b) }}"
    text += ' <opset_import: ["": 17], domain: "f"> n20 (a) => (c) { c = Neg(a) }'
    with pytest.raises(ModelError, match="more than 20000 nodes"):
        import_model(parser.parse_model(text))


def test_an_index_out_of_range_is_never_another_element():
    body = "{ y = GatherElements <axis = 1> (x, i) }"
    model = import_model(read(f"(float[2,3] x, int64[2,1] i) => (float[2,1] y) {body}"))
    x = np.arange(6, dtype="float32").reshape(2, 3)

    def gathered(*indices):
        return evaluate(model.roots, {"x": x, "i": np.array(indices), **model.params})[0]

    for index in (3, -4, 2**40):
        with pytest.raises(InputError, match="an index is outside"):
            gathered([index], [0])
    np.testing.assert_array_equal(gathered([-1], [2]), [[2], [5]])


def test_what_is_cut_off_is_not_repeated():
    body = '<int64[2] p = {1, -2}> { y = Pad <mode = "wrap"> (x, p) }'
    model = import_model(read(f"(float[3] x) => (float[2] y) {body}", opset=19))
    env = {"x": np.array([1, 2, 3], "float32"), **model.params}
    np.testing.assert_array_equal(evaluate(model.roots, env)[0], [1, 1])


def test_what_does_not_fit_in_memory_is_said():
    huge = read("(float[1099511627776] x) => (float[1099511627776] y) { y = Neg(x) }")
    with pytest.raises(GlensideError, match="more than the 2147483647 elements"):
        glenside.optimize(huge)
    with pytest.raises(GlensideError, match=r"takes 8\.0 PiB"):
        random_inputs(import_model(read("(float[1099511627776, 1024] x) => (float y) "
                                        "{ y = ReduceSum(x) }")).inputs)  # fmt: skip
    with pytest.raises(ShapeError, match="more elements than can be addressed"):
        builders.tensor("x", (2**40, 0, 2**40))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_what_is_not_looked_at_is_zero_whatever_stands_there(mode):
    body = f'{{ y = GridSample <mode = "{mode}"> (x, g) }}'
    model = import_model(
        read(f"(float[1,1,2,2] x, float[1,1,2,2] g) => (float[1,1,1,2] y) {body}", 20)
    )
    x = np.array([[[[np.inf, -1], [-1, -1]]]], "float32")
    grid = np.array([[[[-9, -9], [np.nan, 0]]]], "float32")
    (y,) = evaluate(model.roots, {"x": x, "g": grid, **model.params})
    assert y.tobytes() == np.zeros((1, 1, 1, 2), "float32").tobytes()
