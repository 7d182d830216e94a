"""The rewrites that follow from declarations: sound, and found to be unsound when broken."""

import dataclasses

import pytest
from egglog import String, eq, i64

from glenside.errors import UnsoundRewrite
from glenside.hw_targets import Accelerator
from glenside.hw_targets.declare import mapping
from glenside.hw_targets.operation import accelerator_of
from glenside.hw_targets.units import flexasr, vta
from glenside.language.units import known_units
from glenside.rewrites.soundness import check_fires, check_sound
from tests.effort import tries

SHIPPED = sorted(unit.name for unit in known_units() if unit.declaration)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_unit_that_ships_is_found_soundly(name):
    check_fires(accelerator_of(name).rule(), examples=tries(24))


def any_list(case, found, sizes):
    """Binds the variables that stand by themselves and compares nothing."""
    for i, size in enumerate(sizes):
        if size.is_name and size.text not in case.__dict__.setdefault("seen", set()):
            case.seen.add(size.text)
            case.facts.append(eq(case.value(size)).to(found[i]))


BROKEN = {
    "layout is not undone": ("undo", lambda case, x, changes: x),
    "any dtype is added up in": ("accumulate", lambda case, node, below: case.new(String)),
    "lengths are not compared": ("lengths_are", any_list),
}
SQUARE_POOL = {
    "operands": {"x": "((C) (H W))"},
    "computes": "(compute max (windows (k k) (s s) ?x))",
}


def unit_of(how):
    if how == "layout is not undone":
        return dataclasses.replace(flexasr.MAXPOOL, name="test-broken")
    if how == "any dtype is added up in":
        return dataclasses.replace(vta.DENSE, name="test-broken")
    return Accelerator("test-broken", **SQUARE_POOL)


def test_lengths_that_are_the_same_variable_are_compared():
    check_fires(Accelerator("test-square", **SQUARE_POOL).rule(), examples=tries(30))


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_rewrite_is_found_out(how, monkeypatch):
    name, instead = BROKEN[how]
    monkeypatch.setattr(mapping._Case, name, instead)
    with pytest.raises(UnsoundRewrite):
        check_sound(unit_of(how).rule(), examples=100, smallest=False)


def test_a_rewrite_without_the_constraints_is_found_out(monkeypatch):
    monkeypatch.setattr(mapping, "_compare", lambda *_: eq(i64(1)).to(i64(1)))
    again = dataclasses.replace(flexasr.MAXPOOL, name="test-broken")
    with pytest.raises(UnsoundRewrite, match="ill-typed call"):
        check_sound(again.rule(), examples=100, smallest=False)
