"""Every operator of ONNX in all its versions, called in many ways and held against onnxruntime.

    python -m tests.fuzz.operators [--compile] [OPERATOR ...]

prints what is wrong, what crashes, and what is refused though onnxruntime answers. A case is a way
to call an operator (:mod:`tests.fuzz.recipes`) at one version, changed in one respect: another
dtype, an optional operand left out, another value of an attribute or none, an empty axis, operands
that are constants, numbers that are none. The judge is onnxruntime without optimisations, and
ONNX's reference implementation where it has no kernel.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import multiprocessing
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import onnxruntime
from onnx import helper, numpy_helper

import glenside
from glenside.errors import GlensideError, UnsupportedOperator
from glenside.frontends.onnx import import_model
from glenside.frontends.onnx.loading import OLDEST_OPSET
from glenside.language import evaluate
from tests.fuzz.recipes import Operand, Recipe, recipes

Array = np.ndarray[Any, Any]

DTYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    **{f"tensor({name})": name for name in ("float16", "bfloat16", "bool")},
    **{f"tensor({each}{n})": f"{each}{n}" for each in ("int", "uint") for n in (8, 16, 32, 64)},
}
PREFERRED = ("float32", "int64", "int32", "uint8", "int8", "bool")
RTOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-4, "float64": 1e-6}
HALVES = ("float16", "bfloat16")

RIGHT, REFUSED, STRICTER, ALONE = (
    "right",
    "refused",
    "refused, onnxruntime answers",
    "answered alone",
)
WRONG, CRASH = "WRONG", "CRASH"
ENDED = "a runtime ended the process"
UNDEFINED = "differs where ONNX defines nothing, or the judge is known to be wrong"

JUDGES = ("onnxruntime", "reference")

DIFFERENCES = {
    "ONNX leaves the mask open": r"Dropout-7 ",
    "ONNX leaves reductions over nothing open": r"ReduceMean-\d+ #(5|6|9|10) ",
    "ONNX leaves open where NaN stands": r"TopK-\d+ #0 odd",
    "ONNX leaves windows of length 1 open": r"(Blackman|Hamming|Hann)Window-17 #0 periodic",
    "no window of no data": r"(Max|Average)Pool-\d+ #2 axis [23] empty",
    "onnxruntime forms powers of integers as integers": r"ReduceLogSumExp-\d+ #[12] T=int",
    "onnxruntime takes places for those in the shape asked for": r"MaxUnpool-\d+ #1 without",
    "onnxruntime gives memory nobody wrote": r"LSTM-\d+ #\d axis 0 empty",
    "onnxruntime cuts off where ONNX rounds": r"Resize-10 #3 T=u?int",
    "the reference is wrong until opset 12": r"(Softmax|LogSoftmax|Hardmax)-(6|11) ",
    "the reference forgets lengths": r"(RNN|GRU|LSTM)-\d+ #[024] (T=|without hidden)",
    "the reference forgets factors": r"Gemm-6 ",
    "the reference forgets an axis": r"GlobalMaxPool-\d+ #1 T=",
    "the reference counts the padding until opset 7": r"AveragePool-6 ",
    "the reference counts the overhang": r"LpPool-\d+ #2 T=",
    "the reference takes N for C, onnxruntime has odd sizes only": r"LRN-\d+ #0 (T=|size=)",
    "the reference lets integers wrap": r"QuantizeLinear-\d+ .* T[12]=int32",
    "the reference rounds after the zero point": r"QLinear(Conv|MatMul)-\d+ #0 T",
    "the reference looks up in integers and halves": r"GridSample-\d+ #0 T[12]=",
    "the reference gives another dtype than ONNX says": (
        r"(ReduceSumSquare-\d+ .* T=uint32|LayerNormalization-17 .* T=bfloat16"
        r"|BatchNormalization-1[45] #5 (T|U|T2)=|MaxPool-22 #1 T=|AffineGrid-20 #\d T1=)"
    ),
}
"""By reason, the cases that differ from what other runtimes give. A reason that begins with a judge
says that this one is wrong, and excuses nothing else."""

ENDS_ONNXRUNTIME = r"(GRU|LSTM)-\d+ #\d axis \d empty|Unique-\d+ #1 axis 1 empty"
"""Cases that onnxruntime is not asked about: it would end the process."""


@dataclass(frozen=True)
class Case:
    """One call of an operator: a model and its inputs."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, Array]


