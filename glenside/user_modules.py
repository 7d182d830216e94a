"""Modules of the user's own, by name or file: what they declare is known once they are imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from glenside.errors import InputError


def import_module(name: str) -> ModuleType:
    """The module ``name``, which may lie in the current directory, or that of a file ``NAME.py``.

    :raises InputError: there is none, or it raises an error; one line that says which.
    """
    # What lies in the current directory can be named, and takes the place of nothing installed.
    if "" not in sys.path:
        sys.path.append("")
    importlib.invalidate_caches()  # The file may have been written a moment ago.
    try:
        if name.endswith(".py"):
            return _of_file(Path(name))
        if not all(part.isidentifier() for part in name.split(".")):
            raise InputError(f"{name!r} is neither a module such as my_units nor a .py file")
        module = importlib.import_module(name)
        if getattr(module, "__file__", None) is None and hasattr(module, "__path__"):
            raise InputError(f"{name} is a folder without an __init__.py: it declares nothing")
        return module
    except InputError:
        raise
    except ModuleNotFoundError as problem:
        if problem.name is not None and f"{name}.".startswith(f"{problem.name}."):
            raise InputError(f"no module {name} is found: {problem}") from problem
        raise _failed(name, problem) from problem
    except Exception as problem:  # The user's module may raise anything.
        raise _failed(name, problem) from problem


def _failed(name: str, problem: Exception) -> InputError:
    return InputError(f"{name} cannot be imported: {type(problem).__name__}: {problem}")


def _found(name: str) -> Path | None:
    """The file of the module that importing ``name`` would take; built-in ones have none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or (spec.origin is None and spec.has_location is False):
        return None
    return Path(spec.origin or name).resolve()


def _of_file(path: Path) -> ModuleType:
    path = path.resolve()
    known = sys.modules.get(path.stem)
    if known is not None:
        if Path(getattr(known, "__file__", None) or ".").resolve() == path:
            return known
        raise InputError(f"{path} cannot be imported: another module is called {path.stem}")
    installed = _found(path.stem)
    if installed is not None and installed != path:
        raise InputError(
            f"{path} cannot be imported: {installed} is called {path.stem} too, rename one"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path} cannot be imported: no such file")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # For what lies beside it.
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # Before it runs, as an import does.
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module
