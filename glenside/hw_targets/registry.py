"""The one list of targets and units, and the only way onto it.

Nothing is known by being imported. The list brings in what ships (:data:`SHIPPED`) when something
is first looked for, and what other distributions name as entry points in the group
``glenside.targets``::

    [project.entry-points."glenside.targets"]
    my-unit = "my_package.my_unit"

An entry point stands for a module, for one declaration or for several of them. A module brings what
it calls ``DECLARED``, or else the declarations among its names. Declarations are
:class:`~glenside.hw_targets.accelerator.Accelerator` and its like, a :class:`Unit` of the language,
and :class:`~glenside.hw_targets.target.TargetKind`. An accelerator that a program of the user's own
declares puts itself on the list.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import re
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from glenside.errors import TargetError
from glenside.hw_targets.offload import JOINED, OffloadTarget, joined, rules_for
from glenside.hw_targets.operation import Operation, divide
from glenside.hw_targets.target import Target, TargetKind
from glenside.language import invocation
from glenside.language.units import Unit, known_unit, known_units, register_unit

SHIPPED = (
    "cpu",
    "opencl",
    "cuda",
    "units.amx",
    "units.flexasr",
    "units.hlscnn",
    "units.systolic_array",
    "units.systolic_convolution",
    "units.tensor_core",
    "units.vta",
)
"""Modules of this package whose ``DECLARED`` is on the list."""

ENTRY_POINTS = "glenside.targets"
"""The group of entry points by which other distributions bring targets."""


class Registry:
    """Targets by name; their units are those of the language (:mod:`~glenside.language.units`)."""

    def __init__(self) -> None:
        self._kinds: dict[str, TargetKind] = {}
        self._shipped = False
        self._broken: dict[EntryPoint, TargetError | None] = {}
        """Entry points that were loaded, and what was wrong with them if anything was."""

    # --- putting onto the list --------------------------------------------------------------------

    def add(self, declared: object) -> None:
        """Puts a declaration on the list; one of the same name is replaced.

        :raises TargetError: it is none, or its name is that of something else.
        """
        if isinstance(declared, TargetKind):
            self._kinds[declared.name] = declared
        elif isinstance(declared, Unit):
            register_unit(declared)
        elif isinstance(getattr(declared, "unit", None), Unit):
            # A protocol: that it has a unit tells an operation from all else that may come here.
            self._add_operation(declared)  # type: ignore[arg-type]
        else:
            raise TargetError(f"{declared!r} declares no unit and no target")

    def _add_operation(self, operation: Operation) -> None:
        """Adds a unit to its target, which is known with the first one.

        :raises TargetError: there can be no such target, or the name of the unit or of the target
            is that of something else.
        """
        self.bring_in_what_ships()
        unit, target = operation.name, operation.target
        name, _ = divide(target)
        if re.fullmatch(r"[A-Za-z][\w.-]*(:[\w.,-]+)?", target) is None:
            raise TargetError(
                f"accelerator {unit}: {target!r} is no name of a target: letters, digits, '-', '_' "
                "and '.', with numerics behind a colon"
            )
        family = _operations(name)
        members = [each.name for each in family if each.target == target]
        if not operation.joins and members and unit not in members:
            raise TargetError(
                f"accelerator {unit}: there is a target of that name, which has "
                f"{', '.join(members)}: give it another name, or target={target!r} to add the unit "
                "to that target"
            )
        if not family and name in self._kinds:
            raise TargetError(f"accelerator {unit}: {name} is another target, which takes no units")
        known = known_unit(unit)
        if known is not None and (known.declaration is None or known.target != target):
            owner = known.target or unit
            raise TargetError(f"accelerator {unit}: the target {owner} has a unit of that name")
        register_unit(operation.unit)
        summary = next((each.summary for each in _operations(name) if each.summary), unit)
        self.add(TargetKind(name, summary, lambda options: _offload_target(name, options)))

    # --- where declarations come from -------------------------------------------------------------

    def bring_in_what_ships(self) -> None:
        """Loads the modules of :data:`SHIPPED`, once."""
        if not self._shipped:
            self._shipped = True
            for each in SHIPPED:
                for declared in importlib.import_module(f"glenside.hw_targets.{each}").DECLARED:
                    self.add(declared)

    def _bring_in_entry_points(self, wanted: str | None = None) -> None:
        """Loads those that were not; a broken one hinders no other.

        :param wanted: only those of this name.
        """
        for point in entry_points(group=ENTRY_POINTS):
            if point not in self._broken and wanted in (None, point.name):
                self._broken[point] = None  # Before it runs, which may look for targets.
                try:
                    self._bring_in(point)
                except Exception as problem:  # Code of other people may raise anything.
                    told = str(problem) or type(problem).__name__
                    if not isinstance(problem, TargetError):
                        told = f"{type(problem).__name__}: {problem}"
                    self._broken[point] = TargetError(f"{_described(point)}: {told}")

    def _bring_in(self, point: EntryPoint) -> None:
        kinds, units = dict(self._kinds), known_units()
        found = _declared_in(point.load())
        for declared in found:
            if isinstance(declared, TargetKind) and declared.name in kinds:
                raise TargetError(f"there is a target {declared.name} already")
            self.add(declared)
        # What it declared may have put itself on the list.
        if not found and len(units) == len(known_units()) and kinds == self._kinds:
            raise TargetError(f"{point.value} declares no unit and no target")

    def look_for_unit(self, name: str | None) -> None:
        """Brings in what may declare a unit of that name; None: all that ship."""
        self.bring_in_what_ships()
        if name is not None and invocation.is_missing(name):
            self._bring_in_entry_points()

    @contextlib.contextmanager
    def forgetting(self) -> Iterator[None]:
        """What is put on the list inside is taken off behind."""
        self.bring_in_what_ships()
        kinds, broken = dict(self._kinds), dict(self._broken)
        try:
            with invocation.forgetting():
                yield
        finally:
            self._kinds, self._broken = kinds, broken

    # --- looking ----------------------------------------------------------------------------------

    def targets(self) -> tuple[TargetKind, ...]:
        """All families, by name."""
        self.bring_in_what_ships()
        self._bring_in_entry_points()
        return tuple(self._kinds[name] for name in sorted(self._kinds))

    def broken(self) -> tuple[TargetError, ...]:
        """What is wrong with entry points that were tried, one line each."""
        return tuple(problem for problem in self._broken.values() if problem is not None)

    def kind(self, name: str) -> TargetKind:
        """The family of that name.

        :raises TargetError: there is none, or the entry point of that name is broken.
        """
        self.bring_in_what_ships()
        if name not in self._kinds:
            self._bring_in_entry_points(name)
        if name in self._kinds:
            return self._kinds[name]
        for point, problem in self._broken.items():
            if point.name == name and problem is not None:
                raise problem
        known = self.targets()
        if name in self._kinds:
            return self._kinds[name]
        close = difflib.get_close_matches(name, self._kinds, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        shown = "; ".join(f"{each.name} ({each.summary})" for each in known)
        failed = "".join(f"; {problem}" for problem in self.broken())
        raise TargetError(f"unknown target {name!r}: {hint}the targets are {shown}{failed}")


def _operations(name: str) -> list[Operation]:
    """The declarations whose target has that name, whatever its options."""
    found: list[Operation] = []
    for unit in known_units():
        if unit.declaration is not None and divide(unit.target)[0] == name:
            # The language, which holds it, does not know what a declaration is.
            found.append(unit.declaration)  # type: ignore[arg-type]
    return found


def _offload_target(name: str, options: str) -> OffloadTarget:
    full = f"{name}:{options}" if options else name
    family = _operations(name)
    members = tuple(each for each in family if each.target == full)
    if not members:
        others = ", ".join(sorted({each.target for each in family}))
        has = f"has no numerics {options!r}" if options else "is written with its numerics"
        raise TargetError(f"{name} {has}: there is {others}")
    return OffloadTarget(full, tuple(each.name for each in members), lambda: rules_for(members))


def _declared_in(found: object) -> list[object]:
    """What a module brings, or what was named itself."""
    if isinstance(found, ModuleType):
        if hasattr(found, "DECLARED"):
            return list(found.DECLARED)
        named = vars(found).values()
        kinds = (TargetKind, Unit)
        return [e for e in named if isinstance(e, kinds) or isinstance(_unit_of(e), Unit)]
    return list(found) if isinstance(found, list | tuple) else [found]


def _unit_of(declared: object) -> object:
    return None if isinstance(declared, type) else getattr(declared, "unit", None)


def _described(point: EntryPoint) -> str:
    dist = point.dist
    whose = f" of {dist.name} {dist.version}" if dist is not None else ""
    return f"entry point {point.name} ({point.value}){whose} brings no target"


REGISTRY = Registry()


def register_target(name: str, make: Callable[[str], Target], summary: str) -> None:
    """Makes a family of targets known: ``make(options)`` gets what follows the colon in its name.

    Registering a name anew replaces it.
    """
    REGISTRY.bring_in_what_ships()
    REGISTRY.add(TargetKind(name, summary, make))


def targets() -> tuple[TargetKind, ...]:
    """All families of targets, by name."""
    return REGISTRY.targets()


def find_target(target: str | Target) -> Target:
    """The target of that name, ``a+b`` having the units of both.

    :raises TargetError: there is none; says which there are.
    """
    if not isinstance(target, str):
        if not hasattr(target, "compile"):
            raise TargetError(f"a target is a name or a Target, got {target!r}")
        return target
    if JOINED in target:
        names = [each.strip() for each in target.split(JOINED)]
        if not all(names):
            raise TargetError(f"{target!r} lacks a target beside a {JOINED}")
        return joined([find_target(each) for each in names])
    name, options = divide(target)
    return REGISTRY.kind(name).make(options)
