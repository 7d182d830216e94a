"""ONNX's backend tests against the importer and the interpreter: how many pass, and how.

Native: passes without any other runtime, onnxruntime and ``onnx.reference`` being blocked. Host op:
passes with onnxruntime for some operators. Refused: one of our errors says why. Wrong: another
answer than the stored one, within the test's tolerance but for those in LOOSE. Crashed: any other
exception. The goal is that nothing is wrong.
"""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnx.reference
import onnxruntime
from _table import arguments, show
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner, _normalize_tensor

from glenside.errors import GlensideError
from glenside.frontends.onnx.backend import GlensideBackend

OUTCOMES = ("native", "host op", "refused", "wrong", "crashed")
SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


LOOSE = {
    # The stored answer is that of a float32 FFT of numbers near 50, with noise above atol=1e-7.
    "test_dft_inverse": {"atol": 1e-5},
    "test_dft_inverse_opset19": {"atol": 1e-5},
    # The stored answer rounds every step of a softmax to float16; ours, rounded once, is nearer to
    # the exact one, and two units in the last place from theirs.
    "test_attention_4d_causal_fp16": {"rtol": 3e-3},
    "test_attention_4d_causal_fp16_expanded": {"rtol": 3e-3},
}
"""Tests whose stored answers are less exact than their tolerance, and the tolerance used."""


class RuntimeUsed(Exception):
    """Another runtime was about to run."""


@contextlib.contextmanager
def nothing_else_runs() -> Iterator[None]:
    """Blocks onnxruntime and the reference implementation of onnx."""

    def blocked(*args: object, **kwargs: object) -> None:
        raise RuntimeUsed

    with (
        mock.patch.object(onnxruntime, "InferenceSession", blocked),
        mock.patch.object(onnx.reference.ReferenceEvaluator, "__init__", blocked),
    ):
        yield


def data_of(case: Any) -> tuple[onnx.ModelProto, list[tuple[list[Any], list[Any]]]]:
    """A test's model, inputs and right outputs, which newer suites make and older ones store."""
    if case.model is not None:
        return case.model, [
            ([_normalize_tensor(x) for x in inputs], [_normalize_tensor(y) for y in outputs])
            for inputs, outputs in case.data_sets
        ]
    if case.model_dir is None:  # A network that stands beside its output.
        path = LIGHT / Path(case.url).name
        model = onnx.load(path)
        weights = {each.name for each in model.graph.initializer}
        shapes = [
            [dim.dim_value for dim in each.type.tensor_type.shape.dim]
            for each in model.graph.input
            if each.name not in weights
        ]
        ramps = [np.arange(np.prod(s)).reshape(s) / np.prod(s) for s in shapes]
        stored = onnx.load_tensor(path.with_name(f"{path.stem}_output_0.pb"))
        return model, [([x.astype(np.float32) for x in ramps], [numpy_helper.to_array(stored)])]
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        inputs, outputs = (
            [
                numpy_helper.to_array(onnx.load_tensor(data / f"{kind}_{i}.pb"))
                for i in range(len(list(data.glob(f"{kind}_*.pb"))))
            ]
            for kind in ("input", "output")
        )
        sets.append((inputs, outputs))
    return model, sets


def outcome(case: Any) -> tuple[str, str]:
    """How a test ends, and why where it does not pass."""

    loose = LOOSE.get(case.name, {})
    rtol, atol = loose.get("rtol", case.rtol), loose.get("atol", case.atol)

    def passes() -> None:
        rep = GlensideBackend.prepare(model)
        for inputs, wanted in sets:
            got = rep.run(inputs)
            Runner.assert_similar_outputs(wanted, got, rtol, atol)

    try:
        model, sets = data_of(case)
        try:
            with nothing_else_runs():
                passes()
            return "native", ""
        except (RuntimeUsed, GlensideError):
            passes()
            return "host op", ""
    except GlensideError as problem:
        return "refused", str(problem)
    except AssertionError as problem:
        return "wrong", " ".join(str(problem).split())[:200]
    except Exception as problem:
        return "crashed", f"{type(problem).__name__}: {problem}"


def rows_of(suites: Sequence[str]) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    """One row a suite, and what to list for each outcome."""
    rows: list[dict[str, Any]] = []
    listed: dict[str, list[str]] = defaultdict(list)
    for suite in suites:
        counts: Counter[str] = Counter()
        for case in load_model_tests(kind=suite):
            how, why = outcome(case)
            counts[how] += 1
            listed[how].append(f"{case.name}: {why}" if why else case.name)
        rows.append({"suite": suite, **{each: counts[each] for each in OUTCOMES}})
    rows.append({"suite": "all", **{each: sum(row[each] for row in rows) for each in OUTCOMES}})
    return rows, listed


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--suite", choices=SUITES, action="append", help="default: all")
    parser.add_argument("--list", choices=OUTCOMES, action="append", default=[], metavar="OUTCOME")
    options = parser.parse_args()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # The suites overflow on purpose.
        rows, listed = rows_of(options.suite or SUITES)
    for how in options.list:
        print(f"{how}:", *sorted(listed[how]), sep="\n  ")
    show("ONNX backend tests", rows, options.json)


if __name__ == "__main__":
    main()
