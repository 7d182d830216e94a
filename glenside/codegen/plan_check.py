"""Holds every number of a plan against the buffers that it names, before anything is run.

Kernels and views of memory trust a plan: a wrong offset would read what lies behind a buffer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from glenside.codegen.plan import (
    ALIGN,
    Entry,
    HostCall,
    KernelCall,
    Place,
    Plan,
    PythonCall,
    Slot,
    TensorMap,
    stored_dtype,
    tuples,
)
from glenside.errors import TargetError
from glenside.language import APART, AccessType, builders, make
from glenside.language.memory import require
from glenside.language.shape import MAX_RANK, check_dtype

_DEVICES = ("opencl", "cuda")
_HASH = re.compile(r"[0-9a-f]{16}")
_KERNEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_THREADS = 4096
"""Of the processor: more would be started for nothing."""
_MOST_LANES = 1 << 16
"""Threads of a group, on any device."""
_MOST_GROUPS = 2**31 - 1
_MOST_LOCAL = 1 << 20
"""Bytes of a group's local memory, on any device."""
_MAP_UNIT = 16
"""Bytes that a copy engine moves at once."""
_MAP_DIMENSIONS = 5
_MAP_DTYPES = ("float16", "float32", "bfloat16")
_MAP_LINES = (32, 64, 128)
_FAR = 2**40
"""Elements and bytes beyond which nothing lies."""


def check_plan(plan: Plan, parameter_bytes: int) -> None:
    """Refuses a plan that does not fit its buffers.

    :param parameter_bytes: the size of the parameters' file.
    :raises ValueError: something in it does not fit; says what.
    :raises TargetError: it is for a kind of device that is not known here.
    :raises NotEnoughMemory: its buffers take more memory than there is.
    """
    _whole(plan.arena, "arena")
    _whole(plan.threads, "threads", 1, _MOST_THREADS)
    if plan.library is not None and not _HASH.fullmatch(plan.library):
        raise ValueError(f"library {plan.library!r} is no hash")
    if plan.device is not None and plan.device not in _DEVICES:
        raise TargetError(
            f"the saved program is for {plan.device!r}, which this version does not know"
        )
    taken = plan.arena
    for number, slot in enumerate(plan.slots):
        _check_slot(plan, number, slot, parameter_bytes)
        if slot.fill is not None:
            taken += _bytes(slot)
    for name, place in plan.inputs.items():
        said = _access(plan.input_types[name], f"input {name!r}")
        _check_place(plan, place, f"input {name!r}")
        _same_type(place, said, f"input {name!r}")
        if plan.slots[place.buffer].offset is None:
            raise ValueError(f"input {name!r} would overwrite a parameter")
    if plan.inputs.keys() != plan.input_types.keys():
        raise ValueError("inputs and input types are of different names")
    for number, place in enumerate(plan.outputs):
        _check_place(plan, place, f"output {number}")
    for name, entry in plan.kernels.items():
        _check_entry(entry, f"kernel {name}")
    for number, step in enumerate(plan.steps):
        if isinstance(step, KernelCall):
            _check_launch(plan, step, f"step {number}")
        elif isinstance(step, HostCall):
            _check_host(plan, step, f"step {number}")
        else:
            _check_python(plan, step, f"step {number}")
    if plan.device is None:
        require(taken, "the memory for the program's values")


def _check_slot(plan: Plan, number: int, slot: Slot, parameter_bytes: int) -> None:
    what = f"buffer {number}"
    check_dtype(slot.dtype)
    _whole(slot.size, f"{what}: size")
    kinds = [each for each in (slot.offset, slot.parameter, slot.fill) if each is not None]
    if len(kinds) != 1:
        raise ValueError(f"{what} is not one of scratch, parameter and number")
    if slot.fill is not None:
        fill: object = slot.fill
        if not isinstance(fill, bool | int | float):
            raise ValueError(f"{what}: {slot.fill!r} is no number")
        with np.errstate(all="ignore"):
            np.full(1, slot.fill, slot.dtype)  # Raises where the dtype has no such number.
        return
    at, end, where = (
        (slot.offset, plan.arena, "scratch")
        if slot.offset is not None
        else (slot.parameter, parameter_bytes, "parameters")
    )
    _whole(at, f"{what}: offset")
    assert at is not None
    if at % ALIGN:
        raise ValueError(f"{what} starts at byte {at}, which is no multiple of {ALIGN}")
    if at + _bytes(slot) > end:
        raise ValueError(f"{what} ends at byte {at + _bytes(slot)} of {end} bytes of {where}")


