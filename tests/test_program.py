"""Programs are saved, loaded and looked into."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import glenside
from glenside import saved_folder
from glenside.errors import Damaged, GlensideError, InputError
from glenside.language import parse
from tests.models import onnxruntime_answers, small_network, two_outputs

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")


@pytest.mark.parametrize("target", ["cpu", "systolic-array:16x16"])
def test_a_saved_program_runs_in_a_process_without_the_compiler(target, tmp_path):
    program = glenside.optimize(small_network(), target)
    program.save(tmp_path / "out")
    np.save(tmp_path / "image.npy", IMAGE)
    script = f"""
import sys
import numpy as np
import glenside
program = glenside.load({str(tmp_path / "out")!r})
y = program(np.load({str(tmp_path / "image.npy")!r}))
np.save({str(tmp_path / "scores.npy")!r}, y)
banned = [name for name in ("egglog", "onnx", "onnxruntime", "tvm") if name in sys.modules]
assert not banned, banned
maps = open("/proc/self/maps").read()
assert "libtvm_compiler" not in maps and "libtvm.so" not in maps
print(program.report.target)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == target
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, rtol=1e-4, atol=1e-5)


def test_a_loaded_program_tells_what_the_saved_one_told(tmp_path):
    program = glenside.optimize(two_outputs(), check=False)
    program.save(tmp_path)
    loaded = glenside.load(tmp_path)
    assert loaded.report == program.report
    assert loaded.inputs == program.inputs
    assert loaded.output_names == ("total", "product")
    assert loaded.terms == program.terms
    assert loaded.source == program.source


def test_a_loaded_program_can_be_saved_elsewhere(tmp_path):
    glenside.optimize(two_outputs(), check=False).save(tmp_path / "one")
    loaded = glenside.load(tmp_path / "one")
    loaded.save(tmp_path / "one")
    loaded.save(tmp_path / "two")
    a, c = np.ones((2, 3), "float32"), np.ones(3, "float32")
    np.testing.assert_array_equal(glenside.load(tmp_path / "two")(a, c)[0], a + c)
    with pytest.raises(GlensideError, match="was loaded"):
        loaded.trace(a, c)


A = np.arange(6, dtype="float32").reshape(2, 3)


def _scaled(scale):
    """A program and what it makes of A; others have other kernels and parameters."""
    import onnx
    from onnx import helper

    value = np.arange(1, 7, dtype="float32").reshape(2, 3) * scale
    graph = helper.make_graph(
        [
            helper.make_node("Mul" if scale > 1 else "Add", ["a", "w"], ["b"]),
            helper.make_node("Relu", ["b"], ["y"]),
        ],
        "scaled",
        [helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (2, 3))],
        [onnx.numpy_helper.from_array(value, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return glenside.optimize(model, check=False), (A * value if scale > 1 else A + value)


@pytest.mark.parametrize("remove", [False, True])
def test_saving_over_a_loaded_program(remove, tmp_path):
    (one, first), (two, second) = _scaled(1), _scaled(2)
    one.save(tmp_path / "out")
    old = glenside.load(tmp_path / "out")
    if remove:
        shutil.rmtree(tmp_path / "out")
    two.save(tmp_path / "out")
    new = glenside.load(tmp_path / "out")
    np.testing.assert_array_equal(new(A), second)
    np.testing.assert_array_equal(old(A), first)
    assert (old.text, new.text) == (one.text, two.text)
    assert new.source == two.source
    for gone in (lambda: old.source, lambda: old.tir, lambda: old.save(tmp_path / "other")):
        with pytest.raises(GlensideError, match="was loaded from"):
            gone()
    assert len(list((tmp_path / "out").iterdir())) == 2  # The manifest and one folder of files.


def test_what_is_saved_is_the_same_again(tmp_path):
    program, right = _scaled(2)
    program.save(tmp_path)
    before = {f: (f.read_bytes(), f.stat().st_ino) for f in tmp_path.rglob("*") if f.is_file()}
    loaded = glenside.load(tmp_path)
    loaded.save(tmp_path)
    program.save(tmp_path)
    np.testing.assert_array_equal(loaded(A), right)
    after = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.is_file()}
    assert after == {file: data for file, (data, _) in before.items()}
    mapped = [f for f in after if f.name == "parameters.bin"]
    assert mapped and all(f.stat().st_ino != before[f][1] for f in mapped)


def test_a_loaded_program_depends_on_no_working_directory(tmp_path, monkeypatch):
    program, right = _scaled(2)
    monkeypatch.chdir(tmp_path)
    program.save("out")
    loaded = glenside.load("out")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert loaded.source == program.source
    assert len(loaded.tir.functions) == len(program.tir.functions)
    shutil.rmtree(tmp_path / "out")
    assert loaded.terms == program.terms
    np.testing.assert_array_equal(loaded(A), right)


DAMAGES = {
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-40]),
    "overwritten": lambda file: file.write_bytes(b"\xff"),
    "removed": lambda file: file.unlink(),
}


