"""What TVM's own importer makes of the light ONNX models gives the right outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from glenside.frontends.relax import import_relax
from glenside.language import evaluate

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("keep", [False, True], ids=["constants", "parameters"])
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_light_model(name: str, keep: bool) -> None:
    from tvm.relax.frontend.onnx import from_onnx

    proto = onnx.load(LIGHT / f"light_{name}.onnx")
    model = import_relax(from_onnx(proto, keep_params_in_input=keep))
    ((inputs, kind),) = model.inputs.items()
    x = (np.arange(kind.size).reshape(kind.shape) / kind.size).astype("float32")
    (got,) = evaluate(model.roots, {**model.params, inputs: x})
    wanted = onnx.numpy_helper.to_array(
        onnx.load_tensor(LIGHT / f"light_{name}_output_0.pb"),
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)
    assert model.operators["nn.conv2d"] == (26 if name == "squeezenet" else 49)
