"""What ``glenside optimize`` made before, for the same model and options, by any process.

A report is kept, and where a program was saved that too, if it is not large. Both are found by the
hash of all that they depend on: the model's bytes and those of the files it names, the options, the
processor, the compilers, and the sources and versions of what made them. Where something decides
that no hash tells of (a time limit, modules of the user's own, the device at hand) nothing is kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import platform
import re
import shutil
import sys
import tarfile
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import TYPE_CHECKING

from glenside import disk_cache, saved_folder

if TYPE_CHECKING:
    from glenside.report import Report

_PACKAGES = (
    "apache-tvm", "apache-tvm-ffi", "cupy-cuda12x", "cupy-cuda13x", "egglog", "ml-dtypes", "numpy",
    "onnx", "onnxruntime", "ortools", "pyopencl", "torch",
)  # fmt: skip
_HERE = ("opencl", "cuda")
"""Targets that stand for the device at hand unless another is named."""
_MODELS = (".onnx", ".relay")
_PROGRAM = 256 << 20
"""Most bytes of a program that is kept."""
_LOCATION = re.compile(rb"\n\x08location\x12([\x00-\x7f])", re.DOTALL)
"""In an ONNX file, before the name of a file with data of tensors; its length is the group."""


class ProgramCache:
    """One call's place in the cache.

    :param key: None where nothing is kept.
    """

    def __init__(self, key: str | None) -> None:
        self._key = key

    @staticmethod
    def of(
        model: str,
        target: str,
        *,
        files: Sequence[Path | None],
        unknown: Iterable[object],
        options: Sequence[object],
    ) -> ProgramCache:
        """The place of a call.

        :param files: what it reads beside the model.
        :param unknown: options for which nothing is kept where they are given.
        :param options: all others; they count as they print.
        """
        path = Path(model)
        if (
            disk_cache.folder() is None
            or path.suffix not in _MODELS
            or any(each is not None for each in unknown)
            or {*target.split("+")} & {*_HERE}
            or entry_points(group="glenside.targets")
        ):
            return ProgramCache(None)
        try:
            read = [path, *_beside(path), *(each for each in files if each is not None)]
            said = [target, repr(options), *map(_file, read), *_surroundings()]
        except OSError:  # Whoever reads it says what is wrong with it.
            return ProgramCache(None)
        return ProgramCache(disk_cache.key_of([path.stem, *said]))

    def read(self, output: Path | None) -> Report | None:
        """The report, once the program is in the folder ``output`` where one is named; None where
        it was not kept.

        :raises GlensideError: the folder cannot be written.
        """
        found = self._key and disk_cache.get("reports", self._key)
        if not found:
            return None
        from glenside.report import Report

        report = Report.from_json(json.loads(found))
        if output is None:
            return report
        packed = disk_cache.get("programs", str(self._key))
        if packed is None:
            return None
        _unpack(packed, output)
        return report

    def write(self, report: Report, output: Path | None) -> None:
        """Keeps a report, and the program that was saved to ``output``."""
        if self._key is None or report.failure is not None:
            return
        disk_cache.put("reports", self._key, json.dumps(report.to_json()).encode())
        if output is not None:
            packed = _packed(output)
            if packed is not None:
                disk_cache.put("programs", self._key, packed)


def _packed(output: Path) -> bytes | None:
    manifest = json.loads((output / saved_folder.MANIFEST).read_text(encoding="utf-8"))
    paths = [output / saved_folder.MANIFEST, *sorted((output / manifest["code"]).iterdir())]
    if sum(each.stat().st_size for each in paths) > _PROGRAM:
        return None
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for each in paths:
            archive.add(each, each.name)
    return packed.getvalue()


def _unpack(packed: bytes, output: Path) -> None:
    """Puts a program into its folder."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        manifest = json.loads(_content(archive, saved_folder.MANIFEST))
        for name in ("format", "code", "files", "digest"):
            manifest.pop(name)

        def write(folder: Path) -> None:
            for each in archive.getnames():
                if each != saved_folder.MANIFEST:
                    (folder / each).write_bytes(_content(archive, each))

        saved_folder.save(output, write, manifest)


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


# --- what a program depends on --------------------------------------------------------------------


def _file(path: Path) -> str:
    """A file's digest."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _beside(path: Path) -> list[Path]:
    """The files of an ONNX model that hold data of its tensors."""
    if path.stat().st_size == 0:
        return []
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        ends = ((match.end(), match[1][0]) for match in _LOCATION.finditer(data))
        names = {data[end : end + length].decode(errors="replace") for end, length in ends}
    return [path.parent / each for each in sorted(names)]


def _surroundings() -> list[str]:
    """Versions, sources, processor, compilers and settings."""
    package = Path(__file__).parent
    sources = (
        (str(each.relative_to(package)), each.stat())
        for each in sorted(package.rglob("*"))
        if each.is_file() and each.suffix != ".pyc"
    )
    from glenside.codegen.gpu.mapping.tuning import user_file

    tuned = user_file()
    return [
        sys.version,
        *(f"{each} {_version(each)}" for each in _PACKAGES),
        *(f"{name} {said.st_size} {said.st_mtime_ns}" for name, said in sources),
        platform.platform(),
        _processor(),
        str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        *(str(shutil.which(each)) for each in ("nvcc", "ld", "gcc")),
        *(str(os.environ.get(each)) for each in ("CUDA_HOME", "CUDA_PATH", "CC", "CXX")),
        _file(tuned) if tuned.is_file() else "",
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    """The processor and what it can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))