@dataclass(frozen=True)
class Verdict:
    """How a case ended, and more about it."""

    case: str
    word: str
    detail: str = ""


# --- cases --------------------------------------------------------------------------------------


def schemas(operator: str) -> Iterator[tuple[int, Any]]:
    """The versions of an operator that models of a supported opset may have, with such an opset."""
    seen = set()
    for opset in range(OLDEST_OPSET, onnx.defs.onnx_opset_version() + 1):
        try:
            schema = onnx.defs.get_schema(operator, opset, "")
        except onnx.defs.SchemaError:
            continue
        if schema.since_version not in seen:
            seen.add(schema.since_version)
            yield opset, schema


def cases(operator: str, chosen: Callable[[str], bool] = lambda name: True) -> Iterator[Case]:
    """The cases of an operator whose names are chosen, in an order that is the same everywhere."""
    ways = [recipe for name, recipe in recipes() if name == operator]
    for opset, schema in schemas(operator):
        for number, way in enumerate(ways):
            if way.since <= opset <= way.until:
                bound = _bound(way, schema)
                if bound is None:
                    continue
                for what, changed, dtypes in _changes(bound, schema):
                    name = f"{operator}-{opset} #{number} {what}"
                    made = _case(name, changed, dtypes, schema, opset) if chosen(name) else None
                    if made is not None:
                        yield made


def _bound(way: Recipe, schema: Any) -> Recipe | None:
    """The recipe with operands as attributes, where this version has them so."""
    operands: list[Operand | None] = []
    attributes = dict(way.attributes)
    variadic = any(
        i.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for i in schema.inputs
    )
    names = [each.name for each in schema.inputs]
    for position, operand in enumerate(way.operands):
        name = operand.name if operand is not None else ""
        if name and name in schema.attributes and name not in names:
            kind = schema.attributes[name].type
            value = operand.value
            if kind == onnx.defs.OpSchema.AttrType.INTS:
                attributes[name] = [int(each) for each in value.reshape(-1)]
            elif kind == onnx.defs.OpSchema.AttrType.FLOATS:
                attributes[name] = [float(each) for each in value.reshape(-1)]
            elif kind == onnx.defs.OpSchema.AttrType.INT:
                attributes[name] = int(value.reshape(-1)[0])
            else:
                attributes[name] = float(value.reshape(-1)[0])
        elif position < len(names) or variadic:
            operands.append(operand)
        elif operand is not None:
            return None
    while operands and operands[-1] is None:
        operands.pop()
    attributes = {k: v for k, v in attributes.items() if k in schema.attributes}
    vary = {k: v for k, v in way.vary.items() if k in schema.attributes}
    outputs = min(way.outputs, schema.max_output)
    return replace(way, operands=operands, attributes=attributes, vary=vary, outputs=outputs)


def _formal(schema: Any, position: int) -> Any:
    return schema.inputs[min(position, len(schema.inputs) - 1)]


def _variables(schema: Any) -> dict[str, list[str]]:
    """The dtypes that each type variable may stand for."""
    return {
        each.type_param_str: [DTYPES[t] for t in sorted(each.allowed_type_strs) if t in DTYPES]
        for each in schema.type_constraints
    }


