"""Memory is counted before it is taken.

Linux lends more than there is and kills who uses it, so waiting for ``MemoryError`` is no bound.
"""

from __future__ import annotations

import resource
from pathlib import Path

from glenside.errors import NotEnoughMemory

_FREELY = 1 << 26
"""Bytes that are not worth asking the system about."""
_CGROUPS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
_CGROUP = Path("/sys/fs/cgroup")


def require(count: float, what: str) -> None:
    """Refuses to go on where ``count`` bytes for ``what`` are more than this process can have.

    :param what: names the node, file or value, as a message begins.
    :raises NotEnoughMemory: one line that says how many are needed and how many there are.
    """
    if count <= _FREELY:
        return
    there = available()
    if not count <= there:  # Written so that nan is refused.
        raise NotEnoughMemory(f"{what} takes {spelled(count)}, {spelled(there)} are available")


def available() -> int:
    """Bytes that this process can still have: of the machine, its control group and its limits."""
    return max(min(_of_machine(), _of_group(), _of_limits()), 0)


def spelled(count: float) -> str:
    """A number of bytes as people read it."""
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return f"{count:,.0f} {units[0]}" if units[0] == "bytes" else f"{count:,.1f} {units[0]}"


def _of_machine() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return (
            int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
        )
    except (OSError, StopIteration, ValueError, IndexError):
        return 1 << 62


def _of_group() -> int:
    for limit, used in _CGROUPS:
        try:
            most = int((_CGROUP / limit).read_text())  # "max" where there is none.
            return most - int((_CGROUP / used).read_text()) + _reclaimable()
        except (OSError, ValueError):
            continue
    return 1 << 62


def _reclaimable() -> int:
    """Bytes of files that the group's count includes, which the system lets go of when asked."""
    for name in ("memory.stat", "memory/memory.stat"):
        try:
            fields = dict(each.split() for each in (_CGROUP / name).read_text().splitlines())
            return int(fields.get("inactive_file", 0)) + int(fields.get("active_file", 0))
        except (OSError, ValueError):
            continue
    return 0


def _of_limits() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return 1 << 62
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return soft
    return soft - pages * resource.getpagesize()
