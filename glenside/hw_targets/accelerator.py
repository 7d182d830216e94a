"""Accelerators are declared, not programmed.

A declaration says what the unit takes and which access-pattern term it computes::

    Accelerator(
        "my-gemm",
        operands={"x": "((M) (K))", "w": "((N) (K))"},
        computes="(compute dot (cart-prod ?x ?w))",
        tile={"K": 16, "N": 16},
        constraints=["K <= 4096"],
        cycles="M * tiles(K, 16) * tiles(N, 16)",
    )

From it come the rewrite that finds the unit in a program, the shape rule and simulator of its
calls, its rule ``my-gemm``, and a target of that name. A declaration that cannot be is refused at
once, with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import GlensideError, ShapeError, TargetError
from glenside.hw_targets.declare import samples, template
from glenside.hw_targets.declare.alternatives import require_same
from glenside.hw_targets.declare.batching import BATCH, Batched, batched
from glenside.hw_targets.declare.checked import CheckedDeclaration
from glenside.hw_targets.declare.denotation import Denoted
from glenside.hw_targets.declare.fields import check_fields, is_number
from glenside.hw_targets.declare.forms import UNDONE, Form, forms
from glenside.hw_targets.declare.required import require as require_claims
from glenside.hw_targets.declare.sizes import Condition, Size
from glenside.hw_targets.declare.template import OperandType, Template
from glenside.hw_targets.declare.tiling import Declaration, Tiling, tiling
from glenside.hw_targets.operation import cycles_of_calls
from glenside.hw_targets.registry import REGISTRY
from glenside.language import builders
from glenside.language.functions import FUNCTIONS
from glenside.language.interpreter import evaluate
from glenside.language.shape import INTEGERS, AccessType, Shape, check_dtype
from glenside.language.term import Term
from glenside.language.units import Unit

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from glenside.rewrites.ruleset import Rule

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]

ROWS = frozenset({"softmax", "sum", "mean", "prod", "min", "argmax", "argmin"})
"""Functions of items that other shapes of items are brought to rows for; products and maxima have
rules of their own."""


@dataclass(frozen=True, eq=False)
class Accelerator:
    """One operation of an accelerator.

    :param name: of the unit; calls in programs carry it.
    :param operands: what each operand has to be, ``"((M) (K))"``: lengths of the outer axes and of
        the item axes, as size variables, numbers or expressions such as ``2*T``; a dtype may
        follow. The layout of an operand is part of its type: ``"(() (T H))"`` takes rows of H.
    :param computes: the term in the text form; ``?x`` is operand x, integers are expressions over
        size variables.
    :param also: other ways in which programs say the same; they may differ from it in rounding.
    :param parameters: order of the size variables that are in no operand's shape (strides, say);
        by default that of their appearance in the term. Calls carry their values.
    :param constraints: comparisons over sizes that a call must satisfy, ``"T % 2 == 0"``.
    :param dtypes: of operands that have none of their own; all that the term takes by default.
    :param defaults: operands a program may leave out, such as a bias, and what they are then.
    :param tile: the unit's own length along size variables: longer operands take several passes,
        shorter ones are padded.
    :param lanes: likewise, but padded to a multiple and done in one pass.
    :param loops: whether a batch of products is given to the unit, one call after the other; set it
        to False where another unit takes batches.
    :param cycles: of one call, over its sizes: an expression or a function of them.
    :param area: in any unit, the same for all accelerators that are compared; multipliers for those
        that ship.
    :param simulate: ``simulate(sizes, *arrays)`` computes one pass as the hardware does, to the
        bit; arrays have the unit's own size. Without it the term itself is computed, all passes at
        once.
    :param numerics: the simulator's number format, where results differ by rounding from the term.
    :param target: name of the target that has this unit, its own by default; several may share one.
    :param summary: what ``glenside targets`` says of that target.
    :param known: whether the unit, its rule and its target are known from now on; without it they
        are when the registry (:mod:`glenside.hw_targets.registry`) takes in the declaration.

    :raises TargetError: the declaration contradicts itself, with the reason.
    """

    name: str
    operands: Mapping[str, str]
    computes: str
    _: KW_ONLY
    also: Sequence[str] = ()
    parameters: Sequence[str] = ()
    constraints: Sequence[str] = ()
    dtypes: Sequence[str] | None = None
    defaults: Mapping[str, float] = field(default_factory=dict)
    tile: Mapping[str, int] = field(default_factory=dict)
    lanes: Mapping[str, int] = field(default_factory=dict)
    loops: bool = True
    cycles: str | Callable[[Sizes], float] | None = None
    area: float | None = None
    simulate: Callable[..., Array] | None = None
    numerics: str = ""
    target: str = ""
    summary: str = ""
    known: InitVar[bool] = True

    joins: bool = field(init=False, repr=False)
    unit: Unit = field(init=False, repr=False)
    checked: CheckedDeclaration = field(init=False, repr=False)

    def __post_init__(self, known: bool) -> None:
        try:
            check_fields(self)
            if not re.fullmatch(r"[A-Za-z][\w.-]*", self.name):
                raise TargetError("that is no name: letters, digits, '-', '_' and '.'")
            object.__setattr__(self, "joins", bool(self.target))
            if not self.target:
                object.__setattr__(self, "target", self.name)
            checked = _check(self)
        except GlensideError as problem:
            raise TargetError(f"accelerator {self.name}: {problem}") from None
        object.__setattr__(self, "checked", checked)
        object.__setattr__(self, "unit", self._unit())
        if known:
            REGISTRY.add(self)

    def _unit(self) -> Unit:
        def meaning(parameters: Shape, operands: tuple[Term, ...]) -> Term:
            return self.term(parameters, operands)

        # Programs that were saved tell in which module their units were declared.
        meaning.__module__ = _declaring_module()
        in_passes = self.simulate is not None
        checked = self.checked
        denote = Denoted(
            self.name,
            checked.operands,
            checked.parameters,
            checked.conditions,
            checked.template,
            self.dtypes,
        )
        return Unit(
            self.name,
            meaning,
            self._simulate if in_passes else None,
            meaning_of_batch=None if self.batched is None else self._term_of_batch,
            denote=denote,
            target=self.target,
            cycles=cycles_of_calls(self),
            area=lambda parameters: self.area,
            rule=self.rule,
            declaration=self,
        )

    # --- what follows from it ---------------------------------------------------------------------

    def sizes(self, parameters: Shape, operands: Sequence[AccessType]) -> dict[str, int]:
        """The sizes of one call.

        :raises ShapeError: operands or parameters are not what the declaration says.
        """
        checked = self.checked
        if len(parameters) != len(checked.parameters) or len(operands) != len(checked.operands):
            raise self._refuses(parameters, operands)
        sizes = dict(zip(checked.parameters, parameters, strict=True))
        pairs = list(zip(checked.operands.values(), operands, strict=True))
        for declared, given in pairs:
            if (len(declared.outer), len(declared.item)) != (len(given.outer), len(given.item)):
                raise self._refuses(parameters, operands)
            for size, length in zip(declared.axes, given.shape, strict=True):
                if size.is_name and sizes.setdefault(size.text, length) != length:
                    raise self._refuses(parameters, operands, size.text)
        for declared, given in pairs:
            if given.shape != declared.of(sizes, given.dtype).shape:
                raise self._refuses(parameters, operands)
        for condition in checked.conditions:
            if not condition.holds(sizes):
                raise self._refuses(parameters, operands, condition.text)
        return sizes

    def term(self, parameters: Shape, operands: Sequence[Term]) -> Term:
        """What one call computes; raises :class:`ShapeError`."""
        types = [operand.type for operand in operands]
        sizes = self.sizes(parameters, types)
        own = self.checked.operands.values()
        shared = {t.dtype for t, declared in zip(types, own, strict=True) if not declared.dtype}
        allowed = all(d.dtype in (None, t.dtype) for t, d in zip(types, own, strict=True))
        if self.dtypes is not None and not shared.issubset(self.dtypes):
            allowed = False
        if len(shared) > 1 or not allowed:
            raise self._refuses(parameters, types, "dtypes")
        return template.build(
            self.checked.template, sizes, dict(zip(self.operands, operands, strict=True))
        )

    def _term_of_batch(self, parameters: Shape, operands: tuple[Term, ...]) -> Term:
        """What a call for each position on one shared axis computes."""
        assert self.batched is not None
        one = [AccessType(each.outer[1:], each.item, each.dtype) for each in operands]
        sizes = {**self.sizes(parameters, one), BATCH: operands[0].outer[0]}
        leaves = dict(zip(self.operands, operands, strict=True))
        return template.build(self.batched.template, sizes, leaves)

    def cycles_of(self, parameters: Shape, operands: Sequence[AccessType]) -> float | None:
        """Cycles of one call; None where the declaration does not say.

        :raises TargetError: what it says is no number from 0 up, for these sizes.
        """
        sizes = self.sizes(parameters, operands)
        if self.cycles is None:
            return None
        shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
        says = self.cycles if callable(self.cycles) else Size.parse(self.cycles).of
        try:
            value = says(sizes)
        except Exception as problem:  # What a function of the user's own raises.
            told = f"{type(problem).__name__}: {problem}"
            raise TargetError(f"accelerator {self.name}: cycles for {shown}: {told}") from problem
        if not is_number(value) or not 0 <= value < math.inf:
            raise TargetError(
                f"accelerator {self.name}: cycles must be a finite number from 0 up, "
                f"got {value!r} for {shown}"
            )
        return float(value)

    @functools.cached_property
    def _rule(self) -> Rule:
        from glenside.hw_targets.declare import mapping
        from glenside.rewrites.ruleset import Rule

        checked = self.checked
        declared = mapping.Declared(
            self.name,
            checked.operands,
            checked.parameters,
            checked.conditions,
            self.dtypes,
            self.defaults,
        )
        # A unit may add up in another order.
        exact = not any(FUNCTIONS[f].reassociates for f in template.functions(checked.template))
        cases = list(mapping.cases(declared, self.forms, checked.splits))
        if self.batched is not None:
            several = dataclasses.replace(declared, operands=self.batched.operands, batch=1)
            cases += mapping.cases(several, self.forms_of_batch, self._batch_splits)
        # What is padded with zeros within the unit meets weights that may be infinite.
        pads = any(
            isinstance(part, template.Node) and part.op == "pad"
            for part in template.nodes(checked.template)
        )
        computes = " ".join(self.computes.split())
        law = f"``{computes} -> {self.name} {' '.join(self.operands)}``"
        return Rule(self.name, tuple(cases), exact, programs=self.programs, finite=pads, law=law)

    @functools.cached_property
    def batched(self) -> Batched | None:
        """The term for a batch, where calls are made for one."""
        checked = self.checked
        if not self.loops:
            return None
        return batched(checked.template, checked.operands, checked.splits)

    @functools.cached_property
    def forms_of_batch(self) -> list[Form]:
        """The same of the term for a batch."""
        if self.batched is None:
            return []
        return forms(self.batched.template, self._batch_splits, self.defaults)

    @functools.cached_property
    def _batch_splits(self) -> dict[Template, int]:
        return {} if self.batched is None else dict(self.batched.splits)

    @functools.cached_property
    def forms(self) -> list[Form]:
        """The ways in which programs may say the term."""
        # What forms add to the splits belongs there: mapping asks for them.
        checked = self.checked
        terms = (checked.template, *checked.others)
        return [form for each in terms for form in forms(each, checked.splits, self.defaults)]

    @property
    def rows_of(self) -> frozenset[str]:
        """The function that it computes of rows, if that is its work: other items are brought to
        rows for it."""
        root = self.checked.template
        while isinstance(root, template.Node) and root.op in UNDONE:
            root = root.children[0]
        if not isinstance(root, template.Node) or root.op != "compute":
            return frozenset()
        shaped = {p.op for p in template.nodes(root) if isinstance(p, template.Node)}
        return frozenset(() if shaped & {"windows", "cart_prod"} else {root["function"]} & ROWS)

    @property
    def behind_product(self) -> frozenset[str]:
        """The functions of elements behind a product, if it computes more of it than a bias."""
        parts = [p for p in template.nodes(self.checked.template) if isinstance(p, template.Node)]
        used = {p["function"] for p in parts if p.op == "compute"}
        elements = {name for name in used if FUNCTIONS[name].kind in ("map", "fold")}
        one = used - elements == {"dot"} and not any(p.op == "windows" for p in parts)
        return frozenset(elements if one and elements - {"add"} else ())

    @property
    def tiling(self) -> Tiling:
        """How calls of any size are cut and padded to the unit's own."""
        return self.checked.tiling

    @property
    def functions(self) -> frozenset[str]:
        """The functions in its term."""
        return frozenset(template.functions(self.checked.template))

    def description(self) -> list[str]:
        """The declaration in lines of text, for headers."""
        lines = [f"{self.name}: {' '.join(self.computes.split())}"]
        lines += [f"{name}: {shape}" for name, shape in self.operands.items()]
        lines += [f"where {condition}" for condition in self.constraints]
        if self.tile:
            own = ", ".join(f"{name} {length}" for name, length in self.tile.items())
            lines.append(f"in passes of {own}; edges are padded")
        if isinstance(self.cycles, str):
            lines.append(f"cycles: {self.cycles}")
        if self.numerics:
            lines.append(f"numbers: {self.numerics}")
        return lines

    def rule(self) -> Rule:
        """The rewrite from the term to a call."""
        return self._rule

    def programs(self) -> SearchStrategy[Term]:
        """A Hypothesis strategy of programs that hold the term, or nearly."""
        from glenside.hw_targets.declare.programs import programs

        checked = self.checked
        dtypes = [d for d in ("int32", "float64", "int8") if d in checked.dtypes]
        return programs(
            self.forms,
            checked.operands,
            checked.names,
            checked.conditions,
            dtypes or checked.dtypes,
        )

    # --- simulation -------------------------------------------------------------------------------

    def _simulate(self, parameters: Shape, arrays: Sequence[Array]) -> Array:
        """A call of any size, in passes of the unit's own."""
        assert self.simulate is not None
        checked = self.checked
        types = [
            AccessType(a.shape[: d.split], a.shape[d.split :], a.dtype.name)
            for d, a in zip(checked.operands.values(), arrays, strict=True)
        ]
        sizes = self.sizes(parameters, types)
        leaves = tuple(builders.leaf(str(i), each) for i, each in enumerate(types))
        result = self.term(parameters, leaves).type
        own = checked.tiling.own(sizes)
        one = result.shape
        if own != sizes:
            pairs = zip(types, checked.operands.values(), strict=True)
            shared = next((t.dtype for t, declared in pairs if declared.dtype is None), "")
            leaves_of_one = _leaves(checked.operands, own, shared)
            one = template.build(checked.template, own, leaves_of_one).shape

        def once(own: Sizes, parts: list[Array]) -> Array:
            return self._simulate_one(own, parts, one, result.dtype)

        return checked.tiling.run(once, sizes, arrays, result.shape)

    def _simulate_one(self, sizes: Sizes, arrays: list[Array], shape: Shape, dtype: str) -> Array:
        """One pass.

        :raises TargetError: the simulator fails, or gives what the term cannot.
        """
        assert self.simulate is not None
        shown = ", ".join(f"{name} = {value}" for name, value in sizes.items())
        try:
            done = np.asarray(self.simulate(sizes, *arrays))
        except Exception as problem:  # What a function of the user's own raises.
            told = f"{type(problem).__name__}: {problem}"
            raise TargetError(
                f"the simulator of {self.name} fails for {shown}: {told}"
            ) from problem
        if done.shape != shape:
            raise TargetError(
                f"the simulator of {self.name} gives shape {done.shape} for {shown}; "
                f"its term has shape {shape}"
            )
        return done.astype(dtype, copy=False)

    def _refuses(
        self, parameters: Shape, operands: Sequence[AccessType], why: str = ""
    ) -> ShapeError:
        checked = self.checked
        takes = ", ".join(f"{name} {each}" for name, each in checked.operands.items())
        named = f" and the parameters ({' '.join(checked.parameters)})" * bool(checked.parameters)
        got = ", ".join(map(str, operands)) + f" and {parameters}" * bool(parameters)
        reason = f" (by {why})" if why else ""
        return ShapeError(f"{self.name} takes {takes}{named}; got {got}{reason}")


