"""The text form: s-expressions that read back to the very same term.

``(compute dot (cart-prod :batch 1 (access 1 (tensor w)) ...))``: the operator, then its attributes
in order, then its operands; attributes with a default are spelled ``:name value``, anywhere. What
a program uses twice is bound once: ``(let ((%0 (tensor x (2 3))) ...) (pair %0 %0))``.

``(tensor NAME)`` takes shape and dtype from ``parse(text, inputs=...)`` or spells them, as in
``(tensor x (2 3) :dtype int8)``. ``(scalar V)`` is short for ``(constant V ())``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from glenside.errors import TextError
from glenside.language.operators import OPERATORS, Attribute, Kind, Operator
from glenside.language.shape import AccessType
from glenside.language.term import Term, make, topological_order

_TOKEN = re.compile(r'\s+|;[^\n]*|([()])|("(?:[^"\\]|\\.)*")|([^\s()";]+)')
_PLAIN = re.compile(r'[^\s()";:%0-9+\-.][^\s()";]*')
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(\d|\.\d)|[+-]?(inf|nan)$")
_BY_SPELLING = {operator.spelling: operator for operator in OPERATORS.values()}

Input = AccessType | Sequence[int] | tuple[Sequence[int], str] | np.ndarray[Any, Any]


class Quoted(str):
    """A string that was written in quotes: never a number, reference or option."""


# --- printing -----------------------------------------------------------------------------------


def to_text(*roots: Term) -> str:
    """The text form of one or several terms."""
    order = topological_order(roots)
    uses: dict[Term, int] = dict.fromkeys(roots, 1)
    for term in order:
        for child in term.children:
            uses[child] = uses.get(child, 0) + 1
    names: dict[Term, str] = {}
    bindings = []
    for term in order:
        if uses[term] > 1 and (term.children or len(roots) > 1 or term not in roots):
            bindings.append(f"(%{len(names)} {spell_term(term, names)})")
            names[term] = f"%{len(names)}"
    body = " ".join(names.get(root) or spell_term(root, names) for root in roots)
    return f"(let ({' '.join(bindings)}) {body})" if bindings else body


def spell_term(root: Term, names: Mapping[Term, str]) -> str:
    """The text of a term; what of it has a name is called by that."""
    pieces: list[str] = []
    stack: list[Term | str] = [root]
    while stack:
        top = stack.pop()
        if isinstance(top, str):
            pieces.append(top)
        elif top is not root and top in names:
            pieces.append(" " + names[top])
        else:
            pieces.append((" " if top is not root else "") + "(" + _head(top))
            stack.append(")")
            stack.extend(reversed(top.children))
    return "".join(pieces)


def _head(term: Term) -> str:
    words = [term.operator.spelling]
    for attribute, value in zip(term.operator.attributes, term.values, strict=True):
        dtype = term.dtype if attribute.kind in (Kind.NUMBER, Kind.FILL) else None
        if not attribute.optional:
            words.append(spell_value(value, dtype))
        elif repr(value) != repr(attribute.default):
            words.append(f":{attribute.name} {spell_value(value, dtype)}")
    return " ".join(words)


def spell_value(value: Any, dtype: str | None = None) -> str:
    """An attribute value as text; a number that is rounded to ``dtype`` in the fewest digits."""
    if dtype is not None and isinstance(value, float):
        value = float(str(np.dtype(dtype).type(value)))
    if isinstance(value, tuple):
        return f"({' '.join(map(str, value))})"
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and not _NUMBER.match(value):
            return value
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    return repr(value).lower() if isinstance(value, bool) else repr(value)


# --- reading ------------------------------------------------------------------------------------


def parse(text: str, inputs: Mapping[str, Input] | None = None, dtype: str = "float32") -> Term:
    """The term that ``text`` spells.

    :param inputs: shape (or type, or (shape, dtype), or array) of tensors that do not spell theirs.
    :param dtype: of tensors and scalars for which neither text nor ``inputs`` gives one.
    :raises TextError: the text is not well-formed; :class:`ShapeError`: the term is not.
    """
    terms = parse_all(text, inputs, dtype)
    if len(terms) != 1:
        raise TextError(f"one term was expected, got {len(terms)}")
    return terms[0]


def parse_all(
    text: str, inputs: Mapping[str, Input] | None = None, dtype: str = "float32"
) -> list[Term]:
    """All terms of a text that spells several."""
    reader = _Reader(inputs or {}, dtype)
    results: list[Term] = []
    for expression in read_expressions(text):
        results.extend(reader.read(expression))
    return results


def read_expressions(text: str) -> list[Any]:
    """Nested lists of atoms: the bare s-expressions, without a meaning."""
    top: list[Any] = []
    stack = [top]
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise TextError(f"unreadable text at {text[position : position + 20]!r}")
        position = match.end()
        bracket, quoted, atom = match.groups()
        if bracket == "(":
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif bracket == ")":
            if len(stack) == 1:
                raise TextError("a closing bracket has no opening one")
            stack.pop()
        elif quoted:
            body = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], quoted[1:-1])
            stack[-1].append(Quoted(body))
        elif atom:
            stack[-1].append(atom)
    if len(stack) > 1:
        raise TextError(f"{len(stack) - 1} brackets are not closed")
    return top


class _Reader:
    def __init__(self, inputs: Mapping[str, Input], dtype: str) -> None:
        self.dtype = dtype
        self.inputs = {name: _input_type(given, dtype) for name, given in inputs.items()}
        self.names: dict[str, Term] = {}

    def read(self, expression: Any) -> Iterator[Term]:
        if isinstance(expression, list) and expression[:1] == ["let"]:
            if len(expression) < 3 or not isinstance(expression[1], list):
                raise TextError("let is written (let ((%name term) ...) term ...)")
            for binding in expression[1]:
                if not (isinstance(binding, list) and len(binding) == 2 and is_name(binding[0])):
                    raise TextError(f"a binding is written (%name term), got {_shorten(binding)}")
                self.names[binding[0]] = self.term(binding[1])
            for body in expression[2:]:
                yield self.term(body)
        else:
            yield self.term(expression)

    def term(self, expression: Any) -> Term:
        """Builds bottom-up with a stack of (expression, operands read so far)."""
        frames: list[tuple[Operator | None, dict[str, Any], list[Any], list[Term]]] = []
        current = expression
        while True:
            if isinstance(current, list):
                frames.append((*self.head(current), []))
            else:
                frames.append((None, {}, [], [self.reference(current)]))
            while True:
                operator, values, rest, children = frames[-1]
                if rest:
                    current = rest.pop()
                    break
                frames.pop()
                done = children[0] if operator is None else self.make(operator, values, children)
                if not frames:
                    return done
                frames[-1][3].append(done)

    def reference(self, atom: str) -> Term:
        if not is_name(atom) or atom not in self.names:
            raise TextError(f"a term was expected, got {_shorten(atom)}")
        return self.names[atom]

    def head(self, expression: list[Any]) -> tuple[Operator, dict[str, Any], list[Any]]:
        """Operator, attribute values and the operands still to be read, the last one first."""
        if not expression or not isinstance(expression[0], str):
            raise TextError(f"a term starts with its operator, got {_shorten(expression)}")
        name, *words = expression
        operator = _BY_SPELLING.get("constant" if name == "scalar" else name)
        if operator is None:
            known = ", ".join(_BY_SPELLING)
            raise TextError(f"no operator is called {_shorten(name)}; there are {known}")
        options = {a.name: a for a in operator.attributes if a.optional}
        values: dict[str, Any] = {}
        plain: list[Any] = []
        words = words[::-1]
        while words:
            word = words.pop()
            if isinstance(word, str) and not isinstance(word, Quoted) and word.startswith(":"):
                option = options.get(word[1:])
                if option is None or not words:
                    raise TextError(
                        f"{name}: option {_shorten(word)} is unknown or lacks its value"
                    )
                if option.name in values:
                    raise TextError(f"{name}: option {word} is given twice")
                values[option.name] = read_value(option, words.pop(), name)
            else:
                plain.append(word)
        required = [a for a in operator.attributes if not a.optional]
        if name == "scalar":
            required = required[:1]
            values["shape"] = ()
        elif operator.name == "tensor" and len(plain) == 1:
            required = required[:1]
        if len(plain) < len(required):
            missing = required[len(plain)].name
            raise TextError(f"{name}: {missing} is missing")
        for attribute, word in zip(required, plain, strict=False):
            values[attribute.name] = read_value(attribute, word, name)
        return operator, values, plain[len(required) :][::-1]

    def make(self, operator: Operator, values: dict[str, Any], children: list[Term]) -> Term:
        if operator.name == "tensor":
            known = self.inputs.get(values["name"])
            if "shape" not in values:
                if known is None:
                    raise TextError(
                        f"tensor {values['name']!r} spells no shape and inputs= gives none"
                    )
                values = {"shape": known.shape, "dtype": known.dtype} | values
        if operator.name in ("tensor", "constant"):
            values.setdefault("dtype", self.dtype)
        return make(operator.name, children, **values)


def is_name(atom: object) -> bool:
    """Whether an atom is a name that ``let`` can bind."""
    return isinstance(atom, str) and not isinstance(atom, Quoted) and atom.startswith("%")


def _input_type(given: Input, dtype: str) -> AccessType:
    if isinstance(given, AccessType):
        return given
    if isinstance(given, np.ndarray):
        return AccessType(given.shape, (), given.dtype.name)
    try:
        if len(given) == 2 and isinstance(given[0], Sequence):
            return AccessType(tuple(given[0]), (), given[1])  # type: ignore[arg-type]
        return AccessType(tuple(given), (), dtype)  # type: ignore[arg-type]
    except TypeError:
        raise TextError(
            f"inputs= takes a shape, (shape, dtype), type or array for each name, got {given!r}"
        ) from None


def read_value(attribute: Attribute, word: Any, operator: str) -> Any:
    """The value that an atom or list spells; ``operator`` is for the message.

    :raises TextError: it spells none that the attribute may have.
    """
    what = f"{operator}: {attribute.name} must be {attribute.kind.value}"
    try:
        match attribute.kind:
            case Kind.INTS:
                if not isinstance(word, list):
                    raise TextError(f"{what} such as (1 2), got {_shorten(word)}")
                return tuple(_integer(each) for each in word)
            case Kind.INT:
                return _integer(word)
            case Kind.NUMBER | Kind.FILL:
                if word in ("zero", "lowest") and attribute.kind is Kind.FILL:
                    return str(word)
                return _number(word)
            case _:
                if not isinstance(word, str):
                    raise TextError(f"{what}, got {_shorten(word)}")
                return str(word)
    except TextError:
        raise
    except ValueError:
        raise TextError(f"{what}, got {_shorten(word)}") from None


def _integer(word: Any) -> int:
    if not _is_bare(word) or not _INTEGER.fullmatch(word):
        raise ValueError
    return int(word)


def _number(word: Any) -> int | float | bool:
    if not _is_bare(word) or "_" in word:
        raise ValueError
    if word in ("true", "false"):
        return bool(word == "true")
    return int(word) if _INTEGER.fullmatch(word) else float(word)


def _is_bare(word: object) -> bool:
    return isinstance(word, str) and not isinstance(word, Quoted)


def _shorten(expression: Any, limit: int = 60) -> str:
    """The beginning of an expression as text, for a message; it may be nested without bound."""
    shown = ""
    stack = [expression]
    while stack and len(shown) < limit:
        top = stack.pop()
        if isinstance(top, list):
            stack += [")", *reversed(top[:limit]), "("]
        else:
            space = " " if shown and shown[-1] != "(" and top != ")" else ""
            shown += space + (f'"{top[:limit]}"' if isinstance(top, Quoted) else top[:limit])
    return repr(shown if len(shown) < limit and not stack else shown[: limit - 3] + "...")