def _changes(way: Recipe, schema: Any) -> Iterator[tuple[str, Recipe, dict[str, str]]]:
    """The recipe as it is and changed in one respect, with the dtypes of type variables."""
    variables = _variables(schema)
    usual = {
        name: next((each for each in PREFERRED if each in dtypes), dtypes[0])
        for name, dtypes in variables.items()
        if dtypes
    }
    yield "as it is", way, usual
    used = {_formal(schema, i).type_str for i, each in enumerate(way.operands) if each is not None}
    for name in sorted(used & variables.keys()):
        for dtype in variables[name]:
            if dtype != usual[name]:
                yield f"{name}={dtype}", way, {**usual, name: dtype}
    for i in range(schema.min_input, min(len(way.operands), len(schema.inputs))):
        if way.operands[i] is not None:
            left = [*way.operands[:i], None, *way.operands[i + 1 :]]
            yield f"without operand {i}", replace(way, operands=left), usual
            if i + 1 < len(way.operands):
                yield f"up to operand {i}", replace(way, operands=way.operands[:i]), usual
    for name in way.attributes:
        if not schema.attributes[name].required:
            rest = {k: v for k, v in way.attributes.items() if k != name}
            yield f"without {name}", replace(way, attributes=rest), usual
    for name, values in way.vary.items():
        for value in values:
            changed = {**way.attributes, name: value}
            yield f"{name}={value}", replace(way, attributes=changed), usual
    constant = [None if each is None else replace(each, fixed=True) for each in way.operands]
    yield "constants", replace(way, operands=constant), usual
    running = [None if each is None else replace(each, fixed=False) for each in way.operands]
    yield "inputs", replace(way, operands=running), usual
    first = way.operands[0] if way.operands else None
    if first is not None:
        for axis in range(first.value.ndim):
            empty = [
                replace(each, value=np.take(each.value, [], axis))
                if each is not None and each.value.shape == first.value.shape
                else each
                for each in way.operands
            ]
            yield f"axis {axis} empty", replace(way, operands=empty), usual
        if way.special:
            odd = np.resize([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], first.value.shape)
            yield (
                "odd numbers",
                replace(way, operands=[replace(first, value=odd), *way.operands[1:]]),
                usual,
            )


def _case(name: str, way: Recipe, dtypes: dict[str, str], schema: Any, opset: int) -> Case | None:
    inputs: dict[str, Array] = {}
    held, names = [], []
    for i, operand in enumerate(way.operands):
        if operand is None:
            names.append("")
            continue
        kind = _formal(schema, i).type_str
        dtype = dtypes.get(kind) or DTYPES.get(kind)
        if operand.dtype and (kind not in dtypes or operand.dtype in _variables(schema)[kind]):
            dtype = operand.dtype
        if dtype is None:
            return None
        names.append(f"x{i}")
        array = _typed(operand.value, dtype)
        if operand.fixed:
            held.append(numpy_helper.from_array(array, f"x{i}"))
        else:
            inputs[f"x{i}"] = array
    while names and not names[-1]:
        names.pop()
    results = [f"y{i}" for i in range(way.outputs)]
    node = helper.make_node(schema.name, names, results, name="node", **way.attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=each) for each in results]
    graph = helper.make_graph([node], "case", infos, outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    return Case(name, model, inputs)


def _typed(value: Array, dtype: str) -> Array:
    if dtype == "bool":
        return value > 0
    if dtype.startswith("uint"):
        value = np.abs(np.nan_to_num(value))
    if "int" in dtype:
        value = np.clip(np.nan_to_num(value), -(2.0**62), 2.0**62)
    return np.asarray(value).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


# --- judging ------------------------------------------------------------------------------------


def judge(case: Case, compiled: bool = False) -> Verdict:
    """Imports the model, runs it, and compares with another runtime."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _judge(case, compiled)


def _judge(case: Case, compiled: bool) -> Verdict:
    got: list[list[Array]] = []
    try:
        model = import_model(case.model)
        env = {**case.inputs, **model.params}
        got.append(evaluate(model.roots, env))
        if compiled:
            got.append(glenside.optimize(model, "cpu", check=False, iter_limit=2).run(case.inputs))
    except GlensideError as problem:
        if "\n" in str(problem):
            return Verdict(case.name, CRASH, f"more than a line: {problem}")
        wanted = onnxruntime_says(case)
        if isinstance(wanted, str):
            return Verdict(case.name, REFUSED, f"{problem} | {wanted}")
        kind = "unsupported" if isinstance(problem, UnsupportedOperator) else "error"
        return Verdict(case.name, STRICTER, f"{kind}: {problem}")
    except Exception as problem:
        return Verdict(case.name, CRASH, f"{type(problem).__name__}: {problem}")
    answers = {"onnxruntime": onnxruntime_says(case)}
    said = ""
    against: set[str] = set()
    for how, results in zip(("", "compiled "), got, strict=False):
        for source in JUDGES:
            if source == "reference" and source not in answers:
                answers[source] = reference_says(case)
            wanted = answers[source]
            if isinstance(wanted, str):
                continue
            differs = unlike(results, wanted)
            if not differs:
                said = ""
                break
            said = said or f"{how}{differs} ({source})"
            against.add(source)
        else:
            if said:
                known = "" if how else known_difference(case.name, against)
                return Verdict(case.name, UNDEFINED if known else WRONG, f"{known}: {said}")
    if all(isinstance(each, str) for each in answers.values()):
        return Verdict(case.name, ALONE, str(answers))
    return Verdict(case.name, RIGHT)


def unlike(results: Sequence[Array], wanted: Sequence[Array]) -> str:
    """How the outputs differ from those wanted, nothing where they do not."""
    for i, (mine, other) in enumerate(zip(results, wanted, strict=True)):
        said = difference(mine, np.asarray(other))
        if said:
            return f"output {i} {said}"
    return ""


def known_difference(case: str, against: Collection[str]) -> str:
    """Why a case may differ from these judges, nothing where it may not: where one of them is known
    to be wrong, the other has to agree or to have no answer."""
    for why, cases in DIFFERENCES.items():
        if re.match(cases, case):
            wrong = [judge for judge in JUDGES if why.startswith((judge, f"the {judge}"))]
            if not wrong or set(against) <= set(wrong):
                return why
    return ""


def onnxruntime_says(case: Case) -> list[Array] | str:
    """Its results, or why it has none."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if any(a.dtype == ml_dtypes.bfloat16 for a in case.inputs.values()):
        return "its Python knows no bfloat16"
    if re.match(ENDS_ONNXRUNTIME, case.name):
        return "it ends the process"
    try:
        session = onnxruntime.InferenceSession(
            case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, case.inputs)
    except Exception as problem:
        return str(problem).splitlines()[0][:200]


def reference_says(case: Case) -> list[Array] | str:
    """The results of ONNX's reference implementation, or why it has none."""
    try:
        return onnx.reference.ReferenceEvaluator(case.model).run(None, dict(case.inputs))
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}".splitlines()[0][:200]


