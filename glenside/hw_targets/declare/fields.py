"""What the fields of a declaration are made of, before anything is read from them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glenside.errors import TargetError

TEXTS = ("name", "computes", "numerics", "target", "summary")
LISTS = ("also", "parameters", "constraints", "dtypes")
LENGTHS = ("tile", "lanes")


def check_fields(declared: object) -> None:
    """Looks at every field of an :class:`~glenside.Accelerator`.

    :raises TargetError: one is of another kind than it has to be.
    """
    given: dict[str, Any] = vars(declared)
    for name in TEXTS:
        _require(name, given[name], _is_text(given[name]), "a text")
    _mapping("operands", given["operands"], _is_text, "their types as texts, '((M) (K))'")
    _require("operands", given["operands"], bool(given["operands"]), "at least one operand")
    for name in LISTS:
        value = given[name]
        if value is None and name == "dtypes":
            continue
        texts = isinstance(value, Sequence) and not _is_text(value) and all(map(_is_text, value))
        _require(name, value, texts, "a list of texts")
    some = given["dtypes"] is None or len(given["dtypes"]) > 0
    _require("dtypes", given["dtypes"], some, "at least one dtype, or None for all")
    _require("loops", given["loops"], isinstance(given["loops"], bool), "True or False")
    for name in LENGTHS:
        _mapping(name, given[name], _is_length, "whole numbers")
    _mapping("defaults", given["defaults"], is_number, "numbers")
    cycles, simulate, area = given["cycles"], given["simulate"], given["area"]
    known = cycles is None or _is_text(cycles) or callable(cycles)
    _require("cycles", cycles, known, "an expression over sizes or a function of them")
    known = simulate is None or callable(simulate)
    _require("simulate", simulate, known, "a function of sizes and arrays")
    known = area is None or (is_number(area) and 0 <= area < math.inf)
    _require("area", area, known, "a finite number from 0 up")


def is_number(value: object) -> bool:
    """Whether it is a real number, of Python or NumPy."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_length(value: object) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _mapping(name: str, value: Any, each: Callable[[object], bool], what: str) -> None:
    known = (
        isinstance(value, Mapping) and all(map(_is_text, value)) and all(map(each, value.values()))
    )
    _require(name, value, known, f"a mapping from names to {what}")


def _require(name: str, value: object, known: bool, what: str) -> None:
    if not known:
        raise TargetError(f"{name} must be {what}; got {value!r}")