@pytest.mark.parametrize(
    ("name", "damages"),
    [
        ("program.json", ("cut", "overwritten")),
        ("program.glenside", ("overwritten", "removed")),
        ("plan.json", DAMAGES),
        ("parameters.bin", DAMAGES),
        ("kernels-*.so", DAMAGES),
    ],
)
def test_damage_is_one_clear_error(name, damages, tmp_path):
    program, right = _scaled(2)
    for damage in damages:
        program.save(tmp_path)
        (file,) = tmp_path.rglob(name)
        DAMAGES[damage](file)
        with pytest.raises(GlensideError, match=r"is damaged: .*: save it anew"):
            glenside.load(tmp_path)
    program.save(tmp_path)
    np.testing.assert_array_equal(glenside.load(tmp_path)(A), right)


LOOKS = {
    "explain.json": lambda loaded: loaded.explain(),
    "tir.json": lambda loaded: loaded.tir,
    "source.txt": lambda loaded: loaded.source,
    "program.glenside": lambda loaded: loaded.terms,
}


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize("content", [b"(((", b"{}", b"\xff"])
def test_damage_to_what_is_only_looked_at_is_one_clear_error(name, content, tmp_path):
    program, right = _scaled(2)
    program.save(tmp_path)
    loaded = glenside.load(tmp_path)
    (file,) = tmp_path.rglob(name)
    file.write_bytes(content)
    if name == "program.glenside":  # It is read when the program is loaded.
        assert loaded.terms == program.terms
    else:
        with pytest.raises(GlensideError, match=rf"{name} is damaged: .*: save it anew"):
            LOOKS[name](loaded)
    for trusted in (True, False):
        with pytest.raises(Damaged, match=rf"is damaged: {name} is not the file .*: save it anew"):
            glenside.load(tmp_path, trusted=trusted)
    with pytest.raises(Damaged, match="is damaged"):  # It is not sealed as if it were right.
        loaded.save(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    np.testing.assert_array_equal(loaded(A), right)


def test_a_manifest_without_one_of_its_keys_is_damaged(tmp_path):
    _scaled(2)[0].save(tmp_path)
    file = tmp_path / "program.json"
    whole = json.loads(file.read_text())
    del whole["digest"]
    for key in whole.keys() - {"format"}:
        file.write_text(saved_folder.sealed({k: v for k, v in whole.items() if k != key}))
        with pytest.raises(GlensideError, match=f"is damaged: '{key}' is missing"):
            glenside.load(tmp_path)
    file.write_text("[]")
    with pytest.raises(GlensideError, match="is damaged"):
        glenside.load(tmp_path)


def test_saving_where_nothing_can_be_saved(tmp_path):
    program, _ = _scaled(2)
    program.save(tmp_path / "out")
    (tmp_path / "file").write_text("mine")
    for each in (program, glenside.load(tmp_path / "out")):
        for place in ("file", "file/below"):
            with pytest.raises(GlensideError, match=r"cannot save to .*file"):
                each.save(tmp_path / place)
    with pytest.raises(GlensideError, match="cannot save to /proc"):
        program.save("/proc/out")
    assert (tmp_path / "file").read_text() == "mine"


def test_loading_what_is_no_program_is_one_clear_error(tmp_path):
    with pytest.raises(GlensideError, match="holds no saved program"):
        glenside.load(tmp_path)
    (tmp_path / "program.json").write_text('{"format": 99}')
    (tmp_path / "program.glenside").write_text("")
    with pytest.raises(GlensideError, match="another format"):
        glenside.load(tmp_path)


def test_a_program_can_be_looked_into():
    program = glenside.optimize(small_network(), check=False)
    assert parse(program.text) is program.term
    assert len(program.tir.functions) >= 1
    assert program.source.strip()
    assert "small_network" in repr(program) and "image" in repr(program)


def test_the_term_of_several_outputs_is_not_one():
    program = glenside.optimize(two_outputs(), check=False)
    assert len(program.terms) == 2
    with pytest.raises(GlensideError, match="2 outputs"):
        _ = program.term


def test_results_are_the_callers_own():
    program = glenside.optimize(two_outputs(), check=False)
    a, c = np.ones((2, 3), "float32"), np.ones(3, "float32")
    first, _ = program(a, c)
    kept = first.copy()
    program(a * 5, c)
    np.testing.assert_array_equal(first, kept)


def test_a_program_becomes_an_onnx_model_again():
    import onnx

    program = glenside.optimize(small_network(), "systolic-array:16x16", check=False)
    exported = program.to_onnx()
    onnx.checker.check_model(exported, full_check=True)
    assert {f.domain for f in exported.functions} == {"glenside"}
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    (got,) = onnxruntime_answers(exported, image=IMAGE)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_a_program_becomes_a_relax_module():
    import tvm
    from tvm import relax

    program = glenside.optimize(small_network(), "systolic-array:16x16", check=False)
    machine = relax.VirtualMachine(tvm.compile(program.to_relax(), target="llvm"), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(IMAGE))
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    np.testing.assert_allclose(np.asarray(got.numpy()), expected, rtol=1e-4, atol=1e-5)


def test_a_loaded_program_becomes_an_onnx_model_again(tmp_path):
    glenside.optimize(small_network(), "systolic-array:16x16", check=False).save(tmp_path)
    (expected,) = onnxruntime_answers(small_network(), image=IMAGE)
    (got,) = onnxruntime_answers(glenside.load(tmp_path).to_onnx(), image=IMAGE)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_threads_may_share_a_program():
    from concurrent.futures import ThreadPoolExecutor

    program = glenside.optimize(small_network(), check=False)
    images = [IMAGE * scale for scale in range(1, 9)]
    expected = [program(image) for image in images]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for got, right in zip(pool.map(program, images), expected, strict=True):
                np.testing.assert_array_equal(got, right)


GATHERS = {
    "ONNX": "",
    "Relay": (
        "def @main(%x: Tensor[(4, 3), float32], %data: Tensor[(2), int64]) "
        '{ take(%x, %data, axis=0, mode="fast") }'
    ),
    "term": "(gather 0 (tensor x (4 3)) (tensor data (2) :dtype int64))",
}


@pytest.mark.parametrize("kind", GATHERS)
def test_an_index_out_of_range_is_an_error_of_the_call(kind, tmp_path):
    model: object = GATHERS[kind]
    if kind == "ONNX":
        node = helper.make_node("Gather", ["x", "data"], ["y"])
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 3)),
            helper.make_tensor_value_info("data", TensorProto.INT64, (2,)),
        ]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))
        model = helper.make_model(helper.make_graph([node], "g", inputs, [result]))
    elif kind == "term":
        model = parse(GATHERS[kind])
    program = glenside.optimize(model, "cpu")
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    program.save(tmp_path)
    for each in (program, glenside.load(tmp_path)):
        np.testing.assert_array_equal(each(x=x, data=np.array([3, -4])), x[[3, -4]])
        for bad in (4, -5):
            with pytest.raises(InputError, match=f"input 'data': .*, got {bad}$"):
                each(x=x, data=np.array([0, bad]))


