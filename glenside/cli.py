"""The command line: the verbs of the library, each printing what a person or a script reads."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import glenside
from glenside.errors import GlensideError, InputError
from glenside.hw_targets.target import Progress as Listener
from glenside.language import AccessType, random_inputs
from glenside.optimize import ITER_LIMIT, NODE_LIMIT
from glenside.program import Program

Array = np.ndarray[Any, Any]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Equality saturation for tensor programs: rewrite, offload, compile, run, check.",
)
_out = Console()
_err = Console(stderr=True)

ModelArgument = Annotated[str, typer.Argument(help="A model file (ONNX).", show_default=False)]
TargetOption = Annotated[
    str, typer.Option("--target", "-t", help="A target; `glenside targets` lists them.")
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=D,D,...", help="The shape of a dynamic input."),
]
ParamsOption = Annotated[
    Path | None, typer.Option("--params", help="An .npz with the model's parameters by name.")
]


@app.command()
def optimize(
    model: ModelArgument,
    target: TargetOption = "cpu",
    shape: ShapeOption = None,
    params: ParamsOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Save the program to this directory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    node_limit: Annotated[int, typer.Option(min=1, help="Most e-nodes.")] = NODE_LIMIT,
    iter_limit: Annotated[int, typer.Option(min=0, help="Most iterations.")] = ITER_LIMIT,
    time_limit: Annotated[
        float | None, typer.Option(min=0, help="Most seconds of exploration.")
    ] = None,
    cost_model: Annotated[
        str | None, typer.Option(help="A cost model in place of the target's.")
    ] = None,
    extractor: Annotated[str, typer.Option(help="best, bottom-up or greedy-dag.")] = "best",
    check: Annotated[bool, typer.Option(help="Compare with NumPy on random inputs.")] = True,
) -> None:
    """Optimise a model for a target and report what came of it."""
    with _progress() as listener:
        program = glenside.optimize(
            model,
            target,
            shapes=_shapes(shape),
            params=_read_npz(params) if params else None,
            node_limit=node_limit,
            iter_limit=iter_limit,
            time_limit=time_limit,
            cost_model=cost_model,
            extractor=extractor,
            check=check,
            progress=listener,
        )
    if output is not None:
        program.save(output)
    if as_json:
        print(json.dumps(program.report.to_json(), indent=2))
        return
    _out.print(program.report)
    if output is not None:
        _out.print(f"saved to {output}; run it with: glenside run {output}", soft_wrap=True)


@app.command()
def run(
    program: Annotated[
        str, typer.Argument(help="A saved program's directory, or a model file.", metavar="PROGRAM")
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="[NAME=]FILE",
            help="An input from .npy, .npz (by name) or .pb; random where none is given.",
        ),
    ] = None,
    target: TargetOption = "cpu",
    shape: ShapeOption = None,
    params: ParamsOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz.")
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Run so many times; report the best.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of random inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
) -> None:
    """Run a saved program, or a model after optimising it for --target."""
    if Path(program).is_dir():
        loaded = glenside.load(program)
    else:
        with _progress() as listener:
            loaded = glenside.optimize(
                program,
                target,
                shapes=_shapes(shape),
                params=_read_npz(params) if params else None,
                check=False,
                progress=listener,
            )
    arrays = _inputs(loaded, inputs or [], seed)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        results = loaded.run(arrays)
        seconds.append(time.perf_counter() - start)
    named = dict(zip(loaded.output_names, results, strict=True))
    if output is not None:
        _write_npz(output, named)
    if as_json:
        shown = {name: _summary(array) for name, array in named.items()}
        print(json.dumps({"seconds": min(seconds), "outputs": shown}, indent=2))
        return
    table = Table("output", "shape", "dtype", "least", "greatest", "greatest at")
    for name, array in named.items():
        s = _summary(array)
        cells = (s["shape"], s["dtype"], s["least"], s["greatest"], s["greatest_at"])
        table.add_row(name, *map(_cell, cells))
    _out.print(table)
    _out.print(f"{min(seconds) * 1e3:.2f} ms" + (f", best of {repeat}" if repeat > 1 else ""))


@app.command()
def targets() -> None:
    """List the targets."""
    table = Table("target", "what it is")
    for kind in glenside.targets():
        table.add_row(kind.name, kind.summary)
    _out.print(table)


@app.command("check-rules")
def check_rules(
    rules: Annotated[
        str | None,
        typer.Argument(
            help="A rule set of your own, as module:name; all rules that ship by default.",
            metavar="[MODULE:NAME]",
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Random programs for each rule.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Try rewrite rules on random programs; exit code 1 when one is unsound or never fired."""
    try:
        import hypothesis  # noqa: F401  (The kit needs it, the rest of the package does not.)
    except ImportError as problem:
        raise GlensideError(
            "checking rules needs hypothesis: pip install 'glenside[rules]'"
        ) from problem
    from glenside.rewrites.soundness import judge

    chosen = _find_rules(rules)
    with _progress() as listener:
        verdicts = judge(chosen, examples=examples, progress=listener)
    if as_json:
        rows = [
            {
                "rule": verdict.rule,
                "fired": verdict.fired,
                "verdict": str(verdict),
                "counterexample": str(verdict.counterexample.program)
                if verdict.counterexample
                else None,
                "reason": verdict.counterexample.reason if verdict.counterexample else None,
            }
            for verdict in verdicts
        ]
        print(json.dumps(rows, indent=2))
    else:
        table = Table("rule", "fired", "verdict", "smallest counterexample")
        for verdict in verdicts:
            found = verdict.counterexample
            shown = f"{found.program}\n{found.reason}" if found else ""
            colour = "green" if verdict.ok else "red"
            table.add_row(verdict.rule, f"{verdict.fired:,}", f"[{colour}]{verdict}[/]", shown)
        _out.print(table)
    if not all(verdict.ok for verdict in verdicts):
        raise typer.Exit(1)


