"""The bindings of a function, lowered in order, one expression at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import ModelError, ShapeError, Unsupported, UnsupportedOperator
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.metadata import Metadata
from glenside.frontends.relay.operators import OPERATORS
from glenside.frontends.relay.parser import stated_type
from glenside.frontends.relay.syntax_tree import (
    Attribute,
    Call,
    Expression,
    Function,
    Literal,
    Local,
    Meta,
    Module,
    Position,
    Projection,
    Tuple,
    Typed,
    bottom_up,
    parts,
)
from glenside.frontends.relay.types import TupleType, Type, Value, agrees, flat_parameters, spell
from glenside.language import DTYPES, AccessType, Term, builders

Array = np.ndarray[Any, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Attributes:
    """A ``meta[...Attrs][k]`` argument: no value, but the attributes of its call."""

    values: dict[str, Attribute]


class Walk:
    """The values of a function's expressions, and what is wrong with them.

    ``None`` is the value of what could not be lowered; what depends on it is passed over, so that
    one error can list everything unsupported.
    """

    def __init__(
        self, source: str, module: Module, main: Function, parameters: Mapping[str, AccessType]
    ) -> None:
        """
        :param source: what messages call the text.
        :param parameters: types of the parameters of ``main``, tuples flattened.
        """
        self.source = source
        self.main = main
        self.metadata = Metadata(module.metadata, source)
        self.constants: dict[str, Array] = {}
        """Arrays of the metadata section that were used, by the name of their tensor."""
        self.names: dict[Term, str] = {}
        """What the text calls a term; the first name stays."""
        self.calls: list[tuple[str, Value]] = []
        """Each operator that was lowered, and what it gave."""
        self._unsupported: list[Unsupported] = []
        self._problem: ModelError | None = None
        self._bound: dict[str, Value | None] = {}
        for parameter in main.parameters:
            value = _nest(
                parameter.type,
                (
                    builders.tensor(name, parameters[name].shape, parameters[name].dtype)
                    for name, _ in flat_parameters(parameter.name, parameter.type)
                ),
            )
            for comment in parameter.comments:
                self._check(comment, value, parameter.at, f"%{parameter.name}")
            self._bound[parameter.name] = value

    def run(self, progress: Progress | None = None) -> Value:
        """The value of the function's last expression; raises :class:`ModelError`."""
        total = len(self.main.bindings) + 1
        for done, binding in enumerate(self.main.bindings, 1):
            name = f"%{binding.name}"
            value = self._value(binding.value, name)
            if binding.type is not None:
                self._check(binding.type, value, binding.at, name)
            self._bound[binding.name] = value
            self._name(value, name)
            if progress is not None:
                progress(done, total)
        result = self._value(self.main.result, "the result")
        if self.main.result_type is not None:
            self._check(self.main.result_type, result, self.main.result.at, "the result of @main")
        if self._unsupported:
            raise UnsupportedOperator(self._unsupported)
        if self._problem is not None:
            raise self._problem
        assert result is not None
        if progress is not None:
            progress(total, total)
        return result

    # --- bookkeeping ----------------------------------------------------------------------------

    def _name(self, value: Value | None, name: str) -> None:
        if isinstance(value, Term):
            self.names.setdefault(value, name)
        for index, item in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(item, Term):
                self.names.setdefault(item, f"{name}.{index}")

    def _fail(self, at: Position, problem: object) -> None:
        """Keeps the first problem; it is raised at the end unless something is unsupported."""
        if self._problem is None:
            self._problem = ModelError(f"{self.source}: {at}: {problem}")

    def _refuse(self, name: str, at: Position, operator: str, reason: object) -> None:
        self._unsupported.append(Unsupported(f"{name}, line {at.line}", operator, str(reason)))

    def _check(self, stated: Type | str, value: Value | None, at: Position, what: str) -> None:
        """Compares a stated type (or the comment that states it) with the inferred one."""
        if value is None:
            return
        try:
            type_ = stated_type(stated) if isinstance(stated, str) else stated
        except ModelError as problem:
            self._fail(at, problem)
            return
        if not agrees(type_, value):
            self._fail(at, f"{what} is stated to be {spell(type_)}, but is {spell(value)}")

    # --- expressions ----------------------------------------------------------------------------

    def _value(self, root: Expression, name: str) -> Value | None:
        done: dict[Expression, Any] = {}
        for expression in bottom_up(root):
            operands = [done.pop(part) for part in parts(expression)]
            value = None
            try:
                value = self._lower(expression, operands, name)
            except Refused as problem:
                spelled = expression.operator if isinstance(expression, Call) else "meta"
                self._refuse(name, expression.at, spelled, problem)
            except (ModelError, ShapeError) as problem:
                self._fail(expression.at, problem)
            done[expression] = value
        result = done[root]
        if isinstance(result, _Attributes):
            self._fail(root.at, "attributes stand where a value is needed")
            return None
        return result

    def _lower(self, expression: Expression, operands: list[Any], name: str) -> Any:
        match expression:
            case Local():
                if expression.name not in self._bound:
                    raise ModelError(f"%{expression.name} is not bound")
                return self._bound[expression.name]
            case Literal():
                if expression.dtype not in DTYPES:
                    raise ModelError(f"a literal of dtype {expression.dtype} is not supported")
                return builders.constant(expression.value, (), expression.dtype)
            case Meta():
                return self._meta(expression)
            case Call():
                return self._call(expression, operands)
            case _ if any(isinstance(each, _Attributes) for each in operands):
                raise ModelError("attributes stand where a value is needed")
            case _ if any(each is None for each in operands):
                return None
            case Tuple():
                return tuple(operands)
            case Projection():
                (of,) = operands
                if not isinstance(of, tuple) or expression.index >= len(of):
                    raise ModelError(f"{spell(of)} has no item {expression.index}")
                return of[expression.index]
            case Typed():
                self._check(expression.comment, operands[0], expression.at, name)
                return operands[0]

    def _meta(self, meta: Meta) -> Value | _Attributes:
        if meta.kind.startswith("relay.attrs."):
            return _Attributes(self.metadata.attributes(meta))
        if meta.kind != "relay.Constant":
            raise Refused(f"meta[{meta.kind}] is not supported")
        array = self.metadata.array(meta)
        if array.size == 1:
            return builders.constant(array.item(), array.shape, array.dtype.name)
        name = f"meta[relay.Constant][{meta.index}]"
        self.constants[name] = array
        return builders.tensor(name, array.shape, array.dtype.name)

    def _call(self, call: Call, operands: list[Any]) -> Value | None:
        signature = OPERATORS.get(call.operator)
        if signature is None:
            is_function = call.operator.startswith("@")
            raise Refused(
                "calls of functions are not supported" if is_function else "unknown operator"
            )
        attributes = dict(call.attributes)
        for operand in operands:
            if isinstance(operand, _Attributes):
                attributes |= operand.values
        values = signature.read(attributes)
        operands = [operand for operand in operands if not isinstance(operand, _Attributes)]
        if any(operand is None for operand in operands):
            return None
        signature.check(operands)
        try:
            result = signature.lower(*operands, **values)
        except ShapeError as problem:
            raise ModelError(f"{call.operator}: {problem}") from None
        self.calls.append((call.operator, result))
        return result


def _nest(type_: Type, terms: Iterable[Term]) -> Value:
    """The tensors of a parameter, put into tuples as its type says."""
    rest = iter(terms)
    root: list[Value] = []
    stack: list[tuple[list[Value], list[Type]]] = [(root, [type_])]
    while stack:
        done, pending = stack[-1]
        if not pending:
            stack.pop()
            if stack:
                stack[-1][0].append(tuple(done))
        elif isinstance(inner := pending.pop(0), TupleType):
            stack.append(([], list(inner.items)))
        else:
            done.append(next(rest))
    return root[0]
