"""Which package imports which, and which files import each other: neither list may grow.

Imports inside functions and under ``TYPE_CHECKING`` count: a file depends on what it names,
whenever that is loaded.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "glenside"

BASE = ["errors", "files", "interrupt", "deadline", "limits", "disk_cache", "needs"]
"""Modules at the root that know of no package of ours: any package may import them."""

IMPORTS = {
    "language": "errors",
    "frontends": "language",
    "rewrites": "language",
    "extraction": "rewrites language",
    "codegen": "language",
    "hw_targets": "codegen extraction rewrites language",
    "exporters": "codegen language",
    "explain": "hw_targets extraction rewrites language",
    "explore": "extraction rewrites language",
    "check": "explain hw_targets language",
    "shapes": (
        "calling codegen explain exporters frontends hw_targets language program saved_folder"
    ),
}
"""What the files of a package may import, beside :data:`BASE` (``language`` but the errors)."""

EXCEPTIONS = {
    # The driver is written from what is declared of units.
    "exporters/c/driver.py": "hw_targets",
    "exporters/egraph.py": "extraction rewrites",
    # What is told of a result reads the result's own types.
    "check/__init__.py": "program",
    "check/loss.py": "program",
    "explain/exact.py": "report",
    # A growth is recorded of any model and target.
    "explore/__init__.py": "frontends hw_targets",
    "explore/record.py": "fallback",
}
"""Files that import more. This list may only shrink."""

CIRCLES = {
    "rewrites": [3],
    "language": [2],
    "explore": [2, 3],
}
"""Sizes of the sets of files that import each other, by where those are. They may only shrink."""


def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def imported(path: Path) -> set[str]:
    """The modules of ours that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names.update(each if each in MODULES else str(node.module) for each in members)
    return names & MODULES.keys()


GRAPH = {name: imported(path) - {name} for name, path in MODULES.items()}


def place(module: str) -> str:
    """The package below ``glenside`` that a module is in, or its own name at the root."""
    return module.split(".")[1] if "." in module else module


def strangers(package: str) -> dict[str, set[str]]:
    """What files of a package import that it may not, by file."""
    allowed = {package, *IMPORTS[package].split(), *(BASE if package != "language" else ())}
    found: dict[str, set[str]] = {}
    for module, others in GRAPH.items():
        more = {place(other) for other in others} - allowed
        if place(module) == package and more:
            found[MODULES[module].relative_to(ROOT).as_posix()] = more
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one node, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        open_.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
            if other in open_:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            at = open_.index(node)
            if len(open_) > at + 1:
                found.append(set(open_[at:]))
            del open_[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["d", "e"]]


def test_every_package_is_in_the_table():
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} == IMPORTS.keys()


@pytest.mark.parametrize("name", BASE)
def test_the_base_knows_no_package(name):
    assert {place(other) for other in GRAPH[f"glenside.{name}"]} <= {*BASE}


def test_packages_stand_in_an_order():
    """The table itself has no circle."""
    assert not circles({name: {*row.split()} & IMPORTS.keys() for name, row in IMPORTS.items()})


@pytest.mark.parametrize("package", IMPORTS)
def test_a_package_imports_what_stands_below_it(package):
    excepted = {
        file: {*more.split()} for file, more in EXCEPTIONS.items() if file.startswith(f"{package}/")
    }
    assert strangers(package) == excepted, "new ones are wrong; of exceptions take out what is gone"


def test_no_circle_of_files_grows():
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for circle in circles(GRAPH):
        sizes[" ".join(sorted({place(module) for module in circle}))].append(len(circle))
    found = {where: sorted(numbers) for where, numbers in sizes.items()}
    assert found == CIRCLES, "a new or larger circle is wrong; write down what has shrunk"
