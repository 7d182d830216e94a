"""What stays in float32 when a program computes in half precision.

A 16-bit float has 8 or 11 bits of precision, and float16 ends at 65,504 and begins at 6e-5. What
networks hold between their layers bears that; what normalisations, softmaxes, distances and losses
form on the way does not: the square of 300 overflows, an epsilon of 1e-5 is no normal number. The
same rules serve a float32 model asked for in half precision and a model whose file is typed so.
They look at what is done with a value, not at the operator the file called it by, so a
normalisation spelled with Pow, ReduceMean and Sqrt is treated like one of one node:

- Sums, means and products of elements (**statistics**) are formed in float32 and stay there while
  they are combined with each other and with parameters. What meets a statistic (``x - mean``,
  ``x / length``) is computed in float32 and rounded after that.
- Squares, other powers and exponentials, and numbers beyond the half's normal range, constants or
  parameters, make what is computed of them float32 (**large** or **small**) until something brings
  it back: a division, a multiplication by a reciprocal or a statistic, a logarithm, a function with
  bounded results.
- Factors and powers that are only summed, differences that are only squared, and exponents are
  computed in float32 too.
- What depends on parameters alone is computed once, in float32, but for the first step of a
  recurrent layer, which is computed like the others.
- Products of matrices take halves and add up in float32. Numbers beyond the range among their
  operands, or exponentials, make them float32 products.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from glenside.frontends.lowering.bounds import (
    LARGEST_EXPONENT,
    Bounds,
    bounds_of,
    magnitude,
    moved_from,
)
from glenside.language import TRANSFORMERS, Model, Term, evaluate, make, map_terms
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import HALVES

Array = np.ndarray[Any, Any]

WIDE = "float32"
"""What is computed in where a half is not enough."""

_MOVES = TRANSFORMERS | {"where"}
_STATISTICS = ("sum", "mean", "prod")
_EVALUATED = 1 << 20
"""Elements up to which what depends on parameters alone is evaluated to see its range."""


class Why(enum.Flag):
    """Why a value is kept in float32 beyond the place where it was computed."""

    STATISTIC = enum.auto()
    """It is a sum, mean or product of elements, or made of such."""
    LARGE = enum.auto()
    """It may be beyond the range, and so may what it is combined with."""
    SMALL = enum.auto()
    """It may be beyond the range until it is combined with a value within it."""
    PRODUCTS = enum.auto()
    """Products of matrices with it stay in float32 too."""
    GIVEN = enum.auto()
    """It comes from an input in float32, of unknown range."""


class Use(enum.Flag):
    """What is done with a value."""

    STATISTIC = enum.auto()
    SQUARE = enum.auto()
    POWER = enum.auto()
    """It is an exponent."""
    FIXED = enum.auto()
    """Something is computed of it that depends on parameters alone."""
    OTHER = enum.auto()
    OUTPUT = enum.auto()
    MANY = enum.auto()
    """More than one of these, or one of them more than once."""


NOTHING = Why(0)
_RANGE = Why.LARGE | Why.SMALL


@dataclass(frozen=True)
class Half:
    """A 16-bit float: its largest number and its smallest normal one."""

    name: str
    most: float
    least: float

    @classmethod
    def named(cls, name: str) -> Half:
        info = ml_dtypes.finfo(name)
        return cls(name, float(info.max), float(info.smallest_normal))

    def range_of(self, largest: float) -> Why:
        """What numbers of which ``largest`` is the largest magnitude ask for."""
        if largest > self.most:
            return Why.LARGE | Why.PRODUCTS
        if 0 < largest < self.least:
            return Why.SMALL | Why.PRODUCTS
        return NOTHING


def widened_halves(model: Model) -> Model:
    """The model with what halves cannot hold in float32, for each 16-bit dtype that it has.

    Inputs, parameters and outputs keep their dtypes.
    """
    for dtype in HALVES:
        if any(term.dtype == dtype for term in model.terms()):
            model = _Rewriting(model, dtype, Half.named(dtype)).result()
    return model


def narrowed(model: Model, precision: str) -> Model:
    """The float32 model in half precision ``precision``, but for what that cannot hold.

    Inputs and outputs keep their dtypes. Parameters are converted unless float32 is needed.
    """
    return _Rewriting(model, WIDE, Half.named(precision)).result()


def in_float32(model: Model) -> Model:
    """The model with all its 16-bit floats as float32, inputs, parameters and outputs too."""

    def change(term: Term, children: tuple[Term, ...]) -> Term:
        attributes = {
            name: WIDE if value in HALVES and name in ("dtype", "accumulate") else value
            for name, value in term.attributes.items()
        }
        if term.op == "cast" and children[0].dtype == attributes["dtype"]:
            return children[0]
        return make(term.op, children, **attributes)

    new = map_terms(model.roots, change)
    return replace(
        model,
        inputs={
            name: replace(of, dtype=WIDE) if of.dtype in HALVES else of
            for name, of in model.inputs.items()
        },
        params={
            name: array.astype(WIDE) if array.dtype.name in HALVES else array
            for name, array in model.params.items()
        },
        outputs={name: new[term] for name, term in model.outputs.items()},
        names={},
    )


class Policy:
    """Which values of dtype ``source`` are computed in float32 (``wide``), and why they stay so.

    ``why`` holds, for each value, why what is computed of it is float32 as well.
    """

    def __init__(self, model: Model, source: str, half: Half) -> None:
        self.model, self.source, self.half = model, source, half
        self.order = model.terms()
        self.wide: set[Term] = set()
        self.why: dict[Term, Why] = {}
        self.fixed = self._fixed()
        self.uses = _uses(self.order, model.roots, self.fixed)
        self.bounds = bounds_of(self.order, model.params)
        self._largest = self._magnitudes()
        self._products: set[Term] = set()
        self._asked = self._asked_for()
        self.unreached = _unreached(model, half.most) if source == WIDE else set()
        while True:
            self._decide()
            more = self._products_of_distances() - self._products
            if not more:
                break
            self._products |= more

    def stays(self, term: Term) -> bool:
        """Whether what is computed of ``term`` is computed in float32."""
        return bool(self.why.get(term, NOTHING))

    # --- what is known beforehand ---------------------------------------------------------------

    def _fixed(self) -> set[Term]:
        """What depends on parameters and constants alone.

        Not a product with weights that something else is multiplied with: it is the first step of a
        layer that was unrolled, from a known state, and is computed like the others.
        """
        fixed: set[Term] = set()
        products = [term for term in self.order if term.op == "cart_prod"]
        others: dict[Term, set[Term]] = {}
        for one, two in (each.children for each in products):
            others.setdefault(one, set()).add(two)
            others.setdefault(two, set()).add(one)
        steps = {
            each
            for each in products
            if any(len(others[c]) > 1 or _is_zero(c) for c in each.children)
        }
        for term in self.order:
            if term in steps:
                continue
            if term.op == "tensor":
                known = term["name"] in self.model.params
            else:
                known = term.op != "host_op" and all(child in fixed for child in term.children)
            if known:
                fixed.add(term)
        return fixed

    def _magnitudes(self) -> dict[Term, float]:
        """The largest finite magnitude of what is fixed, where that is known."""
        largest: dict[Term, float] = {}
        params = self.model.params
        for term in self.order:
            if term in self.fixed and term.dtype == self.source:
                if term.op == "tensor":
                    largest[term] = magnitude(params[term["name"]])
                elif term.op == "constant":
                    largest[term] = magnitude(np.asarray(term["value"], np.float64))
        if self.source != WIDE:
            return largest  # Evaluated in halves they would be what is to be avoided.
        border = [
            term
            for term in self.order
            if term in self.fixed
            and term.op in ("compute", "cast")
            and term.dtype == self.source
            and term.type.size <= _EVALUATED
            and self.uses[term] & ~(Use.FIXED | Use.MANY)
        ]
        values = evaluate(border, params) if border else []
        return largest | {t: magnitude(v) for t, v in zip(border, values, strict=True)}

    def _asked_for(self) -> set[Term]:
        """What is computed in float32 because of what is done with it."""
        return {
            term
            for term in self.order
            if term.op == "compute"
            and term.dtype == self.source
            and term not in self.fixed
            and self._is_asked_for(term["function"], self.uses.get(term, Use(0)) & ~Use.MANY)
        }

    def _is_asked_for(self, function: str, uses: Use) -> bool:
        if Use.OUTPUT in uses:
            return False
        match function:
            case "mul" | "pow" | "exp":
                return uses in (Use.STATISTIC, Use.POWER)
            case "sub":
                return bool(uses & (Use.SQUARE | Use.POWER))
            case "add" | "div":
                return uses == Use.POWER
        return False

    def _products_of_distances(self) -> set[Term]:
        """Products of matrices that are added to sums of squares: ``x x + y y - 2 x y``."""
        found = set()
        for term in self.order:
            if not _is_fold(term, ("add", "sub")) or term not in self.wide:
                continue
            operands = operands_of(term)
            summed = [Why.STATISTIC | Why.LARGE in self.why.get(each, NOTHING) for each in operands]
            if any(summed):
                found |= {
                    product
                    for each in operands
                    if (product := self._product_below(each)) is not None
                }
        return found

    def _product_below(self, term: Term) -> Term | None:
        """The product of matrices that ``term`` is a multiple of."""
        while True:
            term = moved_from(term)
            if term.op != "compute" or term.dtype != self.source:
                return None
            if term["function"] == "dot":
                return term
            if term["function"] == "neg":
                term = term.children[0]
                continue
            rest = [each for each in operands_of(term) if each not in self.fixed]
            if term["function"] not in ("mul", "div") or len(rest) != 1:
                return None
            (term,) = rest

    # --- the decision ---------------------------------------------------------------------------

    def _decide(self) -> None:
        self.wide, self.why = set(), {}
        for term in self.order:
            if term.dtype != self.source:
                continue
            wide, why = self._of(term)
            if wide:
                self.wide.add(term)
            if why:
                self.why[term] = why

    def _of(self, term: Term) -> tuple[bool, Why]:
        if term in self.fixed:
            return self._of_fixed(term)
        if term.op == "tensor":
            return self.source == WIDE, Why.GIVEN if self.source == WIDE else NOTHING
        if term.op == "cast":
            return self._of_cast(term)
        if term.op in ("host_op", "call", "blocked"):
            return self.source == WIDE, NOTHING
        if term.op in _MOVES:
            return self._of_move(term)
        wide, why = self._of_compute(term)
        return wide or term in self._asked, why

    def _of_fixed(self, term: Term) -> tuple[bool, Why]:
        known = self._largest.get(term)
        if known is not None:
            why = self.half.range_of(known)
        else:
            why = NOTHING
            for child in term.children:
                why |= self.why.get(child, NOTHING)
        computed = term.op in ("compute", "cast") or any(c in self.wide for c in term.children)
        return computed or bool(why) or self.source == WIDE, why

    def _of_cast(self, term: Term) -> tuple[bool, Why]:
        (child,) = term.children
        if self.source != WIDE or child.dtype in ("bool", "int8", "uint8"):
            return False, NOTHING
        # Counts and accumulators of quantised products reach far beyond a half; dequantised they
        # are within it.
        return True, NOTHING if child.dtype in HALVES else Why.SMALL

    def _of_move(self, term: Term) -> tuple[bool, Why]:
        data = [child for child in term.children if child.dtype == self.source]
        why = NOTHING
        for child in data:
            why |= self.why.get(child, NOTHING)
        if len(data) > 1:
            loose = [child for child in data if child not in self.fixed]
            if not all(Why.STATISTIC in self.why.get(child, NOTHING) for child in loose):
                why &= ~Why.STATISTIC
            if not all(Why.GIVEN in self.why.get(child, NOTHING) for child in loose):
                why &= ~Why.GIVEN
        if term.op == "pad" and not isinstance(term["value"], str):
            why |= self.half.range_of(abs(float(term["value"])) if _finite(term["value"]) else 0)
        return any(child in self.wide for child in data) or bool(why), why

    def _of_compute(self, term: Term) -> tuple[bool, Why]:
        name = term["function"]
        (child,) = term.children
        below = self.why.get(child, NOTHING)
        if name == "dot":
            full = bool(below & Why.PRODUCTS)
            if term in self._products or _is_square(term):
                return True, Why.LARGE | Why.STATISTIC
            return full, below & ~Why.STATISTIC if full else NOTHING
        if name in _STATISTICS:
            return True, Why.STATISTIC | (Why.LARGE if below & _RANGE else NOTHING)
        if name == "softmax":
            return child in self.wide and (bool(below) or self.only_wide(child)), NOTHING
        kind = FUNCTIONS[name].kind
        if kind == "fold":
            return self._of_fold(term)
        if kind == "map":
            return self._of_map(name, child, below)
        return bool(below), below  # The largest and the smallest element.

    def only_wide(self, term: Term) -> bool:
        """Whether a float32 value need not be rounded for anything but this."""
        return not self.uses[term] & (Use.MANY | Use.OUTPUT)

    def _of_map(self, name: str, child: Term, below: Why) -> tuple[bool, Why]:
        function = FUNCTIONS[name]
        if function.bounds is not None and Bounds(*function.bounds).within(1.0, both=True):
            return bool(below), NOTHING
        if function.grows:
            if self.bounds.get(child, Bounds()).within(LARGEST_EXPONENT):
                return bool(below), below & Why.STATISTIC
            return True, Why.SMALL | Why.PRODUCTS | (below & Why.STATISTIC)
        if name == "log":
            return bool(below), below & Why.STATISTIC
        if name == "recip" and below & (_RANGE | Why.GIVEN):
            return True, Why.SMALL | (below & Why.STATISTIC)
        return bool(below), below

    def _of_fold(self, term: Term) -> tuple[bool, Why]:
        name = term["function"]
        operands = operands_of(term)
        flags = [self._met(name, each) for each in operands]
        loose = [k for k, each in enumerate(operands) if each not in self.fixed]
        union = NOTHING
        for each in flags:
            union |= each
        if _is_square(term) or name == "pow":
            return self._of_power(term, operands, union)
        if not union:
            return False, NOTHING
        statistics = [Why.STATISTIC in flags[k] for k in loose]
        if all(statistics):
            return True, union & ~Why.GIVEN
        given = [Why.GIVEN in flags[k] for k in loose]
        if name == "div" and len(operands) == 2:
            over, under = flags
            if under:
                return under != Why.GIVEN or all(given), (
                    Why.SMALL if operands[0] in self.fixed else NOTHING
                )
            return bool(over & ~Why.GIVEN) or all(given), over & ~Why.STATISTIC
        if all(given):
            return True, union
        union &= ~Why.GIVEN
        if name == "mul":
            if not union:
                return False, NOTHING
            if any(statistics):
                return True, union & (Why.LARGE | Why.PRODUCTS) if union & Why.PRODUCTS else NOTHING
        if Why.LARGE in union:
            return True, union & ~Why.STATISTIC
        if Why.SMALL in union:
            within = any(not flags[k] & Why.SMALL for k in loose)
            if name != "mul" or within:
                union &= ~Why.PRODUCTS if len(loose) < 2 or not within else NOTHING
            if within and len(loose) > 1:
                return True, NOTHING
            return True, union & ~Why.STATISTIC
        return True, NOTHING

    def _met(self, function: str, operand: Term) -> Why:
        """Why ``operand`` makes a fold float32; a fixed one may be so near the end of the range
        that sums and products leave it."""
        why = self.why.get(operand, NOTHING)
        if function in ("maximum", "minimum") and moved_from(operand) in self.unreached:
            return NOTHING
        if operand in self.fixed and function in ("add", "sub", "mul"):
            largest = self._largest.get(moved_from(operand), 0.0)
            if self.half.most / 2 < largest:
                why |= Why.LARGE | Why.PRODUCTS
        return why

    def _of_power(self, term: Term, operands: list[Term], union: Why) -> tuple[bool, Why]:
        statistic = union & Why.STATISTIC
        if term["function"] == "pow":
            exponent = moved_from(operands[1])
            value = exponent["value"] if exponent.op == "constant" else None
            if value is not None and value < 0:
                return True, Why.SMALL | statistic
            if value is not None and value <= 1:
                return bool(union), union & ~Why.GIVEN
        small = self.bounds.get(operands[0], Bounds()).within(16.0, both=True)
        if small:
            return bool(union), union & ~Why.GIVEN
        return True, Why.LARGE | statistic


class _Rewriting:
    """The program of a policy: every value as float32 and as a half, of which the roots use some.

    ``source`` is float32 for a model to be narrowed, else the half that its file is typed in.
    """

    def __init__(self, model: Model, source: str, half: Half) -> None:
        self.model, self.source, self.half = model, source, half
        self.narrowing = source == WIDE
        self.policy = Policy(model, source, half)
        self._wide: dict[Term, Term] = {}
        self._narrow: dict[Term, Term] = {}
        self._other: dict[Term, Term] = {}

    def result(self) -> Model:
        for term in self.policy.order:
            self._rewrite(term)
        outputs = {name: self._root(term) for name, term in self.model.outputs.items()}
        names = {self._native(term): name for term, name in self.model.names.items()
                 if term in self._wide or term in self._other}  # fmt: skip
        made = replace(self.model, outputs=outputs, names=names)
        return self._with_parameters(made) if self.narrowing else made

    def _root(self, term: Term) -> Term:
        if term.dtype != self.source:
            return self._other[term]
        return (self._wide if self.narrowing else self._narrow)[term]

    def _native(self, term: Term) -> Term:
        if term.dtype != self.source:
            return self._other[term]
        return (self._wide if term in self.policy.wide else self._narrow)[term]

    def _rewrite(self, term: Term) -> None:
        attributes = dict(zip(term.operator.positions, term.values, strict=True))
        if term.dtype != self.source:
            self._other[term] = make(term.op, self._children_of_other(term), **attributes)
        elif term.op in ("tensor", "constant"):
            self._leaf(term, attributes)
        elif term.op in _MOVES:
            self._wide[term] = make(term.op, self._each(term, self._wide), **attributes)
            self._narrow[term] = make(term.op, self._each(term, self._narrow), **attributes)
        elif term in self.policy.wide:
            self._wide[term] = self._computed_wide(term, attributes)
            self._narrow[term] = _cast(self._wide[term], self.half.name)
        else:
            self._narrow[term] = self._computed_narrow(term, attributes)
            self._wide[term] = _cast(self._narrow[term], WIDE)

    def _each(self, term: Term, versions: Mapping[Term, Term]) -> list[Term]:
        return [versions[c] if c.dtype == self.source else self._other[c] for c in term.children]

    def _leaf(self, term: Term, attributes: dict[str, Any]) -> None:
        if term.op == "constant":
            self._wide[term] = make("constant", **{**attributes, "dtype": WIDE})
            if term in self.policy.unreached:
                attributes["value"] = math.copysign(math.inf, attributes["value"])
            self._narrow[term] = make("constant", **{**attributes, "dtype": self.half.name})
        elif self.narrowing:
            self._wide[term], self._narrow[term] = term, _cast(term, self.half.name)
        else:
            self._wide[term], self._narrow[term] = _cast(term, WIDE), term

    def _children_of_other(self, term: Term) -> list[Term]:
        """Operands of what gives another dtype: in float32 where they are computed so."""
        policy = self.policy
        if term.op == "cast" or (term.op in ("host_op", "call", "blocked") and not self.narrowing):
            # A file typed in halves says itself where it rounds.
            full = self.narrowing and term.children[0] in policy.wide
        elif term.op in ("host_op", "call", "blocked"):
            full = True
        else:
            full = any(child in policy.wide for child in term.children)
        return self._each(term, self._wide if full else self._narrow)

    def _computed_wide(self, term: Term, attributes: dict[str, Any]) -> Term:
        policy = self.policy
        if term.op == "cast":
            return make("cast", self._each(term, self._wide), dtype=WIDE)
        if term.op != "compute":
            return make(term.op, self._each(term, self._wide), **attributes)
        (child,) = term.children
        name = term["function"]
        full = child in policy.wide
        if name == "dot":
            full = Why.PRODUCTS in policy.why.get(child, NOTHING) or term in policy.fixed
        elif name in _STATISTICS and not policy.stays(child) and term not in policy.fixed:
            full = full and policy.only_wide(child)
        if full or name not in (*_STATISTICS, "dot"):
            if "accumulate" in attributes and attributes["accumulate"] == self.source:
                attributes["accumulate"] = None
            return make("compute", self._each(term, self._wide), **attributes)
        return make("compute", self._each(term, self._narrow), function=name, accumulate=WIDE)

    def _computed_narrow(self, term: Term, attributes: dict[str, Any]) -> Term:
        children = self._each(term, self._narrow)
        if self.narrowing and term.op == "cast":
            return make("cast", children, dtype=self.half.name)
        if self.narrowing and term.op == "compute" and term["function"] == "dot":
            made = make("compute", children, **{**attributes, "accumulate": WIDE})
            return _cast(made, self.half.name)
        return make(term.op, children, **attributes)

    def _with_parameters(self, model: Model) -> Model:
        """Parameters that are only ever read as halves, stored as such."""
        order = model.terms()
        full = set(model.roots)
        for term in order:
            if not (term.op == "cast" and term.dtype == self.half.name):
                full.update(term.children)
        params = dict(model.params)
        for leaf in order:
            if leaf.op == "tensor" and leaf.dtype == WIDE and leaf not in full:
                name = leaf["name"]
                if name in params:
                    params[name] = _converted(params[name], self.half.name)

        def change(term: Term, children: tuple[Term, ...]) -> Term:
            if term.op == "tensor" and term["name"] in params:
                dtype = params[term["name"]].dtype.name
                return make("tensor", **{**term.attributes, "dtype": dtype})
            if term.op == "cast" and children[0].dtype == term.dtype:
                return children[0]
            return make(term.op, children, **term.attributes)

        new = map_terms([*model.roots, *model.names], change)
        outputs = {name: new[term] for name, term in model.outputs.items()}
        names = {new[term]: name for term, name in model.names.items()}
        return replace(model, params=params, outputs=outputs, names=names)


def operands_of(term: Term) -> list[Term]:
    """The operands of a fold of pairs, in order."""
    found: list[Term] = []
    (child,) = term.children
    if child.op == "pair":
        found.extend(child.children)
    else:
        found.append(child)
    return found


def _is_zero(term: Term) -> bool:
    """Whether a value is a state of zeros that was left out."""
    constant = moved_from(term)
    return constant.op == "constant" and constant["value"] == 0


def _is_fold(term: Term, functions: Iterable[str]) -> bool:
    return term.op == "compute" and term["function"] in functions


def _is_statistic(term: Term) -> bool:
    return term.op == "compute" and term["function"] in _STATISTICS


def _is_power(term: Term) -> bool:
    return term.op == "compute" and FUNCTIONS[term["function"]].grows


def _is_square(term: Term) -> bool:
    """Whether a value is multiplied by itself, element by element or in a product of matrices."""
    if term.op != "compute" or term["function"] not in ("mul", "dot", "pow"):
        return False
    (child,) = term.children
    if child.op not in ("pair", "cart_prod"):
        return False
    one, two = child.children
    if term["function"] == "pow":
        exponent = moved_from(two)
        return exponent.op == "constant" and exponent["value"] == 2
    if term["function"] == "dot":
        return moved_from(one) is moved_from(two)
    return one is two


def _uses(order: Sequence[Term], roots: Iterable[Term], fixed: Collection[Term]) -> dict[Term, Use]:
    """What each value is used for by what computes, whatever moves its elements in between."""
    uses = dict.fromkeys(roots, Use.OUTPUT)
    for term in reversed(order):
        if term.op in _MOVES:
            use = uses[term]
        elif term in fixed:
            use = Use.FIXED
        elif _is_statistic(term):
            use = Use.STATISTIC
        elif _is_power(term):
            use = Use.POWER
        elif _is_square(term):
            use = Use.SQUARE
        else:
            use = Use.OTHER
        for child in dict.fromkeys(term.children):
            known = uses.get(child)
            uses[child] = use if known is None else known | use | Use.MANY
    return uses


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _unreached(model: Model, most: float) -> set[Term]:
    """The constants beyond ``most`` that are but lower bounds below all numbers of the precision,
    or upper bounds above them, so that infinity bounds the same."""
    lower: dict[Term, bool] = {}
    upper: dict[Term, bool] = {}
    for root in model.roots:
        lower[root] = upper[root] = False
    order = model.terms()
    for term in reversed(order):
        passes = term.op == "pair" or (term.op in TRANSFORMERS and len(term.children) == 1)
        passes = passes and term.op != "pad"
        name = term["function"] if term.op == "compute" else ""
        for child in term.children:
            lower[child] = lower.get(child, True) and (lower[term] if passes else name == "maximum")
            upper[child] = upper.get(child, True) and (upper[term] if passes else name == "minimum")
    return {
        term
        for term in order
        if term.op == "constant"
        and term.dtype == WIDE
        and _finite(term["value"])
        and abs(term["value"]) > most
        and (lower if term["value"] < 0 else upper)[term]
    }


def _cast(term: Term, dtype: str) -> Term:
    return term if term.dtype == dtype else make("cast", [term], dtype=dtype)


def _converted(array: Array, precision: str) -> Array:
    """The array in the precision; repetitions stay repetitions."""
    kept = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    with np.errstate(over="ignore"):
        return np.broadcast_to(kept.astype(precision), array.shape)
