"""What calls of a unit denote, from the types of its operands and its term alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.hw_targets.declare.sizes import HOLDS, Condition, Size
from glenside.hw_targets.declare.template import Operand, OperandType, Template, spelled
from glenside.language.denotation import Denotation, Lengths, Logic, floor_divide
from glenside.language.operators import OPERATORS, Kind


@dataclass(frozen=True)
class Denoted:
    """A unit, as far as its calls denote something.

    ``free`` operands may have their axes split in any way. Called on symbols it is
    :attr:`~glenside.language.units.Unit.denote`.
    """

    unit: str
    operands: Mapping[str, OperandType]
    parameters: Sequence[str]
    conditions: Sequence[Condition]
    term: Template
    dtypes: Sequence[str] | None = None
    free: bool = False

    def __call__(
        self, logic: Logic, operands: Sequence[Denotation], parameters: Lengths
    ) -> Denotation:
        what = f"call {self.unit}"
        logic.need(len(operands) == len(self.operands), f"{what}: operands")
        logic.ranked(parameters, len(self.parameters), f"{what}: parameters")
        given = dict(zip(self.operands, operands, strict=True))
        for name, x in given.items():
            declared = self.operands[name]
            if self.free:
                logic.ranked(x.lengths, len(declared.axes), f"{what}: {name}")
            else:
                logic.ranked(x.outer, len(declared.outer), f"{what}: {name}")
                logic.ranked(x.item, len(declared.item), f"{what}: {name}")
        sizes = self._sizes(logic, given, dict(zip(self.parameters, parameters, strict=True)))
        dtype = self._dtype(logic, given)
        return denoted(logic, self.term, sizes, given, dtype)

    def __str__(self) -> str:
        """All of it in one line, which does not change from run to run."""
        operands = ", ".join(f"{name} {each}" for name, each in self.operands.items())
        conditions = ", ".join(each.text for each in self.conditions)
        how = "any split" if self.free else "as split"
        return (
            f"{self.unit}: {spelled(self.term)} of {operands} {how}, {tuple(self.parameters)} "
            f"where {conditions}, {self.dtypes}"
        )

    def _sizes(
        self, logic: Logic, given: Mapping[str, Denotation], sizes: dict[str, Any]
    ) -> dict[str, Any]:
        what = f"call {self.unit}"
        axes = [
            (size, length)
            for name, x in given.items()
            for size, length in zip(self.operands[name].axes, x.lengths, strict=True)
        ]
        for size, length in axes:
            if size.is_name:
                sizes.setdefault(size.text, length)
        for size, length in axes:
            logic.need(size.of(sizes, floor_divide) == length, f"{what}: {size}")
        for each in self.conditions:
            logic.need(holds(each, sizes), f"{what}: {each.text}")
        return sizes

    def _dtype(self, logic: Logic, given: Mapping[str, Denotation]) -> Any:
        """That of the operands that have none of their own."""
        what, shared = f"call {self.unit}: dtypes", None
        for name, x in given.items():
            own = self.operands[name].dtype
            if own is not None:
                logic.need(x.dtype == logic.text(own), what)
            elif shared is None:
                shared = x.dtype
            else:
                logic.need(x.dtype == shared, what)
        if self.dtypes is not None and shared is not None:
            logic.need(logic.among(shared, self.dtypes), what)
        return shared


def holds(condition: Condition, sizes: Mapping[str, Any]) -> Any:
    """A condition on sizes that may be symbols."""
    sides = (side.of(sizes, floor_divide) for side in (condition.left, condition.right))
    return HOLDS[condition.comparison](*sides)


def denoted(
    logic: Logic,
    term: Template,
    sizes: Mapping[str, Any],
    operands: Mapping[str, Denotation],
    dtype: Any,
) -> Denotation:
    """What a term denotes.

    :param dtype: of constants without one of their own.
    """
    return _Built(logic, sizes, operands, dtype).build(term)


@dataclass(frozen=True)
class _Built:
    logic: Logic
    sizes: Mapping[str, Any]
    operands: Mapping[str, Denotation]
    dtype: Any

    def build(self, template: Template) -> Denotation:
        # As deep as a person wrote: recursion is safe here.
        if isinstance(template, Operand):
            return self.operands[template.name]
        below = [self.build(child) for child in template.children]
        attributes: dict[str, Any] = {}
        for declared, value in zip(template.operator.attributes, template.values, strict=True):
            if declared.name == "function":
                attributes[declared.name] = value
            elif declared.kind is Kind.DTYPE and value is None:
                attributes[declared.name] = below[0].dtype if below else self.dtype
            else:
                attributes[declared.name] = self._value(value)
        denote = OPERATORS[template.op].denote
        assert denote is not None
        return denote(self.logic, below, attributes)

    def _value(self, value: Any) -> Any:
        match value:
            case Size():
                return value.of(self.sizes, floor_divide)
            case tuple():
                return [each.of(self.sizes, floor_divide) for each in value]
            case str():
                return self.logic.text(value)
            case float() | bool():
                return self.logic.text(repr(value))
        return value
