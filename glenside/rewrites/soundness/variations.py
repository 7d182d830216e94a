"""Programs changed a little, so that they no longer meet what a rule may forget to ask for.

A rule that is written with one kind of program in mind is tried on that kind, too. What it takes
for granted of them is what it does not ask: that no axis is empty, that operands have no items,
that windows go along channels one by one, that two operands are two tensors. So of programs that
were drawn some are rebuilt with one such thing changed. Needs Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from glenside.errors import GlensideError
from glenside.language import builders
from glenside.language.shape import Shape
from glenside.language.term import Term, make, topological_order

Draw = Callable[[st.SearchStrategy[Any]], Any]
Vary = Callable[[Draw, Term], Term | None]


@st.composite
def varied(draw: Draw, programs: st.SearchStrategy[Term]) -> Term:
    """The programs, some of them with something changed."""
    try:
        program = draw(programs)
    except GlensideError:
        reject()  # An empty axis where none may be.
    # A failure shrinks to a program as it was drawn.
    number = draw(st.integers(0, 2 * len(_VARIATIONS) - 1)) - len(_VARIATIONS)
    if number < 0:
        return program
    try:
        return _VARIATIONS[number](draw, program) or program
    except GlensideError:  # What stands above it does not fit any more.
        return program


def _rebuilt(program: Term, change: Callable[[Term, Sequence[Term]], Term | None]) -> Term:
    """The program with ``change(term, new operands)`` in place of each term for which that is not
    None."""
    made: dict[Term, Term] = {}
    for term in topological_order([program]):
        operands = [made[child] for child in term.children]
        new = change(term, operands)
        made[term] = _made(term, operands) if new is None else new
    return made[program]


def _made(term: Term, operands: Sequence[Term], **changed: Any) -> Term:
    if not changed and tuple(operands) == term.children:
        return term
    return make(term.op, list(operands), **{**term.attributes, **changed})


def _tensors(program: Term) -> list[Term]:
    return [term for term in topological_order([program]) if term.op == "tensor"]


def one_tensor(draw: Draw, program: Term) -> Term | None:
    """Two inputs are one."""
    tensors = _tensors(program)
    pairs = [
        (one, two)
        for number, two in enumerate(tensors)
        for one in tensors[:number]
        if one.type == two.type
    ]
    if not pairs:
        return None
    one, two = draw(st.sampled_from(pairs))
    return _rebuilt(program, lambda term, _: one if term is two else None)


def other_length(draw: Draw, program: Term) -> Term | None:
    """All axes of some length get another one, most often none or one."""
    lengths = sorted({n for each in _tensors(program) for n in each.shape})
    if not lengths:
        return None
    old, new = draw(st.sampled_from(lengths)), draw(st.sampled_from((0, 1, 0, 2)))

    def changed(shape: Shape) -> Shape:
        return tuple(new if n == old else n for n in shape)

    return _resized(program, changed)


def other_axis(draw: Draw, program: Term) -> Term | None:
    """One axis of one input gets another length."""
    tensors = [term for term in _tensors(program) if term.shape]
    if not tensors:
        return None
    tensor = draw(st.sampled_from(tensors))
    axis = draw(st.integers(0, len(tensor.shape) - 1))
    length = draw(st.sampled_from((0, 1, tensor.shape[axis] + 1)))
    shape = (*tensor.shape[:axis], length, *tensor.shape[axis + 1 :])
    return _rebuilt(
        program, lambda term, _: _made(term, (), shape=shape) if term is tensor else None
    )


def _resized(program: Term, changed: Callable[[Shape], Shape]) -> Term:
    def change(term: Term, operands: Sequence[Term]) -> Term | None:
        new: Mapping[str, Any] = {
            name: changed(term[name])
            for name in _LENGTHS.get(term.op, ())
            if isinstance(term[name], tuple)
        }
        return _made(term, operands, **new) if new else None

    return _rebuilt(program, change)


_LENGTHS = {
    "tensor": ("shape",),
    "constant": ("shape",),
    "broadcast": ("shape",),
    "reshape": ("outer", "item"),
    "windows": ("shape",),
}
"""Attributes that are lengths of axes."""


def other_split(draw: Draw, program: Term) -> Term | None:
    """An input, or what is taken of it, has items where it had none, or others than it had."""
    places = [
        term for term in topological_order([program]) if term.type.rank and term is not program
    ]
    if not places:
        return None
    place = draw(st.sampled_from(places))
    split = draw(st.integers(0, place.type.rank))

    def change(term: Term, operands: Sequence[Term]) -> Term | None:
        if term is not place:
            return None
        inside = operands[0] if term.op == "access" else _made(term, operands)
        return builders.access(inside, split)

    return _rebuilt(program, change)


def other_step(draw: Draw, program: Term) -> Term | None:
    """Windows or a slice go along some axis in other steps."""
    order = topological_order([program])
    places = [term for term in order if term.op == "slice" or (term.op == "windows" and term.item)]
    if not places:
        return None
    place, step = draw(st.sampled_from(places)), draw(st.sampled_from((2, 3)))
    new: dict[str, Any] = {"step": step}
    if place.op == "windows":
        axis = draw(st.integers(0, len(place["stride"]) - 1))
        name = draw(st.sampled_from(("stride", "stride", "dilation")))
        old = place[name] or (1,) * len(place.item)
        new = {name: (*old[:axis], step, *old[axis + 1 :])}
    return _rebuilt(
        program, lambda term, operands: _made(term, operands, **new) if term is place else None
    )


_VARIATIONS: tuple[Vary, ...] = (one_tensor, other_length, other_axis, other_split, other_step)
