"""Programs of single sizes, made when they are needed, and what is known of rows between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from glenside.errors import GlensideError, InputError
from glenside.frontends.lengths import OpenModel
from glenside.language import Model
from glenside.program import Program
from glenside.shapes.forms import Form, Reused, axes_of_rows, reused
from glenside.shapes.names import Named, Sizes
from glenside.shapes.rows import Digit, NotByRows

Array = np.ndarray[Any, Any]

TRIED = (2, 16, 64, 256, 1)
"""Lengths that are tried for names, when nobody says one: the first that the model takes."""

KEPT = 2
"""Imported models that are kept: one is compared with another."""


@dataclass(frozen=True)
class Split:
    """That programs of one name's length run as parts of another's: the axis of each input that is
    cut, and where each output has the rows; an output without is the same in all parts."""

    name: str
    axes: Mapping[str, int]
    digits: tuple[Digit | None, ...]


@dataclass(frozen=True)
class Made:
    """A program of one size, and how it came to be, in words."""

    program: Program
    how: str


class Maker(Protocol):
    """What makes programs of single sizes."""

    def make(self, sizes: Sizes) -> Made:
        """The program; raises :class:`GlensideError`."""

    def split(self, sizes: Sizes, parts: Sizes) -> Split | None:
        """How a call of ``sizes`` runs as calls of ``parts``; None where that is not proved."""


@dataclass(frozen=True)
class Explored(Form):
    """A form and the program that was found with it."""

    program: Program


Fresh = Callable[[object, Mapping[str, tuple[int, ...]] | None], Program]
"""Optimises a model for shapes that are given, or for its own."""
Again = Callable[[Explored, Reused, Model], Program]
"""Compiles a form for another size of its model."""


class FormBook:
    """The forms that were found of one model: each is used again for every size that it is proved
    for, and what it is not proved for is explored.

    :param change: what is done to a model before it is explored: half precision.
    :param again: None where each size is to be explored.
    """

    def __init__(self, change: Callable[[Model], Model], fresh: Fresh, again: Again | None) -> None:
        self.change, self._fresh, self._again = change, fresh, again
        self._forms: list[Explored] = []

    def __len__(self) -> int:
        return len(self._forms)

    def make(
        self,
        read: Model,
        size: str,
        source: object = None,
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> Made:
        """The program of a model of one size.

        :param read: the model as it was imported, from ``source`` with these shapes.
        :param size: what the size is called.
        """
        model = self.change(read)
        for form in self._forms if self._again else ():
            try:
                found = reused(form, model)
            except NotByRows:
                continue
            assert self._again is not None
            return Made(self._again(form, found, read), f"the form of {form.size}")
        # Calls may give what the model holds values of: then it is imported once more.
        again = read.defaults and source is not None
        program = self._fresh(source, shapes) if again else self._fresh(read, None)
        if program.report.failure is None and not program.report.cut:
            self._forms.append(Explored(model, program.terms, size, program))
        return Made(program, "explored")


class Specialiser:
    """Programs of any size of a model that is imported for each."""

    def __init__(
        self,
        source: OpenModel,
        named: Named,
        params: Mapping[str, Array] | None,
        forms: FormBook,
    ) -> None:
        self._source, self._named, self._params = source, named, dict(params or {})
        self._forms = forms
        self._models: dict[Sizes, Model] = {}
        """The models of the sizes asked for last."""

    def make(self, sizes: Sizes) -> Made:
        """The program of one size.

        :raises GlensideError: the model does not take it; says which operator asks for another.
        """
        shapes = self._named.shapes_at(sizes)
        size = self._named.spell(sizes)
        return self._forms.make(self._read(sizes), size, self._source.source, shapes)

    def split(self, sizes: Sizes, parts: Sizes) -> Split | None:
        """How a call of ``sizes`` runs as calls of ``parts``; None where that is not proved."""
        one, other = (self._forms.change(self._read(each)) for each in (parts, sizes))
        try:
            axes, _, _ = axes_of_rows(one, other)
            found = reused(Form(one, tuple(one.roots), ""), other)
        except NotByRows:
            return None
        names = {self._named.shapes[name][axis] for name, axis in axes.items()}
        return Split(str(names.pop()), axes, found.digits) if len(names) == 1 else None

    def first(self) -> Sizes:
        """Sizes to begin with where nobody says some.

        :raises GlensideError: the model takes none of those that are tried: it says why.
        """
        problems: list[tuple[Sizes, GlensideError]] = []
        for length in TRIED:
            sizes = tuple(
                min(max(length, each.low), length if each.high is None else each.high)
                for each in self._named.ranges.values()
            )
            if any(sizes == tried for tried, _ in problems):
                continue
            try:
                self._read(sizes)
            except GlensideError as problem:
                problems.append((sizes, problem))
                continue
            if problems and length == TRIED[-1]:
                break  # That is no size among others: something in the model asks for it.
            return sizes
        sizes, first = problems[0]
        names = ", ".join(self._named.ranges)
        raise InputError(
            f"{names} cannot stay open: with {self._named.spell(sizes)} {first}"
        ) from first

    def _read(self, sizes: Sizes) -> Model:
        if sizes not in self._models:
            try:
                model = self._source.load(self._named.shapes_at(sizes), self._params or None)
            except GlensideError as problem:
                if not len(self._forms):
                    raise  # What is wrong is not this size.
                raise type(problem)(f"with {self._named.spell(sizes)} {problem}") from problem
            held = self._named.shapes.keys() & self._params.keys()
            if held:
                raise InputError(f"params: {held.pop()!r} has lengths that are to stay open")
            if len(self._models) >= KEPT:
                del self._models[next(iter(self._models))]
            self._models[sizes] = model
        return self._models[sizes]
