"""The record that passes hand on: a program on its way from terms to kernels in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from glenside.codegen.program.leaves import Leaves
from glenside.codegen.storage import Array, Memory, Stored
from glenside.codegen.views import View
from glenside.language.shape import AccessType
from glenside.language.term import Term


@dataclass(frozen=True)
class Fused:
    """A reduction inside the kernel of what alone uses it. ``over`` gives the axes of that in the
    row-major space of ``anchor``."""

    anchor: Term
    over: View


@dataclass(frozen=True)
class Streamed:
    """A ``product`` of softmaxed rows, and what is computed inside its kernel beside it: the
    ``softmax``, the product of ``scores`` below, and all between that nothing else reads."""

    product: Term
    softmax: Term
    scores: Term
    inside: frozenset[Term]


@dataclass(frozen=True)
class Product:
    """How a ``dot`` of a ``cart_prod`` is blocked: the vector side's axes run along registers."""

    vector: Term
    pixels: Term
    vector_first: bool
    batch: int


@dataclass(frozen=True)
class Part:
    """A value that is computed into a ``concat``: moved by ``chain`` it is what ``whole`` has from
    index ``at`` of its axis on."""

    whole: Term
    at: int
    chain: tuple[Term, ...]


@dataclass(frozen=True)
class Room:
    """Margins around a value, (before, after) by its axes, that hold the number ``fill``."""

    fill: float | int
    margins: Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class Rows:
    """Reductions over the rows of one space, each of which may need those before, and elementwise
    work around them. The space are the elements of ``source`` in order, their number written in
    ``digits``, the most significant first."""

    source: Term
    digits: tuple[int, ...]
    """How many values each digit takes."""
    item: frozenset[int]
    """The digits that move along a row."""
    chain: tuple[Term, ...]
    """The reductions, in order; softmax counts as one."""
    inside: frozenset[Term]
    """What would have been materialised otherwise."""
    positions: Mapping[Term, tuple[tuple[int, ...], ...]]
    """The digits that each axis of a value moves along, most significant first."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return math.prod(n for k, n in enumerate(self.digits) if k not in self.item)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return math.prod(n for k, n in enumerate(self.digits) if k in self.item)


@dataclass(frozen=True)
class Kernel:
    """Computes ``tail`` into its storage. ``anchor`` is the reduction inside it, if any; of several
    reductions over rows, ``rows`` tells.

    ``over`` gives the axes of ``tail`` in the row-major space of ``anchor``. For a part of a concat
    that has to be copied, ``into`` is the storage. Where ``over`` is longer than ``tail`` along an
    axis, what the anchor has beyond is cut off.
    """

    tail: Term
    anchor: Term | None
    over: View
    product: Product | None = None
    into: Stored | None = None
    rows: Rows | None = None

    @property
    def edges(self) -> tuple[int, ...]:
        """The axes along which the tail is shorter than what is computed."""
        sizes = zip(self.over.shape, self.tail.shape, strict=True)
        return tuple(axis for axis, (whole, kept) in enumerate(sizes) if whole > kept)


@dataclass(frozen=True)
class PythonStep:
    """A call, blocked product or host operator, executed by Python."""

    term: Term


@dataclass(frozen=True)
class Fill:
    """Writes the margins of a buffer, laid out by ``view`` (margins included), with a number."""

    buffer: int
    view: View


Step = Kernel | PythonStep | Fill


@dataclass(frozen=True)
class Home:
    """A buffer of its own for a value: of so many elements."""

    term: Term
    size: int


@dataclass(frozen=True)
class Cut:
    """A program, and what passes have found and decided so far; each leaves what it was given as it
    is. Below every line are the fields of the pass that it names."""

    outputs: tuple[Term, ...]
    types: Mapping[str, AccessType]
    """Of the ``tensor`` leaves that are given at run time, by name."""
    params: Mapping[str, Array]
    plain: bool = False
    """Every value lies row-major, without margins, addressed from the start of its buffer, and no
    operand of a product is copied to become a view: for devices whose kernels guard and stage what
    they read themselves, and whose buffers cannot be entered anywhere."""
    rows_last: bool = False
    """What products compute lies with the rows of their resident operand innermost (a convolution's
    channels), and what is computed of it elementwise lies likewise."""
    streams: Callable[[Streamed], bool] | None = None
    """Whether a product is to be computed with the rows it multiplies; None: never."""
    # --- canonical
    origin: Mapping[Term, Term] = field(default_factory=dict)
    """Terms as the caller knows them, by the terms here."""
    # --- folding
    order: tuple[Term, ...] = ()
    """What is left to compute at run time, children first."""
    weights: Mapping[Term, Array] = field(default_factory=dict)
    """Values that depend on parameters alone, as far as the rest reads them."""
    constants: Mapping[Term, Any] = field(default_factory=dict)
    """Those of them that are one number throughout."""
    # --- materialise, moving, bounding
    kept: frozenset[Term] = frozenset()
    """Terms that are materialised: each is an input or what a step computes."""
    relaid: frozenset[Term] = frozenset()
    """Those that only move what a small map computes, and are stored by it."""
    # --- streaming
    streamed: Mapping[Term, Streamed] = field(default_factory=dict)
    # --- fusing
    fused: Mapping[Term, Fused] = field(default_factory=dict)
    # --- rows
    rows: Mapping[Term, Rows] = field(default_factory=dict)
    """Chains of reductions over rows, by what each computes."""
    # --- blocking
    products: Mapping[Term, Product] = field(default_factory=dict)
    # --- placing
    parts: Mapping[Term, Part] = field(default_factory=dict)
    copies: Mapping[Term, tuple[tuple[Term, int], ...]] = field(default_factory=dict)
    """Parts of a concat that have to be copied, and where they start."""
    # --- margins
    rooms: Mapping[Term, Room] = field(default_factory=dict)
    # --- layout
    steps: tuple[Step, ...] = ()
    stored: Mapping[Term, Stored] = field(default_factory=dict)
    since: Mapping[Term, int] = field(default_factory=dict)
    """How many steps there were when a value got its place: earlier steps compute it themselves."""
    homes: tuple[Home, ...] = ()
    """What each buffer is for, by its number."""
    # --- storing
    memory: Memory = field(default_factory=Memory)

    @cached_property
    def leaves(self) -> Leaves:
        """Where kernels begin to read."""
        return Leaves(self.weights, self.kept)

    @cached_property
    def inside(self) -> Collection[Term]:
        """Reductions that live inside another term's kernel."""
        return {each.anchor for each in self.fused.values()}

    @cached_property
    def inputs(self) -> dict[str, Term]:
        """The inputs that are used, by name."""
        return {term["name"]: term for term in self.order if term.op == "tensor"}

    @property
    def start(self) -> Cut:
        """The record before the first pass, given this one after the last."""
        outputs = tuple(map(self.known_as, self.outputs))
        return Cut(outputs, self.types, self.params, self.plain, self.rows_last, self.streams)

    def known_as(self, term: Term) -> Term:
        """The term as the caller knows it."""
        return self.origin.get(term, term)
