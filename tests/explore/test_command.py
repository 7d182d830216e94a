"""``glenside explore``."""

import json

import onnx
import pytest
from typer.testing import CliRunner

from glenside.cli import app
from glenside.explore import compare
from tests.models import small_network

ARRAY = "systolic-array:16x16"


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(small_network(), str(path))
    return str(path)


def run(*arguments):
    return CliRunner().invoke(app, ["explore", *map(str, arguments)], terminal_width=200)


def test_a_table_tells_every_pass(model):
    done = run(model, "--target", ARRAY)
    assert done.exit_code == 0, done.output
    assert "net for systolic-array:16x16" in done.output
    assert "stop reason: saturated" in done.output
    assert "flatten-" in done.output


def test_it_stops_where_a_pattern_is_found(model):
    done = run(model, "--target", ARRAY, "--until", "(blocked ?unit ?size ?x ?w)")
    assert done.exit_code == 0, done.output
    assert "\nfound\n" in done.output
    assert "stopped where the pattern was found" in done.output
    done = run(model, "--until", "(blocked ?unit ?size ?x ?w)")
    assert "\nnot found\n" in done.output


def test_tables_as_json_can_be_compared_with_another_run(model, tmp_path):
    for name, limit in (("few", 20), ("many", 9999)):
        done = run(model, "--target", ARRAY, "--json", "--node-limit", limit)
        assert done.exit_code == 0, done.output
        (tmp_path / f"{name}.json").write_text(done.stdout)
    found = json.loads((tmp_path / "few.json").read_text())
    assert found["stop_reason"] == "node_limit"
    few, many = compare(few=tmp_path / "few.json", many=tmp_path / "many.json").summary()
    assert few["nodes"] < many["nodes"]


def test_page_and_charts_are_written(model, tmp_path):
    page, charts = tmp_path / "page.html", tmp_path / "charts.svg"
    done = run(model, "--html", page, "--plot", charts)
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("<!doctype html>")
    assert charts.read_text().lstrip().startswith("<svg")
