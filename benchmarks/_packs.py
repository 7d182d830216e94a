"""Compiled programs that travel without weights, which the other machine makes and packs anew."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

PACKED = "packed.tar.xz"
PARAMETERS, RECIPES, ARRAYS = "parameters.bin", "recipes.json", "recipes.npz"


def save_program(executable: Any, folder: Path, **more: Any) -> None:
    """The program without its parameters, how they are made, and ``more`` to be told."""
    from glenside.codegen.device.recipes import recipe_of
    from glenside.language import to_text

    executable.save(folder)
    (folder / PARAMETERS).unlink()
    arrays: dict[str, np.ndarray] = {}
    slots: dict[int, dict[str, Any]] = {}
    for number, array in executable._parameters.items():
        flat = np.ascontiguousarray(array).view(np.uint8)
        slots[number] = {"crc": zlib.crc32(flat), "norm": _norm(array)}
        origin = executable.origins.get(number)
        if origin is None:
            arrays[f"slot {number}"] = array
            continue
        recipe = recipe_of(origin)
        slots[number] |= {
            "term": to_text(origin.term),
            "repeated": recipe.repeated,
            "rounded": recipe.rounded,
        }
        arrays[f"order {number}"] = np.frombuffer(recipe.order, np.uint8)
    products = {n: [each.space, each.mapping] for n, each in executable.products.items()}
    told = {"slots": slots, "products": products, **more}
    (folder / RECIPES).write_text(json.dumps(told))
    np.savez(folder / ARRAYS, **arrays)  # type: ignore[arg-type]


def sources_only(target: Any) -> Any:
    """A target that leaves compiling its CUDA C to the machine with the GPU."""
    from glenside.codegen.device.device import Code
    from glenside.hw_targets import find_target

    made: Any = find_target(target)
    made.builder = lambda: Code
    return made


def compile_sources(folders: Sequence[Path]) -> set[Path]:
    """Machine code of programs that lack it, as many at a time as there are processors.

    Returns the programs that nvcc refuses, having said why.
    """
    import cupy

    from glenside.codegen.device.executable import BINARY
    from glenside.codegen.device.nvcc import compiled
    from glenside.errors import TargetError

    architecture = f"sm_{cupy.cuda.Device().compute_capability}"

    def one(source: Path) -> bool:
        try:
            code = compiled(source.read_text(encoding="utf-8"), architecture)
        except TargetError as problem:
            print(f"{source.parent.name}: {problem}", flush=True)
            return False
        name = BINARY.format(source.stem.removeprefix("kernels-"), code.architecture)
        source.with_name(name).write_bytes(code.binary or b"")
        return True

    sources = [path for folder in folders for path in folder.glob("kernels-*.cu")]
    missing = [each for each in sources if not list(each.parent.glob(f"{each.stem}.*.cubin"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(one, missing))
    return {each.parent for each, ok in zip(missing, done, strict=True) if not ok}


def told_of(folder: Path) -> dict[str, Any]:
    """What was told of a program."""
    told: dict[str, Any] = json.loads((folder / RECIPES).read_text())
    return told


def restore_program(folder: Path, params: Mapping[str, np.ndarray]) -> None:
    """Makes the file of a program's parameters from the model's own.

    Fails where a parameter is not what was compiled.
    """
    from glenside.codegen.device.recipes import Recipe
    from glenside.codegen.plan import PLAN, Plan, write_parameters
    from glenside.language import evaluate, parse_all

    with np.load(folder / ARRAYS) as held:
        arrays = {name: held[name] for name in held.files}
    made: dict[int, np.ndarray] = {}
    values: dict[str, np.ndarray] = {}
    for name, said in told_of(folder)["slots"].items():
        number = int(name)
        if "term" in said:
            text = said["term"]
            if text not in values:
                (values[text],) = evaluate(parse_all(text), params)
            order = arrays[f"order {number}"].tobytes()
            recipe = Recipe(tuple(said["repeated"]), order, said["rounded"])
            made[number] = recipe.apply(values[text])
        else:
            made[number] = arrays[f"slot {number}"]
        # What was computed may be rounded otherwise by another machine's libraries.
        computed = "(compute" in said.get("term", "")
        same = zlib.crc32(made[number].view(np.uint8)) == said["crc"]
        if not same and not (computed and np.isclose(_norm(made[number]), said["norm"])):
            raise ValueError(f"{folder.name}: parameter {number} is not what was compiled")
    write_parameters(Plan.from_json((folder / PLAN).read_text()), made, folder)


def _norm(array: np.ndarray) -> float:
    return float(np.linalg.norm(array.astype(np.float64)))


def pack(folder: Path) -> None:
    """One compressed file of all that was built, for machines that are far away."""
    with tarfile.open(folder / PACKED, "w:xz", preset=1) as archive:
        for path in sorted(folder.iterdir()):
            if path.name != PACKED:
                archive.add(path, path.name)
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def unpacked(folder: Path, where: str) -> Path:
    """The folder with what was built, taken out of its compressed file where there is one."""
    if not (folder / PACKED).is_file():
        return folder
    with tarfile.open(folder / PACKED) as archive:
        archive.extractall(where, filter="data")
    return Path(where)
