"""The bindings of a module's functions, lowered in order, calls of functions inlined."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from glenside.errors import GlensideError, ModelError, Unsupported, UnsupportedOperator
from glenside.frontends.lowering.constants import Constants
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.operators import OPERATORS, REFUSED
from glenside.frontends.relax.signature import Value
from glenside.frontends.relax.tvm_values import Lengths, attributes_of, dims_of, dtype_of, plain
from glenside.language import DTYPES, Term
from glenside.language.abstraction import MEANING, apply_function

Progress = Callable[[int, int], None]

_KERNEL = "call_tir"
"""Calls a TIR function, which comes first, with a tuple of operands."""

DEEPEST_CALL = 32
"""Functions that call themselves would never end."""


class Missing:
    """Marks the value of what could not be lowered; what depends on it is passed over."""


MISSING = Missing()


class Walk:
    """The values of a module's variables, and what is wrong with them.

    All that is unsupported is collected, so that one error can list it. Variables are unique in a
    module, so one table holds them, whatever function they belong to.
    """

    def __init__(self, module: Any, constants: Constants, lengths: Lengths) -> None:
        self._module = module
        self._constants = constants
        self._lengths = lengths
        self.names: dict[Term, str] = {}
        """What the module calls a term; the first name stays."""
        self.calls: list[tuple[str, Value]] = []
        """Every operator that was lowered, and what it gave."""
        self._bound: dict[Any, Any] = {}
        self._arrays: dict[Any, Term] = {}
        self._unsupported: list[Unsupported] = []
        self._problem: ModelError | None = None
        self._inside: list[str] = []

    def run(self, main: Any, arguments: list[Value], progress: Progress | None = None) -> Value:
        """The value of ``main``; raises :class:`ModelError`."""
        result = self._function(main, arguments, progress)
        if self._unsupported and _lacks(result):
            # What the result does not depend on need not be supported.
            raise UnsupportedOperator(self._unsupported)
        if self._problem is not None:
            raise self._problem
        assert not isinstance(result, Missing)
        return result

    def _function(
        self, function: Any, arguments: list[Value], progress: Progress | None = None
    ) -> Any:
        from tvm import relax

        if len(arguments) != len(function.params):
            raise ModelError(f"takes {len(function.params)} arguments, got {len(arguments)}")
        for parameter in function.params:
            if isinstance(parameter.ty, relax.TensorType) and self._inside:
                self._lengths.forget(dims_of(parameter.ty) or ())
        for parameter, argument in zip(function.params, arguments, strict=True):
            if not self._agrees(parameter.ty, argument):
                raise ModelError(f"argument {parameter.name} must be {parameter.ty}")
            self._bound[parameter] = argument
        bindings = [each for block in function.body.blocks for each in block.bindings]
        for done, binding in enumerate(bindings, 1):
            self._bind(binding)
            if progress is not None:
                progress(done, len(bindings))
        return self._value(function.body.body, "the result")

    def _bind(self, binding: Any) -> None:
        from tvm import relax

        variable = binding.var
        name = "/".join((*self._inside, str(variable.name)))
        self._constants.scope = name
        if isinstance(binding.value, relax.Function):
            self._bound[variable] = binding.value
            return
        value = self._value(binding.value, name)
        type_ = binding.ty if isinstance(binding, relax.MatchCast) else variable.ty
        if not isinstance(value, Missing) and not self._agrees(type_, value):
            self._fail(name, f"is stated to be {type_}, but is {_spell(value)}")
        self._bound[variable] = value
        self._name(value, name)

    # --- bookkeeping ----------------------------------------------------------------------------

    def _name(self, value: Any, name: str) -> None:
        if isinstance(value, Term):
            self.names.setdefault(value, name)
        for index, item in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(item, Term):
                self.names.setdefault(item, f"{name}.{index}")

    def _fail(self, name: str, problem: object) -> Missing:
        """Keeps the first problem; it is raised at the end unless something is unsupported."""
        if self._problem is None:
            self._problem = ModelError(f"{name}: {problem}")
        return MISSING

    def _refuse(self, name: str, operator: str, reason: object) -> Missing:
        self._unsupported.append(Unsupported(name, operator, str(reason)))
        return MISSING

    def _agrees(self, type_: Any, value: Any) -> bool:
        """Whether a value is of a type; symbolic lengths learn what they stand for."""
        from tvm import relax

        pending = [(type_, value)]
        while pending:
            type_, value = pending.pop()
            if isinstance(type_, relax.TensorType) and isinstance(value, Term):
                if type_.dtype is not None and dtype_of(type_) != value.dtype:
                    return False
                dims = dims_of(type_)
                if dims is not None and not self._lengths.bind(dims, value.shape):
                    return False
            elif isinstance(type_, relax.TensorType):
                # A number may stand where a tensor of rank 0 does.
                if not isinstance(value, Missing | int | float):
                    return False
            elif isinstance(type_, relax.TupleType) and isinstance(value, tuple):
                if len(type_.fields) != len(value):
                    return False
                pending.extend(zip(type_.fields, value, strict=True))
            elif isinstance(type_, relax.ShapeType) and isinstance(value, tuple):
                dims = type_.values
                if dims is not None and not self._lengths.bind(dims, value):
                    return False
        return True

    # --- expressions ----------------------------------------------------------------------------

    def _value(self, root: Any, name: str) -> Any:
        """The value of an expression, operands first, by a loop: tuples nest as they like."""
        stack: list[tuple[Any, str, bool]] = [(root, name, False)]
        results: list[Any] = []
        while stack:
            expression, called, ready = stack.pop()
            parts = list(_parts(expression, called))
            if not ready and parts:
                stack.append((expression, called, True))
                stack.extend((part, inner, False) for part, inner in reversed(parts))
                continue
            at = len(results) - len(parts)
            operands = results[at:]
            del results[at:]
            results.append(self._settle(expression, operands, called))
        (result,) = results
        return result

    def _settle(self, expression: Any, operands: list[Any], name: str) -> Any:
        operator = type(expression).__name__
        try:
            if any(isinstance(operand, Missing) for operand in operands) and operator != "Tuple":
                return MISSING
            return self._lower(expression, operands, name)
        except Refused as problem:
            return self._refuse(name, _operator_name(expression), problem)
        except UnsupportedOperator:
            raise
        except GlensideError as problem:
            return self._fail(f"{name} ({_operator_name(expression)})", problem)
        except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
            # A malformed call, met in a place that does not expect it.
            what = f"{name} ({_operator_name(expression)})"
            return self._fail(what, f"{type(problem).__name__}: {problem}")

    def _lower(self, expression: Any, operands: list[Any], name: str) -> Any:
        import tvm
        from tvm import relax

        if isinstance(expression, relax.Call):
            return self._call(expression, operands, name)
        if isinstance(expression, relax.Var):
            if expression in self._bound:
                return self._bound[expression]
            return self._length(expression)
        if isinstance(expression, tvm.ir.GenericConst):
            return self._constant(expression, name)
        if isinstance(expression, relax.Tuple):
            return tuple(operands)
        if isinstance(expression, relax.TupleGetItem):
            (of,) = operands
            if not isinstance(of, tuple) or not 0 <= expression.index < len(of):
                raise ModelError(f"{_spell(of)} has no item {expression.index}")
            return of[expression.index]
        if isinstance(expression, relax.ShapeExpr):
            return self._lengths.shape(expression.values)
        number = plain(expression)
        if isinstance(number, int | float | str):
            return number
        if isinstance(expression, relax.If | relax.SeqExpr | relax.Function | relax.ExternFunc):
            raise Refused(f"{type(expression).__name__} is not supported")
        return self._length(expression)

    def _length(self, expression: Any) -> int:
        length = self._lengths.resolve(expression)
        if length is None:
            raise ModelError(f"{expression} is not known")
        return length

    def _constant(self, constant: Any, name: str) -> Term:
        if constant not in self._arrays:
            dtype = str(constant.value.dtype)
            if dtype not in DTYPES:
                raise Refused(f"a constant of dtype {dtype} is not supported")
            self._constants.scope = ""
            self._arrays[constant] = self._constants.parameter(constant.value.numpy(), name)
        return self._arrays[constant]

    def _call(self, call: Any, operands: list[Any], name: str) -> Any:
        import tvm
        from tvm import relax

        callee = call.op
        if isinstance(callee, tvm.ir.Op):
            short = _operator_name(call)
            if short == _KERNEL:
                return self._kernel(call, operands)
            signature = OPERATORS.get(short)
            if signature is None:
                raise Refused(REFUSED.get(short, "no meaning is known for this operator"))
            self._constants.scope, self._constants.caller = name, f"{name} ({short})"
            result = signature(self._constants, operands, attributes_of(call.attrs))
            self.calls.append((short, result))
            return result
        called = _operator_name(call)
        if isinstance(callee, tvm.ir.GlobalVar):
            function = self._module[callee]
        else:
            function = self._bound.get(callee)
        if not isinstance(function, relax.Function):
            raise Refused("only Relax functions can be called")
        if len(self._inside) >= DEEPEST_CALL:
            raise ModelError(f"functions call each other more than {DEEPEST_CALL} deep")
        self._inside.append(called)
        try:
            return self._function(function, operands)
        finally:
            self._inside.pop()

    def _kernel(self, call: Any, operands: list[Any]) -> Term:
        """A call of a TIR function, by what that says it computes."""
        function = self._module[call.args[0]]
        meaning = (function.attrs or {}).get(MEANING)
        if meaning is None:
            raise Refused(
                "loops are not read: only what Program.to_relax() exports says in the attribute "
                f"{MEANING} what its TIR functions compute; import the module before it is lowered"
            )
        (given,) = operands
        if not isinstance(given, tuple) or not all(isinstance(each, Term) for each in given):
            raise ModelError("the operands must be a tuple of tensors")
        result = apply_function(str(meaning), given)
        self.calls.append((str(call.args[0].name_hint), result))
        return result


def _lacks(result: Any) -> bool:
    """Whether a value, or one in a tuple, could not be lowered."""
    pending = [result]
    while pending:
        value = pending.pop()
        if isinstance(value, Missing):
            return True
        pending += value if isinstance(value, tuple) else ()
    return False


def _parts(expression: Any, name: str) -> Iterator[tuple[Any, str]]:
    """The expressions that one is made of, each with a name for the constants it may hold."""
    import tvm
    from tvm import relax

    if isinstance(expression, relax.Call):
        stated = expression.op.arguments if isinstance(expression.op, tvm.ir.Op) else []
        if isinstance(expression.op, tvm.ir.Op) and _operator_name(expression) == _KERNEL:
            yield expression.args[1], name
            return
        if isinstance(expression.op, tvm.ir.Op) and _operator_name(expression) not in OPERATORS:
            return  # Operands of what is unsupported need no meaning.
        for index, part in enumerate(expression.args):
            called = str(stated[index].name) if index < len(stated) else str(index)
            yield part, f"{name}.{called}"
    elif isinstance(expression, relax.Tuple):
        for index, part in enumerate(expression.fields):
            yield part, f"{name}.{index}"
    elif isinstance(expression, relax.TupleGetItem):
        yield expression.tuple_value, name


def _operator_name(expression: Any) -> str:
    """``nn.conv2d`` for a call of ``relax.nn.conv2d``; the name of a function that is called."""
    import tvm
    from tvm import relax

    if not isinstance(expression, relax.Call):
        return type(expression).__name__
    callee = expression.op
    if isinstance(callee, tvm.ir.Op):
        return str(callee.name).removeprefix("relax.")
    if isinstance(callee, tvm.ir.GlobalVar):
        return str(callee.name_hint)
    if isinstance(callee, relax.ExternFunc):
        return str(callee.global_symbol)
    return str(getattr(callee, "name", type(callee).__name__))


def _spell(value: Any) -> str:
    if isinstance(value, Term):
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return repr(value)