def _check(a: Accelerator) -> CheckedDeclaration:
    """:raises GlensideError: why the declaration cannot be."""
    operands = {name: OperandType.parse(text) for name, text in a.operands.items()}
    term = template.parse(a.computes)
    used = template.operands(term)
    for name in dict.fromkeys((*used, *a.defaults)):
        if name not in operands:
            known = ", ".join(operands)
            raise TargetError(f"?{name} is no operand; the operands are {known}")
    for name in operands:
        if name not in used:
            raise TargetError(f"operand {name} is not in the term")
    given = [name for name, each in operands.items() if each.dtype is None]
    if given and all(name in a.defaults for name in given):
        raise TargetError(f"nothing says the dtype of {given[0]} where it is left out: give it one")
    conditions = tuple(c for text in a.constraints for c in Condition.parse(text))
    names, parameters = _names(operands, term, tuple(a.parameters))
    if isinstance(a.cycles, str):
        _known(Size.parse(a.cycles).names, names, "cycles")
    for condition in conditions:
        _known(condition.names, names, f"constraint {condition.text!r}")
    for name in (*a.tile, *a.lanes):
        _known((name,), names, "tile and lanes")
    samples.require("unsatisfiable", names, conditions)
    among = tuple(map(check_dtype, a.dtypes)) if a.dtypes is not None else None
    found, dtype = _build(operands, term, names, conditions, among)
    splits: dict[Template, int] = {}

    def note(part: Template, made: Term) -> None:
        splits[part] = made.type.split

    result = template.build(term, found, _leaves(operands, found, dtype), note).type
    others = tuple(map(template.parse, a.also))
    for text, other in zip(a.also, others, strict=True):
        if {*template.operands(other)} - {*operands} or {*template.size_names(other)} - {*names}:
            raise TargetError(f"{text!r} has operands or sizes that the term has not")
        if template.build(other, found, _leaves(operands, found, dtype), note).type != result:
            raise TargetError(f"{text!r} has another type than the term")
        require_same(text, term, other, operands, names, conditions, dtype)

    trying = ("int32", *_tried(operands, term), "int8") if among is None else among
    dtypes = tuple(d for d in dict.fromkeys(trying) if _builds(operands, term, found, d))
    # Of integers less can be said than of floats: they wrap around.
    strict = next((d for d in dtypes if d in INTEGERS), dtype)

    def meaning(sizes: Sizes, arrays: list[Array]) -> Array:
        built = template.build(term, sizes, _leaves(operands, sizes, strict))
        return evaluate([built], dict(zip(operands, arrays, strict=True)))[0]

    declared = Declaration(operands, term, names, conditions, meaning, strict)
    tiles = tiling("the unit's own size", declared, a.tile, a.lanes)
    checked = CheckedDeclaration(
        operands, term, parameters, names, conditions, others, splits, dtypes, tiles
    )
    if a.tile or a.lanes:
        require_claims(a, checked, declared)
    return checked


