"""Runs ONNX operators that have no access-pattern meaning, through onnxruntime.

onnx and onnxruntime are imported when the first such operator runs: programs without one need
neither.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import GlensideError
from glenside.language.shape import BFLOAT16, Shape

Array = np.ndarray[Any, Any]
Types = Mapping[str, tuple[str, Shape]]
"""Dtype and shape by name."""

ABSENT = "@absent"
"""Among the attributes of a ``host_op`` term: positions of operands that are left out."""
OUTPUTS = "@outputs"
"""Among them: positions of the outputs that the model names, unless it is the first alone."""
PROTO = "@proto"
"""An attribute without a plain spelling: its serialised form in base 64."""

_CASTS = 13
"""The opset whose ``Cast`` has bfloat16."""
_UNKNOWN = ("is not a registered function/op", "No Op registered")
"""What onnxruntime says of an operator that it does not have."""
_LARGEST = 1 << 30
"""Bytes of constants that a session's model holds; a model can have 2 GB."""


@dataclass(frozen=True)
class HostNode:
    """An ONNX operator and what its operands and results are called; ``""``: left out.

    ``attributes`` are those of a ``host_op`` term without what they say of operands.
    """

    operator: str
    domain: str
    version: int
    attributes: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @staticmethod
    def of(
        attributes: Mapping[str, Any], operands: Sequence[str], outputs: Sequence[str]
    ) -> HostNode:
        """The node of a ``host_op`` term with these attributes, operands and outputs."""
        given = json.loads(attributes["attributes"])
        names = list(operands)
        for position in given.pop(ABSENT, ()):
            names.insert(position, "")
        given.pop(OUTPUTS, None)
        return HostNode(
            attributes["operator"],
            attributes["domain"],
            attributes["version"],
            json.dumps(given, sort_keys=True),
            tuple(names),
            tuple(outputs),
        )

    def proto(self) -> Any:
        """The operator as onnx has it."""
        import onnx

        given = json.loads(self.attributes)
        serialised = [given.pop(name) for name in list(given) if isinstance(given[name], dict)]
        node = onnx.helper.make_node(
            self.operator,
            self.inputs,
            self.outputs,
            next(name for name in self.outputs if name),
            domain=self.domain,
            **given,
        )
        node.attribute.extend(
            onnx.AttributeProto.FromString(base64.b64decode(each[PROTO])) for each in serialised
        )
        return node


class HostSession:
    """Host operators that run together, in one onnxruntime session.

    :param nodes: in order; the opsets of one domain are the same.
    :param inputs: what each run is given.
    :param outputs: what each run gives.
    :param constants: what never changes: onnxruntime prepares it once.
    :param threads: worker threads; they sleep while nothing runs. onnxruntime's choice by default.
    :raises GlensideError: onnxruntime is not installed.
    :raises Exception: of onnxruntime, where it refuses the operators.
    """

    def __init__(
        self,
        nodes: Sequence[HostNode],
        inputs: Types,
        outputs: Types,
        constants: Mapping[str, Array] | None = None,
        threads: int = 0,
    ) -> None:
        self.operators = "+".join(dict.fromkeys(node.operator for node in nodes))
        self._inputs, self._outputs = dict(inputs), dict(outputs)
        self._fed: dict[str, Array] = {}
        held: dict[str, Array] = {}
        size = 0
        for name, array in (constants or {}).items():
            size += array.nbytes
            kept = held if size <= _LARGEST else self._fed
            kept[name] = np.ascontiguousarray(array)
        types = self._inputs | {n: (a.dtype.name, a.shape) for n, a in self._fed.items()}
        self._session = _session(_model(nodes, types, self._outputs, held), threads)

    def run(self, operands: Mapping[str, Array]) -> list[Array]:
        """The outputs, in order.

        :raises GlensideError: onnxruntime fails, or a result is not of the declared type.
        """
        # onnxruntime's Python does not know bfloat16, which the model casts from and to instead.
        feeds = {
            _outside(name, array.dtype.name): np.asarray(array, _given(array.dtype.name), order="C")
            for name, array in {**operands, **self._fed}.items()
        }
        wanted = [_outside(name, dtype) for name, (dtype, _) in self._outputs.items()]
        try:
            found = self._session.run(wanted, feeds)
        except Exception as problem:  # onnxruntime's errors share no base class.
            raise GlensideError(
                f"host-op {self.operators}: {str(problem).splitlines()[0]}"
            ) from problem
        results = []
        for (dtype, shape), value in zip(self._outputs.values(), found, strict=True):
            result = np.asarray(value)
            if dtype == BFLOAT16.name:
                result = result.astype(BFLOAT16)
            if (result.dtype.name, result.shape) != (dtype, tuple(shape)):
                raise GlensideError(
                    f"host-op {self.operators}: declared as {dtype} of shape {tuple(shape)}, "
                    f"computed {result.dtype.name} of shape {result.shape}"
                )
            results.append(result)
        return results


