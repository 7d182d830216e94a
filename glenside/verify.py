"""Says whether a saved program is what was saved, without running it unless that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from glenside import saved_folder
from glenside.check import has_own_numerics
from glenside.check.errors import STEPS, TOLERANCE, relative_error
from glenside.check.inputs import drawn_inputs
from glenside.codegen.load import read_plan
from glenside.codegen.plan import Plan
from glenside.errors import CheckFailed, GlensideError
from glenside.files import folder_of
from glenside.language import AccessType, Model, memory, topological_order
from glenside.program import Program, load
from glenside.saved_folder import SavedFolder, damaged


@dataclass(frozen=True)
class Verified:
    """What was checked, and what was found of it."""

    what: str
    found: str


def verify(directory: str | Path, *, run: bool = False) -> list[Verified]:
    """Checks a saved program: the hash of every file, every number of its plan against the buffers
    it names, its term against the inputs, parameters and outputs it is said to have.

    :param run: load its compiled code as well, and compare it with the interpreter on random
        inputs.
    :raises Damaged: it is not what was saved.
    :raises CheckFailed: compiled code and interpreter differ.
    :raises GlensideError: there is no saved program, or something that it needs is missing.
    """
    folder = folder_of(directory)
    interpreted = load(folder, trusted=False)
    found = saved_folder.read(folder, _files)
    plan = saved_folder.read(folder, _parsed(lambda saved: read_plan(saved.code)))
    saved_folder.read(folder, _parsed(lambda saved: _agree(interpreted, plan)))
    found += [
        Verified("plan", f"{len(plan.slots)} buffers, {len(plan.steps)} steps, all within bounds"),
        Verified("program", f"{len(topological_order(interpreted.terms))} terms, as inputs, "
                 "parameters and outputs are"),
    ]  # fmt: skip
    if run:
        found.append(Verified("results", _compared(folder, interpreted)))
    return found


def _files(saved: SavedFolder) -> list[Verified]:
    sizes = [(saved.code / name).stat().st_size for name in saved.files]
    told = f"{len(sizes)} of {memory.spelled(sum(sizes))}, as their SHA-256 says"
    return [Verified("manifest", "as its own digest says"), Verified("files", told)]


def _parsed[T](use: Callable[[SavedFolder], T]) -> Callable[[SavedFolder], T]:
    def parsed(saved: SavedFolder) -> T:
        try:
            return use(saved)
        except (LookupError, TypeError, ValueError, RecursionError) as problem:
            raise damaged(saved.folder, problem) from problem

    return parsed


def _agree(program: Program, plan: Plan) -> None:
    """:raises ValueError: the plan gives other outputs, or takes other inputs than the program."""
    if plan.taken() != program.inputs:
        raise ValueError("the plan has other inputs than the program")
    gives = [AccessType(tuple(p.shape), (), p.dtype) for p in plan.outputs]
    terms = [AccessType(t.shape, (), t.dtype) for t in program.terms]
    if gives != terms or len(terms) != len(program.output_names):
        raise ValueError("the plan has other outputs than the program")


def _compared(folder: Path, interpreted: Program) -> str:
    compiled = load(folder)
    missing = compiled.unavailable()
    if missing is not None:
        return f"not compared: {missing}"
    params, outputs, _ = interpreted._exported()
    model = Model(interpreted.name, interpreted.inputs, dict(params), outputs)
    for inputs in drawn_inputs(model):
        try:
            expected = interpreted.run(inputs)
        except GlensideError as problem:
            refused = str(problem)
        else:
            break
    else:
        return f"not compared: no inputs were found that the program takes: {refused}"
    rounds = compiled.report.quantization is not None
    numerics = any(map(has_own_numerics, topological_order(interpreted.terms)))
    worst = 0.0
    results = zip(compiled.output_names, compiled.run(inputs), expected, strict=True)
    for name, got, right in results:
        allowed = STEPS if rounds or numerics else TOLERANCE.get(right.dtype.name, 0.0)
        error = relative_error(got, right)
        if not error <= allowed:
            raise CheckFailed(
                f"output {name!r} of {compiled.name} differs from the interpreter by {error:.2e} "
                f"(relative, {allowed:.0e} is allowed)"
            )
        worst = max(worst, error)
    return f"as the interpreter's, up to {worst:.1e} (relative)"
