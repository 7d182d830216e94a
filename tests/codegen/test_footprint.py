"""What a program is said to hold is what its plan takes, counted by hand."""

import dataclasses

import pytest

from glenside.codegen.compile import compile_terms, planned_footprint
from glenside.codegen.device.compile import compile_for_device, plan_for_device
from glenside.codegen.footprint import Footprint
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.language import builders as b
from tests.codegen.codegen_help import convolution, weights

FLOAT = 4
H200 = device_profile("cuda:sm_90")


def two_products():
    """(8 16) by (16 32), exp, by (32 4): one value of 8 x 32 floats on the way."""
    x, w, v = b.tensor("x", (8, 16)), b.tensor("w", (32, 16)), b.tensor("v", (4, 32))
    first = b.compute("dot", b.cart_prod(b.access(x, 1), b.access(w, 1)))
    middle = b.access(b.compute("exp", first), 1)
    return b.compute("dot", b.cart_prod(middle, b.access(v, 1))), x


PARAMS = {"w": weights(32, 16), "v": weights(4, 32)}


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_intermediates_share_memory_with_operands_and_results(where):
    term, x = two_products()
    if where == "cpu":
        told = compile_terms([term], {"x": x.type}, PARAMS, threads=1).footprint
        assert planned_footprint([term], {"x": x.type}, PARAMS) == told
    else:
        made = compile_for_device([term], {"x": x.type}, PARAMS, H200, "cuda", staged=False)
        told = made.footprint
    assert (told.inputs, told.results) == (FLOAT * 8 * 16, FLOAT * 8 * 4)
    assert told.weights == FLOAT * (32 * 16 + 4 * 32)
    assert list(told.largest.values()) == [FLOAT * 8 * 32]
    # The result lies where the input was, which is not needed any more; whole lines on a GPU.
    line = 64 if where == "cpu" else 512
    arena = FLOAT * (8 * 32 + 8 * 16)
    assert arena % line == 0
    assert told.intermediates == arena - told.inputs - told.results
    assert told.scratch == {}


def test_partial_sums_are_scratch():
    x, w = b.tensor("x", (1, 64, 4, 4)), b.tensor("w", (8, 64, 3, 3))
    term = convolution(x, w, (1, 1), (1, 1, 1, 1))
    params = {"w": weights(8, 64, 3, 3)}

    def split(space, limits):
        ones = (1,) * len(space.axes)
        many = tuple(4 if axis.role == "k" and axis.size == 64 else 1 for axis in space.axes)
        chunk = tuple(axis.size if axis.size == 3 else 1 for axis in space.axes)
        return ThreadMapping(ones, ones, ones, chunk, many)

    made = plan_for_device([term], {"x": x.type}, params, H200, "cuda", split)
    # Four sums of 8 filters at 16 places.
    assert made.footprint.scratch == {"step_0": FLOAT * 4 * 8 * 16}
    assert [mapping["split"] for mapping in made.mappings] == [[1, 1, 1, 4, 1, 1]]
    limited = dataclasses.replace(H200, scratch_bytes=FLOAT * 4 * 8 * 16 - 1)
    less = plan_for_device([term], {"x": x.type}, params, limited, "cuda", split)
    assert sum(less.footprint.scratch.values()) < FLOAT * 4 * 8 * 16, "the mapping named is refused"


def test_what_parameters_take_beyond_the_models_own():
    x, w = b.tensor("x", (2, 3)), b.tensor("w", (5, 1, 3))
    whole = b.reshape(b.broadcast(w, (5, 7, 3)), (35, 3))
    joined = b.concat(0, x, b.compute("exp", whole))
    params = {"w": weights(5, 1, 3)}
    told = compile_terms([joined], {"x": x.type}, params, threads=1).footprint
    assert told.weights == FLOAT * 5 * 3
    assert told.derived >= 0
    grown = b.compute("dot", b.cart_prod(b.access(x, 1), b.access(whole, 1)))
    told = compile_terms([grown], {"x": x.type}, params, threads=1).footprint
    assert told.derived >= FLOAT * (35 - 5) * 3, "packed, each row is there seven times"


def test_it_reads_back_and_says_what_it_counts():
    told = Footprint(1 << 10, 2 << 10, 4 << 10, 3 << 10, 5 << 10, {"step_0": 1 << 10}, {"dot": 7})
    assert told.held == 8 << 10
    assert told.to_json()["held"] == told.held
    assert Footprint.from_json(told.to_json()) == told
    for words in ("8.0 KiB held", "values 3.0 KiB", "a kernel up to 1.0 KiB", "own 5.0 KiB"):
        assert words in str(told)


def test_plans_and_programs_hold_the_same():
    term, x = two_products()
    planned = plan_for_device([term], {"x": x.type}, PARAMS, H200, "cuda")
    made = compile_for_device([term], {"x": x.type}, PARAMS, H200, "cuda")
    assert planned.footprint.held == made.footprint.held
    assert len(planned.mappings) == 2
    assert planned.seconds["step_0"] > 0 and planned.seconds["step_1"] > 0
    # The time of adding up partial sums is in their product's.
    sums = {name for name in planned.seconds if name.endswith("_sum")}
    assert planned.seconds.keys() == {"step_0", "step_1"} | sums
    assert all(planned.seconds[name] == 0 for name in sums)
