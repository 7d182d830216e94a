"""Mutates small ONNX models and checks that each ends in a right answer or in one of our errors.

    python -m tests.frontends.onnx.fuzzing --count 10000 --seed 0 --workers 2

Models are mutated as bytes and as messages. Each one that imports is run by the interpreter and,
where onnxruntime takes it too, compared with it; one in fifty is compiled. Chunks of models run in
processes of their own, so that a crash or a hang is seen and named by its seed:
``--seed N --count 1`` runs it again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import random
import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = Path(__file__).parents[3]
BUGS = Path(__file__).parent / "bugs"
SECONDS = 20
"""For one model; longer is a hang."""
MOST_BYTES = 2**26
"""Models with larger values are imported only: a mutated shape may ask for any amount."""

OPERATORS = [
    "Add", "ArgMax", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat",
    "Conv", "ConvTranspose", "CumSum", "DFT", "Einsum", "Expand", "Flatten",
    "Gather", "GatherND", "Gemm", "If", "LRN", "LSTM", "Loop",
    "MatMul", "MaxPool", "Mul", "OneHot", "Pad", "QuantizeLinear", "ReduceSum",
    "Relu", "Reshape", "Resize", "Scan", "ScatterND", "Slice", "Softmax",
    "Split", "Squeeze", "Tile", "TopK", "Transpose", "Where",
]  # fmt: skip
NUMBERS = (0, 1, -1, 2, 3, -2, 5, 7, 100, 255, 2**31, 2**40, -(2**63), 2**63 - 1)


def seeds() -> list[bytes]:
    """Serialised models to start from: reported bugs and ONNX's own tests of single nodes."""
    from onnx.backend.test.loader import load_model_tests

    models = [path.read_bytes() for path in sorted(BUGS.glob("*.onnx")) if "deep" not in path.name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = load_model_tests(kind="node")
    for case in cases:
        inputs = case.data_sets[0][0]
        if all(isinstance(x, np.ndarray) for x in inputs):
            models.append(_with_constants(case.model, inputs).SerializeToString())
    return models


def _with_constants(proto: onnx.ModelProto, inputs: list[np.ndarray]) -> onnx.ModelProto:
    """Small integer inputs become constants: most are shapes and axes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for info, x in zip(proto.graph.input, inputs, strict=False):
        if x.dtype.kind in "iu" and x.ndim <= 1 and x.size < 20:
            copy.graph.initializer.append(numpy_helper.from_array(x, info.name))
    return copy


def mutate(data: bytes, rng: random.Random) -> bytes:
    """A model that differs in a few bytes or a few fields."""
    if rng.random() < 0.2:
        return _mutate_bytes(bytearray(data), rng)
    proto = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice(_MUTATIONS)(proto, rng)
    return proto.SerializeToString()


def _mutate_bytes(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data.insert(at, rng.randrange(256))
            case 1 if len(data) > 10:
                del data[at : at + rng.randint(1, 5)]
            case _:
                data[at] = rng.randrange(256)
    return bytes(data)


def _operator(proto: onnx.ModelProto, rng: random.Random) -> None:
    if proto.graph.node:
        rng.choice(proto.graph.node).op_type = rng.choice(OPERATORS)


def _attribute(proto: onnx.ModelProto, rng: random.Random) -> None:
    held = [each for node in proto.graph.node for each in node.attribute]
    if not held:
        return
    attribute = rng.choice(held)
    kinds = onnx.AttributeProto
    if attribute.type == kinds.INT:
        attribute.i = rng.choice(NUMBERS)
    elif attribute.type == kinds.INTS and attribute.ints and rng.random() < 0.7:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(NUMBERS)
    elif attribute.type == kinds.INTS:
        attribute.ints.append(rng.choice(NUMBERS))
    elif attribute.type == kinds.FLOAT:
        attribute.f = rng.choice([0.0, -1.0, 0.5, 1e30, float("inf")])
    elif attribute.type == kinds.STRING:
        attribute.s = rng.choice([b"", b"SAME_UPPER", b"nearest", b"\xff"])
    elif attribute.type == kinds.TENSOR:
        attribute.t.data_type = rng.randrange(25)


def _attribute_name(proto: onnx.ModelProto, rng: random.Random) -> None:
    nodes = [node for node in proto.graph.node if node.attribute]
    if nodes:
        node = rng.choice(nodes)
        attribute = rng.choice(node.attribute)
        if rng.random() < 0.5:
            node.attribute.remove(attribute)
        else:
            attribute.name += "x"


def _shape(proto: onnx.ModelProto, rng: random.Random) -> None:
    dims = [dim for info in proto.graph.input for dim in info.type.tensor_type.shape.dim]
    if dims:
        rng.choice(dims).dim_value = rng.choice([0, 1, 1, 2, 2, 3, 5, 7, 2**20, -1])


def _element(proto: onnx.ModelProto, rng: random.Random) -> None:
    if proto.graph.input:
        kinds = [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 0, 99]
        rng.choice(proto.graph.input).type.tensor_type.elem_type = rng.choice(kinds)


def _operand(proto: onnx.ModelProto, rng: random.Random) -> None:
    nodes = [node for node in proto.graph.node if node.input]
    if nodes:
        node = rng.choice(nodes)
        if rng.random() < 0.3:
            del node.input[-1]
            return
        names = [each.name for each in proto.graph.input]
        names += [name for each in proto.graph.node for name in each.output]
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, "", "nowhere"])


def _constant(proto: onnx.ModelProto, rng: random.Random) -> None:
    if not proto.graph.initializer:
        return
    tensor = rng.choice(proto.graph.initializer)
    if tensor.raw_data and rng.random() < 0.6:
        data = bytearray(tensor.raw_data)
        data[rng.randrange(len(data))] = rng.randrange(256)
        tensor.raw_data = bytes(data)
    elif tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(NUMBERS)


def _opset(proto: onnx.ModelProto, rng: random.Random) -> None:
    if proto.opset_import:
        versions = [1, 6, 7, 9, 10, 11, 12, 13, 15, 18, 21, 28, 99]
        proto.opset_import[0].version = rng.choice(versions)


_MUTATIONS = (
    _operator, _attribute, _attribute, _attribute_name, _shape,
    _element, _operand, _constant, _opset,
)  # fmt: skip


class Hang(BaseException):
    """A model took too long."""


def run_one(data: bytes, number: int, compiled: bool, note: Callable[[str], None]) -> str:
    """What becomes of one model: how it ended, in a word or with what went wrong.

    ``note`` is told how it stands before onnxruntime comes in, which itself crashes on some.
    """
    from glenside.errors import GlensideError
    from glenside.frontends.onnx import import_model
    from glenside.language import evaluate, random_inputs

    try:
        model = import_model(data)
        sizes = [term.type.nbytes for term in model.terms() if term.op != "cart_prod"]
        if max(sizes, default=0) > MOST_BYTES:
            return "too large"
        inputs = random_inputs(model.inputs, number)
        got = evaluate(model.roots, {**inputs, **model.params})
        if compiled:
            import glenside

            result = glenside.optimize(model, target="cpu", check=False)(inputs)
            mine = list(result) if isinstance(result, tuple) else [result]
            if not all(map(_same, mine, got)):
                return "WRONG once compiled"
    except GlensideError as problem:
        return "refused" if "\n" not in str(problem) else f"MESSAGE of lines: {problem}"
    note("ran")
    wanted = _onnxruntime(data, inputs)
    if wanted is None:
        return "ran"
    if len(wanted) == len(got) and all(map(_same, got, wanted)):
        return "agrees"
    return "differs"


def _onnxruntime(data: bytes, inputs: dict[str, Any]) -> list[Any] | None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return session.run(None, {x.name: inputs[x.name] for x in session.get_inputs()})
    except Exception:  # It is stricter than us, or stricter in other places.
        return None


def _same(mine: Any, other: Any) -> bool:
    if other is None or mine.shape != other.shape or mine.dtype != other.dtype:
        return False
    with np.errstate(all="ignore"):
        return np.allclose(
            mine.astype(float), other.astype(float), rtol=1e-2, atol=1e-3, equal_nan=True
        )


def work(first: int, count: int, compile_every: int) -> None:
    """Runs models ``first`` and on; one line of JSON each, before and after it."""
    warnings.simplefilter("ignore")

    def ring(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, ring)
    start = seeds()
    for number in range(first, first + count):
        rng = random.Random(number)
        data = mutate(rng.choice(start), rng)

        def note(ended: str, number: int = number) -> None:
            print(json.dumps([number, ended]), flush=True)

        note("CRASH")
        compiled = bool(compile_every) and number % compile_every == 0
        signal.alarm(SECONDS)
        try:
            ended = run_one(data, number, compiled, note)
        except Hang:
            ended = "HANG"
        except Exception as problem:
            ended = f"EXCEPTION {type(problem).__name__}: {problem}"
        finally:
            signal.alarm(0)
        note(ended)


def fuzz(
    seed: int, count: int, workers: int = 1, compile_every: int = 50, chunk: int = 500
) -> dict[int, str]:
    """How each of ``count`` models ended, by number."""

    def run(first: int) -> dict[int, str]:
        size = min(chunk, seed + count - first)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.frontends.onnx.fuzzing", "--worker"),
                *(f"--seed={first}", f"--count={size}", f"--compile-every={compile_every}"),
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        # The last line about a model holds: "CRASH" where none came after it.
        results = dict(map(json.loads, done.stdout.splitlines()))
        missing = [n for n in range(first, first + size) if n not in results]
        if not results:
            raise RuntimeError(f"the worker did not start: {done.stderr[-2000:]}")
        if missing:
            results |= fuzz(missing[0], len(missing), 1, compile_every, chunk)
        return results

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        parts = pool.map(run, range(seed, seed + count, chunk))
        return {number: ended for part in parts for number, ended in part.items()}


def is_bad(ended: str) -> bool:
    """Whether that is not how a model may end. A difference to onnxruntime is to be looked at: it
    may be integers that overflow, or numbers that are not."""
    return ended[:1].isupper()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compile-every", type=int, default=50)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.seed, options.count, options.compile_every)
        return 0
    results = fuzz(options.seed, options.count, options.workers, options.compile_every)
    words = [ended if not is_bad(ended) else ended.split(":")[0] for ended in results.values()]
    for word, times in Counter(words).most_common():
        print(f"{times:7} {word}")
    for number, ended in sorted(results.items()):
        if is_bad(ended) or ended == "differs":
            print(f"  seed {number}: {ended}")
    return int(any(map(is_bad, results.values())))


if __name__ == "__main__":
    sys.exit(main())
