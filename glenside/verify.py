"""Says whether a saved program is what was saved, without running it unless that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glenside import saved_folder
from glenside.check import has_own_numerics
from glenside.check.errors import STEPS, TOLERANCE, relative_error
from glenside.check.inputs import drawn_inputs
from glenside.codegen.load import read_plan
from glenside.codegen.plan import Plan
from glenside.errors import CheckFailed, GlensideError
from glenside.files import folder_of
from glenside.language import AccessType, memory, topological_order
from glenside.program import Program, read_program
from glenside.saved_folder import SavedFolder, damaged
from glenside.shapes.names import Named


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

    def checked(saved: SavedFolder) -> list[Verified]:
        found = _files(saved)
        if "parts" not in saved.manifest:
            return found + _verified(saved, run=run)
        for number, (label, manifest) in enumerate(_parts(saved)):
            for each in _verified(saved.part(str(number), manifest), run=run):
                found.append(Verified(f"{each.what}, {label}", each.found))
        return found

    return saved_folder.read(folder, checked)


def _parts(saved: SavedFolder) -> list[tuple[str, Mapping[str, Any]]]:
    """The sizes that a program has, as they are called, and the manifest of each."""
    named = _parsed(lambda saved: Named.from_json(saved.manifest["named"]))(saved)
    return _parsed(
        lambda saved: [
            (named.spell(tuple(each["sizes"])), each["manifest"])
            for each in saved.manifest["parts"]
        ]
    )(saved)


def _verified(saved: SavedFolder, *, run: bool) -> list[Verified]:
    """What is found of a program of one size."""
    interpreted = read_program(saved, trusted=False)
    plan = _parsed(lambda saved: read_plan(saved.code))(saved)
    _parsed(lambda saved: _agree(interpreted, plan))(saved)
    found = [
        Verified("plan", f"{len(plan.slots)} buffers, {len(plan.steps)} steps, all within bounds"),
        Verified("program", f"{len(topological_order(interpreted.terms))} terms, as inputs, "
                 "parameters and outputs are"),
    ]  # fmt: skip
    if run:
        found.append(Verified("results", _compared(read_program(saved), interpreted)))
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


def _compared(compiled: Program, interpreted: Program) -> str:
    missing = compiled.unavailable()
    if missing is not None:
        return f"not compared: {missing}"
    for inputs in drawn_inputs(interpreted.as_model()):
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
