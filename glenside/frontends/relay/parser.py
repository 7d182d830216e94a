"""Text to syntax tree: the grammar in ``grammar.lark``, run by lark's LALR parser.

Trees are built while parsing, so nothing recurses, however long or deep the program is.
"""

from __future__ import annotations

import functools
import re
import threading
from importlib import resources
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from glenside.errors import ModelError
from glenside.frontends.relay.syntax_tree import (
    Apply,
    Attribute,
    Binding,
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
)
from glenside.frontends.relay.types import AlgebraicType, FunctionType, TensorType, TupleType, Type

_SCALAR = re.compile(r"(?P<digits>.*?)(?P<kind>[fiu])(?P<bits>8|16|32|64)?")
_KINDS = {"f": "float", "i": "int", "u": "uint"}
_STATED = re.compile(r"/\*\s*ty=(.*?)(?:\s+span=.*)?\*/", re.DOTALL)

# What messages call the terminals that the grammar describes by a pattern.
_SPOKEN = {
    "LOCAL": "%name",
    "DECLARED": "%name",
    "GLOBAL": "@name",
    "NAME": "a name",
    "_NAME": "a name",
    "NUMBER": "a number",
    "SCALAR": "a scalar such as 1f",
    "STRING": "a string",
    "PROJECTION": ".0",
    "TYPED": "a type comment",
    "_VERSION": "#[version]",
    "METADATA": "#[metadata]",
    "$END": "the end",
}


def parse_module(text: str, source: str) -> Module:
    """The module that ``text`` spells.

    :param source: what messages call the text.
    :raises ModelError: it is not Relay text; one line with line, column and what could follow.
    """
    module: Module = _parse(text, "module", source)
    return module


def stated_type(comment: str) -> Type:
    """The type in a ``/* ty=... */`` comment; raises :class:`ModelError` if it is none."""
    return _type(_inside(comment))


def _inside(comment: str) -> str:
    match = _STATED.fullmatch(comment)
    assert match is not None
    return match[1].strip()


@functools.lru_cache(maxsize=1024)
def _type(text: str) -> Type:
    result: Type = _parse(text, "type", f"type comment {text[:60]!r}")
    return result


@functools.cache
def _lark() -> Lark:
    grammar = resources.files(__package__).joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        start=["module", "type"],
        maybe_placeholders=False,
        transformer=_TreeBuilder(),
    )


def _parse(text: str, start: str, source: str) -> Any:
    _declared.names.clear()
    try:
        return _lark().parse(text, start=start)
    except UnexpectedInput as problem:
        raise ModelError(f"{source}: {_explain(problem, text)}") from None
    except _Misplaced as problem:
        raise ModelError(f"{source}: {problem}") from None


class _Misplaced(Exception):
    """Well-formed by the grammar, but not by what the grammar cannot say."""

    def __init__(self, at: Position, what: str) -> None:
        super().__init__(f"{at}: {what}")


def _explain(problem: UnexpectedInput, text: str) -> str:
    found: str
    expected: set[str] | None
    if isinstance(problem, UnexpectedCharacters):
        place = Position(problem.line, problem.column)
        found, expected = repr(text[problem.pos_in_stream or 0]), problem.allowed
    elif isinstance(problem, UnexpectedToken) and problem.token.type != "$END":
        place = _at(problem.token)
        found, expected = repr(str(problem.token)[:40]), problem.accepts or problem.expected
    else:
        lines = text.rstrip().split("\n")
        place = Position(len(lines), len(lines[-1]) + 1)
        found = "the end of the text"
        expected = getattr(problem, "accepts", None) or getattr(problem, "expected", None)
    following = sorted({_spoken(name) for name in expected or ()} - {""})
    return f"{place}: {found} cannot stand here; expected {' or '.join(following) or 'nothing'}"


