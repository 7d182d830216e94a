"""One program for all sizes of a model: right for each, dispatched, in parts, saved, exported."""

import threading

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

import glenside
from glenside.errors import Damaged, GlensideError, InputError
from glenside.shapes.program import ShapedProgram
from tests.models import onnxruntime_answers, small_network
from tests.saving import code_of

RNG = np.random.default_rng(3)


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


def images(n):
    return floats(n, 4, 9, 7)


def model_of(nodes, inputs, outputs, arrays):
    given = [h.make_tensor_value_info(name, kind, dims) for name, kind, dims in inputs]
    made = [h.make_tensor_value_info(name, T.FLOAT, None) for name in outputs]
    held = [nh.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = h.make_graph(nodes, "model", given, made, held)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)


def attention():
    """A layer of BERT: embeddings with positions, a mask, two heads, a norm."""
    node = h.make_node
    nodes = [
        node("Gather", ["emb", "ids"], ["e"]),
        node("Shape", ["ids"], ["shape"]),
        node("Gather", ["shape", "one"], ["length"]),
        node("Slice", ["pos", "zero", "length", "zero"], ["p"]),
        node("Add", ["e", "p"], ["x"]),
        node("Cast", ["mask"], ["m"], to=T.FLOAT),
        node("Unsqueeze", ["m", "middle"], ["m4"]),
        node("Sub", ["m4", "whole"], ["none"]),
        node("Mul", ["none", "far"], ["masked"]),
    ]
    for k in "qkv":
        nodes += [
            node("MatMul", ["x", f"w{k}"], [f"{k}0"]),
            node("Reshape", [f"{k}0", "heads"], [f"{k}1"]),
            node("Transpose", [f"{k}1"], [k], perm=[0, 2, 3, 1] if k == "k" else [0, 2, 1, 3]),
        ]
    nodes += [
        node("MatMul", ["q", "k"], ["qk"]),
        node("Add", ["qk", "masked"], ["scores"]),
        node("Softmax", ["scores"], ["a"], axis=-1),
        node("MatMul", ["a", "v"], ["c"]),
        node("Transpose", ["c"], ["c1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["c1", "back"], ["c2"]),
        node("Add", ["c2", "x"], ["r"]),
        node("LayerNormalization", ["r", "g", "b"], ["y"], axis=-1),
    ]
    arrays = {
        "emb": floats(11, 4), "pos": floats(9, 4), **{f"w{k}": floats(4, 4) for k in "qkv"},
        "g": floats(4), "b": floats(4), "one": np.array([1]), "zero": np.array([0]),
        "middle": np.array([1, 2]), "whole": np.float32(1), "far": np.float32(1e4),
        "heads": np.array([0, 0, 2, 2]), "back": np.array([0, 0, 4]),
    }  # fmt: skip
    inputs = [("ids", T.INT64, ["batch", "seq"]), ("mask", T.INT64, ["batch", "seq"])]
    return model_of(nodes, inputs, ["y"], arrays)


def lstm():
    arrays = {"w": floats(1, 8, 3), "r": floats(1, 8, 2), "b": floats(1, 16)}
    nodes = [h.make_node("LSTM", ["x", "w", "r", "b"], ["y", "yh", "yc"], hidden_size=2)]
    return model_of(nodes, [("x", T.FLOAT, ["seq", "batch", 3])], ["y", "yh", "yc"], arrays)


def close(got, expected):
    for one, right in zip(got, expected, strict=True):
        assert one.shape == right.shape
        np.testing.assert_allclose(one, right, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def network():
    """Compiled for 2 and 4 images; others run in parts."""
    return glenside.optimize(small_network("n"), shapes={"n": "0..64"}, sizes=[2, 4])


# --- right for every size -------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "systolic-array:4x4"])
def test_a_network_is_right_for_each_batch_and_explored_once(target):
    program = glenside.optimize(small_network("n"), target=target, shapes={"n": "0..64"})
    for n in (1, 3, 0):
        x = images(n)
        close(program.run(x), onnxruntime_answers(small_network("n"), image=x))
    assert program.sizes == [{"n": 2}, {"n": 1}, {"n": 3}, {"n": 0}]
    assert [how.split(",")[0] for how in program.report.sizes] == [
        "n=2: explored", "n=1: the form of n=2", "n=3: the form of n=2", "n=0: the form of n=2",
    ]  # fmt: skip
    offloads = {program.at(n).report.offloads == program.report.offloads for n in (1, 3)}
    assert offloads == {True}
    assert program.at(3).report.max_rel_error is not None


def test_batch_and_sequence_of_attention():
    """Lengths of a sequence are explored each, numbers of sequences are not."""
    model = attention()
    program = glenside.optimize(model, shapes={"ids": ("batch=1..8", "seq=1..9")})
    for batch, seq in ((2, 5), (3, 5), (1, 9), (1, 1)):
        ids = RNG.integers(0, 11, (batch, seq))
        mask = RNG.integers(0, 2, (batch, seq))
        mask[:, 0] = 1
        close(program.run(ids, mask), onnxruntime_answers(model, ids=ids, mask=mask))
    told = {line.split(": ")[0]: line.split(": ")[1] for line in program.report.sizes}
    assert told["batch=2, seq=5"].startswith("explored")
    assert told["batch=3, seq=5"].startswith("the form of batch=2, seq=5")
    assert "batch" in program.text and "seq" not in program.text


def test_states_of_an_lstm_that_begin_at_zero():
    model = lstm()
    program = glenside.optimize(model, shapes={"x": (3, "batch", 3)})
    for batch in (1, 5):
        x = floats(3, batch, 3)
        close(program.run(x), onnxruntime_answers(model, x=x))
    assert program.report.sizes[-1].startswith("batch=5: the form of batch=2")


def test_a_length_that_the_file_fixes_can_be_opened():
    """Exporters write down the size of their example."""
    program = glenside.optimize(small_network(1), shapes={"image": ("batch", 4, 9, 7)})
    x = images(5)
    close(program.run(x), onnxruntime_answers(small_network("n"), image=x))


def test_relay_text_and_relax_modules_have_lengths_that_stay_open():
    relay = (
        "def @main(%x: Tensor[(?, 8), float32], %w: Tensor[(4, 8), float32]) "
        "{ nn.relu(nn.dense(%x, %w)) }"
    )
    w = floats(4, 8)
    program = glenside.optimize(relay, shapes={"x": ("rows", 8)}, params={"w": w})
    x = floats(3, 8)
    close(program.run(x), [np.maximum(x @ w.T, 0)])
    text = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32")):
        n = T.int64()
        with R.dataflow():
            y: R.Tensor((n, 4), "float32") = R.matmul(x, w)
            R.output(y)
        return y
"""
    module = tvm.script.from_source(text)
    program = glenside.optimize(module, shapes={"n": "1..9"}, params={"w": w.T})
    close(program.run(x), [x @ w.T])


# --- what cannot stay open ------------------------------------------------------------------------


def test_what_asks_for_a_number_is_named():
    """A Reshape to a constant."""
    nodes = [h.make_node("Reshape", ["x", "to"], ["y"], name="flat")]
    model = model_of(nodes, [("x", T.FLOAT, ["n", 6])], ["y"], {"to": np.array([1, 6])})
    with pytest.raises(
        GlensideError, match=r"n cannot stay open: with n=2 node 'flat' \(Reshape\)"
    ):
        glenside.optimize(model, shapes={"n": "1.."})
    assert glenside.optimize(model, shapes={"n": 1})(floats(1, 6)).shape == (1, 6)


def test_a_size_that_the_model_does_not_take_is_told_with_the_operator():
    nodes = [h.make_node("Reshape", ["x", "to"], ["y"], name="halves")]
    model = model_of(nodes, [("x", T.FLOAT, ["n", 3])], ["y"], {"to": np.array([2, -1])})
    program = glenside.optimize(model, shapes={"n": "1..9"})
    assert program(floats(4, 3)).shape == (2, 6)
    with pytest.raises(GlensideError, match=r"with n=3 node 'halves' \(Reshape\)"):
        program(floats(3, 3))


def test_without_a_word_lengths_are_asked_for():
    with pytest.raises(GlensideError, match=r"shapes={'image': \(n, 4, 9, 7\)}"):
        glenside.optimize(small_network("n"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"shapes": {"n": 2}, "sizes": [2]}, "none is named"),
        ({"sizes": [2]}, "leaves lengths of its inputs open"),
        ({"shapes": {"n": "1..4"}, "sizes": [5]}, r"n is 5; the program takes 1\.\.4"),
        ({"shapes": {"n": "1..4"}, "sizes": []}, "sizes is empty"),
        ({"shapes": {"n": "1..4"}, "quantize": {"image": images(2)}}, "n must be a number"),
        ({"shapes": {"n": "1..4"}, "params": {"image": images(2)}}, "'image' has lengths"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, told):
    with pytest.raises(GlensideError, match=told):
        glenside.optimize(small_network("n"), **options)


# --- calls ----------------------------------------------------------------------------------------


def test_calls_are_by_position_keyword_or_mapping(network):
    x = images(2)
    right = onnxruntime_answers(small_network("n"), image=x)
    for got in (network(x), network(image=x), network({"image": x}), network.run(x)[0]):
        close([got], right)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((images(65),), r"n is 65; the program takes 0\.\.64"),
        ((floats(2, 4, 9, 8),), r"'image' must be of shape \(n, 4, 9, 7\), got \(2, 4, 9, 8\)"),
        ((floats(2, 4),), r"'image' must be of shape \(n, 4, 9, 7\)"),
        ((images(2).astype("float64"),), "'image' must be float32"),
        ((images(3).astype("float64"),), "'image' must be float32, got float64"),
        ((), "'image' is missing"),
        ((images(2), images(2)), "takes"),
    ],
)
def test_wrong_inputs_are_told_before_anything_is_compiled(network, args, told):
    before = network.sizes
    with pytest.raises(InputError, match=told):
        network(*args)
    assert network.sizes == before


def test_inputs_that_disagree_are_both_named():
    nodes = [h.make_node("Add", ["a", "b"], ["y"])]
    model = model_of(nodes, [("a", T.FLOAT, ["n"]), ("b", T.FLOAT, ["n"])], ["y"], {})
    program = glenside.optimize(model, shapes={"n": "1..9"}, sizes=[2])
    for a, b in ((2, 3), (4, 3)):
        with pytest.raises(InputError, match=f"n is {a} by input 'a' .*, and {b} by input 'b'"):
            program(floats(a), floats(b))


def test_threads_compile_a_size_once():
    program = glenside.optimize(small_network("n"), shapes={"n": "1..9"}, check=False)
    x, results = images(3), []
    threads = [
        threading.Thread(target=lambda: results.append(program(x))) for _ in range(4)
    ]  # fmt: skip
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(results) == 4 and len(program.sizes) == 2
    close(results, onnxruntime_answers(small_network("n"), image=x) * 4)


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "how"),
    [(1, "1 of n=2"), (3, "1 of n=4"), (7, "2 of n=4"), (9, "2 of n=4, 1 of n=2"), (0, "none")],
)
def test_other_sizes_run_as_parts_of_those_that_were_listed(network, n, how):
    x = images(n)
    close(network.run(x), onnxruntime_answers(small_network("n"), image=x))
    assert f"n={n}: in parts, row by row along n: {how}" in network.report.sizes
    assert network.sizes == [{"n": 2}, {"n": 4}]


def test_what_mixes_rows_is_compiled_instead():
    nodes = [h.make_node("Softmax", ["x"], ["y"], axis=0)]
    model = model_of(nodes, [("x", T.FLOAT, ["n", 3])], ["y"], {})
    program = glenside.optimize(model, shapes={"n": "1..9"}, sizes=[2])
    x = floats(3, 3)
    close(program.run(x), onnxruntime_answers(model, x=x))
    assert program.sizes == [{"n": 2}, {"n": 3}]


def test_outputs_have_their_rows_where_the_model_has_them():
    """Transposed, and one beside the other."""
    nodes = [
        h.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        h.make_node("Reshape", ["x", "flat"], ["f"]),
    ]
    model = model_of(nodes, [("x", T.FLOAT, ["n", 3])], ["t", "f"], {"flat": np.array([-1])})
    program = glenside.optimize(model, shapes={"n": "1..9"}, sizes=[2])
    x = floats(5, 3)
    close(program.run(x), [x.T, x.reshape(-1)])
    assert program.sizes == [{"n": 2}]


# --- saved, told, exported ------------------------------------------------------------------------


def test_a_saved_program_has_its_sizes_and_others_in_parts(network, tmp_path):
    network.save(tmp_path)
    loaded = glenside.load(tmp_path)
    assert isinstance(loaded, ShapedProgram)
    assert loaded.sizes == network.sizes and loaded.ranges == network.ranges
    for n in (2, 4, 7):
        x = images(n)
        close(loaded.run(x), onnxruntime_answers(small_network("n"), image=x))
    assert loaded.at(3)(images(3)).shape == (3, 5)  # Compiled here.
    loaded.save(tmp_path / "again")
    assert {"n": 3} in glenside.load(tmp_path / "again").sizes
    held = glenside.load(tmp_path, trusted=False)
    x = images(3)
    close(held.run(x), onnxruntime_answers(small_network("n"), image=x))


def test_a_saved_program_that_mixes_rows_says_which_sizes_it_has(tmp_path):
    nodes = [h.make_node("Softmax", ["x"], ["y"], axis=0)]
    model = model_of(nodes, [("x", T.FLOAT, ["n", 3])], ["y"], {})
    glenside.optimize(model, shapes={"n": "1..9"}, sizes=[2]).save(tmp_path)
    with pytest.raises(GlensideError, match=r"saved with n=2, .* n=3: make it from the model"):
        glenside.load(tmp_path)(floats(3, 3))


def test_damage_to_one_size_is_told(network, tmp_path):
    from glenside.verify import verify

    network.save(tmp_path)
    assert {"plan, n=2", "program, n=4"} <= {each.what for each in verify(tmp_path, run=True)}
    file = code_of(tmp_path) / "1" / "program.glenside"
    file.write_text(file.read_text() + " ")
    with pytest.raises(Damaged, match=r"1/program\.glenside is not the file"):
        glenside.load(tmp_path)


def test_names_stand_in_text_and_report(network):
    assert "(tensor image (n 4 9 7))" in network.text
    assert network.report.inputs == {"image": "(n, 4, 9, 7)"}
    assert network.report.ranges == {"n": "0..64"}
    assert "n=2: explored" in str(network.report)
    assert glenside.Report.from_json(network.report.to_json()) == network.report
    assert "(n, 4, 9, 7)" in repr(network)


@pytest.mark.parametrize("which", ["network", "lstm"])
def test_an_export_has_the_names_and_is_right_for_all_sizes(which, network):
    if which == "network":
        model, program, make, name = small_network("n"), network, images, "image"
    else:
        model = lstm()
        program = glenside.optimize(model, shapes={"x": (3, "n", 3)}, sizes=[2])
        make, name = lambda n: floats(3, n, 3), "x"
    exported = program.to_onnx()
    onnx.checker.check_model(exported)
    (taken,) = exported.graph.input
    assert "n" in [dim.dim_param for dim in taken.type.tensor_type.shape.dim]
    for n in (1, 6):
        x = make(n)
        close(onnxruntime_answers(exported, **{name: x}), onnxruntime_answers(model, **{name: x}))


def test_exports_of_one_size_are_asked_of_that_size(network, tmp_path):
    with pytest.raises(GlensideError, match=r"program\.at\(n=2\)\.to_c"):
        network.to_c(tmp_path / "c")
    with pytest.raises(GlensideError, match=r"program\.at\(n=2\)\.to_relax"):
        network.to_relax()
    assert network.at(2).to_c(tmp_path / "c").is_dir()
    nodes = [h.make_node("Softmax", ["x"], ["y"], axis=0)]
    mixing = model_of(nodes, [("x", T.FLOAT, ["n", 3])], ["y"], {})
    program = glenside.optimize(mixing, shapes={"n": "1..9"}, sizes=[2])
    with pytest.raises(GlensideError, match="does not treat n row by row"):
        program.to_onnx()


def test_a_program_of_one_size_is_got_by_name_or_number(network):
    assert network.at(n=4).inputs["image"].shape == (4, 4, 9, 7)
    assert network.at({"n": 2}) is network.at(2)
    with pytest.raises(InputError, match="n is 65"):
        network.at(65)
    with pytest.raises(InputError, match="one is written"):
        network.at(batch=2)


def test_results_are_written_where_the_caller_says_at_every_size(network):
    for n in (2, 5):  # Five are done as parts of calls of four and two.
        x = images(n)
        expected = network.run(x)
        out = [np.full_like(each, np.nan) for each in expected]
        assert all(a is b for a, b in zip(network.run(x, out=out), out, strict=True))
        for got, right in zip(out, expected, strict=True):
            np.testing.assert_array_equal(got, right)
        with pytest.raises(InputError):
            network.run(x, out=[each[:, :0] for each in out])


def test_a_program_is_bound_to_buffers_of_a_size():
    program = glenside.optimize(small_network("n"), shapes={"n": "1..64"}, sizes=[2], check=False)
    x = images(3)
    bound = program.bind(x)
    x[...] = images(3)
    right = program.at(3)(x)
    np.testing.assert_array_equal(bound(), right)
