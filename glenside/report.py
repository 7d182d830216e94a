"""What a run tells: offloads, growth, costs, limits, and whether the numbers are right."""

from __future__ import annotations

import dataclasses
import io
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from glenside.codegen.footprint import Footprint
from glenside.explain.records import SHOWN, Checked, Left
from glenside.files import Json
from glenside.language import CALLS, Term
from glenside.language.memory import spelled
from glenside.language.units import is_unit
from glenside.quantization import QuantizationError

if TYPE_CHECKING:
    from glenside.rewrites.ruleset import RuleSet


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of each stage."""

    imported: float = 0.0
    saturate: float = 0.0
    extract: float = 0.0
    compile: float = 0.0
    explain: float = 0.0
    """Exact matching, and finding out why layers stayed on the host."""
    quantise: float = 0.0
    check: float = 0.0

    @staticmethod
    def of(stages: Mapping[str, float]) -> Seconds:
        """Of the seconds by the stages' names."""
        return Seconds(**{"imported" if n == "import" else n: s for n, s in stages.items()})

    def stages(self) -> dict[str, float]:
        """The seconds by the stages' names."""
        named = dataclasses.asdict(self).items()
        return {"import" if n == "imported" else n: s for n, s in named}


@dataclass(frozen=True)
class RuleUse:
    """How often one rewrite matched."""

    name: str
    matches: int


@dataclass(frozen=True)
class UnitUse:
    """Calls of one unit of a target, and their cycles where its declaration says.

    ``tiles`` counts the invocations on the unit's own size that they expand to.
    """

    unit: str
    calls: int
    cycles: float | None = None
    tiles: int | None = None


class _Form(NamedTuple):
    """How a field stands in JSON."""

    write: Callable[[Any], Any] = lambda value: value
    read: Callable[[Any], Any] = lambda value: value
    path: tuple[str, ...] = ()
    """The keys that lead to it, if not its own name."""


_JSON = "json"
_PLAIN = _Form()


def _told(write: Callable[[Any], Any], read: Callable[[Any], Any], *path: str) -> dict[str, _Form]:
    """The metadata of a field that JSON has in another form."""
    return {_JSON: _Form(write, read, path)}


def _one(of: type) -> dict[str, _Form]:
    """The metadata of a field that holds a dataclass or None."""
    return _told(
        lambda value: value and dataclasses.asdict(value), lambda data: of(**data) if data else None
    )


_LIST = _told(list, tuple)
_BY_NAME = _told(
    lambda rules: {rule.name: rule.matches for rule in rules},
    lambda data: tuple(RuleUse(*each) for each in data.items()),
)
_BY_UNIT = _told(
    lambda uses: {
        use.unit: {name: value for name, value in vars(use).items() if name != "unit"}
        for use in uses
    },
    lambda data: tuple(UnitUse(name, **each) for name, each in data.items()),
)
_LEFT = _told(
    lambda left: [dataclasses.asdict(each) for each in left],
    lambda data: tuple(Left(**each) for each in data),
)
_MEMORY = _told(
    lambda memory: memory and memory.to_json(), lambda data: data and Footprint.from_json(data)
)


def _plain(cost: tuple[float, ...]) -> float | list[float]:
    return cost[0] if len(cost) == 1 else list(cost)


def _parts(cost: float | list[float]) -> tuple[float, ...]:
    return tuple(cost) if isinstance(cost, list) else (cost,)