def _names(
    operands: Mapping[str, OperandType], term: Template, order: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All size variables, and those that only the term has."""
    axes = [size for each in operands.values() for size in each.axes]
    bound = dict.fromkeys(size.text for size in axes if size.is_name)
    parameters = [n for n in template.size_names(term) if n not in bound]
    plain = template.plain_names(term)
    for name in (*(n for size in axes for n in size.names), *parameters):
        if name not in bound and name not in plain:
            raise TargetError(f"{name} never stands by itself, so that no program says what it is")
    for size in axes:
        parameters += [n for n in size.names if n not in bound and n not in parameters]
    if order and sorted(order) != sorted(parameters):
        wanted = " ".join(parameters) or "none"
        raise TargetError(f"the parameters are {wanted}, in any order; got {' '.join(order)}")
    return (*bound, *parameters), order or tuple(parameters)


def _known(names: Sequence[str], known: Sequence[str], where: str) -> None:
    for name in names:
        if name not in known:
            raise TargetError(f"{where}: {name} is no size; the sizes are {', '.join(known)}")


def _leaves(operands: Mapping[str, OperandType], sizes: Sizes, dtype: str) -> dict[str, Term]:
    return {name: builders.leaf(name, each.of(sizes, dtype)) for name, each in operands.items()}


def _builds(operands: Mapping[str, OperandType], term: Template, sizes: Sizes, dtype: str) -> bool:
    try:
        template.build(term, sizes, _leaves(operands, sizes, dtype))
    except ShapeError:
        return False
    return True


def _tried(operands: Mapping[str, OperandType], term: Template) -> tuple[str, ...]:
    """Dtypes of operands that have none of their own, with which a term is tried: those of its
    constants and of other operands among them, which it may have to share."""
    others = [each.dtype for each in operands.values() if each.dtype]
    others += [
        part["dtype"]
        for part in template.nodes(term)
        if isinstance(part, template.Node) and part.op == "constant"
    ]
    return ("float64", "int32", "float32", "bool", *others)


def _build(
    operands: Mapping[str, OperandType],
    term: Template,
    names: Sequence[str],
    conditions: Sequence[Condition],
    dtypes: Sequence[str] | None,
) -> tuple[Sizes, str]:
    """Sizes for which the term is well-shaped, and a dtype.

    Lengths differ wherever they may, so that a term is not taken that only squares fit.
    """
    first: tuple[Sizes, ShapeError] | None = None
    for sizes in samples.varied(names, conditions):
        for dtype in dtypes or _tried(operands, term):
            try:
                template.build(term, sizes, _leaves(operands, sizes, dtype))
            except ShapeError as problem:
                first = first or (sizes, problem)
                continue
            return sizes, dtype
    assert first is not None  # The conditions can be satisfied.
    shown = ", ".join(f"{name} = {value}" for name, value in first[0].items())
    raise TargetError(f"the term is ill-shaped, for example with {shown}: {first[1]}")


def _declaring_module() -> str:
    """The module whose code is building an :class:`Accelerator`."""
    frame = inspect.currentframe()
    assert frame is not None
    ours = (__name__, "dataclasses")
    while frame.f_back is not None and frame.f_globals.get("__name__") in ours:
        frame = frame.f_back
    # Code that is run from a text need not have a name.
    return str(frame.f_globals.get("__name__", "__main__"))
