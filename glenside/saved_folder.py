"""The folder of a saved program: replaced at once and as a whole, and checked to the last byte.

``program.json`` is the manifest: what the program is called, takes and gives, and the SHA-256 of
every file of the folder ``code-<hash>`` that it names, whose name is the hash of these. Its own
last entry is the digest of the rest. Such a folder is never written to once it is in its place; a
saver makes a new one beside it, replaces the manifest, which is one step, and removes the old one.

Savers hold a lock on the folder for these last steps, and one on what they make as long as they
live, by which what others left behind when they were killed is told from what is still in use.
Readers need neither; only where they find files missing or changed they read once more, while
savers wait, since a saver may have replaced what they were reading.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glenside.errors import Damaged, GlensideError, TargetError
from glenside.files import sync, write_text

FORMAT = 5
MANIFEST = "program.json"
_CODE = re.compile(r"code-[0-9a-f]{16}")
_SAVING = ".saving-"
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)
"""What file systems say that lock no folders; a single saver is safe there, too."""


@dataclass(frozen=True)
class SavedFolder:
    """A saved program whose files were found to be what was written."""

    folder: Path
    """As the user names it, for messages."""
    code: Path
    """The folder of its files, absolute."""
    manifest: Mapping[str, Any]
    files: Mapping[str, str]
    """SHA-256 by file name."""

    def text(self, name: str) -> str:
        """A file's text, checked again: it may be read long after the program was loaded.

        :raises OSError: it is gone.
        :raises ValueError: it is not what was written, or there never was one.
        """
        if name not in self.files:
            raise ValueError(f"it has no {name}")
        data = (self.code / name).read_bytes()
        if hashlib.sha256(data).hexdigest() != self.files[name]:
            raise ValueError(f"{name} is not the file that was written")
        return data.decode()

    def copy(self, target: Path) -> None:
        """Copies the files to another folder.

        :raises OSError: they are gone.
        :raises ValueError: one is not what was written.
        """
        for name, wanted in self.files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.code / name, target / name)
            if file_digest(target / name) != wanted:
                raise ValueError(f"{name} is not the file that was written")

    def part(self, name: str, manifest: Mapping[str, Any]) -> SavedFolder:
        """The program of its own in a folder of this one, which has this manifest."""
        inside = f"{name}/"
        files = {n.removeprefix(inside): d for n, d in self.files.items() if n.startswith(inside)}
        return SavedFolder(self.folder, self.code / name, manifest, files)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(manifest: Mapping[str, Any]) -> str:
    """The text of a manifest, its own digest last."""
    text = json.dumps(manifest, indent=2)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps({**manifest, "digest": digest}, indent=2) + "\n"


def damaged(where: Path, problem: object) -> Damaged:
    """The error that says so."""
    reason = problem
    if isinstance(problem, KeyError):
        reason = f"{problem} is missing"
    elif isinstance(problem, RecursionError):
        reason = "what it holds is nested too deeply"
    elif isinstance(problem, OSError) and problem.strerror:
        reason = f"{Path(problem.filename or where).name}: {problem.strerror}"
    return Damaged(f"{where} is damaged: {reason}: save it anew")


# --- writing --------------------------------------------------------------------------------------


def save(folder: Path, write: Callable[[Path], None], manifest: Mapping[str, Any]) -> None:
    """As :func:`publish`.

    :raises GlensideError: the folder cannot be written; it is as it was.
    """
    try:
        publish(folder, write, manifest)
    except OSError as problem:
        reason = problem.strerror or problem
        raise GlensideError(f"cannot save to {folder}: {reason}") from problem


def publish(folder: Path, write: Callable[[Path], None], manifest: Mapping[str, Any]) -> None:
    """Puts a program into ``folder``, which is made when missing, in place of what was there.

    :param write: writes the program's files to a folder that it is given.
    :param manifest: what is said of the program; format, files and digest are added.
    :raises OSError: the folder cannot be written; it is as it was.
    """
    made = _make(folder)
    try:
        with _private(folder) as private:
            code = private / "code"
            code.mkdir()
            write(code)
            files = {name: file_digest(code / name) for name in _files(code)}
            for each in sorted((code, *code.rglob("*")), reverse=True):
                sync(each)
            name = _name(files)
            whole = {"format": FORMAT, **manifest, "code": name, "files": files}
            write_text(private / MANIFEST, sealed(whole))
            with _locked(folder, fcntl.LOCK_EX):
                _put(code, folder / name, files)
                sync(folder)
                os.replace(private / MANIFEST, folder / MANIFEST)
                sync(folder)
                for old in folder.iterdir():
                    if _CODE.fullmatch(old.name) and old.name != name:
                        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        for each in reversed(made):
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def _files(code: Path) -> list[str]:
    """The files of a folder and those in it, by their paths there; folders that are empty too."""
    found = []
    folders = [code]
    while folders:
        within = list(folders.pop().iterdir())
        folders += [each for each in within if each.is_dir()]
        found += [each for each in within if not each.is_dir() or not any(each.iterdir())]
    return sorted(each.relative_to(code).as_posix() for each in found)


def _name(files: Mapping[str, str]) -> str:
    """What a folder of these files is called."""
    listed = "\n".join(f"{name} {digest}" for name, digest in sorted(files.items()))
    return f"code-{hashlib.sha256(listed.encode()).hexdigest()[:16]}"


def _make(folder: Path) -> list[Path]:
    """Makes a folder and those above it; returns those that were missing, outermost first."""
    missing = []
    for each in (folder, *folder.parents):
        if each.exists():
            break
        missing.append(each)
    folder.mkdir(parents=True, exist_ok=True)
    return missing[::-1]


def _put(code: Path, place: Path, files: Mapping[str, str]) -> None:
    """Moves a folder to its place. One that is there has the same files, or damaged ones."""
    try:
        os.rename(code, place)
    except OSError as problem:
        if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        for name in files:  # Files that a loaded program has mapped are replaced, not changed.
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(code / name, place / name)
        for name in _files(place):
            if name not in files:
                more = place / name
                more.rmdir() if more.is_dir() else more.unlink()


@contextlib.contextmanager
def _private(folder: Path) -> Iterator[Path]:
    """A new folder inside of ``folder``, which is locked, and removed when the body ends; those of
    savers that are no more are removed as well."""
    with _locked(folder, fcntl.LOCK_EX):
        for each in folder.iterdir():
            if each.name.startswith(_SAVING) and _abandoned(each):
                shutil.rmtree(each, ignore_errors=True)
        private = Path(tempfile.mkdtemp(prefix=_SAVING, dir=folder))
        handle = os.open(private, os.O_RDONLY)
        _lock(handle, fcntl.LOCK_EX)
    try:
        yield private
    finally:
        shutil.rmtree(private, ignore_errors=True)
        os.close(handle)


def _abandoned(private: Path) -> bool:
    """Whether the saver that made a folder is gone, and its lock with it."""
    try:
        handle = os.open(private, os.O_RDONLY)
    except OSError:
        return False
    try:
        return _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(folder: Path, kind: int) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        _lock(handle, kind)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, kind: int) -> bool:
    """Takes a lock on an open folder; False where the file system has none."""
    try:
        fcntl.flock(handle, kind)
    except BlockingIOError:
        raise
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            raise
        return False
    return True


# --- reading --------------------------------------------------------------------------------------


def read[T](folder: Path, use: Callable[[SavedFolder], T]) -> T:
    """What ``use`` makes of the program in ``folder``, once all its files are checked.

    Where another program takes its place meanwhile, that one is read.

    :raises Damaged: the files are not what was written.
    :raises GlensideError: the folder holds no program, or one of another format.
    :raises Exception: what ``use`` raises.
    """
    text = _manifest_text(folder)
    try:
        return use(_checked(folder, text))
    except Exception:
        # The files may have been taken away, and even put back: of two savers, say. No saver does
        # either while the folder is locked.
        try:
            with _locked(folder, fcntl.LOCK_SH):
                return use(_checked(folder, _manifest_text(folder)))
        except OSError as problem:
            raise _no_program(folder, problem) from problem


def _manifest_text(folder: Path) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError as problem:
        raise _no_program(folder, problem) from problem


def _no_program(folder: Path, problem: OSError) -> GlensideError:
    return GlensideError(f"{folder} holds no saved program: {problem}")


def _checked(folder: Path, text: bytes) -> SavedFolder:
    try:
        manifest = json.loads(text)
        digest = manifest.pop("digest", None)
        if digest is None and manifest["format"] != FORMAT:
            raise TargetError(f"{folder} was saved in another format than {FORMAT}: save it anew")
        if sealed(manifest).encode() != text:
            raise ValueError(f"{MANIFEST} is not the file that was written")
        if manifest["format"] != FORMAT:
            raise TargetError(f"{folder} was saved in another format than {FORMAT}: save it anew")
        files = dict(manifest["files"])
        if manifest["code"] != _name(files):
            raise ValueError(f"{manifest['code']} is not the hash of the files listed")
        code = (folder / manifest["code"]).resolve()
        found = set(_files(code))
        for name in sorted(found | files.keys()):
            if name not in files:
                raise ValueError(f"{name} does not belong to it")
            if name not in found:
                raise ValueError(f"{name} is missing")
            if file_digest(code / name) != files[name]:
                raise ValueError(f"{name} is not the file that was written")
    except (TargetError, MemoryError):
        raise
    except Exception as problem:  # Damaged files lead to any kind.
        raise damaged(folder, problem) from problem
    return SavedFolder(folder, code, manifest, files)
