"""Which values are written to memory."""

import pytest

from glenside.language import builders as b
from glenside.language import topological_order
from tests.codegen.program.passes_help import after

X = b.tensor("x", (4, 8))
EXP = b.compute("exp", X)


def kept(*outputs, **style):
    """What is kept beside inputs and results."""
    cut = after("materialise", *outputs, **style)
    return {term for term in cut.kept if term.op != "tensor"} - {*outputs}


def test_a_chain_of_elementwise_work_is_one_kernel():
    assert not kept(b.compute("neg", b.compute("tanh", EXP)))


def test_data_movement_is_never_stored_for_itself():
    assert not kept(b.compute("neg", b.transpose(b.compute("exp", b.slice_(X, 1, 1, 5)), (1, 0))))


def test_a_reduction_is_stored():
    total = b.compute("sum", b.access(EXP, 1))
    assert kept(b.compute("neg", total)) == {total}


def test_what_two_kernels_read_is_stored():
    sums = [b.compute(name, b.access(EXP, 1)) for name in ("sum", "max")]
    assert kept(*sums) == {EXP}
    assert not kept(sums[0])


@pytest.mark.parametrize(("stride", "repeated"), [(1, True), (2, True), (3, False)])
def test_what_windows_read_several_times_is_stored(stride, repeated):
    looks = b.windows(b.access(EXP, 1), (3,), (stride,))
    assert (EXP in kept(b.compute("max", looks))) == repeated


def test_operands_of_host_operators_are_stored():
    assert kept(b.host_op("Elu", [EXP], (4, 8), version=17)) == {EXP}


@pytest.mark.parametrize(("length", "stored"), [(4, False), (5, True)])
def test_long_work_under_a_guard_is_stored(length, stored):
    """There is no place for statements between a border and what it is around."""
    value = X
    for name in ("exp", "tanh", "neg", "abs", "sqrt")[:length]:
        value = b.compute(name, value)
    padded = b.pad(value, 0, 1, 1, 0.0)
    out = b.compute("neg", padded)
    assert (value in kept(out)) == stored
    assert padded in topological_order([out])
