"""What is asked for in ``shapes=``, held against what the model says of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from glenside.errors import InputError
from glenside.frontends import is_exported_program
from glenside.frontends.lengths import Length, OpenModel
from glenside.frontends.open_lengths import open_model
from glenside.shapes.names import Name, Named, Range, parse_length, parse_range, spell

Shapes = Mapping[str, Any]


def names_some(shapes: Shapes | None) -> bool:
    """Whether shapes are more than whole shapes of inputs in numbers, or may be."""
    return any(
        not _is_shape(shape)  # Of a name, not of an input.
        or len(shape) == 1
        or not all(isinstance(n, int | np.integer) for n in shape)
        for shape in (shapes or {}).values()
    )


def asked_of(
    model: object, example_inputs: object, shapes: Shapes | None, sizes: object
) -> tuple[Named, OpenModel] | dict[str, tuple[int, ...]] | None:
    """What stays open of a model, by name, and where its sizes come from; or whole shapes in
    numbers. None where shapes are as importing takes them.

    :raises GlensideError: what is asked for does not fit the model, or it cannot be read.
    """
    if not isinstance(shapes, Mapping | None):
        raise InputError(f"shapes is a mapping from names to shapes, got {type(shapes).__name__}")
    meant = is_exported_program(model) and example_inputs is None and not shapes
    if not (meant or names_some(shapes) or sizes is not None):
        return None
    opened = open_model(model, example_inputs)
    if opened is None:
        if sizes is None and not meant:
            return None  # Importing it says what is wrong with shapes.
        raise InputError("sizes are of a model with lengths that stay open: this one has none")
    if meant and not opened.meant:
        return None
    found = asked(shapes, opened)
    if isinstance(found, Named):
        return found, opened
    if sizes is not None:
        raise InputError("sizes are of lengths that stay open: none is named in shapes=")
    return found


def in_numbers(
    model: object, example_inputs: object, shapes: Shapes | None
) -> dict[str, Sequence[int]] | None:
    """Whole shapes for what is made for one size.

    :raises GlensideError: a length stays open, or what is asked for does not fit the model.
    """
    if shapes is None:
        return None
    found = asked_of(model, example_inputs, shapes, None)
    if isinstance(found, tuple):
        names = ", ".join(found[0].ranges)
        raise InputError(f"this is about one size: shapes must give numbers for {names}")
    return dict(shapes if found is None else found)


def asked(shapes: Shapes | None, model: OpenModel) -> Named | dict[str, tuple[int, ...]]:
    """The named lengths that stay open, or whole shapes in numbers where none does.

    A name of the model stays open where the user names it, or where whoever made the model meant it
    to be.

    :raises InputError: what is asked for contradicts itself or the model, or names nothing in it;
        what the model leaves open and nobody names is in one error as well.
    """
    reading = _Reading(model)
    given = dict(shapes or {})
    for key in [key for key in given if reading.is_input(key, given[key])]:
        reading.take(key, given.pop(key))
    for key, value in given.items():
        reading.take_name(key, value)
    return reading.result()


def _is_shape(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | range)


@dataclass
class _Class:
    """Lengths that are one: by names of the model and of the user."""

    names: list[str]
    number: int | None = None
    range: Range | None = None
    said: bool = False
    """Whether the user named it."""


class _Reading:
    def __init__(self, model: OpenModel) -> None:
        self._model = model
        self._of: dict[str, _Class] = {}
        self._found: dict[str, list[int | _Class | None] | None] = {}
        """The lengths of each input as far as they are known; None for an unknown rank."""
        self._given: set[str] = set()
        for name, (low, high) in model.ranges.items():
            self._class(name).range = Range(low, high)
        for name, lengths in model.lengths.items():
            self._found[name] = None if lengths is None else [*map(self._length, lengths)]
        for at in self._of.values():
            at.said = model.meant

    def _length(self, stated: Length) -> int | _Class | None:
        return self._class(stated) if isinstance(stated, str) else stated

    def _class(self, name: str) -> _Class:
        return self._of.setdefault(name, _Class([name]))

    def is_input(self, key: str, value: object) -> bool:
        """Whether what is said is of an input rather than of a name."""
        if key in self._model.lengths:
            return True
        return _is_shape(value) and (len(value) != 1 or key not in self._of)

    def take(self, name: str, shape: Sequence[object]) -> None:
        """What the user says of an input."""
        what = f"shapes for {name!r}"
        given = [parse_length(each, what) for each in shape]
        if name not in self._model.lengths:
            # Of an input that the model holds a value of, or of none: importing says so.
            if any(isinstance(each, Name) for each in given):
                there = ", ".join(map(repr, self._model.lengths)) or "none"
                raise InputError(f"shapes names {name!r}, the inputs are {there}")
            self._found[name] = [each for each in given if isinstance(each, int)]
            self._given.add(name)
            return
        stated = self._model.lengths[name]
        if stated is None:
            stated = [None] * len(given)
        if len(stated) != len(given):
            shown = spell(["?" if each is None else each for each in stated])
            raise InputError(f"{what}: the model says {shown}, got {len(given)} lengths")
        self._given.add(name)
        self._found[name] = [
            self._both(each, said, axis, name)
            for axis, (each, said) in enumerate(zip(given, stated, strict=True))
        ]

    def _both(self, given: int | Name, stated: Length, axis: int, name: str) -> int | _Class:
        if isinstance(given, int):
            if isinstance(stated, str):
                self._fix(self._class(stated), given, f"axis {axis} of {name!r}")
            elif isinstance(stated, int) and stated != given:
                raise InputError(
                    f"shapes gives {given} for axis {axis} of {name!r}, the model says {stated}"
                )
            return given
        if isinstance(stated, int) and not self._model.reopens:
            raise InputError(
                f"{given.name} cannot be axis {axis} of {name!r}: the model fixes it at {stated}"
            )
        at = self._class(given.name)
        at.said = True
        if given.range is not None:
            at.range = given.range if at.range is None else at.range.both(given.range, given.name)
        if isinstance(stated, str):
            at = self._join(at, self._class(stated), given.name)
        return at

    def _join(self, one: _Class, other: _Class, name: str) -> _Class:
        """Two names of one length."""
        if one is other:
            return one
        one.names += other.names
        one.said = one.said or other.said
        if other.range is not None:
            one.range = other.range if one.range is None else one.range.both(other.range, name)
        if other.number is not None:
            self._fix(one, other.number, name)
        for each in one.names:
            self._of[each] = one
        return one

    def _fix(self, at: _Class, number: int, where: str) -> None:
        if at.number is not None and at.number != number:
            raise InputError(f"shapes: {at.names[0]} is {at.number}, and {number} by {where}")
        at.number = number

    def take_name(self, name: str, value: object) -> None:
        """What the user says of a name."""
        if name not in self._of:
            inputs = ", ".join(map(repr, self._model.lengths)) or "none"
            there = ", ".join(sorted(self._of)) or "none"
            raise InputError(
                f"shapes: {name!r} is no input ({inputs}) and no name of a length ({there})"
            )
        at = self._of[name]
        if isinstance(value, range):
            value = f"{value.start}..{value.stop - 1}"
        elif isinstance(value, Sequence) and not isinstance(value, str):
            (value,) = value
        if isinstance(value, str) and ".." in value:
            stated = parse_range(value, f"shapes: {name}")
            at.range = stated if at.range is None else at.range.both(stated, name)
            at.said = True
            return
        number = parse_length(value, f"shapes: {name}")
        if not isinstance(number, int):
            raise InputError(f"shapes: {name} is a number or a range such as 1..64, got {value!r}")
        self._fix(at, number, f"shapes={{{name!r}: {number}}}")

    def result(self) -> Named | dict[str, tuple[int, ...]]:
        """What stays open, by name, or nothing but numbers."""
        shapes: dict[str, tuple[int | str, ...]] = {}
        missing: dict[str, str] = {}
        for name, found in self._found.items():
            if found is None:
                missing[name] = "(...)"
                continue
            # Names may have become one since they were looked up.
            lengths = [self._of[n.names[0]] if isinstance(n, _Class) else n for n in found]
            shown = [self._shown(each, axis) for axis, each in enumerate(lengths)]
            if any(each is None or _is_open(each) for each in lengths):
                missing[name] = spell(shown)
            elif name in self._given or any(isinstance(each, _Class) for each in lengths):
                shapes[name] = tuple(shown)
        if missing:
            listed = ", ".join(f"{name!r}: {shown}" for name, shown in missing.items())
            raise InputError(
                f"the model leaves lengths of its inputs open, give them as shapes={{{listed}}} "
                "with a number for each name, or the name in quotes where it is to stay open"
            )
        ranges: dict[str, Range] = {}
        for shape in shapes.values():
            ranges |= {n: self._of[n].range or Range() for n in shape if isinstance(n, str)}
        for at in self._of.values():
            if at.number is not None and at.range is not None and at.number not in at.range:
                raise InputError(f"shapes: {at.names[0]} is {at.number}, it must be {at.range}")
        if ranges:
            return Named(ranges, shapes)
        return {name: tuple(n for n in s if isinstance(n, int)) for name, s in shapes.items()}

    def _shown(self, length: int | _Class | None, axis: int) -> int | str:
        """A length as a number, or by the user's name, else the model's."""
        if isinstance(length, _Class):
            return length.names[0] if length.number is None else length.number
        return f"d{axis}" if length is None else length


def _is_open(length: int | _Class | None) -> bool:
    return isinstance(length, _Class) and length.number is None and not length.said