@dataclass(frozen=True)
class Report:
    """The outcome of :func:`glenside.optimize`; printing it shows a table."""

    model: str
    """Name of the model."""
    target: str
    operators: int
    """Operators of the user's model that compute something from its inputs."""
    offloads: dict[str, int]
    """Accelerator calls in the extracted program, before tiles are expanded, by the name of the
    target without its options."""
    host_ops: dict[str, int]
    """ONNX operators without an access-pattern meaning, left to onnxruntime."""
    stop_reason: str
    """Why exploration stopped: saturated, node_limit, iter_limit or time_limit; where exploration
    failed, iter_limit after 0 iterations."""
    iterations: int
    nodes: int
    """E-nodes when exploration stopped."""
    classes: int
    """E-classes when exploration stopped."""
    seconds: Seconds = field(metadata=_told(Seconds.stages, Seconds.of))
    cost_model: str
    cost_before: tuple[float, ...] = field(metadata=_told(_plain, _parts, "cost", "before"))
    """Cost of the imported program; lexicographic where it has several parts."""
    cost_after: tuple[float, ...] = field(metadata=_told(_plain, _parts, "cost", "after"))
    extractor: str
    rules: tuple[RuleUse, ...] = field(default=(), metadata=_BY_NAME)
    units: tuple[UnitUse, ...] = field(default=(), metadata=_BY_UNIT)
    """The same calls, by unit."""
    max_rel_error: float | None = None
    """Largest error against the NumPy interpreter, relative to the largest magnitude of each
    output; None when it was not checked."""
    unchecked: str | None = None
    """Why it could not be checked where that was asked for: the device is missing, say, or no
    inputs were found that the model takes, or time was up."""
    steps: int = 0
    """Elements of outputs and inner values that the program rounds the other way than NumPy where
    the model itself rounds, quantises or compares: the last bit of a sum decides there."""
    precision_loss: dict[str, float | None] | None = None
    """What half precision costs: the largest error against the model in float32, relative to the
    largest magnitude of each output, by the magnitude of the inputs (``"0.001"``, ``"1"``,
    ``"1000"``); None where an output overflows. None where nothing is computed in halves."""
    cost_parts: tuple[str, ...] = field(default=(), metadata=_LIST)
    """What the parts of a cost are called, where the cost model names them."""
    exact: dict[str, int] | None = None
    """Calls that exact matching finds: the units' own rules on the program as imported; None where
    the target has no units."""
    left: tuple[Left, ...] = field(default=(), metadata=_LEFT)
    """Layers that stayed on the host though a unit of the target computes the like, and why."""
    quantization: QuantizationError | None = field(default=None, metadata=_one(QuantizationError))
    """What quantising a float model cost, where that was asked for."""
    note: str = ""
    """A sentence on why a target could not be used, and what would help."""
    optimal: bool = False
    """Whether a solver proved that no program in the explored e-graph costs less."""
    finite: tuple[str, ...] = field(default=(), metadata=_LIST)
    """Rules that fired and take numbers to be finite: of an infinity or NaN beside a known zero
    the program may keep less than the model. A unit's rule only where the unit is called."""
    untried: tuple[str, ...] = field(default=(), metadata=_LIST)
    """Rules that never had a turn, since a limit stopped exploration first."""
    failure: str | None = None
    """What went wrong in exploration or extraction, so that the program is the one imported."""
    precision: str | None = None
    """The dtype that the model's float32 values were changed to, where that was asked for."""

    cut: tuple[str, ...] = field(default=(), metadata=_LIST)
    """Stages that a time limit ended: of saturate and extract the result is the program as
    imported, explain tells less, and compile is left to the first run. After memory no form was
    found in time that keeps the limit, so the program is the one imported."""
    memory: Footprint | None = field(default=None, metadata=_MEMORY)
    """What the program holds beside its operands and results; None where it is not compiled yet, or
    its target does not tell."""
    memory_limit: int | None = None
    """Bytes that it was to hold at most."""

    inputs: dict[str, str] = field(default_factory=dict)
    """Of a program for many sizes, the shapes of inputs by name, as ``(batch, 3, 224, 224)``; all
    else that is told is of the size it was explored at. Empty for a program of one size."""
    ranges: dict[str, str] = field(default_factory=dict)
    """The names of lengths in these shapes, and the range of each, as ``1..64``."""
    sizes: tuple[str, ...] = field(default=(), metadata=_LIST)
    """The sizes that there are programs of, and how each came to be."""

    def checked(self, outcome: Checked, seconds: Seconds) -> Report:
        """The same report with the outcome of the check, and the time that took."""
        return dataclasses.replace(
            self,
            max_rel_error=outcome.error,
            unchecked=outcome.unchecked,
            steps=outcome.steps,
            precision_loss=outcome.loss,
            seconds=seconds,
        )

    def not_checked(self, reason: str) -> Report:
        """The same report, saying why the program could not be checked."""
        return dataclasses.replace(self, unchecked=reason)

    def to_json(self) -> dict[str, Json]:
        """The report as one JSON object."""
        data: dict[str, Any] = {}
        for each, form, (*into, key) in _fields():
            place = data
            for name in into:
                place = place.setdefault(name, {})
            place[key] = form.write(getattr(self, each))
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> Report:
        """The report that :meth:`to_json` wrote; what it lacks that older versions did not write
        is as by default."""
        given: dict[str, Any] = {}
        for each, form, (*into, key) in _fields():
            place: Any = data
            for name in into:
                place = place[name]
            if key in place:
                given[each] = form.read(place[key])
        return cls(**given)

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=100, color_system=None).print(self)
        return text.getvalue()

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        # Names may look like markup or emoji codes, which a Text leaves alone.
        title = Text(f"{self.model} on {self.target}", style="bold")
        table = Table(title=title, show_header=False)
        table.add_column(style="cyan")
        table.add_column()
        for label, value in self._rows():
            table.add_row(Text(label), Text(value))
        return table

    def _rows(self) -> Iterable[tuple[str, str]]:
        if self.inputs:
            yield "inputs", ", ".join(f"{name} {shape}" for name, shape in self.inputs.items())
            yield "lengths", ", ".join(f"{name} {each}" for name, each in self.ranges.items())
            yield "sizes", "\n".join(self.sizes)
        yield "operators", str(self.operators)
        if self.precision:
            kept = "which sums and what halves cannot hold are kept in"
            yield "precision", f"{self.precision} in place of float32, {kept}"
        yield "offloads", self._offloads()
        if self.units:
            yield "units", ", ".join(map(_use, self.units))
        if self.left:
            more = len(self.left) - SHOWN
            rest = [f"... and {more} more"] if more > 0 else []
            yield "left on the host", "\n".join([*map(str, self.left[:SHOWN]), *rest])
        if self.host_ops:
            yield "host operators", _counts(self.host_ops)
        if self.failure is not None:
            yield "not optimised", self.failure
        size = f"{self.nodes:,} e-nodes in {self.classes:,} classes"
        yield "exploration", f"{self.stop_reason} after {self.iterations} iterations: {size}"
        fired = {rule.name: rule.matches for rule in self.rules if rule.matches}
        if fired:
            yield "rules", ", ".join(f"{name} {count:,}" for name, count in fired.items())
        if self.finite:
            yield "finite numbers", f"taken for granted by {', '.join(self.finite)}"
        if self.untried:
            yield "rules without a turn", ", ".join(self.untried)
        yield "cost model", self.cost_model
        yield "cost before", self._cost(self.cost_before)
        proved = ", proved optimal" if self.optimal else ""
        yield "cost after", f"{self._cost(self.cost_after)}; by {self.extractor}{proved}"
        if self.memory is not None:
            yield "memory", str(self.memory)
        if self.memory_limit is not None:
            yield "memory limit", spelled(self.memory_limit)
        shown = self.seconds.stages()
        if self.quantization is None:
            del shown["quantise"]
        if not self.seconds.check:
            del shown["check"]
        if self.cut:
            later = "; it is compiled at its first run" if "compile" in self.cut else ""
            yield "time limit", f"ended {', '.join(self.cut)}{later}"
        yield "seconds", ", ".join(f"{name} {value:.2f}" for name, value in shown.items())
        if self.quantization is not None:
            yield "quantised", str(self.quantization)
        if self.note:
            yield "note", self.note
        if self.precision_loss:
            yield "against float32", self._loss()
        if self.max_rel_error is None:
            yield "check", f"not made: {self.unchecked}" if self.unchecked else "not asked for"
            return
        error = f"largest relative error {self.max_rel_error:.1e}"
        if self.steps:
            error += f"; {self.steps:,} elements rounded the other way"
        from glenside.hw_targets.operation import accelerator_of

        numerics = [a.numerics for use in self.units if (a := accelerator_of(use.unit))]
        formats = ", ".join(dict.fromkeys(filter(None, numerics)))
        if formats:
            yield "check", f"agrees with NumPy but for the units' numbers ({formats}), {error}"
        else:
            yield "check", f"agrees with NumPy, {error}"

    def _loss(self) -> str:
        assert self.precision_loss is not None
        told = (
            f"inputs of {size}: " + ("overflows" if error is None else f"{error:.1e}")
            for size, error in self.precision_loss.items()
        )
        return f"largest relative error; {', '.join(told)}"

    def _offloads(self) -> str:
        if self.exact is None:
            return _counts(self.offloads)
        exact = {name: self.exact.get(name, 0) for name in self.offloads} | self.exact
        counts = {name: self.offloads.get(name, 0) for name in exact}
        shown = (
            f"{name} {count} (exact matching: {exact[name]})" for name, count in counts.items()
        )
        return ", ".join(shown) or "none (exact matching: none)"

    def _cost(self, cost: tuple[float, ...]) -> str:
        values = [f"{part:,.4g}" for part in cost]
        if len(self.cost_parts) != len(values):
            return " / ".join(values)
        return ", ".join(f"{name} {x}" for name, x in zip(self.cost_parts, values, strict=True))


