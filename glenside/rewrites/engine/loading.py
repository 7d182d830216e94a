"""Puts terms into an e-graph in bulk.

Handing egglog one command for each term costs more than all rewriting. So the terms travel as
tables, one file for each operator, and rules build the terms from them, operands first. These
rules are made from the declarations of the operators. A program of 2,000 terms takes about 10 ms,
and the depth of a program costs a step each of about 10 microseconds.

Texts and lists stand in tables of their own and are referred to by number. A list is a chain of
``push``: number, number of the list without its last entry, last entry.
"""

from __future__ import annotations

import functools
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from egglog import bindings

from glenside.interrupt import in_background
from glenside.language.operators import OPERATORS, Kind, Operator
from glenside.language.shape import AccessType
from glenside.language.term import Term, topological_order
from glenside.rewrites.engine.encoding import SORTS, Encoded, encode, spellings
from glenside.rewrites.engine.types import function_facts

RULESET = "load"
WATCH = "watch"
BIRTH = "birth"
STAMP = "birth_stamp"
WATCH_ANY = "watch_any"
"""Begin the names of the tables of nodes to look for: over given operands, over any."""
FACTS = {
    "root": "{}",
    "item_kept": "String String",
    "dtype_from": "String String",
    "result_dtype": "String String",
}
"""Relations filled beside the terms: the outputs of the program, and what functions do."""

FEW = 40
"""Tables up to this long are sent as commands: writing a file costs more."""