def run_host_op(attributes: Mapping[str, Any], operands: list[Array]) -> Array:
    """The output of a ``host_op`` term with these attributes on these operands.

    :raises GlensideError: onnxruntime refuses the operator, or its result is not of the shape and
        dtype that the term declares.
    """
    try:
        session = _alone(attributes, tuple((each.dtype.name, each.shape) for each in operands))
    except GlensideError:
        raise
    except Exception as problem:  # onnxruntime's errors share no base class.
        what = f"host-op {attributes['operator']} (opset {attributes['version']})"
        raise GlensideError(f"{what}: {str(problem).splitlines()[0]}") from problem
    (result,) = session.run({f"x{i}": array for i, array in enumerate(operands)})
    return result


def refusal(attributes: Mapping[str, Any], operands: Sequence[tuple[str, Shape]]) -> str | None:
    """Why onnxruntime would not run such a term on operands of these dtypes and shapes.

    None when it would, or when it is not installed here.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return None
    try:
        _alone(attributes, tuple(operands))
    except Exception as problem:  # onnxruntime's errors share no base class.
        return str(problem).splitlines()[0]
    return None


@functools.cache
def runtime_has(domain: str, operator: str) -> bool:
    """Whether onnxruntime is installed and has such an operator."""
    if not all(importlib.util.find_spec(each) for each in ("onnx", "onnxruntime")):
        return False
    import onnx

    version = 1 if domain else onnx.defs.onnx_opset_version()
    node = HostNode(operator, domain, version, "{}", (), ("y",))
    try:
        _session(_model([node], {}, {"y": ("float32", ())}, {}), 1)
    except Exception as problem:  # onnxruntime's errors share no base class.
        return not any(phrase in str(problem) for phrase in _UNKNOWN)
    return True


def named_outputs(attributes: Mapping[str, Any]) -> list[int]:
    """Positions of the outputs that the operator of a ``host_op`` term has to name.

    Where the term does not say it, those before its own are named too, and those that onnx demands.
    """
    named: list[int] | None = json.loads(attributes["attributes"]).get(OUTPUTS)
    if named is not None:
        return named
    import onnx

    count: int = attributes["output"] + 1
    operator, domain = attributes["operator"], attributes["domain"]
    if onnx.defs.has(operator, domain):
        schema: Any = onnx.defs.get_schema(operator, attributes["version"], domain)
        count = max(count, schema.min_output)
    return list(range(count))


def _alone(attributes: Mapping[str, Any], operands: tuple[tuple[str, Shape], ...]) -> HostSession:
    """The session of one term, the same for terms that are alike."""
    return _remembered(json.dumps({k: attributes[k] for k in sorted(attributes)}), operands)


@functools.lru_cache(maxsize=256)
def _remembered(spelled: str, operands: tuple[tuple[str, Shape], ...]) -> HostSession:
    attributes = json.loads(spelled)
    inputs = {f"x{i}": each for i, each in enumerate(operands)}
    _require()
    named = named_outputs(attributes)
    names = [f"y{i}" if i in named else "" for i in range(named[-1] + 1)]
    result = f"y{attributes['output']}"
    node = HostNode.of(attributes, list(inputs), names)
    return HostSession([node], inputs, {result: (attributes["dtype"], tuple(attributes["shape"]))})


def _require() -> None:
    if not all(importlib.util.find_spec(each) for each in ("onnx", "onnxruntime")):
        raise GlensideError(
            "operators without an access-pattern meaning run on onnxruntime, which is not "
            "installed: pip install 'glenside[host]'"
        )


def _given(dtype: str) -> str:
    """The dtype in which onnxruntime is given values of a dtype, and gives them."""
    return "float32" if dtype == BFLOAT16.name else dtype


def _outside(name: str, dtype: str) -> str:
    """What a value is called where it goes in or out."""
    return name if dtype == _given(dtype) else f"{name}@{_given(dtype)}"


def _model(
    nodes: Sequence[HostNode], inputs: Types, outputs: Types, constants: Mapping[str, Array]
) -> Any:
    """The ONNX model of these operators; values of bfloat16 are float32 outside of it."""
    _require()
    from onnx import helper, numpy_helper

    def element(name: str) -> int:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))

    halves = {name for name, (dtype, _) in {**inputs, **outputs}.items() if dtype != _given(dtype)}
    names = {n: _outside(n, dtype) for n, (dtype, _) in {**inputs, **outputs}.items()}

    def info(name: str, dtype: str, shape: Shape | None) -> Any:
        return helper.make_tensor_value_info(names[name], element(_given(dtype)), shape)

    casts = [
        helper.make_node("Cast", [names[name]], [name], to=element(dtype))
        for name, (dtype, _) in inputs.items()
        if name in halves
    ]
    uncasts = [
        helper.make_node("Cast", [name], [names[name]], to=element(_given(dtype)))
        for name, (dtype, _) in outputs.items()
        if name in halves
    ]
    graph = helper.make_graph(
        [*casts, *(node.proto() for node in nodes), *uncasts],
        "host",
        [info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
        # Shapes are compared once they are there: operators without inference have none here.
        [info(name, dtype, None) for name, (dtype, _) in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = {node.domain: node.version for node in nodes}
    if halves:
        opsets.setdefault("", _CASTS)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(name, of) for name, of in opsets.items()]
    )
    model.ir_version = min(model.ir_version, 10)
    return model


def _session(model: Any, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # What goes wrong is raised; nobody reads a log.
    options.intra_op_num_threads = threads
    # Threads that spin between runs would take the cores from the kernels around them.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
