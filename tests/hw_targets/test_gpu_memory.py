"""Devices that are short of memory weigh it when a form and a mapping are chosen; others do not."""

import sys
from pathlib import Path

import pytest

from glenside.codegen.device.compile import plan_for_device
from glenside.extraction import extract
from glenside.hw_targets import find_target
from glenside.language import topological_order
from glenside.rewrites import saturate

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
_conv_layers = pytest.importorskip("_conv_layers")
LAYERS = {layer.name: layer for layer in _conv_layers.LAYERS}
DENSE = [layer for layer in LAYERS.values() if layer.groups == 1 and layer.r > 1]


def chosen(layer, target):
    """The form that the target picks of a layer, and the layer as it is said."""
    term = _conv_layers.direct(layer, 1, "float32")
    explored = saturate([term], target.rules())
    found = extract(explored.egraph, target.cost_model(), original=[term], constants={"w"})
    return found.terms, term


def planned(terms, target, params, limits=None):
    types = {t["name"]: t.type for t in topological_order(terms) if t.op == "tensor"}
    types = {name: type_ for name, type_ in types.items() if name not in params}
    return plan_for_device(terms, types, params, limits or target.limits, target.dialect)


def weights(layer):
    return {"w": layer.arrays(1, 0, "float32")[1]}


def test_a_phones_gpu_holds_far_less_than_im2col_and_is_not_slower():
    """All dense convolutions of VGG and ResNet that are not 1 x 1, as benchmarks/memory.py has
    them; of im2col only the matrix of windows counts here, which any way of it holds."""
    from memory import measure

    target = find_target("opencl:mali-g72")
    assert len(DENSE) == 14
    held, matrices, rewritten = 0, 0, []
    for layer in DENSE:
        terms, said = chosen(layer, target)
        matrix, _ = _conv_layers.im2col(layer, 1, "float32")
        own = planned(terms, target, weights(layer)).footprint.held
        held, matrices = held + own, matrices + matrix.type.nbytes
        assert own <= matrix.type.nbytes, layer.name
        if terms[0] is not said:
            rewritten.append(layer.name)
    assert matrices >= 3.6 * held
    assert rewritten == ["vgg2_2", "vgg3_1", "vgg3_2"], "where a byte saves most"
    rows = [measure(LAYERS[name], target) for name in ("vgg3_2", "vgg4_1", "rn_2b", "rn_5b")]
    ours, theirs = (sum(row[f"{way} seconds"] for row in rows) for way in ("ours", "im2col"))
    assert ours <= theirs
    for row in rows[:3]:
        assert row["ours seconds"] <= row["im2col seconds"], row["layer"]


@pytest.mark.parametrize(
    ("name", "rewritten", "mapping"),
    [
        (
            "rn_3b",
            False,
            {"threads": [16, 7, 2, 1, 1, 1], "registers": [4, 1, 7, 1, 1, 1], "buffers": 2,
             "chunk": [1, 1, 1, 8, 3, 3], "split": [1, 1, 1, 8, 1, 1]},
        ),
        (
            "vgg3_2",
            True,
            {"rows": 64, "columns": 32, "depth": 16, "tile": [8, 8], "parts": 2},
        ),
    ],
)  # fmt: skip
def test_a_large_gpu_chooses_by_time_alone(name, rewritten, mapping):
    """As before memory was weighed at all: partial sums and transforms wherever they are faster."""
    target = find_target("cuda:sm_90")
    layer = LAYERS[name]
    terms, said = chosen(layer, target)
    assert (terms[0] is not said) == rewritten
    (found,) = planned(terms, target, weights(layer)).mappings
    assert {key: found[key] for key in mapping} == mapping
