"""Which pads are margins around what they pad."""

from glenside.codegen.program.record import Room
from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X = b.tensor("x", (2, 40))
EXP = b.compute("exp", X)


def looks(value, *pads, fill=0.0):
    """Largest of overlapping windows along the last axis, so that ``value`` is stored."""
    for axis, before, later in pads:
        value = b.pad(value, axis, before, later, fill)
    return b.compute("max", b.windows(b.access(value, 1), (3,), (1,)))


def test_a_pad_is_a_margin():
    assert after("margins", looks(EXP, (1, 1, 2))).rooms == {EXP: Room(0.0, {1: (1, 2)})}


def test_devices_guard_by_themselves():
    assert not after("margins", looks(EXP, (1, 1, 2)), plain=True).rooms


def test_margins_of_several_uses_are_as_wide_as_the_widest():
    cut = after("margins", looks(EXP, (1, 1, 2)), looks(EXP, (1, 3, 0), (0, 1, 0)))
    assert cut.rooms == {EXP: Room(0.0, {0: (1, 0), 1: (3, 2)})}


def test_a_buffer_has_one_fill():
    cut = after("margins", looks(EXP, (1, 1, 1)), looks(EXP, (1, 2, 2), fill=1.0))
    assert [room.fill for room in cut.rooms.values()] in ([0.0], [1.0])


def test_what_would_take_too_much_memory_is_guarded():
    assert not after("margins", looks(EXP, (1, 1 << 14, 0))).rooms
    assert after("margins", looks(EXP, (1, 1 << 12, 0))).rooms


def test_margins_of_a_part_are_those_of_the_whole():
    tanh = b.compute("tanh", X)
    whole = b.concat(0, EXP, tanh)
    cut = after("margins", looks(EXP, (1, 1, 1)), whole)
    assert cut.rooms == {whole: Room(0.0, {1: (1, 1)})}
    cut = after("margins", looks(EXP, (1, 1, 1)), b.concat(1, EXP, tanh))
    assert not cut.rooms
