"""What becomes of one ONNX file, and whether that is right.

onnxruntime is the judge where it runs the file; where its answer is another than ours, or it
refuses the file, the reference implementation that comes with ONNX is asked too. Both may crash:
they run in the same process, which the runner expects to lose, so what is known by then is reported
first.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import glenside
from glenside.errors import (
    CheckFailed,
    ExtractionError,
    GlensideError,
    NotOptimised,
    UnsoundRewrite,
    UnsupportedOperator,
)
from glenside.frontends.onnx import import_model
from glenside.frontends.onnx.loading import input_types
from glenside.language import AccessType, Model, evaluate, random_inputs, trace
from glenside.language.shape import FLOATS, is_float

Array = np.ndarray[Any, Any]

MOST_BYTES = 2**27
"""Of all values of a program together, for it to be run: a mutated shape may ask for any amount."""
HOPELESS = 2**40
MOST_PRODUCTS = 2 * 10**8
TARGETS = ("cpu", "systolic-array:4x4")
OURS = (CheckFailed, UnsoundRewrite, ExtractionError)
"""Errors of ours that no model is to blame for."""
RTOL = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-3, "float64": 1e-5}
"""Relative to the largest magnitude in the tensor."""

# How a case may end:
AGREES = "right"  # As onnxruntime, or as the reference implementation of ONNX where they differ.
REFUSED = "refused"  # One of our errors.
STRICTER = "refused, onnxruntime answers"
ALONE = "answered alone"  # onnxruntime refuses the model, or crashes.
INVALID = "answered alone, invalid"  # Moreover onnx.checker says that the model is not valid.
LARGE = "too large to run"
UNDEFINED = "undefined"  # Answers differ in what ONNX does not define.
UNLIKE = "unlike the reference"  # onnxruntime refuses; the reference, which has gaps, differs.
# and how it may not.
WRONG = "WRONG"
RAISED = "RAISED"
CRASHED = "CRASHED"
HUNG = "HUNG"
ANSWERED = (AGREES, ALONE, INVALID, UNDEFINED, UNLIKE, WRONG)
BAD = (WRONG, RAISED, CRASHED, HUNG)
WORDS = (AGREES, REFUSED, STRICTER, ALONE, INVALID, UNDEFINED, UNLIKE, LARGE, *BAD)


@dataclass(frozen=True)
class Outcome:
    """How one case ended, one of the words above, and more about it."""

    word: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.word in BAD


def judge(
    path: Path, rng: random.Random, compiled: bool, note: Callable[[Outcome], None]
) -> Outcome:
    """Imports and runs the file at ``path``, and compares.

    :param compiled: whether it is compiled as well.
    :param note: told how it stands before another runtime runs, which may end this process.
    """
    data = path.read_bytes()
    try:
        answer = _answer(path, data, rng, compiled)
    except OURS as problem:
        return Outcome(WRONG, f"{type(problem).__name__}: {problem}")
    except GlensideError as problem:
        said = str(problem)
        if "\n" in said or not said.strip():
            return Outcome(RAISED, f"a message that is not one line: {said}")
        kind = "unsupported" if isinstance(problem, UnsupportedOperator) else "error"
        refused = Outcome(REFUSED, f"{kind}: {said}")
        note(refused)
        # While it runs, an operand may be out of range: that is no fault of the model.
        return refused if _ran(problem) else _stricter(data, refused, rng)
    except (Exception, RecursionError) as problem:
        return Outcome(RAISED, f"{type(problem).__name__}: {problem} {_where(problem)}")
    if isinstance(answer, Outcome):
        return answer
    model, inputs, got = answer
    note(Outcome(ALONE, "onnxruntime crashes"))
    wanted = _onnxruntime(data, inputs)
    if isinstance(wanted, str):
        alone = _alone(data, wanted)
        note(alone)
        if alone.word == INVALID:
            return alone
        reference = _reference(data, inputs)
        if isinstance(reference, str):
            return alone
        difference = _difference(got, reference)
        if not difference:
            return Outcome(AGREES, f"as the reference, onnxruntime refuses: {wanted}")
        why = _unspecified(data, inputs, got) or _undefined(model, {**inputs, **model.params})
        if why:
            return Outcome(UNDEFINED, f"{why}: {difference}")
        return Outcome(UNLIKE, f"{difference} | onnxruntime: {wanted}")
    difference = _difference(got, wanted)
    if not difference:
        return Outcome(AGREES)
    differs = Outcome(WRONG, difference)
    note(differs)
    reference = _reference(data, inputs)
    if not isinstance(reference, str):
        if not _difference(got, reference):
            return Outcome(AGREES, f"as the reference, not as onnxruntime: {difference}")
        if not _difference(wanted, reference):
            differs = Outcome(WRONG, f"onnxruntime and the reference agree: {difference}")
    why = _unspecified(data, inputs, got) or _undefined(model, {**inputs, **model.params})
    return Outcome(UNDEFINED, f"{why}: {difference}") if why else differs


def _ran(problem: BaseException) -> bool:
    """Whether it was raised by a program that runs."""
    trace = problem.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in ("evaluate", "run"):
            return True
        trace = trace.tb_next
    return False


def _where(problem: BaseException) -> str:
    """The innermost place in our own code."""
    found, trace = "", problem.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "glenside/" in code.co_filename:
            found = f"({code.co_filename.split('glenside/')[-1]}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _answer(
    path: Path, data: bytes, rng: random.Random, compiled: bool
) -> tuple[Model, dict[str, Array], list[Array]] | Outcome:
    shapes = _open_shapes(data, rng)
    model = import_model(path, shapes=shapes)
    reason = _too_large(model)
    if reason:
        if any(term.type.nbytes > HOPELESS for term in model.terms()):
            # No machine holds it: what follows has to say so.
            glenside.optimize(path, "cpu", shapes=shapes, node_limit=5_000, iter_limit=5)
        return Outcome(LARGE, reason)
    inputs = random_values(model.inputs, rng)
    got = evaluate(model.roots, {**inputs, **model.params})
    if compiled:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", NotOptimised)
                program = glenside.optimize(
                    path, rng.choice(TARGETS), shapes=shapes, node_limit=5_000, iter_limit=5
                )
        except CheckFailed:
            tried = random_inputs(model.inputs, roots=model.roots)
            why = _undefined(model, {**tried, **model.params})
            if why:
                return Outcome(UNDEFINED, f"{why}, once compiled")
            raise
        difference = _difference(program.run(inputs), got)
        if difference:
            why = _undefined(model, {**inputs, **model.params})
            return Outcome(UNDEFINED if why else WRONG, f"once compiled: {difference} {why}")
    return model, inputs, got


def _open_shapes(data: bytes, rng: random.Random) -> dict[str, tuple[int, ...]] | None:
    """Lengths for the axes that are open, mostly; where they are not given we are to ask."""
    try:
        graph = onnx.ModelProto.FromString(data).graph
        held = {each.name for each in graph.initializer}
        lengths: dict[str, int] = {}
        shapes = {}
        for info in graph.input:
            kind = info.type.tensor_type
            if info.name in held or not kind.HasField("shape"):
                continue
            dims = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
            if min(dims, default=0) < 0:
                names = [dim.dim_param or f"d{i}" for i, dim in enumerate(kind.shape.dim)]
                shapes[info.name] = tuple(
                    n if n >= 0 else lengths.setdefault(name, rng.choice((1, 2, 2, 3)))
                    for n, name in zip(dims, names, strict=True)
                )
    except Exception:  # It is a broken file: the importer is to say so.
        return None
    return shapes if shapes and rng.random() < 0.8 else None


def _too_large(model: Model) -> str:
    # An input that nothing reads is none of the terms.
    size = 8 * sum(each.size for each in model.inputs.values())
    for term in model.terms():
        if term.op == "cart_prod":
            if term.type.size > MOST_PRODUCTS:
                return f"{term.type.size} products"
        else:
            size += term.type.nbytes
    return f"{size} bytes" if size > MOST_BYTES else ""


def random_values(types: Mapping[str, AccessType], rng: random.Random) -> dict[str, Array]:
    """Inputs of small numbers, some alike, some zero; now and then the extremes of their dtype."""
    draw = np.random.default_rng(rng.getrandbits(64))
    values = {}
    for name, kind in types.items():
        if kind.dtype == "bool":
            value = np.asarray(draw.integers(0, 2, kind.shape)).astype("bool")
        elif kind.dtype in FLOATS:
            value = np.asarray(draw.standard_normal(kind.shape))
            if rng.random() < 0.3:
                value = np.round(2 * value) / 2
            value = np.asarray(value, kind.dtype)
        else:
            least, most = rng.choice(((0, 1), (0, 1), (-1, 2), (0, 5), (-4, 6)))
            least = max(least, 0) if kind.dtype.startswith("u") else least
            value = np.asarray(draw.integers(least, most + 1, kind.shape)).astype(kind.dtype)
            if value.size and rng.random() < 0.05:
                limits = np.iinfo(kind.dtype)
                value.reshape(-1)[draw.integers(value.size)] = rng.choice((limits.min, limits.max))
        values[name] = value
    return values


# --- other runtimes -------------------------------------------------------------------------------


def _onnxruntime(data: bytes, inputs: Mapping[str, Array]) -> list[Any] | str:
    """Its answers, or why there are none."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Its rewrites change NaNs and overflows, and have bugs of their own.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, {x.name: inputs[x.name] for x in session.get_inputs()}))
    except Exception as problem:  # Its errors share no base class.
        return _line(problem)


