"""The record as text: what the program is after each pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glenside.codegen.plan import HostCall, KernelCall, Plan
from glenside.codegen.program.cut import PASSES, passed
from glenside.codegen.program.record import Cut, Fill, Kernel, PythonStep, Step
from glenside.codegen.storage import Stored
from glenside.codegen.views import View
from glenside.language.memory import spelled
from glenside.language.syntax import spell_term
from glenside.language.term import Term, topological_order


def show_passes(start: Cut, plan: Plan) -> str:
    """The program after each pass, from ``start`` on, and the plan of its kernels.

    Values have the same names throughout, ``%0`` and so on; ``b0`` is a buffer. The place of a
    value is its offset in a buffer and then, for each axis, sizes and strides.
    """
    lines: list[str] = []
    before: list[str] = []
    for name, cut in passed(start):
        what = " ".join((PASSES[name].__doc__ or "").partition("\n\n")[0].split())
        shown = list(show(cut))
        lines += [f"after {name}: {what}", *(_indented(shown) if shown != before else ["  (same)"])]
        before = shown
    told = "plan: slots of buffers, those of kernels included, and calls in order"
    return "\n".join([*lines, told, *_indented(_planned(plan))])


def show(cut: Cut) -> Iterator[str]:
    """A record's terms and what is known of each, then its steps and its buffers."""
    whole = topological_order(cut.outputs)
    names = {term: f"%{number}" for number, term in enumerate(whole)}
    told = {*cut.order, *cut.weights} if cut.order or cut.weights else {*whole}
    for term in whole:
        if term in told:
            marks = "; ".join(_marks(cut, term, names))
            line = f"{names[term]} = {_spelled(cut, term, names)} : {term.type}"
            yield f"{line}  # {marks}" if marks else line
    yield f"results {_listed(cut.outputs, names)}"
    for number, step in enumerate(cut.steps):
        yield f"step {number}: {_step(cut, step, names)}"
    for number, buffer in enumerate(cut.memory.buffers):
        known = ", known" if number in cut.memory.arrays else ""
        yield f"b{number}: {buffer.size} {buffer.dtype} for {names[cut.homes[number].term]}{known}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _spelled(cut: Cut, term: Term, names: dict[Term, str]) -> str:
    if term in cut.constants:
        return repr(cut.constants[term])
    if term in cut.weights and term.op != "tensor":
        return f"of parameters, by {term.op}"
    return spell_term(term, names)


def _marks(cut: Cut, term: Term, names: dict[Term, str]) -> Iterator[str]:
    """What passes found of a term, in their order."""
    if term in cut.weights:
        yield "known"
    if term in cut.kept:
        yield "kept, as moved" if term in cut.relaid else "kept"
    if term in cut.streamed:
        streamed = cut.streamed[term]
        yield f"with {names[streamed.softmax]} and {names[streamed.scores]} inside, in blocks"
    if term in cut.fused:
        yield f"with {names[cut.fused[term].anchor]} inside"
    if term in cut.rows:
        yield f"rows with {_listed(cut.rows[term].chain, names)} inside"
    if term in cut.products:
        product = cut.products[term]
        yield f"{names[product.vector]} along registers, {names[product.pixels]} streamed"
    if term in cut.parts:
        yield f"in {names[cut.parts[term].whole]} from {cut.parts[term].at} on"
    for part, at in cut.copies.get(term, ()):
        yield f"{names[part]} copied to {at}"
    if term in cut.rooms:
        room = cut.rooms[term]
        around = ", ".join(f"{b}+{a} of axis {k}" for k, (b, a) in sorted(room.margins.items()))
        yield f"margins of {room.fill}: {around}"
    if term in cut.stored:
        yield _place(cut.stored[term])


def _place(stored: Stored) -> str:
    base = f"b{stored.buffer}" + (f" from {stored.base}" if stored.base else "")
    return f"{base}: {_view(stored.view)}"


def _view(view: View) -> str:
    axes = [" ".join(f"{size}*{stride}" for size, stride in axis) or "1" for axis in view.axes]
    return f"{view.offset} + ({', '.join(axes)})"


def _listed(terms: Iterable[Term], names: dict[Term, str]) -> str:
    return ", ".join(names[term] for term in terms)


def _step(cut: Cut, step: Step, names: dict[Term, str]) -> str:
    if isinstance(step, Fill):
        return f"margins of b{step.buffer} with {step.view.fill}"
    if isinstance(step, PythonStep):
        return f"{names[step.term]} by Python from {_listed(step.term.children, names)}"
    own = {term for term in (step.tail, step.anchor) if term is not None}
    read = {leaf for term in own for leaf in cut.leaves.region(term) if leaf in cut.leaves} - own
    leaves = [term for term in names if term in read]
    return f"{names[step.tail]}{_how(step, names)} from {_listed(leaves, names) or 'nothing'}"


def _how(step: Kernel, names: dict[Term, str]) -> str:
    how = ""
    if step.anchor is not None and step.anchor is not step.tail:
        how += f" with {names[step.anchor]} inside"
    if step.rows is not None:
        rows = step.rows
        how += f" over {rows.rows} rows of {rows.length}: {_listed(rows.chain, names)}"
    if step.product is not None:
        how += ", in register tiles"
    return how if step.into is None else f"{how} to {_place(step.into)}"


def _planned(plan: Plan) -> Iterator[str]:
    yield f"memory: {spelled(plan.arena)}"
    for number, slot in enumerate(plan.slots):
        where = f"at {slot.offset}" if slot.offset is not None else "parameter"
        where = where if slot.fill is None else f"filled with {slot.fill}"
        yield f"b{number}: {slot.size} {slot.dtype}, {where}"
    for step in plan.steps:
        if isinstance(step, KernelCall):
            yield f"{step.function}({', '.join(_argument(*each) for each in step.arguments)})"
        elif isinstance(step, HostCall):
            yield f"onnxruntime: {', '.join(node.operator for node in step.nodes)}"
        else:
            yield f"Python: {step.operator}"


def _argument(buffer: int, first: int, count: int) -> str:
    return f"b{buffer}[{first}:{first + count}]"