def _fields() -> Iterator[tuple[str, _Form, tuple[str, ...]]]:
    """The fields of a report, how each stands in JSON, and the keys that lead to it."""
    for each in dataclasses.fields(Report):
        form = each.metadata.get(_JSON, _PLAIN)
        yield each.name, form, form.path or (each.name,)


def count_offloads(terms: Iterable[Term]) -> dict[str, int]:
    """Accelerator calls among ``terms``, by target."""
    from glenside.hw_targets.operation import target_of

    called = Counter(target_of(t["unit"]) for t in terms if t.op in CALLS)
    return dict(sorted(called.items()))


def taking_finite(
    rules: Iterable[RuleSet], fired: Mapping[str, int], called: Collection[str]
) -> tuple[str, ...]:
    """The rules that take numbers to be finite, of those that fired so often; a unit's only where
    the unit is called."""
    chosen = {rule.name: rule for each in rules for rule in each if rule.finite}
    return tuple(
        name for name in chosen if fired.get(name) and (name in called or not is_unit(name))
    )


def count_units(terms: Iterable[Term]) -> tuple[UnitUse, ...]:
    """The same calls by unit, with the cycles of all calls of a unit."""
    from glenside.extraction.cycles import term_cycles
    from glenside.hw_targets.expansion import tile_calls

    by_unit: dict[str, list[Term]] = {}
    for term in terms:
        if term.op in CALLS:
            by_unit.setdefault(term["unit"], []).append(term)
    uses = []
    for unit, calls in sorted(by_unit.items()):
        cycles = [c for c in map(term_cycles, calls) if c is not None]
        tiles = sum(map(tile_calls, calls))
        uses.append(UnitUse(unit, len(calls), math.fsum(cycles) if cycles else None, tiles))
    return tuple(uses)


def count_host_ops(terms: Iterable[Term]) -> dict[str, int]:
    """Host operators among ``terms``, by ONNX operator; several outputs of one count once."""
    nodes = {(t.children, t["operator"], t["attributes"]) for t in terms if t.op == "host_op"}
    return dict(sorted(Counter(operator for _, operator, _ in nodes).items()))


def _use(use: UnitUse) -> str:
    more = [f"{use.tiles:,} tile calls"] if use.tiles not in (None, use.calls) else []
    more += [f"{use.cycles:,.0f} cycles"] if use.cycles is not None else []
    return f"{use.unit} {use.calls}" + (f" ({', '.join(more)})" if more else "")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
