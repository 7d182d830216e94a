"""The plan of a program whose kernels are made."""

from glenside.codegen.plan import KernelCall, PythonCall
from glenside.codegen.program.planning import Planner
from glenside.codegen.program.record import Fill, Kernel
from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X = b.tensor("x", (2, 40))
EXP = b.compute("exp", X)


def test_what_is_there_after_which_call():
    looks = b.compute("max", b.windows(b.access(b.pad(EXP, 1, 1, 1, 0.0), 1), (3,), (1,)))
    cut = after("storing", looks)
    planner = Planner(cut, cut.memory)
    calls = []
    for step in cut.steps:
        calls += [KernelCall("first", []), KernelCall("second", [])]
        planner.note(step, len(calls))
    assert [type(step) for step in cut.steps] == [Fill, Kernel, Kernel]
    planned = planner.plan(calls)
    seen = {number: [term for term, _ in each] for number, each in planned.watched.items()}
    assert seen == {-1: [X], 3: [EXP], 5: [looks]}


def test_places_of_inputs_and_results():
    cut = after("storing", b.transpose(EXP, (1, 0)), X)
    plan = Planner(cut, cut.memory).plan([])
    assert plan.plan.inputs["x"].axes == [[[2, 40]], [[40, 1]]]
    assert plan.plan.input_types == {"x": [[2, 40], [], "float32"]}
    turned, same = plan.plan.outputs
    assert turned.axes == [[[40, 1]], [[2, 40]]]
    assert same == plan.plan.inputs["x"]


def test_a_step_in_python():
    hosted = b.host_op("Elu", [EXP], (2, 40), version=17)
    cut = after("storing", hosted)
    call = Planner(cut, cut.memory).python_call(cut.steps[-1])
    assert isinstance(call, PythonCall)
    assert (call.operator, call.types) == ("host_op", [[[2, 40], [], "float32"]])
    assert call.operands[0].buffer != call.result.buffer


def test_terms_are_the_callers():
    total = b.compute("add", b.access(b.tensor("y", (3, 9)), 1))
    cut = after("storing", total)
    planner = Planner(cut, cut.memory)
    (step,) = cut.steps
    planner.note(step, 1)
    watched = planner.plan([KernelCall("k", [])]).watched
    assert [term for term, _ in watched[0]] == [total]
