"""The command line: the verbs of the library, each printing what a person or a script reads."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypedDict

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import glenside
from glenside import start_up
from glenside.array_files import read_array, read_npz, write_npz
from glenside.errors import CheckFailed, Damaged, GlensideError, InputError
from glenside.explore_hardware import AREAS, SOLVER_LIMIT
from glenside.files import write_bytes, write_text
from glenside.hardware_front import check_plot_path
from glenside.hw_targets.registry import REGISTRY, find_target
from glenside.hw_targets.target import Progress as Listener
from glenside.hw_targets.target import check_can_save
from glenside.interrupt import left_behind
from glenside.language import AccessType, random_inputs
from glenside.limits import ITER_LIMIT, NODE_LIMIT
from glenside.program import Program
from glenside.quantization import Quantization
from glenside.user_modules import import_module

if TYPE_CHECKING:
    from glenside.rewrites.ruleset import Rule, RuleSet
    from glenside.rewrites.soundness import Verdict
    from glenside.tune import BuiltProduct

Array = np.ndarray[Any, Any]

DEFAULT_TARGET = "cpu"

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Equality saturation for tensor programs: rewrite, offload, compile, run, check.",
)
# Names come from models and may look like markup or emoji codes.
_out = Console(markup=False, emoji=False)
_err = Console(markup=False, emoji=False, stderr=True)

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model file: ONNX, or Relay as text (.relay).", show_default=False
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "-t",
        metavar="TARGET",
        help=f"A target, {DEFAULT_TARGET} by default; `glenside targets` lists them.",
    ),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=D,D,...",
        help="The shape of a dynamic input; repeat it for several inputs.",
    ),
]
ParamsOption = Annotated[
    Path | None,
    typer.Option(
        "--params",
        metavar="FILE.npz",
        help="Arrays by name: the weights of Relay text (else drawn from a seed), "
        "or inputs of an ONNX model to hold constant.",
    ),
]

NodeLimitOption = Annotated[int, typer.Option(min=1, help="Most e-nodes.")]
IterLimitOption = Annotated[int, typer.Option(min=0, help="Most iterations.")]


def _as_json(what: str) -> Any:
    return typer.Option("--json", help=f"Print {what} as JSON.")


PrecisionOption = Annotated[
    str | None,
    typer.Option(metavar="DTYPE", help="float16 or bfloat16: computes float32 values so."),
]


def _import_all(modules: list[str] | None) -> list[str]:
    for name in modules or []:
        import_module(name)
    return modules or []


ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=_import_all,
        is_eager=True,
        help="A module, or a .py file, that declares accelerators, targets or rules of your own; "
        "repeat it for several. What it calls RULES, or else the rules that it defines, are "
        "explored beside the target's.",
    ),
]
RulesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rules",
        metavar="MODULE:NAME",
        help="Rules in place of the target's; repeat it for several.",
    ),
]
AddRulesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--add-rules",
        metavar="MODULE:NAME",
        help="Rules beside the target's; repeat it for several.",
    ),
]


@app.command()
def optimize(
    model: ModelArgument,
    target: TargetOption = None,
    imports: ImportOption = None,
    rules: RulesOption = None,
    add_rules: AddRulesOption = None,
    shape: ShapeOption = None,
    params: ParamsOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Save the program to this directory."),
    ] = None,
    emit_c: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the program as C source to this directory."),
    ] = None,
    as_json: Annotated[bool, _as_json("the report")] = False,
    precision: PrecisionOption = None,
    node_limit: NodeLimitOption = NODE_LIMIT,
    iter_limit: IterLimitOption = ITER_LIMIT,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0, help="Most seconds in all, but importing and quantising."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES",
            help="Most memory beside operands and results: bytes, or 64MB, 64MiB and the like.",
        ),
    ] = None,
    cost_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="In place of the target's own: maximise-offload, roofline, cycles or memory.",
        ),
    ] = None,
    extractor: Annotated[
        str, typer.Option(metavar="NAME", help="best, bottom-up, greedy-dag or ilp.")
    ] = "best",
    quantize: Annotated[
        Path | None,
        typer.Option(
            metavar="SAMPLES.npz",
            help="Quantise a float model to int8 first, calibrated with these inputs by name.",
        ),
    ] = None,
    percentile: Annotated[
        float | None,
        typer.Option(
            min=0, max=100, help="Of the magnitudes in a sample that --quantize keeps; else all."
        ),
    ] = None,
    ilp_limit: Annotated[
        float | None,
        typer.Option(min=0, help="Most seconds of --extractor ilp, as its solver counts them."),
    ] = None,
    check: Annotated[bool, typer.Option(help="Compare with NumPy on random inputs.")] = True,
    egraph: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Write the explored e-graph, as egraph-serialize's JSON."
        ),
    ] = None,
) -> None:
    """Optimise a model for a target and report what came of it."""
    if percentile is not None and quantize is None:
        raise InputError("--percentile is of the samples to quantise with: give --quantize as well")
    if ilp_limit is not None and extractor != "ilp":
        raise InputError(f"--ilp-limit is for --extractor ilp, not {extractor}")
    if output is not None:
        check_can_save(find_target(_named(target)))  # Before all that takes long.
    quantization = None
    if quantize is not None:
        quantization = Quantization(read_npz(quantize), 100.0 if percentile is None else percentile)
    with _progress() as listener:
        program = glenside.optimize(
            model,
            _named(target),
            shapes=_shapes(shape),
            params=read_npz(params) if params else None,
            **_rules(rules, add_rules, imports),
            precision=precision,
            node_limit=node_limit,
            iter_limit=iter_limit,
            time_limit=time_limit,
            memory_limit=memory_limit,
            cost_model=cost_model,
            extractor=extractor,
            quantize=quantization,
            ilp_limit=ilp_limit,
            check=check,
            egraph=egraph,
            progress=listener,
        )
    if output is not None:
        program.save(output)
    if emit_c is not None:
        program.to_c(emit_c)
    if as_json:
        print(json.dumps(program.report.to_json(), indent=2))
        return
    _out.print(program.report)
    if output is not None:
        _out.print(f"saved to {output}; run it with: glenside run {output}", soft_wrap=True)
    if emit_c is not None:
        _out.print(f"C source in {emit_c}; build it with: make -C {emit_c}", soft_wrap=True)


@app.command()
def run(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="A saved program's directory, or a model file (ONNX or Relay text).",
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="[NAME=]FILE",
            help="An input from .npy, .npz (by name) or .pb; random where none is given. "
            "Repeat it for several inputs.",
        ),
    ] = None,
    target: TargetOption = None,
    imports: ImportOption = None,
    rules: RulesOption = None,
    add_rules: AddRulesOption = None,
    shape: ShapeOption = None,
    params: ParamsOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.npz", help="Write the outputs to this .npz."),
    ] = None,
    untrusted: Annotated[
        bool,
        typer.Option(
            "--untrusted",
            help="Run a saved program by the interpreter, slowly and without any code of it.",
        ),
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Run so many times; report the best.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random inputs.")] = 0,
    as_json: Annotated[bool, _as_json("a summary")] = False,
) -> None:
    """Run a saved program, or a model after optimising it for --target.

    A saved program holds compiled code, which runs with all your rights: give --untrusted for one
    from others. --target, --shape, --params and rules are for models: a saved program has its own.
    """
    if output is not None and output.suffix != ".npz":
        raise InputError(f"--output {output}: outputs are written as .npz; name a file so")
    loaded = _program(
        program, target, shape, params, rules, add_rules, imports, trusted=not untrusted
    )
    arrays = _inputs(loaded, inputs or [], seed)
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        results = loaded.run(arrays)
        seconds.append(time.perf_counter() - start)
    named = dict(zip(loaded.output_names, results, strict=True))
    if output is not None:
        write_npz(output, named)
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
def verify(
    program: Annotated[
        Path, typer.Argument(metavar="DIR", help="A saved program's directory.", show_default=False)
    ],
    imports: ImportOption = None,
    run: Annotated[
        bool,
        typer.Option(
            "--run",
            help="Run its compiled code as well, and compare it with the interpreter on random "
            "inputs. For programs that you trust.",
        ),
    ] = False,
    as_json: Annotated[bool, _as_json("what was found")] = False,
) -> None:
    """Check a saved program; exit code 1 when it is damaged or computes something else.

    The hash of every file, every number of the plan by which kernels are run, and the program as a
    term against its inputs, parameters and outputs. No code of it is run, unless with --run.
    """
    from glenside.verify import verify

    try:
        found = verify(program, run=run)
    except (Damaged, CheckFailed) as problem:
        _show(problem)
        raise typer.Exit(1) from problem
    if as_json:
        print(json.dumps({each.what: each.found for each in found}, indent=2))
        return
    table = Table("checked", "found")
    for each in found:
        table.add_row(each.what, each.found)
    _out.print(table)


@app.command("explore-hardware")
def explore_hardware(
    model: ModelArgument,
    areas: Annotated[
        str, typer.Option(metavar="A,A,...", help="Budgets, in multipliers.")
    ] = ",".join(map(str, AREAS)),
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TARGET",
            help="A unit that may be built, by its target; repeat it for several. "
            "By default systolic arrays of all sizes that fit.",
        ),
    ] = None,
    imports: ImportOption = None,
    rules: RulesOption = None,
    add_rules: AddRulesOption = None,
    shape: ShapeOption = None,
    params: ParamsOption = None,
    node_limit: NodeLimitOption = NODE_LIMIT,
    iter_limit: IterLimitOption = ITER_LIMIT,
    solver_limit: Annotated[
        float, typer.Option(min=0, help="Most seconds for each area, as the solver counts them.")
    ] = SOLVER_LIMIT,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.json", help="Write the front as JSON."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the front: .svg, .png or .html."),
    ] = None,
    as_json: Annotated[bool, _as_json("the front")] = False,
) -> None:
    """Find which units, within an area, run a model fastest."""
    if plot is not None:
        check_plot_path(plot)
    with _progress() as listener:
        front = glenside.explore_hardware(
            model,
            _areas(areas),
            candidate,
            shapes=_shapes(shape),
            params=read_npz(params) if params else None,
            **_rules(rules, add_rules, imports),
            node_limit=node_limit,
            iter_limit=iter_limit,
            solver_limit=solver_limit,
            progress=listener,
        )
    text = json.dumps(front.to_json(), indent=2)
    if output is not None:
        try:
            write_text(output, text + "\n")
        except OSError as problem:
            raise InputError(f"cannot write {output}: {problem.strerror}") from problem
    if plot is not None:
        front.save_plot(plot)
    if as_json:
        print(text)
    else:
        _out.print(front)


def _areas(option: str) -> list[float]:
    try:
        return [float(each) for each in option.split(",") if each.strip()]
    except ValueError:
        raise InputError(
            f"--areas is written A,A,... such as 64,256,1024; got {option!r}"
        ) from None


@app.command()
def explain(
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM",
            help="A saved program's directory, or a model file (ONNX or Relay text).",
            show_default=False,
        ),
    ],
    node: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only what concerns this value of the model."),
    ] = None,
    passes: Annotated[
        bool,
        typer.Option("--passes", help="How a model is cut into kernels: it after each pass."),
    ] = False,
    target: TargetOption = None,
    imports: ImportOption = None,
    rules: RulesOption = None,
    add_rules: AddRulesOption = None,
    shape: ShapeOption = None,
    params: ParamsOption = None,
    mapping: Annotated[
        bool,
        typer.Option("--mapping", help="Tell instead how products are mapped to a GPU, and why."),
    ] = False,
    prove: Annotated[
        bool,
        typer.Option("--prove", help="Prove instead that the program equals the model, by rules."),
    ] = False,
    as_json: Annotated[bool, _as_json("it")] = False,
) -> None:
    """Say from which layer each accelerator call came, by which rules, and what stayed on the host.

    With --passes it is said instead how the program is cut into kernels, and where values lie; with
    --mapping how products are spread over a GPU; with --prove by which rules the program equals the
    model, and what is proved of each.
    --target, --shape, --params and rules are for models: a saved program has its own.
    """
    if passes and (as_json or node):
        raise InputError(
            f"--passes is text of the whole program: leave {'--json' if as_json else '--node'} out"
        )
    # What is told of a saved program needs no compiled code.
    trusted = not _is_saved(program)
    if mapping and (node is not None or passes):
        raise InputError("--mapping tells of every product: leave --node and --passes out")
    if prove and (node is not None or passes or mapping):
        raise InputError("--prove is about the whole program: leave the other options out")
    made = _program(program, target, shape, params, rules, add_rules, imports, trusted=trusted)
    if passes:
        print(made.explain_passes())
        return
    told: Any
    if prove:
        told = made.prove()
    else:
        told = made.explain_mapping() if mapping else made.explain(node)
    if as_json:
        print(json.dumps(told.to_json(), indent=2))
    elif mapping or prove:
        print(told)
    else:
        _out.print(told)


@app.command()
def explore(
    model: ModelArgument,
    target: TargetOption = None,
    imports: ImportOption = None,
    rules: RulesOption = None,
    add_rules: AddRulesOption = None,
    shape: ShapeOption = None,
    params: ParamsOption = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Stop when this is found, such as '(call ?u ?p ?x)'."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Write a page to look around in the e-graph."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw charts: .svg, .png, .html or .json."),
    ] = None,
    cost_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="In place of the target's own.")
    ] = None,
    as_json: Annotated[bool, _as_json("all tables")] = False,
    node_limit: NodeLimitOption = NODE_LIMIT,
    iter_limit: IterLimitOption = ITER_LIMIT,
    time_limit: Annotated[
        float | None, typer.Option(min=0, help="Most seconds of exploration.")
    ] = None,
) -> None:
    """Watch the e-graph of a model grow, pass by pass."""
    from glenside.explore.live import watch

    exploration = glenside.explore(
        model,
        _named(target),
        shapes=_shapes(shape),
        params=read_npz(params) if params else None,
        **_rules(rules, add_rules, imports),
        cost_models=None if cost_model is None else [cost_model],
        node_limit=node_limit,
        iter_limit=iter_limit,
        time_limit=time_limit,
    )
    found = watch(exploration, _err if as_json else _out, until)
    if html is not None:
        exploration.write_html(html)
    if plot is not None:
        from glenside.explore import plots

        plots.save(exploration.plot(), plot)
    if as_json:
        print(json.dumps(exploration.to_json(), indent=2))
        return
    if until is not None:
        _out.print("found" if found else "not found", soft_wrap=True)
    reason = exploration.stop_reason
    if exploration.failure is not None:
        _out.print(f"not explored: {exploration.failure}", soft_wrap=True)
    else:
        ended = f"stop reason: {reason.value}" if reason else "stopped where the pattern was found"
        _out.print(ended)
    for path, what in ((html, "page"), (plot, "charts")):
        if path is not None:
            _out.print(f"{what} in {path}", soft_wrap=True)


@app.command()
def tune(
    model: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="The model; none with --measure and --record."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="TARGET", help="opencl or cuda.")
    ] = None,
    imports: ImportOption = None,
    rules: RulesOption = None,
    add_rules: AddRulesOption = None,
    shape: ShapeOption = None,
    params: ParamsOption = None,
    precision: PrecisionOption = None,
    candidates: Annotated[
        int, typer.Option(min=1, help="Mappings to measure of each product.")
    ] = 16,
    time_limit: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which no product is begun.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json",
            help="The tuning file; $GLENSIDE_TUNING or ~/.cache/glenside/tuning.json by default.",
        ),
    ] = None,
    build: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Build what is to be measured; needs no device."),
    ] = None,
    most: Annotated[
        int | None, typer.Option(min=1, help="Products to build, those first that take longest.")
    ] = None,
    no_compile: Annotated[
        bool,
        typer.Option("--no-compile", help="With --build: leave nvcc to the GPU's machine."),
    ] = False,
    measure: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Measure what was built, into DIR/results.json."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="RESULTS.json", help="Put what was measured into the tuning file."),
    ] = None,
    as_json: Annotated[bool, _as_json("the results")] = False,
) -> None:
    """Measure mappings of a model's products on a GPU; later programs use the fastest.

    What was measured is kept at once: a run that was stopped goes on where it was. Where compiler
    and GPU are on two machines: --build on the first, --measure on the second, --record on the
    first.
    """
    from glenside import tune as tuning

    if model is None or target is None:
        if model is not None or (measure is None) == (record is None) or build is not None:
            raise InputError("tune takes a MODEL and --target, or one of --measure and --record")
    elif measure is not None or record is not None:
        raise InputError("--measure and --record take no MODEL: it is in what was built")
    with _progress() as listener:
        if measure is not None:
            products = tuning.measure(measure, time_limit=time_limit, progress=listener)
        elif record is not None:
            products = tuning.record(record, file=file)
        else:
            assert model is not None and target is not None
            given: dict[str, Any] = {
                "shapes": _shapes(shape),
                "params": read_npz(params) if params else None,
                "precision": precision,
                "candidates": candidates,
                "time_limit": time_limit,
                "file": file,
                "progress": listener,
                **_rules(rules, add_rules, imports),
            }
            if build is not None:
                given |= {"most": most, "compile": not no_compile}
                built = tuning.build(model, target, build, **given)
                _show_built(built, as_json)
                return
            products = tuning.tune(model, target, **given)
    if as_json:
        print(json.dumps([vars(each) for each in products], indent=2))
        return
    table = Table("product", "tried", "predicted µs", "fastest µs")
    for each in products:
        known = each.tried == 0
        predicted = "known" if known else _cell(each.predicted * 1e6)
        table.add_row(
            each.space.split(";")[0], str(each.tried), predicted, _cell(each.seconds * 1e6)
        )
    _out.print(table)


def _show_built(products: Sequence[BuiltProduct], as_json: bool) -> None:
    if as_json:
        print(json.dumps([vars(each) for each in products], indent=2))
        return
    table = Table("product", "uses", "predicted µs of all", "built")
    for each in products:
        row = (each.space.split(";")[0], str(each.uses), _cell(each.predicted * 1e6))
        table.add_row(*row, str(each.built))
    _out.print(table)


@app.command()
def sample(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="One of those listed without it.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to; NAME.onnx by default."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="What weights are drawn from.")] = 0,
) -> None:
    """Write a real network to try things on, its weights drawn; without NAME, list them."""
    from glenside.samples import sample_model, sample_names

    if name is None:
        _out.print("\n".join(sample_names()))
        return
    path = output or Path(f"{name}.onnx")
    data = sample_model(name, seed).SerializeToString()
    try:
        write_bytes(path, data)
    except OSError as problem:
        raise InputError(f"cannot write {path}: {problem.strerror}") from problem
    _out.print(f"{path}: images of (1, 3, 224, 224)")


@app.command()
def targets(imports: ImportOption = None) -> None:
    """List the targets."""
    table = Table("target", "what it is")
    for kind in glenside.targets():
        table.add_row(kind.name, kind.summary)
    _out.print(table)
    for problem in REGISTRY.broken():
        _err.print(Text(f"warning: {problem}", style="yellow"))


@app.command()
def doctor(as_json: Annotated[bool, _as_json("what was found")] = False) -> None:
    """Say what is installed, what devices and compilers there are, and what is missing for what."""
    from glenside.doctor import as_json as plain
    from glenside.doctor import examine, machine

    found = examine()
    if as_json:
        print(json.dumps(plain(found), indent=2))
        return
    _out.print(machine())
    table = Table("", "", "", "")
    for each in found:
        mark = Text("ok", style="green") if each.found else Text("missing", style="yellow")
        table.add_row(each.part, each.name, mark, each.told)
    _out.print(table)


@app.command("check-rules")
def check_rules(
    rules: Annotated[
        str | None,
        typer.Argument(
            help="Rules of your own, as my_rules:RULES; all rules that ship by default.",
            metavar="[MODULE:NAME]",
        ),
    ] = None,
    imports: ImportOption = None,
    examples: Annotated[int, typer.Option(min=1, help="Random programs for each rule.")] = 100,
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove them for all sizes; try what is not proved.")
    ] = False,
    bound: Annotated[
        int, typer.Option(min=0, help="Ranks up to which proofs go that are not for all ranks.")
    ] = 2,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds after which no rule is begun; by default all are tried."),
    ] = None,
    as_json: Annotated[bool, _as_json("the verdicts")] = False,
) -> None:
    """Try rewrite rules on random programs, the same ones each time.

    Exit code 0: all rules are sound as far as was tried. 1: one is unsound. 2: the rules cannot be
    tried. 3: none is known to be unsound, but one fired on no program, or time was up before its
    turn, so that nothing is known of it. With --prove, rules are proved and those that are not are
    tried; 1 where one fails on a program, else 0. Of a unit's rule it is proved as well that calls
    may be cut and padded to the unit's own sizes.
    """
    if rules is None:
        _err.print("loading all rules that ship")
    if prove:
        from glenside.rewrites.ruleset import all_rules

        chosen = all_rules() if rules is None else _find_rules(rules)
        _prove_rules(chosen, bound, examples, as_json)
        return
    try:
        import hypothesis  # noqa: F401  (The kit needs it, the rest of the package does not.)
    except ImportError as problem:
        raise GlensideError(
            "checking rules needs hypothesis: pip install 'glenside[rules]'"
        ) from problem
    from glenside.rewrites.ruleset import all_rules, explored_with
    from glenside.rewrites.soundness import judge

    chosen = all_rules() if rules is None else _find_rules(rules)
    if rules is None:
        added = explored_with(lambda: [chosen], add_rules=_imported_rules(imports))
        chosen = replace(chosen, rules=tuple(rule for each in added for rule in each))
    count, done = len(chosen.rules), itertools.count(1)

    def judged(verdict: Verdict) -> None:
        _err.print(Text(f"{next(done)}/{count} {verdict.rule}: {verdict}"), soft_wrap=True)

    with _progress() as listener:
        verdicts = judge(
            chosen, examples=examples, time_limit=time_limit, progress=listener, judged=judged
        )
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
            told = Text(str(verdict), style=colour)
            table.add_row(verdict.rule, f"{verdict.fired:,}", told, shown)
        _out.print(table)
    if any(verdict.counterexample is not None for verdict in verdicts):
        raise typer.Exit(1)
    if not all(verdict.ok for verdict in verdicts):
        raise typer.Exit(3)


def _is_saved(program: str) -> bool:
    """Whether what was named is a saved program rather than a model."""
    return program != "" and os.path.isdir(program)


def _named(target: str | None) -> str:
    """The target of an option; one that is empty is none, and is refused as such."""
    return DEFAULT_TARGET if target is None else target


def _prove_rules(chosen: RuleSet, bound: int, examples: int, as_json: bool) -> None:
    from glenside.rewrites.soundness.proofs import Proved, prove_all, require_solver

    require_solver()
    from glenside.hw_targets.declare import claims

    done = itertools.count(1)

    def proved(verdict: Any) -> None:
        told = f"{next(done)}/{len(chosen.rules)} {verdict.rule}: {verdict.verdict}"
        _err.print(Text(told), soft_wrap=True)

    with _progress() as listener:
        verdicts = prove_all(
            chosen,
            bound=bound,
            examples=examples,
            jobs=os.cpu_count() or 1,
            progress=listener,
            proved=proved,
        )
    count = len(verdicts)
    for unit in claims.of_rules(chosen):
        verdicts += claims.prove_claims(unit)
    if as_json:
        print(json.dumps([verdict.data() for verdict in verdicts], indent=2))
    else:
        colours = {"proved": "green", "refuted": "red", "sampled": "yellow"}
        table = Table("rule", "verdict", "for", "by, or open")
        for verdict in verdicts:
            told = Text(verdict.verdict, style=colours[verdict.verdict])
            table.add_row(verdict.rule, told, verdict.holds, verdict.detail)
        _out.print(table)
        counts = Counter(verdict.verdict for verdict in verdicts[:count])
        every = sum(isinstance(each, Proved) and each.ranks is None for each in verdicts[:count])
        counted = ", ".join(f"{counts[each]} {each}" for each in colours)
        _out.print(f"{counted}; {every} for all ranks")
        if verdicts[count:]:
            shown = sum(isinstance(each, Proved) for each in verdicts[count:])
            _out.print(f"units' own sizes: {shown} of {len(verdicts) - count} claims proved")
    if not all(verdict.ok for verdict in verdicts):
        raise typer.Exit(1)


def _program(
    program: str,
    target: str | None,
    shape: list[str] | None,
    params: Path | None,
    rules: list[str] | None,
    add_rules: list[str] | None,
    imports: list[str] | None,
    *,
    trusted: bool = True,
) -> Program:
    """The program saved in a directory, or a model optimised as the options say."""
    if _is_saved(program):
        for option, value in (
            ("--target", target),
            ("--shape", shape),
            ("--params", params),
            ("--rules", rules),
            ("--add-rules", add_rules),
        ):
            if value is not None:
                raise InputError(f"{option} is for a model; {program} is a saved program")
        return glenside.load(program, trusted=trusted)
    if not trusted:
        raise InputError(f"--untrusted is for a saved program; {program} is none")
    with _progress() as listener:
        return glenside.optimize(
            program,
            _named(target),
            shapes=_shapes(shape),
            params=read_npz(params) if params else None,
            **_rules(rules, add_rules, imports),
            check=False,
            progress=listener,
        )


class _Rules(TypedDict):
    """What is explored with, as the options say."""

    rules: list[RuleSet | Rule] | None
    add_rules: list[RuleSet | Rule] | None


def _rules(
    rules: list[str] | None, add_rules: list[str] | None, imports: list[str] | None
) -> _Rules:
    """Rules named by ``--rules`` and ``--add-rules``, and those of imported modules."""
    added = [_find_rules(each) for each in add_rules or []] + _imported_rules(imports)
    return {
        "rules": [_find_rules(each) for each in rules] if rules else None,
        "add_rules": [*added] or None,
    }


def _imported_rules(imports: list[str] | None) -> list[RuleSet]:
    if not imports:
        return []
    from glenside.rewrites.ruleset import rules_in

    return [found for name in imports for found in rules_in(import_module(name))]


def _find_rules(name: str) -> RuleSet:
    from glenside.rewrites.ruleset import as_ruleset

    module, colon, attribute = name.rpartition(":")
    if not (module and colon and attribute):
        raise InputError(f"rules are named module:name, such as my_rules:RULES; got {name!r}")
    if module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        raise InputError(f"give a module name such as my_rules:RULES, not a file; got {name!r}")
    try:
        found = getattr(import_module(module), attribute)
    except AttributeError as problem:
        raise InputError(f"no rules are found at {name}: {problem}") from problem
    try:
        chosen = as_ruleset(found, name)
    except RecursionError:  # A string is iterable all the way down.
        raise InputError(f"{name} is neither a rule nor a rule set but {found!r}") from None
    if not chosen.rules:
        raise InputError(f"{name} holds no rules: nothing to check or explore with")
    return chosen


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        print(f"glenside {glenside.__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Entry point: our own errors become one line and exit code 2, Ctrl-C exit code 130."""
    start_up.over()
    try:
        app()
        sys.stdout.flush()
    except GlensideError as problem:
        _show(problem)
        sys.exit(2)
    except MemoryError as problem:
        _show(GlensideError(f"out of memory: {problem}".rstrip(": ")))
        sys.exit(2)
    except KeyboardInterrupt:
        _stopped()
    except OSError as problem:
        _unwritable(problem)
    except SystemExit as done:
        if done.code == 130:  # Ctrl-C, which typer has caught.
            _stopped()
        try:
            sys.stdout.flush()
        except OSError as problem:
            _unwritable(problem)
        raise
    sys.exit(0)


