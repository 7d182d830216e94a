"""Plans for GPUs are held against their buffers as those for the processor are, in
``tests/test_saving.py``: nothing is launched here."""

from dataclasses import replace

import pytest

from glenside.codegen.plan import (
    Entry,
    HostCall,
    HostNode,
    KernelCall,
    Place,
    Plan,
    Slot,
    TensorMap,
)
from glenside.codegen.plan_check import check_plan
from glenside.errors import TargetError

MAP = TensorMap(
    argument=0,
    offset=0,
    dtype="float16",
    sizes=(32, 6, 8),
    strides=(64, 384),
    box=(32, 8, 8),
    steps=(1, 1, 1),
    line=64,
)
"""Of 8 x 6 x 32 elements of two bytes."""
ENTRY = Entry([4, 1, 1], [128, 1, 1], 1 << 10, maps=[MAP])


def _plan(entry: Entry) -> Plan:
    size = 8 * 6 * 32
    plan = Plan(size * 2, [Slot("float16", size, offset=0)], device="cuda")
    plan.steps = [KernelCall("k", [[0, 0, size]])]
    plan.kernels = {"k": entry}
    return Plan.from_json(plan.to_json())


def test_a_plan_that_fits_is_taken():
    check_plan(_plan(ENTRY), 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"argument": 1}, "argument"),
        ({"offset": 16}, "ends at byte 3088 of a buffer of 3072"),
        ({"offset": 2}, "no multiples of 16"),
        ({"dtype": "int64"}, "is of int64"),
        ({"line": 48}, "lines of 48"),
        ({"sizes": (32, 6, 9)}, "ends at byte"),
        ({"sizes": (33, 6, 8)}, "ends at byte"),
        ({"strides": (64, 400)}, "ends at byte"),
        ({"strides": (64,)}, "strides"),
        ({"strides": (-64, 384)}, "strides"),
        ({"box": (32, 8)}, "boxes"),
        ({"box": (32, 8, 1000)}, "box"),
        ({"steps": (1, 0, 1)}, "steps"),
    ],
)
def test_a_tensor_map_lies_in_its_buffer(change, said):
    with pytest.raises(ValueError, match=f"tensor map.*{said}"):
        check_plan(_plan(replace(ENTRY, maps=[replace(MAP, **change)])), 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"grid": [4, 1]}, "grid .* has not three numbers"),
        ({"grid": [0, 1, 1]}, "grid is 0"),
        ({"grid": [2**40, 1, 1]}, "grid is"),
        ({"block": [1 << 10, 1 << 10, 1]}, "threads in a group"),
        ({"local_bytes": -1}, "local memory is -1"),
        ({"overlapped": "yes"}, "overlapped is 'yes'"),
    ],
)
def test_a_launch_is_one_that_a_device_may_have(change, said):
    with pytest.raises(ValueError, match=f"kernel k: .*{said}|kernel k: {said}"):
        check_plan(_plan(replace(ENTRY, **change)), 0)


def _hosted(**change):
    """Mish of Celu of the first 6 numbers of a buffer of 24, put behind them."""
    node = HostNode("Celu", "", 12, "{}", ("x",), ("y",))
    other = HostNode("Mish", "", 18, "{}", ("y",), ("z",))
    places = {
        name: Place(0, at, [[[2, 3]], [[3, 1]]], [2, 3], "float32")
        for name, at in (("x", 0), ("z", 6))
    }
    call = HostCall([node, other], {"x": places["x"]}, {"z": places["z"]})
    for name, value in change.items():
        setattr(call, name, value)
    slots = [Slot("float32", 24, offset=0), Slot("float32", 24, parameter=0)]
    return replace(Plan(96, slots), steps=[call]), places


def test_host_operators_read_what_is_made_and_lie_in_their_buffers():
    plan, places = _hosted()
    check_plan(plan, 96)
    x, z = places["x"], places["z"]
    for said, change in {
        "step 0: Mish reads 'y', which nothing makes": {"nodes": plan.steps[0].nodes[1:]},
        "step 0: nothing makes the result 'q'": {"results": {"q": z}},
        "step 0: operand 'x'": {"operands": {"x": replace(x, offset=23)}},
        "step 0: result 'z'": {"results": {"z": replace(z, buffer=2)}},
        "step 0 would overwrite a parameter": {"results": {"z": replace(z, buffer=1)}},
    }.items():
        with pytest.raises(ValueError, match=f"^{said}"):
            check_plan(_hosted(**change)[0], 96)


def test_a_device_that_is_not_known_is_named():
    with pytest.raises(TargetError, match="is for 'abacus', which this version does not know"):
        check_plan(replace(_plan(ENTRY), device="abacus"), 0)
