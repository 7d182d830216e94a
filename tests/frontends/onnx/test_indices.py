"""Indices out of range are errors: of the import where they are known, of the call where inputs
give them."""

import numpy as np
import pytest
from onnx import helper

from glenside.errors import InputError, ModelError
from glenside.frontends.onnx import import_model

X = np.arange(12, dtype=np.float32).reshape(4, 3)
# Operator, its attributes, good indices, bad ones, and what the error names.
CASES = {
    "rows": ("Gather", {}, [0, -4, 3], [0, 4], "from -4 to 3 along axis 0"),
    "columns": ("Gather", {"axis": -1}, [[2], [-3]], [[-4]], "from -3 to 2 along axis 1"),
    "one number": ("Gather", {}, -1, 4, "from -4 to 3 along axis 0"),
    "elements": ("GatherElements", {}, [[3, 0]], [[0, -5]], "from -4 to 3 along axis 0"),
    "pairs": ("GatherND", {}, [[3, 2], [-4, -3]], [[2, 3]], "from -3 to 2 along axis 1"),
    "batches": ("GatherND", {"batch_dims": 1}, [[2], [0], [-3], [1]], [[3], [0], [0], [0]],
                "from -3 to 2 along axis 1"),
    "put elements": ("ScatterElements", {"axis": 1}, [[2, -3]], [[3, 0]], "from -3 to 2 along"),
    "put rows": ("ScatterND", {}, [[3], [-4]], [[4], [0]], "from -4 to 3 along axis 0"),
    "add rows": ("ScatterND", {"reduction": "add"}, [[3], [3]], [[-5], [0]], "from -4 to 3 along"),
}  # fmt: skip


def model(ask, name, indices, fixed):
    operator, attributes, *_ = CASES[name]
    indices = np.array(indices, np.int64)
    feeds, operands = {"x": X, "at": indices}, ["x", "at"]
    if operator.startswith("Scatter"):
        shape = indices.shape if "Elements" in operator else (*indices.shape[:-1], 3)
        feeds["u"] = np.full(shape, 50, np.float32)
        operands.append("u")
    node = helper.make_node(operator, operands, ["y"], name="node", **attributes)
    constants = {"at": feeds.pop("at")} if fixed else {}
    return ask.model_of([node], feeds, ["y"], constants), feeds


@pytest.mark.parametrize("name", CASES)
def test_indices_in_range(ask, name):
    proto, feeds = model(ask, name, CASES[name][2], False)
    imported = ask.same(proto, feeds)
    assert imported.requirements
    for each in imported.requirements:
        each.check(feeds)


@pytest.mark.parametrize("name", CASES)
def test_indices_that_are_inputs_are_checked_in_every_call(ask, name):
    bad, says = CASES[name][3:]
    proto, feeds = model(ask, name, bad, False)
    with pytest.raises(InputError, match=rf"input .at.: node .node. .*{says}.*, got -?[345]"):
        for each in import_model(proto).requirements:
            each.check(feeds)


@pytest.mark.parametrize("name", CASES)
def test_indices_that_are_constants_are_checked_at_once(ask, name):
    proto, _ = model(ask, name, CASES[name][3], True)
    with pytest.raises(
        ModelError, match=rf"node .node. .*: takes .*{CASES[name][4]}.*, got -?[345]"
    ):
        import_model(proto)


def test_indices_that_are_computed_from_inputs(ask):
    """OPT looks positions up from the third on: an input and a constant number."""
    nodes = [
        helper.make_node("Add", ["at", "two"], ["from2"]),
        helper.make_node("Gather", ["x", "from2"], ["y"]),
    ]
    feeds = {"x": X, "at": np.array([0, 1])}
    imported = ask.same(ask.model_of(nodes, feeds, ["y"], {"two": np.int64(2)}), feeds)
    (asked,) = imported.requirements
    with pytest.raises(InputError, match=r"input 'at': .* from -4 to 3 .*, got 4"):
        asked.check({"at": np.array([0, 2])})


def test_indices_that_the_program_computes_from_floats_are_not_checked(ask):
    nodes = [
        helper.make_node("ArgMax", ["x"], ["at"], axis=0),
        helper.make_node("Gather", ["x", "at"], ["y"]),
    ]
    imported = ask.same(ask.model_of(nodes, {"x": X}, ["y"]), {"x": X})
    assert imported.requirements == ()


# Operator, opset, attributes, operands, the one that is given at the call and is wrong, the error.
OTHERS = {
    "sequences": ("ReverseSequence", 13, {"time_axis": 0, "batch_axis": 1}, [X, [5, 0, 1]], 1,
                  "takes sequence lengths from 0 to 4, got 5"),
    "images": ("RoiAlign", 16, {"sampling_ratio": 1}, [X.reshape(2, 1, 2, 3), [[0.0, 0, 1, 1]],
               [2]], 2, "takes regions of the images 0 to 1, got 2"),
    "places": ("MaxUnpool", 13, {"kernel_shape": [2, 2], "strides": [2, 2]},
               [X[:1, :2].reshape(1, 1, 1, 2), [[[[0, 8]]]]], 1,
               "takes indices from 0 to 7, got 8"),
    "rows written": ("TensorScatter", 24, {"axis": 1}, [X[None], X[None, :2], [3]], 2,
                     "takes starts from 0 to 2 along axis 1, got 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("fixed", [False, True])
def test_numbers_that_choose_what_is_read(ask, name, fixed):
    operator, opset, attributes, operands, wrong, says = OTHERS[name]
    arrays = {f"in{i}": np.asarray(each) for i, each in enumerate(operands)}
    arrays = {n: a.astype(np.float32) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    node = helper.make_node(operator, list(arrays), ["y"], name="node", **attributes)
    constants = {f"in{wrong}": arrays[f"in{wrong}"]} if fixed else {}
    feeds = {each: array for each, array in arrays.items() if each not in constants}
    with pytest.raises(ModelError if fixed else InputError, match=rf"node .node. .*{says}"):
        for each in import_model(ask.model_of([node], feeds, ["y"], constants, opset)).requirements:
            each.check(feeds)