def _reference(data: bytes, inputs: Mapping[str, Array]) -> list[Any] | str:
    from onnx.reference import ReferenceEvaluator

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(onnx.ModelProto.FromString(data))
            return [np.asarray(x) for x in evaluator.run(None, dict(inputs))]
    except Exception as problem:
        return _line(problem)


def _stricter(data: bytes, refused: Outcome, rng: random.Random) -> Outcome:
    """Whether onnxruntime runs what we refuse, on inputs of the shapes that the model states."""
    try:
        graph = onnx.ModelProto.FromString(data).graph
        inputs = random_values(input_types(graph, {}), rng)
    except Exception:  # There is nothing to run.
        return refused
    answer = _onnxruntime(data, inputs)
    return refused if isinstance(answer, str) else Outcome(STRICTER, refused.detail)


def _alone(data: bytes, why: str) -> Outcome:
    try:
        onnx.checker.check_model(onnx.ModelProto.FromString(data), full_check=True)
    except Exception as problem:
        return Outcome(INVALID, f"{_line(problem)} | onnxruntime: {why}")
    return Outcome(ALONE, why)


def _line(problem: BaseException) -> str:
    return " ".join(str(problem).split())[:300] or type(problem).__name__


# --- comparison -----------------------------------------------------------------------------------


