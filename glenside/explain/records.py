"""What explanations hold, as data, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import difflib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import InputError

SHOWN = 10
"""Rows and names that a table shows before it only counts."""


@dataclass(frozen=True)
class RuleStep:
    """A rule that brought something the call is made of, and in which pass."""

    rule: str
    iteration: int

    def __str__(self) -> str:
        return f"{self.rule} (pass {self.iteration})"


@dataclass(frozen=True)
class CallOrigin:
    """One accelerator call of a program.

    ``layers`` are the values of the user's model that it computes, in the model's order, ``rules``
    those that led to it, in the order in which they fired; none where it stands in the model.
    """

    unit: str
    result: str
    """The type of what it gives."""
    layers: tuple[str, ...]
    rules: tuple[RuleStep, ...]
    complete: bool = True
    """Whether the rules are all there: exploration is repeated up to a limit to find them."""

    @property
    def by_pass(self) -> str:
        """The rules, pass by pass."""
        passes: dict[int, list[str]] = {}
        for step in self.rules:
            passes.setdefault(step.iteration, []).append(step.rule)
        shown = (f"pass {number}: {', '.join(rules)}" for number, rules in passes.items())
        return "\n".join([*shown, *self._rest])

    @property
    def _rest(self) -> tuple[str, ...]:
        if not self.complete:
            return ("others that were not found out",)
        return () if self.rules else ("none: it stands in the model",)

    def __str__(self) -> str:
        rules = ", ".join([*map(str, self.rules), *self._rest])
        return f"{listed(self.layers, ', ')} → {rules}: {self.unit} {self.result}"


@dataclass(frozen=True)
class Left:
    """A layer that a unit might compute and that stayed on the host, and why: what the nearest unit
    asks for and does not get."""

    layer: str
    unit: str
    reason: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.unit}: {self.reason}"


@dataclass(frozen=True)
class Explanation:
    """The calls of a program and what stayed on the host.

    ``layers`` are the names of all values that the user's model computes.
    """

    model: str
    target: str
    calls: tuple[CallOrigin, ...]
    left: tuple[Left, ...]
    layers: tuple[str, ...]

    def of(self, node: str) -> Explanation:
        """Only what concerns one value of the user's model.

        :raises InputError: the model computes no value of that name.
        """
        if node not in self.layers:
            close = difflib.get_close_matches(node, self.layers, n=3)
            some = f"; they are called {', '.join(map(repr, self.layers[:3]))} and so on"
            hint = f": is it {' or '.join(map(repr, close))}?" if close else some
            raise InputError(f"{self.model} computes no value called {node!r}{hint}")
        return dataclasses.replace(
            self,
            calls=tuple(call for call in self.calls if node in call.layers),
            left=tuple(each for each in self.left if each.layer == node),
            layers=(node,),
        )

    def to_json(self) -> dict[str, Any]:
        """One JSON object."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Explanation:
        """The explanation that :meth:`to_json` wrote."""
        calls = (
            CallOrigin(
                each["unit"],
                each["result"],
                tuple(each["layers"]),
                tuple(RuleStep(**step) for step in each["rules"]),
                each["complete"],
            )
            for each in data["calls"]
        )
        left = tuple(Left(**each) for each in data["left"])
        return cls(data["model"], data["target"], tuple(calls), left, tuple(data["layers"]))

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=120, color_system=None).print(self)
        return text.getvalue()

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        # Names may look like markup or emoji codes, which a Text leaves alone.
        parts: list[Any] = [Text(f"{self.model} on {self.target}", style="bold")]
        if self.calls:
            calls = Table("layer", "call", "rules that led to it")
            for call in self.calls:
                cells = (listed(call.layers, "\n"), f"{call.unit}\n{call.result}", call.by_pass)
                calls.add_row(*map(Text, cells))
            parts.append(calls)
        if self.left:
            left = Table("layer on the host", "nearest unit", "what it asks for")
            for each in self.left:
                left.add_row(*map(Text, (each.layer, each.unit, each.reason)))
            parts.append(left)
        if not self.calls and not self.left:
            what = self.layers[0] if len(self.layers) == 1 else "everything"
            parts.append(
                Text(f"{what} is computed on the host: no unit of the target computes the like")
            )
        return Group(*parts)


def listed(words: Sequence[str], separator: str) -> str:
    """The first of them, and how many more there are."""
    more = [f"... and {len(words) - SHOWN} more"] if len(words) > SHOWN else []
    return separator.join([*words[:SHOWN], *more])


@dataclass(frozen=True)
class Checked:
    """The outcome of a check.

    ``error`` is the largest relative error over the outputs; None where nothing was compared, and
    ``unchecked`` says why. ``steps`` counts the elements of outputs and inner values that were
    rounded the other way by the model's own quantisers and comparisons. ``loss`` is what half
    precision costs, see :func:`glenside.check.loss.loss`.
    """

    error: float | None = None
    unchecked: str | None = None
    steps: int = 0
    loss: dict[str, float | None] | None = None