Row = Sequence[int | str]
Rows = Mapping[str, Sequence[Row]]
"""What stands in the tables, by their names."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:(){}\[\],=+*@#-]+")
_SPAN = bindings.RustSpan("glenside", 0, 0)


def constructor(operator: Operator) -> str:
    """The egglog name of an operator."""
    return f"Access.{operator.name}"


def declarations(access: str, operands: str, declared: str) -> str:
    """Program text: the tables and the rules that build terms from them.

    :param access: the name of the sort of accesses; ``operands``: of lists of them.
    :param declared: the program so far; operators it does not mention are declared here.
    """
    return "\n".join(_declarations(access, operands, declared))


def _declarations(access: str, operands: str, declared: str) -> Iterator[str]:
    lists = {
        "ints": ("Vec[i64]", "(Vec i64)", "i64"),
        "operands": (operands, f"(Vec {access})", access),
    }
    for sort, definition, _ in lists.values():
        if f"(sort {sort} " not in declared:
            yield f"(sort {sort} {definition})"
    for operator in OPERATORS.values():
        if f"(constructor {constructor(operator)} " not in declared:
            inputs = _inputs(operator, access, operands)
            yield f"(constructor {constructor(operator)} ({' '.join(inputs)}) {access})"
    for relation, columns_of in FACTS.items():
        if f"(relation {relation} " not in declared:
            yield f"(relation {relation} ({columns_of.format(access)}))"

    yield f"(ruleset {RULESET})"
    yield f"(function load_node (i64) {access} :no-merge)"
    yield "(relation load_text (i64 String))"
    yield "(relation load_type (i64 i64 i64 i64))"
    yield "(relation load_root (i64))"
    # A placeholder: an access of which only the type is known.
    yield f"(constructor load_placeholder (i64) {access})"
    yield "(relation load_place (i64))"
    yield _rule("(load_place n)", "(set (load_node n) (load_placeholder n))")
    yield _rule("(load_root n) (= x (load_node n))", "(root x)")
    for name, (sort, _, entry) in lists.items():
        yield f"(function load_{name} (i64) {sort} :no-merge)"
        yield f"(set (load_{name} 0) (vec-empty))"
        yield f"(relation load_{name}_push (i64 i64 i64))"
        yield _rule(*_pushing(name, "entry" if entry == "i64" else "(load_node entry)"))
    yield _rule(
        "(load_type n o i d) (= x (load_node n)) (= vo (load_ints o)) (= vi (load_ints i)) "
        "(load_text d dt)",
        "(set (Access.outer x) vo) (set (Access.item x) vi) (set (Access.dtype x) dt)",
    )
    for operator in OPERATORS.values():
        relation, facts, node = _described("load", operator, access, operands)
        yield relation
        yield _rule(facts, f"(set (load_node n) {node})")


def _pushing(name: str, value: str) -> tuple[str, str]:
    """How a list is made from its parts."""
    return (
        f"(load_{name}_push number rest entry) (= v (load_{name} rest)) (= e {value})",
        f"(set (load_{name} number) (vec-push v e))",
    )


def watch_declarations(access: str, operands: str) -> str:
    """Program text: tables like those that load terms, and rules that look for the nodes in them.

    A node that is there by now gets its class in ``load_node``, or, where its operands do not
    matter, stands in ``watched``; none is made.
    """
    # A list of operands is made when the last of them is there.
    pushing = _pushing("operands", "(load_node entry)")
    lines = [f"(ruleset {WATCH})", "(relation watched (i64))", _rule(*pushing, WATCH)]
    for operator in OPERATORS.values():
        relation, facts, node = _described(WATCH, operator, access, operands)
        lines.append(relation)
        lines.append(_rule(f"{facts} (= x {node})", "(set (load_node n) x)", WATCH))
        relation, facts, node = _described(WATCH_ANY, operator, access, operands)
        lines.append(relation)
        lines.append(_rule(f"{facts} (= x {node})", "(watched n)", WATCH))
    return "\n".join(lines)


def birth_declarations(access: str, operands: str) -> str:
    """Program text: rules that note when the nodes of a later state of the e-graph come to be.

    ``birth_class`` relates the number of a class of that state to all classes that become part of
    it. A node of it is there once one over any of these is; it is a member once that one's class is
    the one in which the first node of its class was found. Both are noted with the number that
    ``birth_now`` has, each once: a row is taken out of what was found when it is stamped, so that
    a step costs what it brings. Where terms that were loaded end up is given, or every step of a
    deep program would have to be gone again.
    """
    lines = [
        f"(ruleset {BIRTH})",
        f"(ruleset {STAMP})",
        f"(relation birth_class (i64 {access}))",
        f"(relation birth_list (i64 {operands}))",
        "(birth_list 0 (vec-empty))",
        "(relation birth_list_push (i64 i64 i64))",
        "(relation birth_loaded (i64 i64))",
        "(relation birth_leader (i64 i64))",
        f"(relation birth_member (i64 i64 {access}))",
        f"(function birth_first (i64) {access} :merge old)",
        "(function birth_now () i64 :merge new)",
        _rule(
            "(birth_list_push number rest entry) (birth_list rest v) (birth_class entry e)",
            "(birth_list number (vec-push v e))",
            BIRTH,
        ),
        _rule("(birth_loaded n owner) (= x (load_node n))", "(birth_class owner x)", BIRTH),
        _rule("(birth_leader n owner) (= x (load_node n))", "(set (birth_first owner) x)", BIRTH),
        _rule(
            "(birth_member n owner x)",
            "(birth_class owner x) (set (birth_first owner) x) (birth_found n)",
            BIRTH,
        ),
        _rule("(birth_member n owner x) (= x (birth_first owner))", "(birth_joins n)", BIRTH),
    ]
    for found, noted in (("birth_found", "birth_of"), ("birth_joins", "birth_joined")):
        lines.insert(2, f"(relation {found} (i64))")
        lines.insert(2, f"(function {noted} (i64) i64 :merge old)")
        stamp = f"(set ({noted} n) t) (delete ({found} n))"
        lines.append(_rule(f"({found} n) (= t (birth_now))", stamp, STAMP))
    for operator in OPERATORS.values():
        relation, facts, node = _described(BIRTH, operator, access, operands)
        lines.append(relation)
        query = f"{facts} (birth_owner n owner) (= x {node})"
        lines.append(_rule(query, "(birth_member n owner x)", BIRTH))
    lines.insert(2, "(relation birth_owner (i64 i64))")
    return "\n".join(lines)


def _described(prefix: str, operator: Operator, access: str, operands: str) -> tuple[str, str, str]:
    """The table of an operator's nodes, the query that reads a row, and the node it stands for."""
    columns, facts, arguments = ["n"], [], []
    for i, sort in enumerate(_inputs(operator, access, operands)):
        arguments.append(f"v{i}")
        if prefix == WATCH_ANY and sort in (access, operands):
            continue
        columns.append(f"c{i}")
        if prefix == BIRTH and sort in (access, operands):
            facts.append(f"(birth_{'class' if sort == access else 'list'} c{i} v{i})")
        elif sort == access:
            facts.append(f"(= v{i} (load_node c{i}))")
        elif sort == "String":
            facts.append(f"(load_text c{i} v{i})")
        elif sort == "i64":
            arguments[-1] = f"c{i}"
        else:
            facts.append(f"(= v{i} (load_{'ints' if sort == 'Vec[i64]' else 'operands'} c{i}))")
    table = f"{prefix}_{operator.name}"
    relation = f"(relation {table} ({' '.join(['i64'] * len(columns))}))"
    query = f"({table} {' '.join(columns)}) {' '.join(facts)}"
    return relation, query, f"({constructor(operator)} {' '.join(arguments)})"


