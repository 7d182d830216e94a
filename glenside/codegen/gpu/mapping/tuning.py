"""Tuning files: which mapping of a product was measured to be fastest on a device.

A file is JSON. It is read and written by the name of the device's limits (``cuda:sm_90``) and by a
hash of the product's space (:meth:`ProductSpace.key`, which holds all that speed depends on)::

    {"format": 1, "devices": {"cuda:sm_90": {"<hash>": {
        "space": "m64 n56 ...", "mapping": {...}, "seconds": 9.1e-06, "tried": 16}}}}

Files that ship with the package lie in ``tuned/``; the user's own, which comes first, is
``$GLENSIDE_TUNING``, by default ``~/.cache/glenside/tuning.json``. Without an entry the model's
prediction is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.gpu.mapping.reading import read_mapping
from glenside.errors import TargetError
from glenside.files import write_text

if TYPE_CHECKING:
    from glenside.codegen.gpu.interface import Choose, DeviceLimits
    from glenside.codegen.gpu.space import ProductSpace

FORMAT = 1
"""Of the file, and of the mappings in it."""
SHIPPED = Path(__file__).parents[2] / "tuned"
VARIABLE = "GLENSIDE_TUNING"


@dataclass(frozen=True)
class Tuned:
    """The fastest mapping found for a space, of ``tried`` that were measured."""

    space: str
    mapping: Mapping[str, Any]
    seconds: float
    tried: int


Entries = dict[str, Tuned]
"""By the hash of the space."""


def entry_of(data: Mapping[str, Any]) -> Tuned:
    """The entry that JSON says.

    :raises ValueError: something in it is of another kind.
    :raises TypeError: something lacks, or is too much.
    """
    entry = Tuned(**data)
    kinds = {"space": str, "mapping": Mapping, "seconds": int | float, "tried": int}
    for name, kind in kinds.items():
        if not isinstance(getattr(entry, name), kind):
            raise ValueError(f"{name} is {getattr(entry, name)!r}")
    if isinstance(entry.tried, bool) or not 0 <= entry.tried < 2**62:
        raise ValueError(f"tried is {entry.tried!r}")
    if isinstance(entry.seconds, bool) or not 0 < entry.seconds < math.inf:  # Nan is neither.
        raise ValueError(f"seconds is {entry.seconds!r}")
    return entry


def user_file() -> Path:
    """Where measurements on this machine are kept."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "glenside" / "tuning.json"


def key_of(space: str) -> str:
    """The hash under which the space with this key is filed."""
    return hashlib.sha256(space.encode()).hexdigest()[:16]


def read(path: Path, device: str) -> Entries:
    """A device's entries in a file; none where there is no file.

    :raises TargetError: it is no tuning file, or one of another format.
    """
    return _read(path).get(device, {})


def record(path: Path, device: str, entries: Entries) -> None:
    """Adds entries to a file; of two for the same space the faster one stays.

    Several processes may write at once: each holds a lock while it merges, and readers find either
    the old file or the new one.

    :raises TargetError: the file cannot be written, or what stands there is no tuning file.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            devices = _read(path)
            known = devices.setdefault(device, {})
            for key, entry in entries.items():
                if key not in known or entry.seconds < known[key].seconds:
                    known[key] = entry
            _replace(path, devices)
    except OSError as problem:
        raise TargetError(f"cannot write the tuning file {path}: {problem.strerror}") from problem


def chooser(limits: DeviceLimits) -> Choose:
    """The measured mapping of each product, else that of one that differs only by the work that
    follows; None where there is none for the device.

    Of 19 convolutions of float32 on an H200, the mapping measured without bias and activation was
    1.07 times faster with them than the predicted one (geometric mean; least 0.93, most 2.6).
    """
    entries, like = _all_entries(limits), nearest(limits)

    def choose(space: ProductSpace, limits: DeviceLimits) -> ProductMapping | None:
        found = entries.get(key_of(space.key()))
        return like(space) if found is None else _mapping(found, space, limits)

    return choose


def nearest(limits: DeviceLimits) -> Callable[[ProductSpace], ProductMapping | None]:
    """The measured mapping of a product that differs only by the work that follows it, the fastest
    of several; None where there is none for the device."""
    by_product: dict[str, Tuned] = {}
    for entry in _all_entries(limits).values():
        product = _product(entry.space)
        if product not in by_product or entry.seconds < by_product[product].seconds:
            by_product[product] = entry

    def choose(space: ProductSpace) -> ProductMapping | None:
        found = by_product.get(_product(space.key()))
        return None if found is None else _mapping(found, space, limits)

    return choose


def _product(space: str) -> str:
    """A space's key without the work that follows."""
    return space.rsplit(";", 1)[0]


_MAY_BE_ZERO = frozenset({"kept", "boxes"})
_CEILINGS = {
    **dict.fromkeys(("registers", "vector"), 512),
    **dict.fromkeys(("rows", "columns", "tile", "split", "chunk"), 1 << 16),
    **dict.fromkeys(("depth", "parts"), 1 << 12),
    **dict.fromkeys(("stages", "buffers", "groups", "kept", "boxes"), 64),
}
"""What no mapping's numbers, multiplied over its loops, come near: code is unrolled by some."""


def _mapping(entry: Tuned, space: ProductSpace, limits: DeviceLimits) -> ProductMapping:
    """The entry's mapping, which may be of another version or changed by hand.

    :raises TargetError: it is none, or none of such a space.
    """
    from glenside.codegen.gpu.mapping.kinds import kind_of

    try:
        mapping = read_mapping(entry.mapping)
        values = {name: each for name, each in vars(mapping).items() if name != "predicted"}
        ceilings = {**_CEILINGS, "threads": limits.threads_per_group}
        for name, value in values.items():
            numbers = value if isinstance(value, tuple) else (value,)
            for number in numbers:
                if not isinstance(number, int) or number < 0:
                    raise ValueError(f"{name} is {value!r}")
                if type(number) is int and not number and name not in _MAY_BE_ZERO:
                    raise ValueError(f"{name} is {value!r}")
            most = ceilings.get(name, 1)
            if math.prod(numbers) > most:
                raise ValueError(f"{name} is {value!r}: {most} is the most")
        kind_of(mapping).check(space, mapping, limits)
    except (KeyError, TypeError, ValueError, TargetError) as problem:
        raise TargetError(
            f"a tuning file has no mapping for {entry.space.split(';')[0]!r} that this version "
            f"reads: {problem}: take the entry out, or tune anew"
        ) from problem
    return mapping


def _all_entries(limits: DeviceLimits) -> Entries:
    """The shipped entries of a device and the user's own."""
    entries: Entries = {}
    for path in [*sorted(SHIPPED.glob("*.json")), user_file()]:
        entries |= read(path, limits.name)
    return entries


def _read(path: Path) -> dict[str, Entries]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        raise TargetError(f"cannot read the tuning file {path}: {problem}") from problem
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise TargetError(
                f"the tuning file {path} has format {data['format']}, this version reads {FORMAT}: "
                "move it away and tune anew"
            )
        return {
            device: {key: entry_of(entry) for key, entry in entries.items()}
            for device, entries in data["devices"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        if isinstance(problem, TargetError):
            raise
        raise TargetError(f"{path} is no tuning file: {problem}: move it away") from problem


def _replace(path: Path, devices: Mapping[str, Entries]) -> None:
    data = {
        "format": FORMAT,
        "devices": {
            device: {key: vars(entry) for key, entry in sorted(entries.items())}
            for device, entries in sorted(devices.items())
        },
    }
    write_text(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
