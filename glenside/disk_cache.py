"""What was made once, kept on disk for other processes: kernels, and programs of the command line.

An entry is a file named by the hash of all that it was made of (:func:`key_of`). It is written as a
whole or not at all, and begins with the digest of what follows, so that readers need no lock and a
damaged entry counts as none. Entries that were not used for longest go first when all together
take more than :data:`SIZE`.

``$GLENSIDE_CACHE`` names the folder, by default ``glenside`` in ``$XDG_CACHE_HOME`` or
``~/.cache``; ``off`` keeps nothing. ``$GLENSIDE_CACHE_SIZE`` is the most bytes it may take.
A cache is never an error: where the folder cannot be written, everything is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from glenside.errors import InputError

FOLDER, SIZE = "GLENSIDE_CACHE", "GLENSIDE_CACHE_SIZE"
"""The environment's variables."""
OFF = "off"
_DEFAULT_SIZE = 4 << 30
_LARGE = 4
"""An entry that would take more than one part in so many of all there is is not kept."""
_UNCHECKED = 64 << 20
"""Bytes that a process writes between two looks at how much there is in all."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DIGEST = hashlib.sha256().digest_size

_written = _UNCHECKED
"""Bytes since the last look, so that the first entry of a process leads to one."""


def folder() -> Path | None:
    """Where entries are; None where nothing is to be kept."""
    said = os.environ.get(FOLDER, "")
    if said.lower() == OFF:
        return None
    if said:
        return Path(said)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glenside"
    except RuntimeError:  # Nobody knows where this user's home is.
        return None


def switch_off() -> None:
    """Nothing is kept, and nothing taken, by this process and those that it starts."""
    os.environ[FOLDER] = OFF


def size_limit() -> int:
    """Most bytes of all entries.

    :raises InputError: ``$GLENSIDE_CACHE_SIZE`` is no number of bytes.
    """
    said = os.environ.get(SIZE)
    if not said:
        return _DEFAULT_SIZE
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", said.strip(), re.IGNORECASE)
    if match is None:
        raise InputError(f"${SIZE} is a number of bytes, such as 500MB; got {said!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def key_of(parts: Iterable[str | bytes]) -> str:
    """The name of what is made of these parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def get(kind: str, key: str) -> bytes | None:
    """The entry, or None where there is none that is whole."""
    path = _path(kind, key)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    found = memoryview(data)[_DIGEST:]
    if hashlib.sha256(found).digest() != data[:_DIGEST]:
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # It was used now.
    return bytes(found)


def put(kind: str, key: str, data: bytes) -> None:
    """Keeps an entry, where that can be done."""
    path = _path(kind, key)
    if path is None or not fits(len(data)):
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not synced: what a crash of the machine leaves behind is told by its digest.
        handle, made = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest())
                file.write(data)
            os.replace(made, path)
        except BaseException:
            os.unlink(made)
            raise
    wrote(len(data))


def fits(size: int) -> bool:
    """Whether an entry of so many bytes is kept."""
    return size * _LARGE <= size_limit()


def wrote(size: int) -> None:
    """Takes note of bytes that came in, and makes room now and then."""
    global _written
    _written += size
    if _written >= _UNCHECKED:
        _written = 0
        shrink()


def shrink() -> None:
    """Removes what was not used for longest until all is within :func:`size_limit`."""
    root = folder()
    if root is None:
        return
    entries = []
    for kind in _subfolders(root):
        with contextlib.suppress(OSError):
            for each in os.scandir(kind):
                with contextlib.suppress(OSError):
                    said = each.stat(follow_symlinks=False)
                    entries.append((said.st_mtime, said.st_size, each.path))
    left = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if left <= size_limit():
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
        left -= size


def _subfolders(root: Path) -> list[Path]:
    """One a kind of entry. Files beside them (proofs, tuned mappings) are not ours to remove."""
    return [root / name for name in KINDS]


KINDS = ("cubins", "kernels", "programs", "reports", "threads")


def _path(kind: str, key: str) -> Path | None:
    assert kind in KINDS
    root = folder()
    return None if root is None else root / kind / key