def _bytes(slot: Slot) -> int:
    return slot.size * np.dtype(slot.dtype).itemsize


def _check_place(plan: Plan, place: Place, what: str) -> None:
    """Every element of a place lies in its buffer."""
    _whole(place.buffer, f"{what}: buffer", 0, len(plan.slots) - 1)
    _whole(place.offset, f"{what}: offset")
    slot = plan.slots[place.buffer]
    if check_dtype(place.dtype) != slot.dtype:
        raise ValueError(f"{what} is {place.dtype} in a buffer of {slot.dtype}")
    if len(place.axes) != len(place.shape) or len(place.shape) > MAX_RANK:
        raise ValueError(f"{what} has {len(place.axes)} axes and shape {place.shape}")
    low = high = place.offset
    for axis, length in zip(place.axes, place.shape, strict=True):
        _whole(length, f"{what}: shape")
        for size, stride in axis:
            _whole(size, f"{what}: size")
            _whole(stride, f"{what}: stride", -_FAR, _FAR)
            low += min((size - 1) * stride, 0)
            high += max((size - 1) * stride, 0)
        if math.prod(size for size, _ in axis) != length:
            raise ValueError(f"{what}: axes {place.axes} are not of shape {place.shape}")
    if 0 not in place.shape and not 0 <= low <= high < slot.size:
        raise ValueError(f"{what} lies at elements {low} to {high} of a buffer of {slot.size}")


def _check_launch(plan: Plan, call: KernelCall, what: str) -> None:
    _kernel_name(call.function, what)
    signature = plan.signatures[call.function]
    if len(call.arguments) != len(signature):
        raise ValueError(
            f"{what}: {call.function} takes {len(signature)} buffers, got {len(call.arguments)}"
        )
    if plan.device is not None and call.function not in plan.kernels:
        raise ValueError(f"{what}: nothing is said of kernel {call.function}")
    for number, ((buffer, first, count), (dtype, extent)) in enumerate(
        zip(call.arguments, signature, strict=True)
    ):
        which = f"{what}: argument {number}"
        _whole(buffer, f"{which}: buffer", 0, len(plan.slots) - 1)
        slot = plan.slots[buffer]
        _whole(first, f"{which}: first element")
        _whole(count, f"{which}: elements", 0, slot.size - first)
        if [stored_dtype(slot.dtype), count] != [dtype, extent]:
            raise ValueError(
                f"{which}: {call.function} takes {extent} elements of {dtype}, "
                f"got {count} of {stored_dtype(slot.dtype)}"
            )
        if plan.device is not None and first:
            raise ValueError(f"{which} starts at element {first}: a device's are whole buffers")
    if call.function in plan.kernels:
        for each in plan.kernels[call.function].maps:
            _check_map(plan, call, each, what)


def _check_python(plan: Plan, step: PythonCall, what: str) -> None:
    if step.operator not in APART:
        raise ValueError(f"{what}: Python executes no {step.operator!r}")
    types = [_access(each, what) for each in step.types]
    if len(types) != len(step.operands):
        raise ValueError(f"{what}: {len(types)} types for {len(step.operands)} operands")
    for number, (place, said) in enumerate(zip(step.operands, types, strict=True)):
        _check_place(plan, place, f"{what}: operand {number}")
        _same_type(place, said, f"{what}: operand {number}")
    leaves = [builders.leaf(f"x{number}", said) for number, said in enumerate(types)]
    attributes = {name: tuples(value) for name, value in step.attributes.items()}
    term = make(step.operator, leaves, **attributes)
    _check_place(plan, step.result, f"{what}: result")
    _same_type(step.result, term.type, f"{what}: result")
    if plan.slots[step.result.buffer].offset is None:
        raise ValueError(f"{what} would overwrite a parameter")