def _difference(got: Sequence[Any], wanted: Sequence[Any]) -> str:
    """How answers differ; empty where they agree."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs, not {len(wanted)}"
    for position, (mine, other) in enumerate(zip(got, wanted, strict=True)):
        if not isinstance(other, np.ndarray):
            return f"output {position}: {type(other).__name__}, not a tensor"
        if mine.dtype != other.dtype or mine.shape != other.shape:
            return (
                f"output {position}: {mine.dtype}{list(mine.shape)}, "
                f"not {other.dtype}{list(other.shape)}"
            )
        if mine.size and not _close(mine, other):
            return f"output {position}: {_some(mine)}, not {_some(other)}"
    return ""


def _close(mine: Array, other: Array) -> bool:
    if mine.dtype.kind != "f":
        return bool(np.array_equal(mine, other))
    a, b = mine.astype("float64"), other.astype("float64")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = np.abs(b[finite]).max(initial=0.0)
    worst = np.abs(a[finite] - b[finite]).max(initial=0.0)
    return bool(worst <= RTOL[mine.dtype.name] * max(scale, 1e-3))


def _unspecified(data: bytes, inputs: Mapping[str, Array], got: Sequence[Array]) -> str:
    """What the file asks for that ONNX does not say the meaning of; empty if nothing."""
    for node in onnx.ModelProto.FromString(data).graph.node:
        given = {each.name: each for each in node.attribute}
        if "softcap" in given and given["softcap"].f < 0:
            return "a negative softcap"
        smooth = "mode" in given and given["mode"].s in (b"linear", b"cubic")
        if node.op_type == "Resize" and smooth and any(x.dtype.kind in "iu" for x in got):
            return "integers between integers"
        if node.op_type in ("LSTM", "GRU", "RNN") and len(node.input) > 4:
            lengths = _value(data, inputs, node.input[4])
            if lengths is not None and (lengths < 1).any():
                return "sequences without an element"
    return ""


def _value(data: bytes, inputs: Mapping[str, Array], name: str) -> Array | None:
    """What onnxruntime finds for a value of the file; None where there is none."""
    if name in inputs or not name:
        return inputs.get(name)
    proto = onnx.ModelProto.FromString(data)
    for held in proto.graph.initializer:
        if held.name == name:
            return onnx.numpy_helper.to_array(held)
    if all(each.name != name for each in proto.graph.output):
        proto.graph.output.append(onnx.ValueInfoProto(name=name))
    names = [each.name for each in proto.graph.output]
    answer = _onnxruntime(proto.SerializeToString(), inputs)
    return None if isinstance(answer, str) else answer[names.index(name)]


def _undefined(model: Model, env: Mapping[str, Array]) -> str:
    """What a program meets that ONNX does not define, so that answers may differ; empty if nothing.

    Which of two operands a maximum takes when one is not a number, what becomes of a number that
    the integers converted to cannot hold, what dividing an integer by zero gives. Nor does it say
    in which order numbers are added: what comes to zero in one order may be positive in another.
    """
    values: dict[Any, Array] = {}
    rounded: set[Any] = set()
    for term, value in trace(model.roots, env):
        values[term] = value
        if not rounded.isdisjoint(term.children):
            rounded.add(term)
            if _jumps(term, [values[child] for child in term.children]):
                return "a jump within what rounding may do"
        if term.op == "compute" and term["function"] in ROUNDING and is_float(value.dtype):
            rounded.add(term)
        if is_float(value.dtype) and np.isnan(value).any():
            return "not a number"
        operands = [values[child] for child in term.children if child in values]
        if term.op == "cast" and value.dtype.kind in "iu" and is_float(operands[0].dtype):
            limits = np.iinfo(value.dtype)
            whole = np.trunc(operands[0].astype("float64"))
            if not ((whole >= limits.min) & (whole <= limits.max)).all():
                return "a number that integers cannot hold"
        if term.op == "compute" and value.dtype.kind in "iu":
            split, function = term.children[0].type.split, term["function"]
            if function in ("div", "mod", "fmod") and (operands[0].take(1, split) == 0).any():
                return "division of an integer by zero"
    return ""


ROUNDING = ("dot", "sum", "mean", "prod", "exp", "log", "tanh", "sigmoid", "softmax", "pow")
JUMPS = ("sign", "floor", "ceil", "round")
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal")


def _jumps(term: Any, operands: Sequence[Array]) -> bool:
    """Whether a function with jumps is so near one that the last bits of its operands decide."""
    whole = term.op == "cast" and term.dtype not in RTOL
    (x,) = operands[:1]
    if x.dtype.name not in RTOL or not (whole or term.op == "compute"):
        return False
    x = np.asarray(x, "float64")
    near = RTOL[operands[0].dtype.name] * np.abs(x[np.isfinite(x)]).max(initial=0.0) / 100
    if whole or term["function"] in JUMPS:
        step = 1.0 if whole or term["function"] != "sign" else np.inf
        middle = 0.5 if not whole and term["function"] == "round" else 0.0
        from_jump = x if step == np.inf else x - middle - np.round(x - middle)
    elif term["function"] in COMPARISONS:
        split = term.children[0].type.split
        from_jump = x.take(0, split) - x.take(1, split)
    else:
        return False
    return bool((np.abs(from_jump) <= near).any())


def _some(array: Array) -> str:
    flat = array.reshape(-1)
    return f"{array.dtype}{list(array.shape)} {flat[:6].tolist()}{'...' if flat.size > 6 else ''}"
