"""Runs one ONNX operator that has no access-pattern meaning, through onnxruntime.

onnx and onnxruntime are imported when the first such operator runs: programs without one need
neither.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glenside.errors import GlensideError
from glenside.language.shape import BFLOAT16, Shape

Array = np.ndarray[Any, Any]

_CASTS = 13
"""The opset whose ``Cast`` has bfloat16."""


def run_host_op(attributes: Mapping[str, Any], operands: list[Array]) -> Array:
    """The output of a ``host_op`` term with these attributes on these operands.

    :raises GlensideError: onnxruntime refuses the operator, or its result is not of the shape and
        dtype that the term declares.
    """
    what = f"host-op {attributes['operator']} (opset {attributes['version']})"
    try:
        result = _run(attributes, operands)
    except GlensideError:
        raise
    except Exception as problem:  # onnxruntime's errors share no base class.
        raise GlensideError(f"{what}: {str(problem).splitlines()[0]}") from problem
    if (result.shape, result.dtype.name) != (attributes["shape"], attributes["dtype"]):
        raise GlensideError(
            f"{what}: declared as {attributes['dtype']} of shape {attributes['shape']}, "
            f"computed {result.dtype.name} of shape {result.shape}"
        )
    return result


def refusal(attributes: Mapping[str, Any], operands: Sequence[tuple[str, Shape]]) -> str | None:
    """Why onnxruntime would not run such a term on operands of these dtypes and shapes.

    None when it would, or when it is not installed here.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    try:
        _session_of(attributes, tuple(operands))
    except Exception as problem:  # onnxruntime's errors share no base class.
        return str(problem).splitlines()[0]
    return None


def _session_of(attributes: Mapping[str, Any], operands: tuple[tuple[str, Shape], ...]) -> Any:
    return _session(
        attributes["operator"],
        attributes["domain"],
        attributes["version"],
        attributes["attributes"],
        attributes["output"],
        operands,
        attributes["dtype"],
    )


def _run(attributes: Mapping[str, Any], operands: list[Array]) -> Array:
    session = _session_of(attributes, tuple((each.dtype.name, each.shape) for each in operands))
    # onnxruntime's Python does not know bfloat16, which its model casts from and to instead.
    feeds = {
        f"x{i}": np.asarray(array, _given(array.dtype.name), order="C")
        for i, array in enumerate(operands)
    }
    (result,) = session.run(None, feeds)
    result = np.asarray(result)
    return result.astype(BFLOAT16) if attributes["dtype"] == BFLOAT16.name else result


def _given(dtype: str) -> str:
    """The dtype in which onnxruntime is given values of a dtype, and gives them."""
    return "float32" if dtype == "bfloat16" else dtype


@functools.lru_cache(maxsize=256)
def _session(
    operator: str,
    domain: str,
    version: int,
    attributes: str,
    output: int,
    operands: tuple[tuple[str, tuple[int, ...]], ...],
    dtype: str,
) -> Any:
    try:
        import onnx
        import onnxruntime
    except ImportError as problem:
        raise GlensideError(
            f"{operator} runs on onnxruntime, which is not installed: pip install glenside[host]"
        ) from problem
    helper = onnx.helper

    def element(name: str) -> int:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))

    inputs = [
        helper.make_tensor_value_info(f"x{i}", element(_given(name)), shape)
        for i, (name, shape) in enumerate(operands)
    ]
    nodes = []
    # The other outputs are named too, for not all operators let them be absent.
    count = output + 1
    if onnx.defs.has(operator, domain):
        count = max(count, onnx.defs.get_schema(operator, version, domain).min_output)
    result = "y" if dtype == _given(dtype) else "half"
    outputs = [result if i == output else f"unused{i}" for i in range(count)]
    given = json.loads(attributes)
    names = [each.name for each in inputs]
    for i, (name, _) in enumerate(operands):
        if name != _given(name):
            names[i] = f"half{i}"
            nodes.append(helper.make_node("Cast", [f"x{i}"], [names[i]], to=element(name)))
    for position in given.pop("@absent", ()):
        names.insert(position, "")  # An optional operand that is left out.
    protos = [name for name, value in given.items() if isinstance(value, dict)]
    serialised = [base64.b64decode(given.pop(name)["@proto"]) for name in protos]
    node = helper.make_node(operator, names, outputs, domain=domain, **given)
    node.attribute.extend(map(onnx.AttributeProto.FromString, serialised))
    nodes.append(node)
    if result != "y":
        nodes.append(helper.make_node("Cast", [result], ["y"], to=element(_given(dtype))))
    given_type = helper.make_tensor_value_info("y", element(_given(dtype)), None)
    graph = helper.make_graph(nodes, operator, inputs, [given_type])
    opsets = {domain: version}
    if len(nodes) > 1:
        opsets.setdefault("", _CASTS)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(name, of) for name, of in opsets.items()]
    )
    model.ir_version = min(model.ir_version, 10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # What goes wrong is raised; nobody reads a log.
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