def _check_host(plan: Plan, step: HostCall, what: str) -> None:
    made = set(step.operands) | {""}
    for node in step.nodes:
        for name in node.inputs:
            if name not in made:
                raise ValueError(f"{what}: {node.operator} reads {name!r}, which nothing makes")
        made |= set(node.outputs)
    for name, place in step.operands.items():
        _check_place(plan, place, f"{what}: operand {name!r}")
    for name, place in step.results.items():
        _check_place(plan, place, f"{what}: result {name!r}")
        if name not in made:
            raise ValueError(f"{what}: nothing makes the result {name!r}")
        if plan.slots[place.buffer].offset is None:
            raise ValueError(f"{what} would overwrite a parameter")


def _check_entry(entry: Entry, what: str) -> None:
    for name, sizes, most in (
        ("grid", entry.grid, _MOST_GROUPS),
        ("block", entry.block, _MOST_LANES),
    ):
        if len(sizes) != 3:
            raise ValueError(f"{what}: {name} {sizes} has not three numbers")
        for each in sizes:
            _whole(each, f"{what}: {name}", 1, most)
    if math.prod(entry.block) > _MOST_LANES:
        raise ValueError(f"{what}: {math.prod(entry.block)} threads in a group")
    _whole(entry.local_bytes, f"{what}: local memory", 0, _MOST_LOCAL)
    if not isinstance(entry.overlapped, bool):
        raise ValueError(f"{what}: overlapped is {entry.overlapped!r}")


def _check_map(plan: Plan, call: KernelCall, given: TensorMap, what: str) -> None:
    """The elements of which a copy engine is told lie in the argument's buffer."""
    what = f"{what}: tensor map"
    _whole(given.argument, f"{what}: argument", 0, len(call.arguments) - 1)
    slot = plan.slots[call.arguments[given.argument][0]]
    rank = len(given.sizes)
    if not 1 <= rank <= _MAP_DIMENSIONS or len(given.strides) != rank - 1:
        raise ValueError(f"{what} has sizes {given.sizes} and strides {given.strides}")
    if len(given.box) != rank or len(given.steps) != rank:
        raise ValueError(f"{what} has boxes {given.box} by steps {given.steps}")
    if given.dtype not in _MAP_DTYPES or given.line not in _MAP_LINES:
        raise ValueError(f"{what} is of {given.dtype} and lines of {given.line} bytes")
    itemsize = np.dtype(given.dtype).itemsize
    _whole(given.offset, f"{what}: offset")
    _all(given.sizes, f"{what}: sizes", 1, 2**32)
    _all(given.box, f"{what}: box", 1, 256)
    _all(given.steps, f"{what}: steps", 1, 8)
    _all(given.strides, f"{what}: strides", 0, _FAR)
    if given.offset % _MAP_UNIT or any(stride % _MAP_UNIT for stride in given.strides):
        raise ValueError(f"{what}: offset and strides are no multiples of {_MAP_UNIT}")
    end = given.offset + given.sizes[0] * itemsize
    end += sum((n - 1) * s for n, s in zip(given.sizes[1:], given.strides, strict=True))
    if end > _bytes(slot):
        raise ValueError(f"{what} ends at byte {end} of a buffer of {_bytes(slot)}")


def _kernel_name(name: str, what: str) -> None:
    if not _KERNEL.fullmatch(name):
        raise ValueError(f"{what}: {name!r} names no kernel")


def _access(said: Sequence[Any], what: str) -> AccessType:
    outer, item, dtype = said
    for length in (*outer, *item):
        _whole(length, f"{what}: shape")
    return AccessType(tuple(outer), tuple(item), check_dtype(dtype))


def _same_type(place: Place, said: AccessType, what: str) -> None:
    if (tuple(place.shape), place.dtype) != (said.shape, said.dtype):
        raise ValueError(f"{what} is {said}, its place {place.dtype} of shape {place.shape}")


def _all(numbers: Iterable[int], what: str, least: int, most: int) -> None:
    for each in numbers:
        _whole(each, what, least, most)


def _whole(value: object, what: str, least: int = 0, most: int = 2**62) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{what} is {value!r}, not a whole number from {least} to {most}")


__all__ = ["check_plan"]
