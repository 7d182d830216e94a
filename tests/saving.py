"""Saved programs changed by hand, and sealed again as somebody would who knows how."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glenside import saved_folder


def code_of(folder: Path) -> Path:
    """The folder of a saved program's files."""
    (code,) = folder.glob("code-*")
    return code


def reseal(folder: Path, change: Callable[[dict[str, Any]], None] = lambda manifest: None) -> None:
    """Writes hashes and digests anew, ``change`` made to the manifest."""
    manifest = json.loads((folder / saved_folder.MANIFEST).read_text())
    manifest.pop("digest", None)
    code = code_of(folder)
    files = {each.name: saved_folder.file_digest(each) for each in sorted(code.iterdir())}
    manifest |= {"files": files, "code": saved_folder._name(files)}
    change(manifest)
    code.rename(folder / saved_folder._name(files))
    (folder / saved_folder.MANIFEST).write_text(saved_folder.sealed(manifest))


def edit_plan(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the plan of a saved program and seals it again."""
    file = code_of(folder) / "plan.json"
    plan = json.loads(file.read_text())
    change(plan)
    file.write_text(json.dumps(plan, separators=(",", ":")))
    reseal(folder)
