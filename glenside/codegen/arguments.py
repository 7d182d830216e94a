"""The arrays of a call held against what a program takes and gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.errors import InputError
from glenside.language.shape import AccessType

Array = np.ndarray[Any, Any]

_WORK = 10_000
"""Steps that are spent on finding whether strided arrays have an element in common."""


def mismatch(name: str, wanted: AccessType, shape: tuple[int, ...], dtype: str) -> InputError:
    """The error that says what an input must be and what it is."""
    return InputError(
        f"input {name!r} must be {wanted.dtype} of shape {wanted.shape}, "
        f"got {dtype} of shape {shape}"
    )


def as_input(name: str, value: Any, wanted: AccessType) -> Array:
    """The value as an array of the processor's memory, its bytes in the processor's order.

    :raises InputError: it is none, or of another shape or dtype.
    """
    try:
        array = np.asarray(value)
    except Exception as problem:  # Other packages' own, such as of tensors on a device.
        told = next(iter(str(problem).splitlines()), type(problem).__name__)
        raise InputError(f"input {name!r} is no array in the processor's memory: {told}") from None
    dtype = np.dtype(wanted.dtype)
    if array.shape == wanted.shape:
        if array.dtype == dtype:
            return array
        if array.dtype.name == wanted.dtype:
            return array.astype(dtype)
    raise mismatch(name, wanted, array.shape, array.dtype.name)


def as_result(name: str, value: Any, wanted: AccessType) -> Array:
    """What a caller gave for an output to be written to, as an array in the same memory.

    :raises InputError: it cannot be written to as it is, or is of another shape or dtype.
    """
    array = value
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except Exception as problem:  # Other packages' own.
            told = next(iter(str(problem).splitlines()), type(problem).__name__)
            raise InputError(
                f"output {name!r}: out= is no array in the processor's memory: {told}"
            ) from None
    if not isinstance(array, np.ndarray):
        raise InputError(
            f"output {name!r}: out= takes arrays, which are written to, got {type(value).__name__}"
        )
    if array.shape != wanted.shape or array.dtype != np.dtype(wanted.dtype):
        raise mismatched_result(name, wanted, array.shape, array.dtype.name)
    if not array.flags.writeable:
        raise InputError(f"output {name!r}: out= is read-only")
    return array


def mismatched_result(
    name: str, wanted: AccessType, shape: tuple[int, ...], dtype: str
) -> InputError:
    """The error that says what memory for an output must be and what it is."""
    return InputError(
        f"output {name!r} is {wanted.dtype} of shape {wanted.shape}, "
        f"but out= is {dtype} of shape {shape}"
    )


def check_apart(results: list[tuple[str, Any]], given: list[tuple[str, Any]]) -> None:
    """Holds the memory of results against that of inputs and of each other.

    :raises InputError: some of it is the same.
    """
    for number, (name, array) in enumerate(results):
        for other, value in given:
            if _overlap(array, value):
                raise shared_with_input(name, other)
        for other, value in results[:number]:
            if _overlap(array, value):
                raise shared_results(other, name)


def shared_with_input(name: str, other: str) -> InputError:
    """The error of an output that shares memory with an input."""
    return InputError(
        f"output {name!r}: out= shares memory with input {other!r}, which is read while it is "
        "written"
    )


def shared_results(name: str, other: str) -> InputError:
    """The error of outputs that share memory."""
    return InputError(f"outputs {name!r} and {other!r}: out= is the same memory")


def _overlap(one: Array, other: Array) -> bool:
    if one is not other and one.flags.owndata and other.flags.owndata:
        return False
    if not np.may_share_memory(one, other):  # Of their bounds alone.
        return False
    try:
        return np.shares_memory(one, other, max_work=_WORK)
    except np.exceptions.TooHardError:
        return True