def _inputs(operator: Operator, access: str, operands: str) -> list[str]:
    children = [operands] if operator.arity is None else [access] * operator.arity
    return children + [SORTS[a.kind] for a in operator.attributes]


def _rule(query: str, actions: str, ruleset: str = RULESET) -> str:
    return f"(rule ({query}) ({actions}) :ruleset {ruleset})"


class Tables:
    """The rows to load; ``numbers`` gives each term its number."""

    def __init__(self, roots: Sequence[Term] = (), state_types: bool = True) -> None:
        self._rows: dict[str, list[Row]] = {}
        self._texts: dict[str, int] = {}
        self._lists: dict[tuple[str, tuple[int, ...]], int] = {}
        self._state_types = state_types
        self._count = 0
        self.numbers: dict[Term, int] = {}
        for term in topological_order(roots):
            children = [self.numbers[child] for child in term.children]
            self.numbers[term] = self.add_term(term, children)
        for root in roots:
            self.add_root(self.numbers[root])

    def add_term(self, term: Term, operands: Sequence[int]) -> int:
        """The number of a term over others, by their numbers."""
        number = self._next()
        self._node("load", number, term, tuple(operands))
        self._state(number, term.type)
        return number

    def add_placeholder(self, of: AccessType) -> int:
        """The number of an access of which nothing but the type is known."""
        number = self._next()
        self._add("load_place", number)
        self._state(number, of)
        return number

    def add_root(self, number: int) -> None:
        """Says that this is an output of the program."""
        self._add("load_root", number)

    def _next(self) -> int:
        self._count += 1
        return self._count - 1

    def _state(self, number: int, of: AccessType) -> None:
        if self._state_types:
            outer, item = self._list("load_ints", of.outer), self._list("load_ints", of.item)
            self._add("load_type", number, outer, item, self._text(of.dtype))

    def watch(self, number: int, term: Term, operands: tuple[int, ...] | None) -> None:
        """Adds a node to look for: the operator and attributes of ``term`` over those operands, or
        over any."""
        self._node(WATCH if operands is not None else WATCH_ANY, number, term, operands or ())

    def ends_up(self, term: Term, owner: int, first: bool) -> None:
        """Says which class of a later state a loaded term is in, and whether as the first."""
        self._add("birth_loaded", self.numbers[term], owner)
        if first:
            self._add("birth_leader", self.numbers[term], owner)

    def expect(self, number: int, term: Term, owner: int, operands: tuple[int, ...]) -> None:
        """Adds a node of a later state, over classes of that state, by their numbers there."""
        self._add("birth_owner", number, owner)
        for encoded in sorted(spellings(term), key=repr):
            self._encoded(BIRTH, number, term, operands, encoded)

    def _node(self, prefix: str, number: int, term: Term, operands: tuple[int, ...]) -> None:
        self._encoded(prefix, number, term, operands, encode(term))

    def _encoded(
        self,
        prefix: str,
        number: int,
        term: Term,
        operands: tuple[int, ...],
        encoded: tuple[Encoded, ...],
    ) -> None:
        if term.operator.arity is None and prefix != WATCH_ANY:
            table = "birth_list" if prefix == BIRTH else "load_operands"
            operands = (self._list(table, operands),)
        attributes = (
            self._attribute(a.kind, v)
            for a, v in zip(term.operator.attributes, encoded, strict=True)
        )
        self._add(f"{prefix}_{term.op}", number, *operands, *attributes)

    def _add(self, table: str, *row: int) -> None:
        self._rows.setdefault(table, []).append(row)

    def _attribute(self, kind: Kind, value: Any) -> int:
        if kind is Kind.INTS:
            return self._list("load_ints", value)
        return int(value) if kind is Kind.INT else self._text(value)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _list(self, table: str, entries: tuple[int, ...]) -> int:
        number = 0
        for length in range(1, len(entries) + 1):
            key = table, entries[:length]
            known = self._lists.get(key)
            if known is None:
                known = self._lists[key] = len(self._lists) + 1
                self._add(f"{table}_push", known, number, entries[length - 1])
            number = known
        return number

    def load(self, egraph: bindings.EGraph) -> Rows:
        """Puts everything into ``egraph``, whose program has the :func:`declarations`.

        :returns: what it put there, with which :func:`put` does it again.
        """
        texts: list[Row] = [(number, text) for text, number in self._texts.items()]
        rows = {**self._rows, "load_text": texts}
        self._rows.clear()
        put(egraph, rows)
        return rows