def _find_rules(name: str | None) -> object:
    from glenside.rewrites.ruleset import all_rules

    if name is None:
        return all_rules()
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InputError(f"rules are named module:name, such as my_rules:RULES; got {name!r}")
    # As `python -m` does: what lies in the current directory can be named.
    sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as problem:
        raise InputError(f"no rules are found at {name}: {problem}") from problem


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        print(f"glenside {glenside.__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Entry point: our own errors become one line and exit code 2, Ctrl-C exit code 130."""
    try:
        app()
    except GlensideError as problem:
        _err.print(f"[bold red]error:[/] {_one_line(problem)}", soft_wrap=True, highlight=False)
        sys.exit(2)
    except SystemExit as done:
        if done.code == 130:  # Ctrl-C, which typer has caught.
            _err.print("stopped")
        raise
    sys.exit(0)


def _one_line(problem: GlensideError) -> str:
    from rich.markup import escape

    return escape(" ".join(str(problem).split()))


@contextmanager
def _progress() -> Iterator[Listener | None]:
    """Shows progress on a terminal; elsewhere nothing, so that logs stay readable."""
    if not _err.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<9}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_err, transient=True) as bars:
        task = bars.add_task("start", total=1)
        stage = ""

        def listener(what: str, done: int, total: int) -> None:
            nonlocal stage
            if what != stage:
                stage = what
                bars.reset(task, description=what, total=total or 1)
            bars.update(task, completed=done, total=total or 1)

        yield listener


def _shapes(options: list[str] | None) -> dict[str, tuple[int, ...]] | None:
    if not options:
        return None
    shapes = {}
    for option in options:
        name, equals, dims = option.rpartition("=")
        try:
            if not (equals and name):
                raise ValueError
            shapes[name] = tuple(int(d) for d in dims.split(",") if d.strip())
        except ValueError:
            raise InputError(
                f"--shape is written NAME=D,D,... such as x=1,3,224,224; got {option!r}"
            ) from None
    return shapes


def _inputs(program: Program, options: list[str], seed: int) -> dict[str, Array]:
    given: dict[str, Array] = {}
    for option in options:
        name, _, file = option.rpartition("=")
        path = Path(file)
        if path.suffix == ".npz":
            given |= _read_npz(path)
            continue
        if not name:
            free = [each for each in program.inputs if each not in given]
            if len(free) != 1:
                raise InputError(f"--input {option}: say for which input, as NAME={file}")
            name = free[0]
        given[name] = _read_array(path)
    missing: dict[str, AccessType] = {n: t for n, t in program.inputs.items() if n not in given}
    return given | random_inputs(missing, seed)


def _read_array(path: Path) -> Array:
    try:
        if path.suffix == ".pb":
            import onnx

            return np.asarray(onnx.numpy_helper.to_array(onnx.load_tensor(str(path))))
        return np.asarray(np.load(path, allow_pickle=False))
    except Exception as problem:  # Readers raise whatever their parsers raise.
        raise InputError(f"{path} holds no array (.npy, .npz or .pb): {problem}") from problem


def _read_npz(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as problem:  # As above.
        raise InputError(f"{path} is not an .npz archive of arrays: {problem}") from problem


def _write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    try:
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
    except OSError as problem:
        raise InputError(f"cannot write {path}: {problem.strerror}") from problem


def _summary(array: Array) -> dict[str, Any]:
    known = array.size > 0
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "least": array.min().item() if known else None,
        "greatest": array.max().item() if known else None,
        "greatest_at": [int(i) for i in np.unravel_index(array.argmax(), array.shape)]
        if known
        else None,
    }


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
