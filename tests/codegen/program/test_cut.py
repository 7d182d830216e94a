"""All passes in order."""

from dataclasses import fields

from glenside.codegen.program.cut import PASSES, cut_program, passed
from glenside.codegen.program.record import Cut
from glenside.language import topological_order
from tests.codegen.programs import small_net


def start():
    term, params = small_net()
    leaves = [t for t in topological_order([term]) if t.op == "tensor" and t["name"] not in params]
    return Cut((term,), {t["name"]: t.type for t in leaves}, params)


def test_every_pass_is_in_the_file_of_its_name():
    modules = {name: step.__module__.rpartition(".")[2] for name, step in PASSES.items()}
    assert modules == {name: name for name in PASSES}


def test_a_pass_changes_its_own_fields_only():
    """None takes back what one before it decided, but that more is kept."""
    owners: dict[str, str] = {}
    before = start()
    for name, cut in passed(before):
        for each in fields(Cut):
            if getattr(cut, each.name) is not getattr(before, each.name):
                owner = owners.setdefault(each.name, name)
                assert owner == name or each.name == "kept", (each.name, owner, name)
        assert before.kept <= cut.kept
        before = cut
    assert owners["steps"] == "layout"


def test_cutting_twice_gives_the_same():
    given = start()
    first, second = (cut_program(given.outputs, given.types, given.params) for _ in range(2))
    assert first.steps == second.steps
    assert first.stored == second.stored
    assert first.start.outputs == given.outputs