def put(egraph: bindings.EGraph, rows: Rows) -> None:
    """Inserts rows into the tables to load from, and builds the terms."""
    _insert(egraph, rows)
    in_background(egraph.parse_and_run_program, f"(run-schedule (saturate (run {RULESET})))")


def load_functions(egraph: bindings.EGraph) -> None:
    """Tells the type rules about the functions; once, when everything is declared."""
    tables: dict[str, list[Row]] = {}
    for relation, function, value in function_facts():
        tables.setdefault(relation, []).append((function, value))
    _insert(egraph, tables)


def _insert(egraph: bindings.EGraph, tables: Rows) -> None:
    commands: list[Any] = []
    for name, rows in tables.items():
        filed = [row for row in rows if _fits_file(row)] if len(rows) > FEW else []
        if filed:
            file = Path(_folder(os.getpid(), threading.get_ident()).name, name)
            lines = ("\t".join(map(str, row)) + "\n" for row in filed)
            file.write_text("".join(lines), encoding="ascii")
            commands.append(bindings.Input(_SPAN, name, str(file)))
        commands.extend(_fact(name, row) for row in rows if not filed or not _fits_file(row))
    in_background(egraph.run_program, *commands)


def _fits_file(row: Row) -> bool:
    # The files have no quotes.
    return all(isinstance(each, int) or _PLAIN.fullmatch(each) for each in row)


def _fact(table: str, row: Row) -> bindings.ActionCommand:
    literals = [bindings.Int(x) if isinstance(x, int) else bindings.String(x) for x in row]
    fact = bindings.Call(_SPAN, table, [bindings.Lit(_SPAN, each) for each in literals])
    return bindings.ActionCommand(bindings.Expr_(_SPAN, fact))


@functools.cache
def _folder(process: int, thread: int) -> tempfile.TemporaryDirectory[str]:
    """Where the files of this thread stand, one after the other; removed when Python ends."""
    return tempfile.TemporaryDirectory(prefix="glenside-", ignore_cleanup_errors=True)
