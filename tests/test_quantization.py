"""Float models that are quantised on request: exact integer programs, at a stated cost."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import glenside
from glenside.cli import app
from glenside.errors import InputError
from glenside.frontends import load_model
from glenside.language import evaluate, topological_order
from glenside.quantization import Quantization, as_quantization, quantize
from glenside.report import Report
from tests.models import onnxruntime_answers, small_network

SHAPE = (1, 4, 9, 7)
IMAGES = np.random.default_rng(1).standard_normal((5, *SHAPE)).astype("float32")


def by_hand(image, largest):
    """The small network with integers for its products, in NumPy."""
    graph = small_network().graph
    w, bias, v, c = (
        np.frombuffer(t.raw_data, "float32").reshape(t.dims) for t in graph.initializer
    )

    def codes(x, scale):
        return np.clip(np.rint(x / np.float32(scale)), -127, 127).astype("int64")

    def rows(weights):
        scale = np.abs(weights).reshape(len(weights), -1).max(1) / np.float32(127)
        return codes(weights, scale.reshape(-1, *[1] * (weights.ndim - 1))), scale

    def real(sums, scale):
        return sums.astype("float32") * np.asarray(scale, "float32")

    first, second = (np.float32(n / 127) for n in largest)
    q = np.pad(codes(image, first), ((0, 0), (0, 0), (1, 0), (0, 2)))
    looks = np.lib.stride_tricks.sliding_window_view(q, (3, 3), (2, 3))[:, :, ::2]
    filters, scale = rows(w)
    sums = [
        np.einsum("nchwij,ocij->nohw", looks[:, 2 * g : 2 * g + 2], filters[3 * g : 3 * g + 3])
        for g in (0, 1)
    ]
    conv = real(np.concatenate(sums, 1), (first * scale).reshape(-1, 1, 1)) + bias.reshape(-1, 1, 1)
    pooled = np.maximum(conv, 0).mean((2, 3))
    layer, scale = rows(v)
    return real(codes(pooled, second) @ layer.T, second * scale) + c, np.abs(pooled).max()


def test_the_program_is_the_quantised_one_and_the_report_says_what_that_costs():
    program = glenside.optimize(small_network(), "vta:int8", quantize={"image": IMAGES})
    report = program.report
    assert report.offloads == {"vta": 2}
    assert report.quantization.samples == 5
    assert report.quantization.products == 2
    assert report.max_rel_error < 1e-6, "the check compares with the quantised model"
    exact = np.stack([onnxruntime_answers(small_network(), image=x)[0] for x in IMAGES])
    got = np.stack([program(x) for x in IMAGES])
    error = np.linalg.norm(got - exact) / np.linalg.norm(exact)
    assert 1e-4 < error < 0.05
    (name,) = report.quantization.relative
    assert report.quantization.relative[name] == pytest.approx(error, rel=1e-3)
    same = np.mean(got.argmax(-1) == exact.argmax(-1))
    assert report.quantization.top1 == {name: same}
    assert f"{error:.2%}" in str(report).replace("\n", " ")
    assert not report.note


def test_it_computes_what_the_definition_says():
    pooled = []
    for image in IMAGES:
        relu = np.abs(evaluate_float(image)["pooled"]).max()
        pooled.append(relu)
    largest = (np.abs(IMAGES).max(), max(pooled))
    program = glenside.optimize(small_network(), "vta:int8", quantize={"image": IMAGES})
    image = np.random.default_rng(9).standard_normal(SHAPE).astype("float32")
    want, _ = by_hand(image, largest)
    np.testing.assert_allclose(program(image), want, rtol=1e-5, atol=1e-5)


def evaluate_float(image):
    model = load_model(small_network())
    named = {name: term for term, name in model.names.items()}
    names = ["pooled"]
    values = evaluate([named[n] for n in names], {**model.params, "image": image})
    return dict(zip(names, values, strict=True))


def test_percentiles_saturate_and_samples_may_come_in_any_form(tmp_path):
    np.savez(tmp_path / "samples.npz", image=IMAGES)
    forms = [
        {"image": IMAGES},
        {"image": IMAGES[:, 0]},
        [{"image": image} for image in IMAGES],
        Quantization({"image": IMAGES}),
        str(tmp_path / "samples.npz"),
    ]
    model = load_model(small_network())
    made = [quantize(model, as_quantization(form))[0].outputs for form in forms]
    assert all(each == made[0] for each in made)
    narrow, error = quantize(model, Quantization({"image": IMAGES}, percentile=90))
    assert narrow.outputs != made[0]
    assert error.relative["scores"] > 0


def test_the_model_is_quantised_before_anything_else_and_for_any_target():
    program = glenside.optimize(small_network(), "cpu", quantize={"image": IMAGES})
    dots = [
        t for t in topological_order(program.terms) if t.op == "compute" and t["function"] == "dot"
    ]
    assert {t.dtype for t in dots} == {"int32"}
    assert {t.children[0].dtype for t in dots} == {"int8"}


def test_a_float_model_is_told_how_to_be_quantised_and_not_quantised():
    program = glenside.optimize(small_network(), "vta:int8")
    assert program.report.offloads == {}
    assert program.report.note == (
        "vta:int8 multiplies int8 only, and 2 products of float32 stayed on the host: "
        "quantise the model with quantize=samples (--quantize SAMPLES.npz)"
    )
    assert "quantise the model with" in str(program.report)
    (expected,) = onnxruntime_answers(small_network(), image=IMAGES[0])
    np.testing.assert_allclose(program(IMAGES[0]), expected, rtol=1e-4)
    assert not glenside.optimize(small_network(), "vta", check=False).report.note


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "'image' is missing"),
        ([], "no samples"),
        ({"image": IMAGES, "y": IMAGES}, "'y' is not one of them"),
        ({"image": IMAGES[:, :, :, :3]}, r"float32 of shape \(1, 4, 9, 7\)"),
        ({"image": IMAGES.astype("float64")}, "got float64"),
        ({"image": np.full(SHAPE, np.nan, "float32")}, "infinite or nan"),
        (3, "quantize takes samples"),
        ("missing.npz", "cannot read missing.npz: No such file"),
        ("x.npy", "x.npy holds one array without a name"),
        ("zip.npz", "zip.npz is not an .npz archive"),
    ],
)
def test_samples_that_do_not_fit_are_refused(given, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", IMAGES)
    (tmp_path / "zip.npz").write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(InputError, match=says):
        quantize(load_model(small_network()), as_quantization(given))


@pytest.mark.parametrize("percentile", [0, -1, 100.1, float("nan"), "99", None])
def test_a_percentile_is_a_number_up_to_100(percentile):
    with pytest.raises(InputError, match="percentile must be a number above 0"):
        Quantization({"image": IMAGES}, percentile)


def test_a_report_is_read_back_with_what_quantising_cost():
    program = glenside.optimize(small_network(), "cpu", quantize={"image": IMAGES}, check=False)
    again = Report.from_json(json.loads(json.dumps(program.report.to_json())))
    assert again == program.report


def test_the_command_line_quantises(tmp_path):
    import onnx

    onnx.save(small_network(), tmp_path / "net.onnx")
    np.savez(tmp_path / "samples.npz", image=IMAGES)
    arguments = ["optimize", str(tmp_path / "net.onnx"), "-t", "vta:int8", "--json"]
    arguments += ["--quantize", str(tmp_path / "samples.npz"), "--percentile", "99.9"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["quantization"]["samples"] == 5
