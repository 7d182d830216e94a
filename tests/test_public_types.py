"""What users call says what it takes and gives: nothing public is of any type at all."""

import ast
import functools
import importlib
import inspect
import sys
import typing

import numpy as np

import glenside


@functools.cache
def names_of(module: str) -> dict[str, object]:
    """What a module's annotations may name, what only type checkers import included."""
    found = importlib.import_module(module)
    names: dict[str, object] = {}
    for node in ast.walk(ast.parse(inspect.getsource(found))):
        if isinstance(node, ast.ImportFrom):
            origin = importlib.import_module(str(node.module))
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found_there = hasattr(origin, alias.name)
                names[alias.asname or alias.name] = (
                    getattr(origin, alias.name) if found_there else importlib.import_module(inner)
                )
        elif isinstance(node, ast.Import):
            for alias in node.names:
                importlib.import_module(alias.name)
                names[alias.asname or alias.name.partition(".")[0]] = sys.modules[
                    alias.name if alias.asname else alias.name.partition(".")[0]
                ]
    return {**names, **vars(found)}


def parts(annotation: object, within: tuple[object, ...] = ()) -> typing.Iterator[object]:
    """An annotation and what it is made of; of which numbers an array is need not be said."""
    yield annotation
    if isinstance(annotation, typing.TypeAliasType) and annotation not in within:
        yield from parts(annotation.__value__, (*within, annotation))
    if not str(getattr(typing.get_origin(annotation), "__module__", "")).startswith("numpy"):
        for each in typing.get_args(annotation):
            yield from parts(each, within)


def signatures(public: object, name: str) -> typing.Iterator[tuple[str, object]]:
    """The functions of a public name, and itself."""
    if inspect.isclass(public):
        for member, value in inspect.getmembers(public):
            function = value.fget if isinstance(value, property) else value
            own = str(getattr(function, "__module__", "")).startswith("glenside")
            shown = member in ("__init__", "__call__") or not member.startswith("_")
            if shown and own and (inspect.isfunction(function) or inspect.ismethod(function)):
                yield f"{name}.{member}", function
    if inspect.isclass(public) or inspect.isfunction(public):
        yield name, public


def untyped(roots: dict[str, object]) -> list[str]:
    """Annotations that are ``Any`` among the public names, and the classes of ours that public
    functions give."""
    wrong: list[str] = []
    pending = [(name, public, inspect.isfunction(public)) for name, public in roots.items()]
    seen = {id(public) for public in roots.values()}
    while pending:
        name, public, follow = pending.pop()
        for where, function in signatures(public, name):
            hints = typing.get_type_hints(function, globalns=names_of(function.__module__))
            for argument, annotation in hints.items():
                if argument.startswith("_"):
                    continue
                for each in parts(annotation):
                    if each is typing.Any:
                        wrong.append(f"{where}: {argument}")
                    ours = str(getattr(each, "__module__", "")).startswith("glenside")
                    given = follow and argument == "return" and inspect.isclass(each)
                    if given and ours and id(each) not in seen:
                        seen.add(id(each))
                        pending.append((each.__name__, each, False))
    return sorted(set(wrong))


class Loose:
    """Has all kinds of what is looked for."""

    kept: dict[str, typing.Any]
    array: np.ndarray[typing.Any, typing.Any]
    _own: typing.Any

    def method(self, x: int, *more: typing.Any) -> list[typing.Any]:
        """Takes and gives anything."""
        return [x, *more]

    @property
    def shown(self) -> typing.Any:
        """Anything."""


def test_what_is_of_any_type_is_found(monkeypatch):
    for each in (Loose, Loose.method, Loose.shown.fget):
        monkeypatch.setattr(each, "__module__", "glenside.report")
    assert untyped({"Loose": Loose}) == [
        "Loose.method: more",
        "Loose.method: return",
        "Loose.shown: return",
        "Loose: kept",
    ]


def test_nothing_public_is_of_any_type():
    assert not untyped({name: getattr(glenside, name) for name in glenside.__all__})
