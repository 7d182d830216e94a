"""That a program treats the rows of its inputs one by one, and the same program for more of them.

An axis of the inputs, ``n`` long, is followed through the terms as a *digit*: an axis that holds it
counts ``(before * n + row) * inner + behind``. Where every operator does to each row what it does
to any other, the program is one function applied to each row, and with another number in place of
``n`` it is the same function applied to as many rows. Two programs that are equal for one number of
rows, one or more, therefore are for every number, if both are of that kind: nothing has to be
explored again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.errors import ShapeError
from glenside.language import Term, builders, topological_order
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import AccessType, Shape
from glenside.language.term import make, map_terms, rebuild
from glenside.language.units import find_unit


class NotByRows(Exception):
    """A program does not treat rows one by one, as far as can be told; says where."""


@dataclass(frozen=True)
class Digit:
    """Where the number of a row stands: in which axis, and how many places of that each row has."""

    axis: int
    inner: int = 1


@dataclass(frozen=True)
class Rows:
    """A program by rows: its terms for another number of them, and where each output has them.

    An output without a digit is the same whatever the rows are.
    """

    terms: tuple[Term, ...]
    digits: tuple[Digit | None, ...]


def by_rows(roots: Sequence[Term], axes: Mapping[str, int], old: int, new: int) -> Rows:
    """A program for ``old`` rows as that for ``new``.

    :param axes: the axis of rows of each input that has one, by the input's name.
    :raises NotByRows: some operator mixes rows, or is not known not to.
    """
    if old < 1:
        raise NotByRows("nothing is known of a program for no rows")
    walk = _Walk({name: Digit(axis) for name, axis in axes.items()}, old, new)
    try:
        done = [walk.of(root) for root in roots]
    except ShapeError as problem:  # What was built into the program fits the old number alone.
        raise NotByRows(str(problem)) from problem
    return Rows(tuple(term for term, _ in done), tuple(digit for _, digit in done))


def plain(roots: Sequence[Term]) -> list[Term]:
    """The same terms without what does nothing, which front ends write for some lengths only."""
    new = map_terms(roots, lambda term, children: _shortest(rebuild(term, children)))
    return [new[root] for root in roots]


def _shortest(term: Term) -> Term:
    idle = term.op in ("broadcast", "reshape", "flatten", "access")
    return term.children[0] if idle and term.type == term.children[0].type else term


Placed = tuple[Term, Digit | None]


class _Walk:
    """Terms for the new number of rows, bottom-up."""

    def __init__(self, inputs: Mapping[str, Digit], old: int, new: int) -> None:
        self._inputs, self._old, self._new = inputs, old, new
        self._done: dict[Term, Placed] = {}
        self._lifted: dict[tuple[Term, Digit], Term] = {}

    def of(self, root: Term) -> Placed:
        """A term for the new number, and where it has the row."""
        for term in topological_order([root]):
            if term not in self._done:
                self._done[term] = self._step(term)
        return self._done[root]

    def _step(self, term: Term) -> Placed:
        if term.op == "tensor":
            digit = self._inputs.get(term["name"])
            return (term, None) if digit is None else self._leaf(term, digit)
        operands = [self._done[child] for child in term.children]
        if all(digit is None for _, digit in operands):
            return term, None
        rule = _RULES.get(term.op)
        if rule is None:
            raise NotByRows(f"{term.operator.spelling} may mix rows")
        return rule(self, term, operands)

    def _leaf(self, term: Term, digit: Digit) -> Placed:
        return make(term.op, **{**term.attributes, "shape": self.resized(term.shape, digit)}), digit

    def resized(self, shape: Shape, digit: Digit) -> Shape:
        """A shape for the new number of rows."""
        length, axis = shape[digit.axis], digit.axis
        if length % (self._old * digit.inner):
            raise NotByRows(f"axis {axis} of {shape} does not hold {self._old} rows")
        return (*shape[:axis], length // self._old * self._new, *shape[axis + 1 :])

    def lifted(self, root: Term, wanted: Digit) -> Term:
        """What is the same for all rows, where ``wanted`` is to hold their number.

        It is repeated along that axis: followed down to where the repetition begins.
        """
        stack = [(root, wanted)]
        while stack:
            term, digit = stack[-1]
            made = self._lifted.get((term, digit)) or self._repeated(term, digit)
            if made is None:
                if term.op not in _BACK:
                    raise NotByRows(f"{term.operator.spelling} differs from row to row")
                needs = list(zip(term.children, _BACK[term.op](self, term, digit), strict=True))
                missing = [
                    (child, need)
                    for child, need in needs
                    if need is not None and (child, need) not in self._lifted
                ]
                if missing:
                    stack += missing
                    continue
                made, found = _RULES[term.op](
                    self,
                    term,
                    [(c if need is None else self._lifted[c, need], need) for c, need in needs],
                )
                if found != digit:
                    raise NotByRows(f"{term.operator.spelling} has its rows elsewhere")
            self._lifted[term, digit] = made
            stack.pop()
        return self._lifted[root, wanted]

    def _repeated(self, term: Term, digit: Digit) -> Term | None:
        """What is made by repetition along the very axis; None for what is not."""
        if term.op == "constant":
            return self._leaf(term, digit)[0]
        if term.shape[digit.axis] == 1 and self._old == 1:
            return builders.broadcast(term, self.resized(term.shape, digit))
        if term.op == "broadcast" and term.children[0].shape[digit.axis] == 1:
            return builders.broadcast(term.children[0], self.resized(term.shape, digit))
        return None

    def alike(self, term: Term, operands: Sequence[Placed]) -> tuple[list[Term], Digit]:
        """Operands that have the row in one place; those that have none are repeated for each."""
        digit = next(each for _, each in operands if each is not None)
        made = []
        for (new, found), old in zip(operands, term.children, strict=True):
            if found is not None and found != digit:
                raise NotByRows(f"{term.operator.spelling} of rows at different places")
            made.append(self.lifted(old, digit) if found is None else new)
        return made, digit

    @property
    def numbers(self) -> tuple[int, int]:
        """Rows there were, and rows there are to be."""
        return self._old, self._new

    def moved(self, old: Shape, new: Shape, digit: Digit) -> Digit:
        """The place of the row where axes ``old`` become ``new`` in row-major order."""
        if 0 in old:
            raise NotByRows("nothing is told by what is empty")
        stride = digit.inner * math.prod(old[digit.axis + 1 :])
        after = math.prod(new)
        for axis, length in enumerate(new):
            behind = after // length
            span = stride * self._old
            if stride % behind == 0 and span <= after and after % span == 0:
                return Digit(axis, stride // behind)
            after = behind
        raise NotByRows(f"reshape of {old} to {new} cuts rows")


# --- one rule an operator ---------------------------------------------------------------------

Rule = Callable[[_Walk, Term, Sequence[Placed]], Placed]
_RULES: dict[str, Rule] = {}
_BACK: dict[str, Callable[[_Walk, Term, Digit], Sequence[Digit | None]]] = {}
"""From the place of the row in a result to those in the operands; None for one that has none."""


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for name in names:
            _RULES[name] = rule
        return rule

    return register


def _only(operands: Sequence[Placed]) -> tuple[Term, Digit]:
    ((made, digit),) = operands
    assert digit is not None
    return made, digit


def _again(term: Term, made: Term, **changed: Any) -> Term:
    """The term over another operand, with attributes changed."""
    return _shortest(make(term.op, [made], **{**term.attributes, **changed}))


@_rule("access", "cast")
def _stays(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    return _again(term, made), digit


_BACK["access"] = _BACK["cast"] = _BACK["broadcast"] = lambda walk, term, digit: [digit]


@_rule("transpose")
def _transpose(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    return _again(term, made), Digit(term["permutation"].index(digit.axis), digit.inner)


_BACK["transpose"] = lambda walk, term, digit: [Digit(term["permutation"][digit.axis], digit.inner)]


@_rule("squeeze")
def _squeeze(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    if digit.axis == term["axis"]:
        raise NotByRows("squeeze of the axis of rows")
    return _again(term, made), Digit(digit.axis - (digit.axis > term["axis"]), digit.inner)


_BACK["squeeze"] = lambda walk, term, digit: [
    Digit(digit.axis + (digit.axis >= term["axis"]), digit.inner)
]


@_rule("unsqueeze")
def _unsqueeze(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    return _again(term, made), Digit(digit.axis + (digit.axis >= term["axis"]), digit.inner)


def _unsqueezed(walk: _Walk, term: Term, digit: Digit) -> list[Digit]:
    if digit.axis == term["axis"]:
        raise NotByRows("unsqueeze makes the axis of rows")
    return [Digit(digit.axis - (digit.axis > term["axis"]), digit.inner)]


_BACK["unsqueeze"] = _unsqueezed


@_rule("slice", "pad")
def _elsewhere(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    _not_along(walk, term, digit)
    return _again(term, made), digit


def _not_along(walk: _Walk, term: Term, digit: Digit) -> list[Digit]:
    if digit.axis == term["axis"]:
        raise NotByRows(f"{term.operator.spelling} along the axis of rows")
    return [digit] * len(term.children)


_BACK["slice"] = _BACK["pad"] = _BACK["concat"] = _not_along


@_rule("broadcast")
def _broadcast(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    shape = term["shape"]
    if term.children[0].shape[digit.axis] != shape[digit.axis]:
        raise NotByRows("broadcast of the axis of rows")
    return _again(term, made, shape=walk.resized(shape, digit)), digit


def _parts(type_: AccessType, digit: Digit) -> tuple[bool, Shape, Digit]:
    """Whether the row is in the outer part, the part that it is in, and where there."""
    if digit.axis < type_.split:
        return True, type_.outer, digit
    return False, type_.item, Digit(digit.axis - type_.split, digit.inner)


def _reshaped(walk: _Walk, before: AccessType, after: AccessType, digit: Digit) -> Digit:
    outer, old, inside = _parts(before, digit)
    found = walk.moved(old, after.outer if outer else after.item, inside)
    return found if outer else Digit(found.axis + after.split, found.inner)


@_rule("reshape", "flatten")
def _reshape(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    found = _reshaped(walk, term.children[0].type, term.type, digit)
    shape = walk.resized(term.shape, found)
    result = make("reshape", [made], outer=shape[: term.type.split], item=shape[term.type.split :])
    if term.op == "flatten":
        flat = make("flatten", [made])
        if flat.type != result.type:
            raise NotByRows("flatten keeps no rows")
        result = flat
    return _shortest(result), found


_BACK["reshape"] = _BACK["flatten"] = lambda walk, term, digit: [
    _reshaped(walk, term.type, term.children[0].type, digit)
]


@_rule("windows")
def _windows(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    if digit.axis >= term.children[0].type.split:
        raise NotByRows("windows over the axis of rows")
    return _again(term, made), digit


def _unwindowed(walk: _Walk, term: Term, digit: Digit) -> list[Digit]:
    if digit.axis >= term.children[0].type.split:
        raise NotByRows("windows make the axis of rows")
    return [digit]


_BACK["windows"] = _unwindowed


@_rule("pair")
def _pair(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = walk.alike(term, operands)
    split = term.children[0].type.split
    return make("pair", made), Digit(digit.axis + (digit.axis >= split), digit.inner)


def _unpaired(walk: _Walk, term: Term, digit: Digit) -> list[Digit]:
    split = term.type.split
    if digit.axis == split:
        raise NotByRows("pair makes the axis of rows")
    return [Digit(digit.axis - (digit.axis > split), digit.inner)] * 2


_BACK["pair"] = _unpaired


@_rule("where")
def _where(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = walk.alike(term, operands)
    return make("where", made), digit


_BACK["where"] = lambda walk, term, digit: [digit] * 3


@_rule("concat")
def _concat(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = walk.alike(term, operands)
    _not_along(walk, term, digit)
    return make("concat", made, **term.attributes), digit


def _product(walk: _Walk, term: Term, operands: Sequence[Placed]) -> tuple[list[Term], Digit]:
    """Operands of a Cartesian product, and where its outer axes have the row."""
    left, right = (child.type for child in term.children)
    shared = term["batch"]
    (a, at), (b, bt) = operands
    for type_, digit in ((left, at), (right, bt)):
        if digit is not None and digit.axis >= type_.split:
            raise NotByRows(f"{term.operator.spelling} of items that hold rows")
    if (at is not None and at.axis < shared) or (bt is not None and bt.axis < shared):
        return walk.alike(term, operands)
    if at is not None and bt is not None:
        raise NotByRows(f"{term.operator.spelling} of rows with rows")
    if at is not None:
        return [a, b], at
    assert bt is not None
    return [a, b], Digit(left.split + bt.axis - shared, bt.inner)


@_rule("cart_prod", "blocked")
def _cart_prod(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _product(walk, term, operands)
    return make(term.op, made, **term.attributes), digit


def _unmultiplied(walk: _Walk, term: Term, digit: Digit) -> list[Digit | None]:
    left, right = (child.type for child in term.children)
    shared = term["batch"]
    if digit.axis < shared:
        return [digit, digit]
    if digit.axis < left.split:
        return [digit, None]
    if digit.axis < left.split + right.split - shared:
        return [None, Digit(digit.axis - left.split + shared, digit.inner)]
    raise NotByRows(f"{term.operator.spelling} of items that hold rows")


_BACK["cart_prod"] = _BACK["blocked"] = _unmultiplied


@_rule("gather")
def _gather(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    (data, at), (indices, chosen) = operands
    axis, more = term["axis"], term.children[1].type.rank - 1
    made = make("gather", [data, indices], axis=axis)
    if at is None:
        assert chosen is not None
        return made, Digit(axis + chosen.axis, chosen.inner)
    if chosen is not None or at.axis == axis:
        raise NotByRows("gather among rows")
    return made, Digit(at.axis + more * (at.axis > axis), at.inner)


@_rule("compute")
def _compute(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    made, digit = _only(operands)
    return _again(term, made), _computed(term, digit)


def _computed(term: Term, digit: Digit) -> Digit:
    inside = digit.axis - term.children[0].type.split
    kind = FUNCTIONS[term["function"]].kind
    if inside < 0 or kind == "map":
        return digit
    if kind == "fold" and inside > 0:
        return Digit(digit.axis - 1, digit.inner)
    raise NotByRows(f"compute {term['function']} over rows")


def _uncomputed(walk: _Walk, term: Term, digit: Digit) -> list[Digit]:
    folds = FUNCTIONS[term["function"]].kind == "fold"
    return [Digit(digit.axis + (folds and digit.axis >= term.type.split), digit.inner)]


_BACK["compute"] = _uncomputed


@_rule("call")
def _call(walk: _Walk, term: Term, operands: Sequence[Placed]) -> Placed:
    """Of a unit, the rows are followed through the term that an invocation computes."""
    batch = term["batch"]
    made = [new for new, _ in operands]
    digits = [digit for _, digit in operands]
    result = make("call", made, **term.attributes)
    if batch:
        if digits[0] is None or len({*digits}) > 1 or digits[0].axis >= batch:
            raise NotByRows(f"a batch of calls of {term['unit']} may mix rows")
        return result, digits[0]
    meaning = functools.partial(find_unit(term["unit"]).meaning, term["parameters"])
    inner = _Walk(
        {f"operand{i}": digit for i, digit in enumerate(digits) if digit is not None},
        *walk.numbers,
    )
    expected, digit = inner.of(meaning(_leaves([child.type for child in term.children])))
    if expected is not meaning(_leaves([each.type for each in made])):
        raise NotByRows(f"{term['unit']} computes something else for other sizes")
    return result, digit


def _leaves(types: Sequence[AccessType]) -> tuple[Term, ...]:
    return tuple(builders.leaf(f"operand{i}", type_) for i, type_ in enumerate(types))