def test_an_input_that_the_model_has_a_value_of_may_be_given(tmp_path):
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    shapes = {"x": (2, 3), "w": (3, 4), "b": (4,)}
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in shapes.items()
    ]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 4))
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(shape).astype("float32") for shape in shapes.values())
    held = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    proto = helper.make_model(helper.make_graph([node], "g", infos, [result], held))
    program = glenside.optimize(proto, "cpu")
    assert list(program.inputs) == ["x"]
    assert list(program.defaults) == ["w", "b"]
    for given in ({}, {"b": b + 1}, {"w": 2 * w, "b": b - 1}, {"b": b + 2}):
        y = x @ given.get("w", w) + given.get("b", b)
        np.testing.assert_allclose(program(x=x, **given), y, rtol=1e-5)
        (wanted,) = onnxruntime_answers(proto, x=x, **given)
        np.testing.assert_allclose(program(x, **given), wanted, rtol=1e-5)
    with pytest.raises(InputError, match=r"input 'b' must be float32 of shape \(4,\)"):
        program(x, b=b[:2])
    program.save(tmp_path)
    loaded = glenside.load(tmp_path)
    np.testing.assert_allclose(loaded(x), x @ w + b, rtol=1e-5)
    with pytest.raises(InputError, match=r"holds for 'b': make .* shapes=\{'b': \(4,\)\}"):
        loaded(x, b=b)


@pytest.mark.parametrize("name", ["self", "args", "kwargs", "inputs", "target", "class", "x.y"])
def test_inputs_have_any_name(name):
    node = helper.make_node("Relu", [name], ["y"])
    info = helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,))
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (2,))
    proto = helper.make_model(helper.make_graph([node], "g", [info], [result]))
    program = glenside.optimize(proto, "cpu", check=False)
    x, right = np.float32([-1, 2]), np.float32([0, 2])
    np.testing.assert_array_equal(program(**{name: x}), right)
    np.testing.assert_array_equal(program({name: x}), right)
    np.testing.assert_array_equal(program.run(**{name: x})[0], right)
    assert program.trace(**{name: x})


@pytest.mark.parametrize("target", ["cpu", "systolic-array:4x4"])
def test_a_loaded_program_is_exported_as_it_was(target, tmp_path):
    program = glenside.optimize(small_network(), target, check=False)
    program.save(tmp_path / "program")
    loaded = glenside.load(tmp_path / "program")
    image = np.random.default_rng(0).standard_normal((1, 4, 9, 7)).astype("float32")
    (expected,) = onnxruntime_answers(small_network(), image=image)
    for opset in (None, 17):
        (got,) = onnxruntime_answers(loaded.to_onnx(opset=opset), image=image)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    program.to_c(tmp_path / "before")
    loaded.to_c(tmp_path / "after")
    files = sorted(each.name for each in (tmp_path / "before").iterdir())
    for name in files:
        assert (tmp_path / "before" / name).read_bytes() == (tmp_path / "after" / name).read_bytes()
    assert len(loaded.to_relax().functions) == len(program.to_relax().functions)