def difference(got: Array, wanted: Array) -> str:
    """How two results differ, nothing where they do not."""
    if got.dtype != wanted.dtype:
        return f"is {got.dtype}, not {wanted.dtype}"
    if got.shape != wanted.shape:
        return f"has shape {got.shape}, not {wanted.shape}"
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    rtol = RTOL.get(got.dtype.name, 0.0)
    largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)
    if not np.allclose(a, b, rtol, rtol * largest, equal_nan=True):
        return f"is {a.reshape(-1)[:6].tolist()}, not {b.reshape(-1)[:6].tolist()}"
    return ""


# --- the whole ----------------------------------------------------------------------------------


def sweep(operator: str, compiled: bool) -> list[Verdict]:
    """All cases of an operator, in processes of their own: other runtimes may end them."""
    found: list[Verdict] = []
    while True:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=_sweep, args=(operator, compiled, len(found), theirs)
        )
        child.start()
        theirs.close()
        last = ""
        try:
            while True:
                said = ours.recv()
                if isinstance(said, Verdict):
                    found.append(said)
                last = said if isinstance(said, str) else ""
        except EOFError:
            child.join()
        if not last:
            return found
        found.append(Verdict(last, ENDED))


def _sweep(operator: str, compiled: bool, skip: int, pipe: Any) -> None:
    for case in itertools.islice(cases(operator), skip, None):
        pipe.send(case.name)
        pipe.send(judge(case, compiled))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json")
    chosen = parser.parse_args(arguments)
    names = chosen.operators or list(dict.fromkeys(name for name, _ in recipes()))
    found: list[Verdict] = []
    with ThreadPoolExecutor(2) as pool:
        for verdicts in pool.map(sweep, names, [chosen.compile] * len(names)):
            found += verdicts
    for each in found:
        if each.word in (WRONG, CRASH, STRICTER, ENDED):
            print(f"{each.word}: {each.case}: {each.detail[:300]}")
    print(dict(collections.Counter(each.word for each in found)))
    if chosen.json:
        with open(chosen.json, "w") as file:
            json.dump([vars(each) for each in found], file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
