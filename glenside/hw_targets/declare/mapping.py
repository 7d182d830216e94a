"""The rewrite that finds a unit: one case of egglog for each form of its term."""

from __future__ import annotations

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

from glenside.hw_targets.declare.forms import Form, Unchanged
from glenside.hw_targets.declare.sizes import HOLDS, Condition, Size
from glenside.hw_targets.declare.template import Node, Operand, OperandType, Template
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import Kind
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


def cases(
    declared: Declared, forms: Sequence[Form], splits: Mapping[Template, int]
) -> Iterator[RewriteOrRule]:
    """One case for each form, and for each kind of dtype where a default has to be spelled.

    :param splits: how many outer axes each part of the forms has.
    """
    for form in forms:
        allowed = declared.dtypes
        if all(declared.operands[name].dtype for name in form.absent):
            yield _Case(declared, form, splits).rule(allowed)
            continue
        among = NUMBERS if allowed is None else allowed
        floats = [d for d in among if d in FLOATS]
        for kind in (floats, [d for d in among if d not in FLOATS]):
            if kind:
                yield _Case(declared, form, splits).rule(kind)


class _Case:
    def __init__(self, declared: Declared, form: Form, splits: Mapping[Template, int]) -> None:
        self.declared, self.form, self.splits = declared, form, splits
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
        return self.finish(whole, spelled=dtypes or ())

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
                number = value if isinstance(value, str) else repr(_number(node, value))
                values.append(String(number))
            else:
                values.append(String(value))
        if node.op == "constant":
            return Access.constant(*values)
        first, *others = below
        made: Access = getattr(first, node.op)(*others, *values)
        return made

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

    def finish(self, whole: Access, spelled: Sequence[str]) -> RewriteOrRule:
        arguments = [self.argument(n, d, spelled) for n, d in self.declared.operands.items()]
        parameters = ints(*map(self.size, self.declared.parameters))
        call = Access.call(Vec[Access](*arguments), self.declared.unit, parameters)
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

    def argument(self, name: str, declared: OperandType, spelled: Sequence[str]) -> Access:
        if name not in self.form.absent:
            return self.undo(var(f"x_{name}", Access), self.form.leaves.get(name, ()))
        dtype = self.dtype if declared.dtype is None else String(declared.dtype)
        kind = declared.dtype or next(iter(spelled), "float32")
        value = repr(check_number(self.declared.defaults[name], kind, name))
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


def _number(node: Node, value: float) -> int | float | bool:
    return check_number(value, node["dtype"], node.op) if node.op == "constant" else value


def _compare(condition: Condition, left: Any, right: Any) -> Fact:
    if condition.comparison == "==":
        return eq(left).to(right)
    if condition.comparison == "!=":
        return ne(left).to(right)
    return HOLDS[condition.comparison](left, right)
