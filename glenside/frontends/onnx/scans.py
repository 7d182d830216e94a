"""Running sums and products, sorting, and loops that are unrolled."""

from __future__ import annotations

import numpy as np
import onnx

from glenside.errors import ModelError
from glenside.frontends.lowering.ordering import LARGEST_SORT, best_places
from glenside.frontends.lowering.phrases import select
from glenside.frontends.lowering.places import gather_elements
from glenside.frontends.lowering.running import running
from glenside.frontends.onnx.node import Node, dtype_name, operator
from glenside.language import Term, builders

LONGEST_LOOP = 1024
"""Iterations that are unrolled."""


@operator("CumSum", "CumProd")
def _running(node: Node) -> Term:
    x = node[0]
    axis = node.axis(int(node.number(1, "axis")), x.type.rank)
    exclusive = node.attributes.flag("exclusive")
    reverse = node.attributes.flag("reverse")
    product = node.operator == "CumProd"
    return running(x, axis, product, exclusive, reverse)


@operator("TopK")
def _top_k(node: Node) -> list[Term | None]:
    """Ranks by counting, for every element, those that come before it."""
    x = node[0]
    axis = node.axis(node.attributes.integer("axis", -1), x.type.rank)
    if node.opset < 10:
        k = node.attributes.integer("k")
        largest = True
    else:
        k = int(node.number(1, "k"))
        largest = node.attributes.flag("largest", True)
    node.attributes.ignore("sorted")  # Sorted is one of the orders that unsorted allows.
    length = x.shape[axis]
    if not 0 <= k <= length:
        raise node.error(f"k is {k}, axis {axis} has {length} positions")
    if x.type.size * length > LARGEST_SORT:
        node.refuse(f"{length} positions are too many to compare with each other")
    if k == 0:
        none = builders.slice_(x, axis, 0, 0)
        return [none, builders.cast(none, "int64")]
    indices = best_places(node, x, axis, k, largest)
    return [gather_elements(node, x, indices, axis), indices]


@operator("If")
def _if(node: Node) -> list[Term | None]:
    names = ("then_branch", "else_branch")
    branches = [node.attributes.graph(name) for name in names]
    then, other = branches
    if then is None or other is None:
        raise node.error("attribute then_branch or else_branch is missing")
    known = node.known(0)
    if known is not None and known.size == 1:
        return node.run(then if known.item() else other)
    condition = builders.reshape(node[0], ())
    both = node.attempt(then), node.attempt(other)
    for taken, (name, unfit, fit) in enumerate(zip(names, both, both[::-1], strict=True)):
        if not isinstance(unfit, ModelError):
            continue
        # At these shapes it cannot run: the other one has to be taken.
        if isinstance(fit, ModelError):
            raise node.error(f"neither branch fits: {unfit}; {fit}")
        if not node.require(condition, taken, taken + 1, f"cannot take its {name} ({unfit})"):
            node.array(0, f"the condition, since its {name} does not fit ({unfit}),")
        return fit
    results: list[Term | None] = []
    fitting = [each for each in both if not isinstance(each, ModelError)]
    for one, two in zip(*fitting, strict=True):
        if not isinstance(one, Term) or not isinstance(two, Term) or one.type != two.type:
            node.array(0, "the condition, since its branches differ in shape,")
            node.refuse("the branches differ in shape")
        results.append(select(condition, one, two))
    return results


@operator("Scan")
def _scan(node: Node) -> list[Term | None]:
    if node.opset < 9:
        node.refuse("the Scan of opset 8 is not supported")
    body = node.attributes.graph("body")
    count = node.attributes.integer("num_scan_inputs")
    operands = node.given()
    states = len(operands) - count
    if body is None or not 0 < count <= len(operands) or len(body.input) != len(operands):
        raise node.error("attributes body and num_scan_inputs do not fit the operands")
    results = len(body.output) - states
    axes = node.attributes.integers("scan_input_axes") or [0] * count
    backwards = node.attributes.integers("scan_input_directions") or [0] * count
    out_axes = node.attributes.integers("scan_output_axes") or [0] * results
    out_backwards = node.attributes.integers("scan_output_directions") or [0] * results
    scanned = operands[states:]
    axes = [node.axis(axis, x.type.rank) for axis, x in zip(axes, scanned, strict=True)]
    lengths = {x.shape[axis] for axis, x in zip(axes, scanned, strict=True)}
    if len(lengths) != 1:
        raise node.error(f"the scanned axes differ in length: {sorted(lengths)}")
    (length,) = lengths
    if not 0 < length <= LONGEST_LOOP:
        node.refuse(f"{length} iterations: 1 to {LONGEST_LOOP} are unrolled")
    state: list[Term] = operands[:states]
    made: list[list[Term]] = [[] for _ in range(results)]
    for i in range(length):
        slices = []
        for x, axis, back in zip(scanned, axes, backwards, strict=True):
            at = length - 1 - i if back else i
            slices.append(builders.squeeze(builders.slice_(x, axis, at, at + 1), axis))
        outcome = _iterate(node, body, [*state, *slices])
        state = outcome[:states]
        for collected, value in zip(made, outcome[states:], strict=True):
            collected.append(value)
    stacked = []
    for collected, axis, back in zip(made, out_axes, out_backwards, strict=True):
        axis = node.axis(axis, collected[0].type.rank + 1)
        stacked.append(_stack(collected[::-1] if back else collected, axis))
    return [*state, *stacked]


def _iterate(node: Node, body: onnx.GraphProto, operands: list[Term]) -> list[Term]:
    """One run of a loop's body; every value it gives must be there."""
    names = [each.name for each in body.input]
    outcome = node.run(body, dict(zip(names, operands, strict=True)))
    for value in outcome:
        if not isinstance(value, Term | tuple):
            node.refuse("the body of the loop has nodes that are not supported")
    return outcome


def _stack(parts: list[Term], axis: int) -> Term:
    return builders.concat(axis, *(builders.unsqueeze(part, axis) for part in parts))


@operator("Loop")
def _loop(node: Node) -> list[Term | None]:
    body = node.attributes.graph("body")
    if body is None:
        raise node.error("attribute body is missing")
    limit = int(node.number(0, "the trip count")) if node.get(0) is not None else None
    running = bool(node.number(1, "the condition")) if node.get(1) is not None else True
    state = list(node.inputs[2:])
    results = len(body.output) - 1 - len(state)
    if len(body.input) != 2 + len(state) or results < 0:
        raise node.error("the body does not fit the operands")
    made: list[list[Term]] = [[] for _ in range(results)]
    i = 0
    while running and (limit is None or i < limit):
        if i == LONGEST_LOOP:
            node.refuse(f"more than the {LONGEST_LOOP} iterations that are unrolled")
        number = node.constant(np.array(i, np.int64), "iteration")
        condition = node.constant(np.array(running), "condition")
        outcome = _iterate(node, body, [number, condition, *state])
        running = bool(node.value_of(outcome[0], "the condition of the loop").item())
        state = outcome[1 : 1 + len(state)]
        for collected, value in zip(made, outcome[1 + len(state) :], strict=True):
            collected.append(value)
        i += 1
    stacked: list[Term] = []
    for collected, info in zip(made, body.output[1 + len(state) :], strict=True):
        if collected:
            stacked.append(_stack(collected, 0))
            continue
        dims = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        kind = dtype_name(info.type.tensor_type.elem_type)
        stacked.append(builders.constant(0, (0, *dims), kind))
    return [*state, *stacked]
