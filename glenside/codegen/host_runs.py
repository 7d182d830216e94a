"""Host operators of a plan gathered into runs: one onnxruntime session each.

A plan has one step for each value. An operator with several results would run once for each of
them, and every step would cross into onnxruntime and back; so steps that may run together do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from glenside.codegen.plan import HostCall, KernelCall, Place, PythonCall
from glenside.language.host import HostNode, named_outputs

Step = KernelCall | PythonCall | HostCall


@dataclass
class _Member:
    """A host operator and its results that the program uses, by position."""

    step: PythonCall
    results: dict[int, Place] = field(default_factory=dict)

    @property
    def opset(self) -> tuple[str, int]:
        return self.step.attributes["domain"], self.step.attributes["version"]

    def is_node_of(self, step: PythonCall) -> bool:
        """Whether the step is another result of the same operator."""
        told = ("domain", "operator", "version", "attributes")
        return self.step.operands == step.operands and all(
            self.step.attributes[key] == step.attributes[key] for key in told
        )


@dataclass
class _Run:
    members: list[_Member] = field(default_factory=list)

    def gives(self) -> list[Place]:
        return [place for member in self.members for place in member.results.values()]

    def node_of(self, step: PythonCall) -> _Member | None:
        return next((member for member in self.members if member.is_node_of(step)), None)

    def takes(self, step: PythonCall) -> bool:
        """Whether the step could be in the session: of the same opset, its operands as they are."""
        domain, version = step.attributes["domain"], step.attributes["version"]
        if any(member.opset[0] == domain and member.opset[1] != version for member in self.members):
            return False
        given = self.gives()
        inner = {place.buffer for place in given}
        return all(place.buffer not in inner or place in given for place in step.operands)


def gather(
    steps: Sequence[KernelCall | PythonCall], settled: Collection[int]
) -> tuple[list[Step], list[int]]:
    """The steps with host operators in runs, and for each old step the number of its new one.

    A host operator joins an earlier run where nothing between them touches its operands.

    :param settled: buffers that no step writes: inputs and parameters.
    """
    made: list[KernelCall | PythonCall | _Run] = []
    homes: list[KernelCall | PythonCall | _Run] = []
    for step in steps:
        if not isinstance(step, PythonCall) or step.operator != "host_op":
            made.append(step)
            homes.append(step)
            continue
        run = _run_for(step, made, settled)
        if run is None:
            run = _Run()
            made.append(run)
        member = run.node_of(step)
        if member is None:
            member = _Member(step)
            run.members.append(member)
        member.results[step.attributes["output"]] = step.result
        homes.append(run)
    numbers = {id(each): number for number, each in enumerate(made)}
    calls = [_call(each) if isinstance(each, _Run) else each for each in made]
    return calls, [numbers[id(home)] for home in homes]


def _run_for(
    step: PythonCall, made: Sequence[KernelCall | PythonCall | _Run], settled: Collection[int]
) -> _Run | None:
    for each in made:
        if isinstance(each, _Run) and each.node_of(step):
            return each
    needed = {place.buffer for place in step.operands} - {*settled}
    for each in reversed(made):
        if isinstance(each, _Run) and each.takes(step):
            return each
        if needed & _touched(each):
            return None
    return None


def _touched(step: KernelCall | PythonCall | _Run) -> set[int]:
    if isinstance(step, KernelCall):
        return {buffer for buffer, _, _ in step.arguments}
    if isinstance(step, PythonCall):
        return {step.result.buffer, *(place.buffer for place in step.operands)}
    return {place.buffer for place in step.gives()}


def _call(run: _Run) -> HostCall:
    inner = run.gives()
    places: list[Place] = []

    def name(place: Place) -> str:
        if place not in places:
            places.append(place)
        return f"v{places.index(place)}"

    nodes: list[HostNode] = []
    operands: dict[str, Place] = {}
    results: dict[str, Place] = {}
    for number, member in enumerate(run.members):
        step = member.step
        given = [name(place) for place in step.operands]
        operands |= {n: p for n, p in zip(given, step.operands, strict=True) if p not in inner}
        named = {*named_outputs(step.attributes), *member.results}
        outputs = [""] * (max(named) + 1)
        for position in named:
            place = member.results.get(position)
            outputs[position] = f"unused{number}_{position}" if place is None else name(place)
            if place is not None:
                results[outputs[position]] = place
        nodes.append(HostNode.of(step.attributes, given, outputs))
    return HostCall(nodes, operands, results)