def _spoken(terminal: str) -> str:
    if terminal in _SPOKEN:
        return _SPOKEN[terminal]
    try:
        pattern = _lark().get_terminal(terminal).pattern
    except KeyError:
        return ""
    return repr(pattern.value) if isinstance(pattern, PatternStr) else ""


def _at(token: Token) -> Position:
    return Position(token.line or 1, token.column or 1)


def _is_comment(value: object) -> bool:
    return isinstance(value, Token) and value.type == "TYPED"


class _Keyword(tuple[Token, Attribute]):
    """``name=value`` among the arguments of a call."""


class _Declared(threading.local):
    """Names of the function being read that end like a projection: ``%layer.0``."""

    def __init__(self) -> None:
        self.names: set[str] = set()


_declared = _Declared()


class _TreeBuilder(Transformer[Token, Any]):
    """One method a grammar rule; operands come as lists of what the methods below returned."""

    def _spelled(self, token: Token) -> str:
        """The name that a declaration spells."""
        name = str(token)[1:]
        if re.search(r"\.[0-9]+$", name):
            _declared.names.add(name)
        return name

    # types

    def tensor_type(self, children: list[Token]) -> Type:
        *lengths, dtype = children
        shape = []
        for length in lengths:
            if length.type == "NUMBER" and not length.isdigit():
                raise _Misplaced(_at(length), f"{str(length)!r} is not the length of an axis")
            shape.append(int(length) if length.type == "NUMBER" else None)
        return TensorType(tuple(shape), str(dtype))

    def scalar_type(self, children: list[Token]) -> Type:
        return TensorType((), str(children[0]))

    def applied_type(self, children: list[Any]) -> Type:
        return AlgebraicType(str(children[0]))

    def tuple_type(self, children: list[Type]) -> Type:
        return TupleType(tuple(children))

    def function_type(self, children: list[Any]) -> Type:
        return FunctionType()

    # attributes

    def reference(self, children: list[Token]) -> Attribute:
        """A value that an attribute repeats: no lowering reads it."""
        return "".join(f"[{part}]" if i else str(part) for i, part in enumerate(children))

    def property(self, children: list[Any]) -> None:
        return None

    def number(self, children: list[Token]) -> Attribute:
        return _number(children[0])[0]

    def text(self, children: list[Token]) -> Attribute:
        return re.sub(r"\\(.)", r"\1", children[0][1:-1], flags=re.DOTALL)

    def none(self, children: list[Token]) -> Attribute:
        return None

    def true(self, children: list[Token]) -> Attribute:
        return True

    def false(self, children: list[Token]) -> Attribute:
        return False

    def sequence(self, children: list[Attribute]) -> Attribute:
        return tuple(each for each in children if not _is_comment(each))

    def keyword(self, children: list[Any]) -> _Keyword:
        return _Keyword(children[:2])

    # expressions

    def local(self, children: list[Token]) -> Expression:
        return Local(children[0][1:], _at(children[0]))

    def global_name(self, children: list[Token]) -> Expression:
        return GlobalName(children[0][1:], _at(children[0]))

    def literal(self, children: list[Token]) -> Expression:
        return Literal(*_number(children[0]), _at(children[0]))

    def truth(self, children: list[Token]) -> Expression:
        return Literal(children[0] == "True", "bool", _at(children[0]))

    def items(self, children: list[Any]) -> Expression:
        opening, *items = children
        return Tuple(tuple(items), _at(opening))

    def grouped(self, children: list[Any]) -> Expression:
        expression: Expression = children[1]
        return expression

    def call(self, children: list[Any]) -> Expression:
        name, *arguments = children
        operands = [argument for argument in arguments if not isinstance(argument, _Keyword)]
        attributes: dict[str, Attribute] = {}
        for argument in arguments:
            if isinstance(argument, _Keyword):
                keyword, value = argument
                if keyword in attributes:
                    raise _Misplaced(_at(keyword), f"{name} is given {keyword} twice")
                attributes[str(keyword)] = value
        return Call(str(name), tuple(operands), attributes, _at(name))

    def apply(self, children: list[Any]) -> Expression:
        callee, *operands = children
        return Apply(callee, tuple(operands), callee.at)

    def closure(self, children: list[Any]) -> Expression:
        opening, *inside = children
        return Closure(self._function("fn", _at(opening), inside), _at(opening))

    def block(self, children: list[Any]) -> Block:
        *bindings, result = children
        return Block(tuple(bindings), result)

    def branches(self, children: list[Any]) -> Expression:
        opening, condition, then, otherwise = children
        return Branches(condition, then, otherwise, _at(opening))

    def meta(self, children: list[Token]) -> Expression:
        meta, kind, index = children
        if not index.isdigit():
            raise _Misplaced(_at(index), f"{str(index)!r} is not an index")
        return Meta(str(kind), int(index), _at(meta))

    def projection(self, children: list[Any]) -> Expression:
        of, index = children
        if isinstance(of, Local):
            whole = f"{of.name}.{index[1:].strip()}"
            if any(name == whole or name.startswith(f"{whole}.") for name in _declared.names):
                return Local(whole, of.at)
        return Projection(of, int(index[1:]), of.at)

    def typed(self, children: list[Any]) -> Expression:
        of, comment = children
        return Typed(of, str(comment), of.at)

    # definitions

    def parameter(self, children: list[Any]) -> Parameter:
        name, type_, *comments = children
        return Parameter(self._spelled(name), type_, tuple(map(str, comments)), _at(name))

    def free_variable(self, children: list[Any]) -> Parameter:
        return self.parameter(children)

    def binding(self, children: list[Any]) -> Binding:
        name, *types, value = children
        return Binding(self._spelled(name), types[0] if types else None, value, _at(name))

    def _function(self, name: str, at: Position, inside: list[Any]) -> Function:
        *before, result = (each for each in inside if not _is_comment(each))
        parameters = tuple(each for each in before if isinstance(each, Parameter))
        bindings = tuple(each for each in before if isinstance(each, Binding))
        rest = [e for e in before if e is not None and not isinstance(e, Parameter | Binding)]
        stated = rest[0] if rest else None
        return Function(name, parameters, stated, Block(bindings, result), at)

    def function(self, children: list[Any]) -> Function:
        name, *inside = children
        _declared.names.clear()
        return self._function(name[1:], _at(name), inside)

    def anonymous(self, children: list[Any]) -> Function:
        """The only function of a text is its main one."""
        opening, *inside = children
        _declared.names.clear()
        return self._function("main", _at(opening), inside)

    def open(self, children: list[Any]) -> Function:
        """An expression whose free variables are the parameters of the main function."""
        _declared.names.clear()
        return self._function("main", children[0].at, children)

    def module(self, children: list[Any]) -> Module:
        functions: dict[str, Function] = {}
        for each in children:
            if isinstance(each, Function):
                if each.name in functions:
                    raise _Misplaced(each.at, f"@{each.name} is defined twice")
                functions[each.name] = each
        metadata = [str(each) for each in children if isinstance(each, Token)]
        return Module(functions, metadata[0] if metadata else None)


def _number(token: Token) -> tuple[int | float, str]:
    """Value and dtype of a number; without a suffix int32, or float32 with a point or exponent."""
    match = _SCALAR.fullmatch(token) if token.type == "SCALAR" else None
    if match is None:
        whole = re.fullmatch(r"-?[0-9]+", token)
        return (int(token), "int32") if whole else (float(token), "float32")
    digits, dtype = match["digits"], _KINDS[match["kind"]] + (match["bits"] or "32")
    if match["kind"] == "f":
        return float(digits), dtype
    if not re.fullmatch(r"-?[0-9]+", digits):
        raise _Misplaced(_at(token), f"{str(token)!r} is not an integer")
    return int(digits), dtype
