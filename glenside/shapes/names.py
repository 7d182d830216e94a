"""Names of lengths: their ranges, how they are written, and the sizes that a call gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import InputError

Sizes = tuple[int, ...]
"""The length of each name, in the order of :attr:`Named.ranges`."""

_NAME = r"[^\W\d][\w.\-/:]*"
_RANGE = r"(?P<low>\d*)\.\.(?P<high>\d*)"
_ENTRY = re.compile(rf"(?P<name>{_NAME})(?:=(?P<range>\d*\.\.\d*))?")


@dataclass(frozen=True)
class Range:
    """Lengths from ``low`` to ``high``, both included; None: no greatest one."""

    low: int = 1
    high: int | None = None

    def __contains__(self, length: int) -> bool:
        return self.low <= length and (self.high is None or length <= self.high)

    def __str__(self) -> str:
        return f"{self.low}..{'' if self.high is None else self.high}"

    def both(self, other: Range, name: str) -> Range:
        """What lies in both.

        :raises InputError: nothing does.
        """
        highs = [each for each in (self.high, other.high) if each is not None]
        found = Range(max(self.low, other.low), min(highs, default=None))
        if found.high is not None and found.high < found.low:
            raise InputError(f"shapes: {name} cannot be both {self} and {other}")
        return found


def parse_range(text: str, what: str) -> Range:
    """``1..64``, ``1..`` or ``..64``.

    :raises InputError: it is none of these.
    """
    match = re.fullmatch(_RANGE, text)
    if match is None or not (match["low"] or match["high"] or text == ".."):
        raise InputError(f"{what}: a range is written 1..64, 1.. or ..64; got {text!r}")
    found = Range(int(match["low"] or 1), int(match["high"]) if match["high"] else None)
    if found.high is not None and found.high < found.low:
        raise InputError(f"{what}: {text} is an empty range")
    return found


@dataclass(frozen=True)
class Name:
    """A name in the place of a length, and the range that is said with it."""

    name: str
    range: Range | None = None


def parse_length(given: object, what: str) -> int | Name:
    """One entry of a shape: a number, ``"batch"``, ``"batch=1..64"`` or PyTorch's ``Dim``.

    :raises InputError: it is none of these.
    """
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if given < 0:
            raise InputError(f"{what}: lengths must not be negative, got {given}")
        return int(given)
    if isinstance(given, str):
        match = _ENTRY.fullmatch(given.strip())
        if match is not None:
            told = match["range"]
            return Name(match["name"], None if told is None else parse_range(told, what))
    elif hasattr(given, "__name__") and hasattr(given, "min") and hasattr(given, "max"):
        high = int(given.max)
        return Name(str(given.__name__), Range(int(given.min), high if high < 2**62 else None))
    raise InputError(
        f'{what}: a length is a number, a name such as "batch", or "batch=1..64"; got {given!r}'
    )


@dataclass(frozen=True)
class Named:
    """The inputs of a program of named sizes.

    ``ranges`` holds the names and their ranges, ``shapes`` the lengths, numbers or names, of the
    inputs that have any name or were given whole.
    """

    ranges: Mapping[str, Range]
    shapes: Mapping[str, tuple[int | str, ...]]

    def shapes_at(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        """The shapes of inputs for such lengths."""
        known = dict(zip(self.ranges, sizes, strict=True))
        return {
            name: tuple(known[n] if isinstance(n, str) else n for n in shape)
            for name, shape in self.shapes.items()
        }

    def places(self) -> dict[str, tuple[str, int]]:
        """For each name the first input and axis that it is of."""
        found: dict[str, tuple[str, int]] = {}
        for name, shape in self.shapes.items():
            for axis, each in enumerate(shape):
                if isinstance(each, str):
                    found.setdefault(each, (name, axis))
        return {name: found[name] for name in self.ranges}

    def sizes_of(self, given: Mapping[str, Any]) -> Sizes:
        """The length of each name in a call with these arrays.

        :raises InputError: an input is missing or of another shape, two inputs disagree, or a
            length is out of its range.
        """
        known: dict[str, tuple[int, str, int, tuple[int, ...]]] = {}
        for name, wanted in self.shapes.items():
            if name not in given:
                listed = ", ".join(f"{each!r} {spell(of)}" for each, of in self.shapes.items())
                raise InputError(f"input {name!r} is missing: the program takes {listed}")
            value = given[name]
            shape = tuple(value.shape) if hasattr(value, "shape") else np.shape(value)
            fits = len(shape) == len(wanted) and all(
                isinstance(n, str) or n == m for n, m in zip(wanted, shape, strict=True)
            )
            if not fits:
                raise InputError(f"input {name!r} must be of shape {spell(wanted)}, got {shape}")
            for axis, each in enumerate(wanted):
                if isinstance(each, str):
                    here = (int(shape[axis]), name, axis, shape)
                    first = known.setdefault(each, here)
                    if first[0] != here[0]:
                        raise InputError(
                            f"{each} is {first[0]} by input {first[1]!r} (axis {first[2]} of "
                            f"{first[3]}), and {here[0]} by input {name!r} (axis {axis} of {shape})"
                        )
        return self.check(tuple(known[name][0] for name in self.ranges))

    def check(self, sizes: Sizes) -> Sizes:
        """The same sizes.

        :raises InputError: one is out of its range.
        """
        for (name, allowed), size in zip(self.ranges.items(), sizes, strict=True):
            if size not in allowed:
                raise InputError(f"{name} is {size}; the program takes {allowed}")
        return sizes

    def spell(self, sizes: Sizes) -> str:
        """Sizes as messages and reports call them: ``batch=8, seq=128``."""
        return ", ".join(f"{n}={size}" for n, size in zip(self.ranges, sizes, strict=True))

    def read(self, given: object) -> list[Sizes]:
        """Sizes as a user lists them: numbers where there is one name, mappings from names to
        numbers, or a mapping from names to lists, of which every combination is meant.

        :raises InputError: it is none of these, or one is out of its range.
        """
        names = list(self.ranges)
        rows: list[Any]
        if isinstance(given, Mapping):
            rows = [{}]
            for name, lengths in given.items():
                each = [lengths] if isinstance(lengths, int | np.integer) else list(lengths)
                rows = [{**row, name: length} for row in rows for length in each]
        elif isinstance(given, Sequence) and not isinstance(given, str):
            rows = list(given)
        else:
            rows = [given]
        found = []
        for row in rows:
            if isinstance(row, int | np.integer) and not isinstance(row, bool) and len(names) == 1:
                row = {names[0]: int(row)}
            if not isinstance(row, Mapping) or set(row) != set(names):
                example = ", ".join(f"{name!r}: 8" for name in names)
                raise InputError(f"sizes: one is written {{{example}}}; got {row!r}")
            sizes = tuple(parse_length(row[name], "sizes") for name in names)
            if not all(isinstance(each, int) for each in sizes):
                raise InputError(f"sizes are numbers, got {row!r}")
            found.append(self.check(tuple(int(each) for each in sizes if isinstance(each, int))))
        return list(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        ranges = {name: [each.low, each.high] for name, each in self.ranges.items()}
        return {"ranges": ranges, "shapes": {n: list(shape) for n, shape in self.shapes.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Named:
        """What :meth:`to_json` wrote."""
        ranges = {name: Range(*each) for name, each in data["ranges"].items()}
        return cls(ranges, {name: tuple(shape) for name, shape in data["shapes"].items()})


def spell(shape: Sequence[int | str]) -> str:
    """A shape with names in it."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
