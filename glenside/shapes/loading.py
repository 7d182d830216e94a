"""Programs of named sizes that were saved, and further sizes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from glenside.errors import GlensideError
from glenside.program import Program
from glenside.saved_folder import SavedFolder, damaged
from glenside.shapes.names import Named, Sizes
from glenside.shapes.program import ShapedProgram
from glenside.shapes.rows import Digit, NotByRows, by_rows
from glenside.shapes.specialise import Made, Split


def load_sizes(
    saved: SavedFolder, load_part: Callable[[SavedFolder], Program], *, compiles: bool
) -> ShapedProgram:
    """The program that :meth:`ShapedProgram.save` wrote.

    :param load_part: loads the program of one size.
    :param compiles: whether further sizes may be compiled.
    :raises GlensideError: the files are damaged, or something that they need is missing.
    """
    try:
        manifest = saved.manifest
        named = Named.from_json(manifest["named"])
        made: dict[Sizes, Made] = {}
        for number, each in enumerate(manifest["parts"]):
            program = load_part(saved.part(str(number), each["manifest"]))
            made[tuple(each["sizes"])] = Made(program, str(each["how"]))
        splits = {name: _split_from_json(name, each) for name, each in manifest["splits"].items()}
    except (GlensideError, ImportError, MemoryError):
        raise
    except Exception as problem:  # Damaged files lead to any kind.
        raise damaged(saved.folder, problem) from problem
    maker = _Resizer(named, made, splits) if compiles else None
    return ShapedProgram(named, maker, made, parts=True, splits=splits)


class _Resizer:
    """Makes further sizes of a program that was loaded, where it is known to go by rows."""

    def __init__(
        self, named: Named, made: Mapping[Sizes, Made], splits: Mapping[str, Split]
    ) -> None:
        self._named, self._made, self._splits = named, dict(made), splits

    def make(self, sizes: Sizes) -> Made:
        """A form that there is, compiled for another length of one name.

        :raises GlensideError: none is known to mean the same there, or it cannot be compiled.
        """
        from glenside.hw_targets import find_target

        for there, each in self._made.items():
            split = self.split(sizes, there)
            if split is None:
                continue
            program = each.program
            number = list(self._named.ranges).index(split.name)
            numbers = there[number], sizes[number]
            asked = [each.term for each in program.requirements]
            try:
                found = by_rows((*program.terms, *asked), split.axes, *numbers)
            except NotByRows:
                continue
            terms = found.terms[: len(program.terms)]
            shapes = self._named.shapes_at(sizes)
            inputs = {
                name: type_.with_shape(shapes.get(name, type_.shape), type_.rank)
                for name, type_ in program.inputs.items()
            }
            target = find_target(program.report.target)
            params = program.as_model().params
            executable = target.compile(terms, inputs, params)
            report = replace(
                program.report,
                max_rel_error=None,
                memory=getattr(executable, "footprint", None),
                unchecked="the model is not at hand",
            )
            again = Program(
                program.name,
                inputs,
                dict(zip(program.output_names, terms, strict=True)),
                executable,
                report,
                params=params,
                requirements=[
                    replace(each, term=term)
                    for each, term in zip(
                        program.requirements, found.terms[len(terms) :], strict=True
                    )
                ],
            )
            return Made(again, f"the form of {self._named.spell(there)}")
        known = "; ".join(map(self._named.spell, self._made))
        raise GlensideError(
            f"the program was saved with {known}, and is not known to mean the same for "
            f"{self._named.spell(sizes)}: make it from the model, with sizes= that list this too"
        )

    def split(self, sizes: Sizes, parts: Sizes) -> Split | None:
        """What was known when it was saved."""
        differing = [
            name for name, a, b in zip(self._named.ranges, sizes, parts, strict=True) if a != b
        ]
        return self._splits.get(differing[0]) if len(differing) == 1 else None


def _split_from_json(name: str, data: Mapping[str, Any]) -> Split:
    digits = tuple(None if each is None else Digit(**each) for each in data["digits"])
    return Split(name, {n: int(axis) for n, axis in data["axes"].items()}, digits)
