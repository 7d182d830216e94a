"""The bindings of a function, lowered in order, one expression at a time."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.errors import ModelError, ShapeError, Unsupported, UnsupportedOperator
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.lowering.phrases import select
from glenside.frontends.refusal import Refused
from glenside.frontends.relay.metadata import Metadata
from glenside.frontends.relay.operators import OPERATORS, REFUSED
from glenside.frontends.relay.parser import stated_type
from glenside.frontends.relay.syntax_tree import (
    Apply,
    Attribute,
    Block,
    Branches,
    Call,
    Closure,
    Expression,
    Function,
    GlobalName,
    Literal,
    Local,
    Meta,
    Module,
    Parameter,
    Position,
    Projection,
    Tuple,
    Typed,
    bottom_up,
    parts,
)
from glenside.frontends.relay.types import (
    FunctionValue,
    TupleType,
    Type,
    Value,
    agrees,
    flat_parameters,
    spell,
)
from glenside.language import DTYPES, AccessType, Term, builders

Array = np.ndarray[Any, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Attributes:
    """A ``meta[...Attrs][k]`` argument: no value, but the attributes of its call."""

    values: dict[str, Attribute]


DEEPEST = 32
"""How deep functions and branches may stand in each other: those that call themselves never end."""

Scope = ChainMap[str, Value | None]
"""What names stand for; None is what could not be lowered."""


@dataclass(frozen=True)
class _Callable(FunctionValue):
    """A function and what is bound around it."""

    function: Function
    scope: Scope


class Walk:
    """The values of a function's expressions, and what is wrong with them.

    ``None`` is the value of what could not be lowered; what depends on it is passed over, so that
    one error can list everything unsupported.
    """

    def __init__(
        self,
        source: str,
        module: Module,
        main: Function,
        parameters: Mapping[str, AccessType],
        given: Mapping[str, Array],
    ) -> None:
        """
        :param source: what messages call the text.
        :param parameters: types of the parameters of ``main``, tuples flattened.
        :param given: arrays of those that are known.
        """
        self.source = source
        self.main = main
        self.metadata = Metadata(module.metadata, source)
        self.constants = Constants(set(parameters))
        """Arrays that are known, those of the metadata section that were used, and new ones."""
        self.constants.arrays.update(given)
        self.names: dict[Term, str] = {}
        """What the text calls a term; the first name stays."""
        self.calls: list[tuple[str, Value]] = []
        """Each operator that was lowered, and what it gave."""
        self._module = module
        self._parameters = parameters
        self._unsupported: list[Unsupported] = []
        self._problem: ModelError | None = None
        self._inside: list[str] = []
        self._scope: Scope = ChainMap()

    def run(self, progress: Progress | None = None) -> Value:
        """The value of the function's last expression; raises :class:`ModelError`."""
        for parameter in self.main.parameters:
            value = _nest(
                parameter.type,
                (
                    builders.tensor(
                        name, self._parameters[name].shape, self._parameters[name].dtype
                    )
                    for name, _ in flat_parameters(parameter.name, parameter.type)
                ),
            )
            self._take(parameter, value)
        total = len(self.main.body.bindings) + 1
        result = self._block(self.main.body, "the result", progress)
        if self.main.result_type is not None:
            at = self.main.body.result.at
            self._check(self.main.result_type, result, at, "the result of @main")
        if self._unsupported and result is None:
            # What the result does not depend on need not be supported.
            raise UnsupportedOperator(self._unsupported)
        if self._problem is not None:
            raise self._problem
        assert result is not None
        if progress is not None:
            progress(total, total)
        return result

    def _take(self, parameter: Parameter, value: Value | None) -> None:
        for comment in parameter.comments:
            self._check(comment, value, parameter.at, f"%{parameter.name}")
        self._scope[parameter.name] = value

    def _block(self, block: Block, name: str, progress: Progress | None = None) -> Value | None:
        """The value of a block's last expression, its bindings added to the scope."""
        total = len(block.bindings) + 1
        for done, binding in enumerate(block.bindings, 1):
            called = "/".join((*self._inside, f"%{binding.name}"))
            value = self._value(binding.value, called)
            if binding.type is not None:
                self._check(binding.type, value, binding.at, called)
            self._scope[binding.name] = value
            self._name(value, called)
            if progress is not None:
                progress(done, total)
        return self._value(block.result, name)

    def _within(self, scope: Scope, block: Block, called: str, name: str) -> Value | None:
        """The value of a block inside another one."""
        if len(self._inside) >= DEEPEST:
            raise ModelError(f"functions stand in each other more than {DEEPEST} deep")
        outer, self._scope = self._scope, scope
        self._inside.append(called)
        try:
            return self._block(block, name)
        finally:
            self._inside.pop()
            self._scope = outer

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
                self._refuse(name, expression.at, _operator_name(expression), problem)
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
                if expression.name not in self._scope:
                    raise ModelError(f"%{expression.name} is not bound")
                return self._scope[expression.name]
            case GlobalName():
                if expression.name not in self._module.functions:
                    raise ModelError(f"the module has no function @{expression.name}")
                return _Callable(self._module.functions[expression.name], ChainMap())
            case Closure():
                return _Callable(expression.function, self._scope)
            case Literal():
                if expression.dtype not in DTYPES:
                    raise ModelError(f"a literal of dtype {expression.dtype} is not supported")
                return builders.constant(expression.value, (), expression.dtype)
            case Meta():
                return self._meta(expression)
            case Call():
                return self._call(expression, operands, name)
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
            case Apply():
                return self._apply(operands[0], operands[1:], name)
            case Branches():
                return self._branches(expression, operands[0], name)

    def _apply(self, callee: Any, operands: list[Any], name: str) -> Value | None:
        """A call of a function, its body read with the operands in place of the parameters."""
        if not isinstance(callee, _Callable):
            raise ModelError(f"{spell(callee)} is called, which is no function")
        function = callee.function
        called = "fn" if function.name == "fn" else f"@{function.name}"
        if len(operands) != len(function.parameters):
            wanted = len(function.parameters)
            raise ModelError(f"{called} takes {wanted} operands, got {len(operands)}")
        scope = callee.scope.new_child()
        for parameter, operand in zip(function.parameters, operands, strict=True):
            if not agrees(parameter.type, operand):
                raise ModelError(
                    f"%{parameter.name} of {called} is stated to be {spell(parameter.type)}, "
                    f"but is given {spell(operand)}"
                )
            scope[parameter.name] = operand
        stem = name if name.startswith("%") else called
        result = self._within(scope, function.body, stem, name)
        if function.result_type is not None:
            at = function.body.result.at
            self._check(function.result_type, result, at, f"the result of {called}")
        return result

    def _branches(self, choice: Branches, condition: Any, name: str) -> Value | None:
        """The branch that is taken, or, where that is not known, one of both results."""
        if not isinstance(condition, Term) or condition.type.size != 1 or condition.shape:
            raise ModelError(f"the condition of if must be one bool, got {spell(condition)}")
        known = self.constants.known(condition)
        if known is not None:
            taken = choice.then if known.item() else choice.otherwise
            return self._within(self._scope.new_child(), taken, "if", name)
        one, other = (
            self._within(self._scope.new_child(), block, "if", name)
            for block in (choice.then, choice.otherwise)
        )
        if one is None or other is None:
            return None
        if not (isinstance(one, Term) and isinstance(other, Term) and one.type == other.type):
            raise Refused(
                "the branches of an if whose condition is not known must give tensors of one type"
            )
        return select(builders.cast(condition, "bool"), one, other)

    def _meta(self, meta: Meta) -> Value | _Attributes:
        if meta.kind.startswith("relay.attrs."):
            return _Attributes(self.metadata.attributes(meta))
        if meta.kind != "relay.Constant":
            raise Refused(f"meta[{meta.kind}] is not supported")
        array = self.metadata.array(meta)
        if array.size == 1:
            return builders.constant(array.item(), array.shape, array.dtype.name)
        name = f"meta[relay.Constant][{meta.index}]"
        self.constants.arrays[name] = array
        return builders.tensor(name, array.shape, array.dtype.name)

    def _call(self, call: Call, operands: list[Any], name: str) -> Value | None:
        signature = OPERATORS.get(call.operator)
        if signature is None:
            raise Refused(REFUSED.get(call.operator, "unknown operator"))
        attributes = dict(call.attributes)
        for operand in operands:
            if isinstance(operand, _Attributes):
                attributes |= operand.values
        values = signature.read(attributes)
        operands = [operand for operand in operands if not isinstance(operand, _Attributes)]
        if any(operand is None for operand in operands):
            return None
        signature.check(operands)
        named = name.startswith("%")
        self.constants.scope = name[1:] if named else call.operator
        self.constants.caller = f"{name} ({call.operator})" if named else call.operator
        try:
            result = signature(self.constants, operands, values)
        except (ModelError, ShapeError) as problem:
            raise ModelError(f"{call.operator}: {problem}") from None
        self.calls.append((call.operator, result))
        return result


def _operator_name(expression: Expression) -> str:
    match expression:
        case Call():
            return expression.operator
        case Branches():
            return "if"
        case _:
            return "meta"


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
