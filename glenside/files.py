"""Files are written as a whole or not at all.

A reader finds the old file or the new one, whatever stops the writer: an error, a full disk, a
signal, the machine.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from glenside.errors import InputError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of ``path`` when the body ends, and vanishes if it fails.

    It lies beside ``path`` until then, and is on the disk before it takes its place. What a
    symbolic link points to is replaced, not the link; pipes and devices are written to as they are.

    :raises OSError: the folder or the file cannot be written.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as file:
            yield file
        return
    handle, made = tempfile.mkstemp(prefix=f".{target.name[:64]}-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(made, _default_mode() if mode is None else stat.S_IMODE(mode))
        os.replace(made, target)
    except BaseException:
        os.unlink(made)
        raise


def folder_of(directory: object) -> Path:
    """The folder that a user names.

    :raises InputError: it is no path.
    """
    if not isinstance(directory, str | os.PathLike) or not isinstance(os.fspath(directory), str):
        raise InputError(f"a folder is named by a path, got {directory!r}")
    if "\0" in os.fspath(directory):
        raise InputError(f"no path holds a zero character: {os.fspath(directory)!r}")
    return Path(directory)


def write_text(path: str | Path, text: str) -> None:
    """Replaces a file by one with this text, in UTF-8.

    :raises OSError: as :func:`replacing`.
    """
    write_bytes(path, text.encode())


def write_bytes(path: str | Path, data: bytes) -> None:
    """Replaces a file by one with these bytes.

    :raises OSError: as :func:`replacing`.
    """
    with replacing(path) as file:
        file.write(data)


def sync(path: Path) -> None:
    """Has a file, or the entries of a folder, on the disk before it returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _default_mode() -> int:
    """Permissions of a new file, as the process's umask has them."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