def _show(problem: GlensideError) -> None:
    said = " ".join(str(problem).split())
    _err.print(Text.assemble(("error:", "bold red"), " ", said), soft_wrap=True)


def _stopped() -> NoReturn:
    _err.print("stopped")
    if left_behind():  # Python would wait for it.
        sys.stdout.flush()
        os._exit(130)
    sys.exit(130)


def _unwritable(problem: OSError) -> NoReturn:
    """The standard output cannot be written to."""
    _show(GlensideError(f"cannot write: {problem.strerror or problem}"))
    # What is left in the buffer would be written, and complained of, once more at the very end.
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(2)


@contextmanager
def _progress() -> Iterator[Listener | None]:
    """Shows progress on a terminal; elsewhere nothing, so that logs stay readable."""
    if not _err.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<9}", markup=False),
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
            if name:
                raise InputError(f"--input {option}: an .npz names its arrays; give {file} alone")
            given |= read_npz(path)
            continue
        if not name:
            free = [each for each in program.inputs if each not in given]
            if len(free) != 1:
                raise InputError(f"--input {option}: say for which input, as NAME={file}")
            name = free[0]
        given[name] = read_array(path)
    missing: dict[str, AccessType] = {n: t for n, t in program.inputs.items() if n not in given}
    return given | random_inputs(missing, seed)


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
