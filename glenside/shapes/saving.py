"""Programs of named sizes on disk: each size is a program of its own in a folder of the saved
one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glenside import saved_folder
from glenside.errors import GlensideError
from glenside.files import folder_of
from glenside.shapes.names import Named, Sizes
from glenside.shapes.specialise import Made, Split


def save_sizes(
    directory: str | Path,
    name: str,
    named: Named,
    made: Mapping[Sizes, Made],
    splits: Mapping[str, Split],
) -> None:
    """Writes the programs of all sizes, and what is known of rows.

    :raises GlensideError: the directory cannot be written, or there is no linker.
    """
    folder = folder_of(directory)
    parts = [
        {"sizes": list(sizes), "how": each.how, "manifest": each.program.manifest()}
        for sizes, each in made.items()
    ]
    manifest = {
        "name": name,
        "named": named.to_json(),
        "parts": parts,
        "splits": {name: _split_to_json(each) for name, each in splits.items()},
    }

    def write(code: Path) -> None:
        written: dict[str, Path] = {}
        for number, each in enumerate(made.values()):
            place = code / str(number)
            place.mkdir()
            each.program.write_files(place)
            for file in sorted(place.iterdir()):
                _share(file, written)

    try:
        saved_folder.publish(folder, write, manifest)
    except OSError as problem:
        reason = problem.strerror or problem
        raise GlensideError(f"cannot save to {folder}: {reason}") from problem


def _share(file: Path, written: dict[str, Path]) -> None:
    """Sizes have their parameters in common: files that are equal lie on the disk once."""
    first = written.setdefault(saved_folder.file_digest(file), file)
    if first is file:
        return
    other = file.with_name(f"{file.name}.link")
    try:
        os.link(first, other)
    except OSError:
        return  # The file system has no links.
    os.replace(other, file)


def _split_to_json(split: Split) -> dict[str, Any]:
    digits = [None if each is None else asdict(each) for each in split.digits]
    return {"axes": dict(split.axes), "digits": digits}
