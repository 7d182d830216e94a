"""Every core operator of ATen is imported or refused by name; PyTorch need not be installed."""

import pytest

from glenside.frontends.torch.exporting import KEPT
from glenside.frontends.torch.operators import OPERATORS, REFUSED


def test_no_operator_is_both_imported_and_refused():
    assert not OPERATORS.keys() & REFUSED.keys()


def test_what_is_kept_from_decomposition_has_a_meaning():
    assert set(KEPT) <= OPERATORS.keys()
    assert len(set(KEPT)) == len(KEPT)


def test_every_core_operator_is_either_imported_or_refused():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test-torch)")
    core = set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten":
            overload = getattr(getattr(torch.ops.aten, name), schema.overload_name or "default")
            if torch.Tag.core in overload.tags:
                core.add(name)
    assert len(core) > 150
    assert core <= OPERATORS.keys() | REFUSED.keys()
