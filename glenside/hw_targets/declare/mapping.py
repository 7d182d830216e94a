"""The rewrite that finds a unit: one case of egglog for each form of its term."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from egglog import (
    Fact,
    RewriteOrRule,
    String,
    Vec,
    eq,
    i64,
    join,
    ne,
    rule,
    union,
    var,
)

from glenside.deadline import check_time
from glenside.errors import ShapeError
from glenside.hw_targets.declare.forms import Form, Unchanged
from glenside.hw_targets.declare.sizes import HOLDS, Condition, Size
from glenside.hw_targets.declare.template import Node, Operand, OperandType, Template, nodes
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import Kind, fill_value
from glenside.language.shape import FLOATS, NUMBERS, check_number
from glenside.rewrites.engine.types import typed
from glenside.rewrites.vocabulary import NO_DTYPE, Access, drop, ints, lengths, permute, take


@dataclass(frozen=True)
class Declared:
    """What of a declaration the rewrite follows from."""

    unit: str
    operands: Mapping[str, OperandType]
    parameters: Sequence[str]
    conditions: Sequence[Condition]
    dtypes: Sequence[str] | None
    defaults: Mapping[str, float]
    batch: int = 0
    """Shared axes in front of all operands: there is a call for each position on them."""


def cases(
    declared: Declared, forms: Sequence[Form], splits: Mapping[Template, int]
) -> Iterator[RewriteOrRule]:
    """One case for each form, and for each group of dtypes that spell the numbers in it alike.

    :param splits: how many outer axes each part of the forms has.
    """
    for form in forms:
        among = NUMBERS if declared.dtypes is None else declared.dtypes
        check_time()
        groups: dict[tuple[str, ...], list[str]] = {}
        for dtype in among:
            with contextlib.suppress(ShapeError):  # It has no such number.
                groups.setdefault(_numbers(declared, form, dtype), []).append(dtype)
        if set(groups) == {()}:
            yield _Case(declared, form, splits, "").rule(declared.dtypes)
            continue
        for alike in groups.values():
            check_time()
            yield _Case(declared, form, splits, alike[0]).rule(alike)


def _numbers(declared: Declared, form: Form, dtype: str) -> tuple[str, ...]:
    """How the numbers of a form are spelled that depend on the dtype of the operands.

    :raises ShapeError: one is no number of that dtype.
    """
    found = [
        _default(declared, name, dtype)
        for name in sorted(form.absent)
        if declared.operands[name].dtype is None
    ]
    pads = [each for each in nodes(form.template) if isinstance(each, Node) and each.op == "pad"]
    found += [
        repr(fill_value(each["value"], dtype))
        for each in pads
        if not isinstance(each["value"], str) and _dtype(declared, each.children[0]) is None
    ]
    return tuple(found)


def _default(declared: Declared, name: str, dtype: str) -> str:
    """How the default of an operand is spelled; 0.0 is a number of integers as well."""
    value = declared.defaults[name]
    whole = isinstance(value, int) or float(value).is_integer()
    if dtype not in FLOATS and whole:
        value = int(value)
    return repr(check_number(value, dtype, name))


def _dtype(declared: Declared, part: Template) -> str | None:
    """The dtype of a part of the term; None for that of operands without one of their own."""
    while isinstance(part, Node):
        if part.op in ("cast", "constant"):
            return str(part["dtype"])
        if part.op == "compute":
            known = FUNCTIONS[part["function"]].result or part["accumulate"]
            if known is not None:
                return str(known)
        part = part.children[1 if part.op == "where" else 0]
    return declared.operands[part.name].dtype


class _Case:
    def __init__(
        self, declared: Declared, form: Form, splits: Mapping[Template, int], among: str
    ) -> None:
        """:param among: a dtype that spells numbers as those do which the case is for."""
        self.declared, self.form, self.splits, self.among = declared, form, splits, among
        self.facts: list[Fact] = []
        self.dtype = var("dtype", String)
        self.fresh = 0
        self.classes: dict[int, Access] = {}
        """Variables for the parts of the term whose type is asked for."""
        self.wanted = {id(each.below) for each in form.conditions if each.below is not None}

    def size(self, name: str) -> i64:
        return var(f"size_{name}", i64)

    def value(self, size: Size) -> Any:
        names = {name: self.size(name) for name in size.names}
        value = size.of(names, divide=lambda a, b: a / b)
        return i64(value) if isinstance(value, int) else value

    def new(self, kind: Any) -> Any:
        self.fresh += 1
        return var(f"v{self.fresh}", kind)

    # --- the query ------------------------------------------------------------------------------

    def rule(self, dtypes: Sequence[str] | None) -> RewriteOrRule:
        whole = var("whole", Access)
        self.facts.append(eq(whole).to(self.match(self.form.template)))
        for name, declared in self.declared.operands.items():
            if name not in self.form.absent:
                self.check_operand(name, declared)
        for unchanged in self.form.conditions:
            self.check_unchanged(unchanged)
        for condition in self.declared.conditions:
            self.facts.append(
                _compare(condition, *map(self.value, (condition.left, condition.right)))
            )
        polymorphic = any(each.dtype is None for each in self.declared.operands.values())
        if dtypes is not None and polymorphic:
            # Among these: taking it out of the list changes the list.
            listed = String(f" {' '.join(dtypes)} ")
            self.facts.append(ne(listed.replace(join(" ", self.dtype, " "), " ")).to(listed))
        return self.finish(whole)

    def match(self, template: Template) -> Access:
        """The pattern for a part of the term."""
        if isinstance(template, Operand):
            found = var(f"x_{template.name}", Access)
        else:
            below = [self.match(child) for child in template.children]
            found = self.node(template, below)
        if id(template) in self.wanted:
            return self.bound(template, found)
        return found

    def bound(self, template: Template, pattern: Access) -> Access:
        known = self.classes.get(id(template))
        if known is None:
            known = self.classes[id(template)] = self.new(Access)
            self.facts.append(eq(known).to(pattern))
        return known

    def node(self, node: Node, below: list[Access]) -> Access:
        values = []
        for attribute, value in zip(node.operator.attributes, node.values, strict=True):
            if attribute.kind is Kind.INTS:
                if value is None:  # The dilation of windows.
                    value = (Size.parse("1"),) * len(node["shape"])
                values.append(self.many(value))
            elif attribute.kind is Kind.INT:
                values.append(self.one(value))
            elif attribute.name == "accumulate":
                values.append(self.accumulate(node, below))
            elif attribute.kind in (Kind.NUMBER, Kind.FILL):
                values.append(String(self.number(node, value)))
            else:
                values.append(String(value))
        if node.op == "constant":
            return Access.constant(*values)
        first, *others = below
        made: Access = getattr(first, node.op)(*others, *values)
        return made

    def number(self, node: Node, value: str | float) -> str:
        if isinstance(value, str):
            return value
        if node.op == "constant":
            return repr(check_number(value, node["dtype"], node.op))
        return repr(fill_value(value, _dtype(self.declared, node.children[0]) or self.among))

    def one(self, size: Size) -> Any:
        if size.is_name or size.is_number:
            return self.value(size)
        found = self.new(i64)
        self.facts.append(eq(found).to(self.value(size)))
        return found

    def many(self, sizes: Sequence[Size]) -> Any:
        if all(size.is_number for size in sizes):
            return ints(*map(self.value, sizes))
        found = self.new(Vec[i64])
        self.lengths_are(found, sizes)
        return found

    def lengths_are(self, found: Vec[i64], sizes: Sequence[Size]) -> None:
        """States the entries of a list, which binds the variables that stand by themselves."""
        self.facts.append(eq(found.length()).to(i64(len(sizes))))
        for i, size in enumerate(sizes):
            self.facts.append(eq(self.value(size)).to(found[i]))

    def accumulate(self, node: Node, below: list[Access]) -> Any:
        if not FUNCTIONS[node["function"]].accumulates:
            return NO_DTYPE
        if node["accumulate"] is not None:
            return String(node["accumulate"])
        child = self.bound(node.children[0], below[0])
        below[0] = child
        found = self.new(String)
        self.facts.append(eq(found).to(child.dtype))
        return found

    def check_operand(self, name: str, declared: OperandType) -> None:
        x = var(f"x_{name}", Access)
        axes, split = self.form.leaf(name, declared)
        outer, item = self.new(Vec[i64]), self.new(Vec[i64])
        self.facts += [eq(outer).to(x.outer), eq(item).to(x.item)]
        self.lengths_are(outer, axes[:split])
        self.lengths_are(item, axes[split:])
        dtype = self.dtype if declared.dtype is None else String(declared.dtype)
        self.facts.append(eq(dtype).to(x.dtype))

    def check_unchanged(self, unchanged: Unchanged) -> None:
        node = unchanged.node
        if unchanged.below is None:
            for name in ("before", "after", "interior"):
                self.facts.append(eq(self.value(node[name])).to(i64(0)))
            return
        x = self.classes[id(unchanged.below)]
        if node.op == "broadcast":
            self.lengths_are(self.known(lengths(x)), node["shape"])
        else:
            self.lengths_are(self.known(x.outer), node["outer"])
            self.lengths_are(self.known(x.item), node["item"])

    def known(self, list_: Vec[i64]) -> Any:
        found = self.new(Vec[i64])
        self.facts.append(eq(found).to(list_))
        return found

    # --- the call -------------------------------------------------------------------------------

    def finish(self, whole: Access) -> RewriteOrRule:
        arguments = [self.argument(n, d) for n, d in self.declared.operands.items()]
        parameters = ints(*map(self.size, self.declared.parameters))
        call = Access.call(
            Vec[Access](*arguments), self.declared.unit, parameters, self.declared.batch
        )
        axes, split = lengths(whole), self.splits[self.form.template]
        for change in reversed(self.form.root):
            if change.op == "access":
                split = self.splits[change]
            else:
                axes = permute(axes, self.many(change["permutation"]))
        outer, item, dtype = var("outer", Vec[i64]), var("item", Vec[i64]), var("result", String)
        self.facts += [
            eq(outer).to(take(axes, split)),
            eq(item).to(drop(axes, split)),
            eq(dtype).to(whole.dtype),
        ]
        result = self.undo(call, self.form.root)
        return rule(*self.facts).then(*typed(call, outer, item, dtype), union(whole).with_(result))

    def argument(self, name: str, declared: OperandType) -> Access:
        if name not in self.form.absent:
            return self.undo(var(f"x_{name}", Access), self.form.leaves.get(name, ()))
        dtype = self.dtype if declared.dtype is None else String(declared.dtype)
        value = _default(self.declared, name, declared.dtype or self.among)
        shape = ints(*map(self.value, declared.axes))
        leaf = Access.constant(value, shape, dtype)
        return leaf.access(declared.split) if declared.item else leaf

    def undo(self, x: Access, changes: Sequence[Node]) -> Access:
        """``x`` with the layout changes undone, the outermost first."""
        for change in changes:
            if change.op == "access":
                x = x.access(self.splits[change.children[0]])
            else:
                order = [int(at.text) for at in change["permutation"]]
                x = x.transpose(ints(*(order.index(i) for i in range(len(order)))))
        return x


def _compare(condition: Condition, left: Any, right: Any) -> Fact:
    if condition.comparison == "==":
        return eq(left).to(right)
    if condition.comparison == "!=":
        return ne(left).to(right)
    return HOLDS[condition.comparison](left, right)
