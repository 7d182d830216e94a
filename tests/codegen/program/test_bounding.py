"""No kernel grows beyond what compilers take."""

from glenside.language import builders as b
from tests.codegen.program.passes_help import after


def chain(length):
    value = b.tensor("x", (3,))
    for _ in range(length):
        value = b.compute("neg", value)
    return value


def test_a_chain_of_forty_is_one_kernel():
    assert len(after("bounding", chain(40)).kept) == 2


def test_a_longer_chain_is_cut_every_forty_one_terms():
    cut = after("bounding", chain(100))
    at = [position for position, term in enumerate(cut.order) if term in cut.kept]
    assert at == [0, 41, 82, 100]


def test_a_wide_kernel_is_cut():
    value = b.tensor("x", (3,))
    level = [b.compute("neg", b.tensor(f"x{k}", (3,))) for k in range(128)]
    while len(level) > 1:
        level = [b.elementwise("add", *level[k : k + 2]) for k in range(0, len(level), 2)]
    cut = after("bounding", b.elementwise("mul", value, level[0]))
    computed = [term for term in cut.kept if term.op == "compute"]
    assert len(computed) == 3
    for term in computed:
        # Both operands of the last one were within the bound of 200 terms.
        assert len([t for t in cut.leaves.region(term) if t not in cut.leaves]) <= 401
