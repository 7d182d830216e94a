"""Products on an OpenCL device: every mapping gives every element, and touches nothing else."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.emit import emit
from glenside.codegen.gpu.mapping.choose import best_mappings
from glenside.codegen.gpu.space import ProductSpace
from glenside.codegen.gpu.threads.kernel import ThreadNest
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.threads.parts.boxes import Box
from glenside.codegen.gpu.threads.parts.placing import Placement
from glenside.codegen.gpu.threads.problem import ThreadProblem
from glenside.codegen.gpu.threads.tiling import Tiling
from glenside.errors import TargetError
from glenside.language import Term, evaluate
from glenside.language.builders import (
    access,
    cart_prod,
    compute,
    elementwise,
    pad,
    pair,
    squeeze,
    tensor,
    transpose,
    windows,
)
from tests.codegen.codegen_help import convolution, leaves, numpy_convolution, weights
from tests.codegen.gpu.gpu_help import POCL, run_on_opencl, space_and_step


def mapping(space: ProductSpace, **given: dict[int, int]) -> ThreadMapping:
    """A mapping whose loops are whole and serial but for what is given."""
    count = len(space.axes)
    whole = [axis.size if axis.role == "k" else 1 for axis in space.axes]
    lists = {name: [1] * count for name in ("threads", "registers", "vector", "split")}
    lists["chunk"] = whole
    options = {}
    for name, value in given.items():
        if name not in lists:
            options[name] = value
            continue
        for axis, number in value.items():
            lists[name][axis] = number
    return ThreadMapping(**{k: tuple(v) for k, v in lists.items()}, **options)


def check(
    term: Term,
    choose=None,
    constant: tuple[str, ...] = ("w",),
    tolerance: float = 1e-5,
) -> None:
    """The device computes what NumPy does in double precision, on any arrays."""
    types = leaves([term])
    arrays = {
        name: weights(*t.shape, seed=k, dtype=t.dtype) for k, (name, t) in enumerate(types.items())
    }
    params = {name: arrays[name] for name in constant if name in arrays}
    (got,) = run_on_opencl([term], arrays, params, choose=choose)
    wanted = evaluate([term], arrays)[0].astype("float64")
    assert got.shape == wanted.shape
    np.testing.assert_allclose(
        got, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max(initial=1)
    )


# --- what is read off a term ---------------------------------------------------------------------


def roles(space: ProductSpace) -> str:
    return " ".join(f"{axis.role}{axis.size}" for axis in space.axes)


def test_a_convolution_keeps_its_axes():
    term = convolution(
        tensor("x", (2, 8, 14, 12)), tensor("w", (16, 8, 3, 5)), (1, 2), (1, 2, 1, 2)
    )
    space, _ = space_and_step(term, {"w": weights(16, 8, 3, 5)})
    assert roles(space) == "m16 n2 n14 n6 k8 k3 k5"
    assert space.streamed.shape == (2, 8, 16, 16)  # The border is part of what is read.
    assert space.streamed.steps[3] == (0, 0, 0, 2)  # An output column is two columns on,
    assert space.streamed.steps[6] == (0, 0, 0, 1)  # a window column one.
    assert space.windows_of(3) == [6] and space.windows_of(1) == []
    assert space.resident.constant and not space.streamed.constant
    assert space.operations == 2 * 16 * 2 * 14 * 6 * 8 * 15


def test_depthwise_and_grouped_convolutions_have_batch_axes():
    x = tensor("x", (1, 12, 9, 9))
    depthwise, _ = space_and_step(
        convolution(x, tensor("w", (12, 1, 3, 3)), groups=12), {"w": weights(12, 1, 3, 3)}
    )
    assert roles(depthwise) == "batch12 n7 n7 k3 k3"
    grouped, _ = space_and_step(
        convolution(x, tensor("w", (8, 6, 3, 3)), groups=2), {"w": weights(8, 6, 3, 3)}
    )
    assert roles(grouped) == "batch2 m4 n7 n7 k6 k3 k3"


def test_matrix_products_and_their_epilogues():
    a, b, c = tensor("a", (5, 6, 7)), tensor("b", (5, 8, 7)), tensor("c", (5, 6, 8))
    product = compute("dot", cart_prod(access(a, 2), access(b, 2), 1))
    space, _ = space_and_step(elementwise("relu", elementwise("add", access(product, 3), c)))
    assert roles(space) == "batch5 m6 n8 k7"
    computed = [each for each in space.epilogue if each not in ("access", "pair")]
    assert computed == ["add", "relu"]
    assert space.out_steps == (48, 8, 1, 0)


def test_a_key_says_what_the_speed_depends_on():
    def key(size: int) -> str:
        term = convolution(tensor("x", (1, 8, size, 9)), tensor("w", (4, 8, 3, 3)))
        return space_and_step(term, {"w": weights(4, 8, 3, 3)})[0].key()

    assert key(9) == key(9) and key(9) != key(10)


@pytest.mark.parametrize("size", [9, 11, 18])
def test_a_box_is_read_where_the_operand_is(size):
    """The last group's box may reach beyond the operand; of it only what is inside is read."""
    from tvm import tirx
    from tvm.sym import Analyzer

    term = convolution(tensor("x", (1, 4, size, size)), tensor("w", (8, 4, 3, 3)))
    space, _ = space_and_step(term, {"w": weights(8, 4, 3, 3)})
    rows, columns = space.of("n")[-2:]
    given = {"threads": {columns: 4, rows: 2}, "registers": {columns: 2}, "staged": (False, True)}
    tiling = Tiling(space, mapping(space, **given))
    box, shape = Box(tiling), space.streamed.shape
    last = [math.prod(tiling.groups[k] for k in space.of("batch", "n")) - 1, 0, 0]
    placement = Placement(tiling, last, 0)
    stage = [0] * len(placement.reduced)
    start = box.start(placement, stage)
    beyond = 0
    for offset in np.ndindex(*tiling.extents):
        place = [first + more for first, more in zip(start, offset, strict=True)]
        inside = all(at < length for at, length in zip(place, shape, strict=True))
        index = [tirx.const(at, "int32") for at in place]
        tests = box.tests(placement, index, list(offset), stage)
        held = all(bool(int(Analyzer().simplify(each))) for each in tests)
        assert held == inside, place
        beyond += not inside
    assert bool(beyond) == (size in (9, 11))


# --- values --------------------------------------------------------------------------------------

ODD = [
    # x, w, stride, pads, dilation, groups
    ((1, 8, 14, 14), (40, 8, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((3, 5, 13, 11), (7, 5, 5, 5), (2, 3), (0, 2, 1, 0), (1, 1), 1),
    ((1, 6, 9, 30), (10, 6, 1, 7), (1, 2), (0, 3, 0, 3), (1, 2), 1),
    ((2, 4, 12, 12), (9, 4, 2, 2), (3, 3), (0, 0, 0, 0), (1, 1), 1),
    ((1, 12, 10, 10), (18, 4, 3, 3), (1, 1), (1, 0, 0, 1), (1, 1), 3),
    ((2, 20, 9, 9), (20, 1, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 20),
    ((1, 757, 1, 1), (33, 757, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
]


@pytest.mark.parametrize("layer", ODD)
def test_layers_nobody_listed(layer):
    xs, ws, stride, pads, dilation, groups = layer
    x, w = tensor("x", xs), tensor("w", ws)
    term = elementwise("relu", convolution(x, w, stride, pads, dilation, groups))
    arrays = {"x": weights(*xs, seed=1), "w": weights(*ws, seed=2)}
    (got,) = run_on_opencl([term], arrays, {"w": arrays["w"]})
    wanted = numpy_convolution(arrays["x"].astype("d"), arrays["w"].astype("d"), stride, pads,
                               dilation, groups)  # fmt: skip
    np.testing.assert_allclose(got, np.maximum(wanted, 0), rtol=1e-5, atol=1e-4)


def test_all_of_the_reduction_can_be_shared():
    """Splits over groups and threads, tiles that do not divide, stages in local memory or not, room
    for several."""
    term = convolution(tensor("x", (1, 10, 11, 9)), tensor("w", (13, 10, 3, 3)), pads=(1, 1, 1, 1))
    tile = {"registers": {0: 4, 2: 4}, "vector": {0: 4, 2: 4}}
    for choice in (
        {"threads": {0: 2, 1: 4, 2: 2}, "chunk": {3: 3}, "split": {3: 2}},
        {"threads": {0: 2, 1: 4, 2: 2}, "chunk": {3: 3}, "split": {3: 2}, "buffers": 2},
        {"threads": {0: 2, 1: 2, 2: 2, 3: 2}, "chunk": {3: 4}, "buffers": 3},
        {"threads": {0: 4, 1: 2, 3: 2}, "chunk": {3: 2}, "split": {3: 3}, "staged": (False, True)},
        {"threads": {0: 4, 1: 3, 2: 2}, "chunk": {3: 10}, "gathered": True},
        {
            "threads": {0: 4, 1: 3},
            "chunk": {3: 5},
            "staged": (False, False),
            "resident_fast": False,
        },
    ):
        check(term, lambda space, limits, choice=choice: mapping(space, **tile, **choice))


def test_neighbours_are_brought_together_where_they_lie_evenly():
    """Rows of 16 by tiles of 8; the last of three tiles of 4 rows is partly outside."""
    x, w = tensor("x", (1, 10, 9, 16)), tensor("w", (13, 10, 1, 1))
    given = {"threads": {0: 2, 1: 4, 2: 4}, "registers": {0: 4, 2: 2}, "vector": {0: 4, 2: 2}}
    term = convolution(x, w)
    for more, width in (({"chunk": {3: 5}}, 4), ({"chunk": {3: 5}, "buffers": 2}, 4)):
        space, _ = space_and_step(term, {"w": weights(13, 10, 1, 1)})
        box = Box(Tiling(space, mapping(space, **given, **more)))
        assert box.width(POCL) == width
        check(term, lambda space, limits, more=more: mapping(space, **given, **more))
    odd, _ = space_and_step(convolution(tensor("x", (1, 10, 9, 15)), w))
    box = Box(Tiling(odd, mapping(odd, **given, chunk={3: 5})))
    assert box.width(POCL) == 1


def test_nothing_is_read_between_stores():
    """What follows the product reads memory: that is over before a thread's first store, or the
    first of 16."""
    x, w, r = tensor("x", (1, 10, 11, 8)), tensor("w", (13, 10, 3, 3)), tensor("r", (1, 13, 9, 6))
    product = convolution(x, w)
    term = compute("add", pair(access(product, 4), access(r, 4)))
    tile = {"threads": {0: 2, 1: 3, 2: 1}, "registers": {0: 6, 2: 3}, "chunk": {3: 5}}
    params = {"w": weights(13, 10, 3, 3)}
    for more in (
        {},
        {"gathered": True},
        {"vector": {2: 3}},
        {"split": {3: 2}, "registers": {0: 4, 2: 2}, "vector": {0: 4}},
    ):
        given = {**tile, **more}
        check(term, lambda space, limits, given=given: mapping(space, **given))
        space, (builder, step) = space_and_step(term, params)
        nest = ThreadNest(builder, step, POCL, space, mapping(space, **given))
        text = emit(nest.kernels("reads"), "opencl", POCL).text
        stores = list(re.finditer(r"^ *out\[", text, re.MULTILINE))
        assert stores
        for store in stores:
            loop = text[text.rindex("for (", 0, store.start()) : text.index(";\n", store.end())]
            assert "values" in loop or "total" in loop
            assert not re.search(r"\bin\d", loop), loop


def test_operands_computed_at_run_time():
    a, b = tensor("a", (3, 19, 21)), tensor("b", (3, 17, 21))
    product = compute("dot", cart_prod(access(a, 2), access(b, 2), 1))
    check(product, constant=())
    flipped = compute("dot", cart_prod(access(a, 2), access(transpose(b, (0, 1, 2)), 2), 1))
    check(elementwise("add", access(flipped, 3), tensor("c", (3, 19, 17))), constant=())


def test_a_product_with_itself():
    a = access(tensor("a", (13, 21)), 1)
    check(compute("dot", cart_prod(a, a)), constant=())


def test_a_constant_second_operand():
    """Its rows are the resident ones all the same, and last in the result."""
    term = compute(
        "dot", cart_prod(access(tensor("a", (5, 3, 30)), 2), access(tensor("w", (11, 30)), 1))
    )
    space, _ = space_and_step(term, {"w": weights(11, 30)})
    assert space.swapped and roles(space) == "m11 n5 n3 k30"
    check(term)


def test_transposed_convolution():
    """Zeros between the elements, which the border's test has to find."""
    x, w = tensor("x", (2, 4, 7, 6)), tensor("w", (6, 4, 3, 3))
    spread = pad(pad(access(x, 1), 2, 2, 2, "zero", 1), 3, 2, 1, "zero", 2)
    term = compute(
        "dot", cart_prod(access(w, 1), squeeze(windows(spread, (4, 3, 3), (1, 1, 1)), 1))
    )
    check(term)


def test_one_and_three_dimensions():
    x, w = tensor("x", (2, 5, 31)), tensor("w", (9, 5, 4))
    seen = squeeze(windows(pad(access(x, 1), 2, 1, 2), (5, 4), (1, 2)), 1)
    check(compute("dot", cart_prod(access(w, 1), seen)))
    x, w = tensor("x", (1, 3, 6, 7, 8)), tensor("w", (5, 3, 2, 3, 2))
    seen = squeeze(windows(access(x, 1), (3, 2, 3, 2), (1, 1, 2, 1)), 1)
    check(compute("dot", cart_prod(access(w, 1), seen)))


def test_channels_last():
    x, w = tensor("x", (2, 9, 10, 12)), tensor("w", (8, 3, 3, 12))
    seen = squeeze(windows(pad(access(x, 1), 1, 1, 1), (3, 3, 12), (1, 1, 1)), 3)
    check(compute("dot", cart_prod(seen, access(w, 1))))


def test_whole_numbers():
    a, b = tensor("a", (9, 30), "int8"), tensor("b", (20, 30), "int8")
    term = compute("dot", cart_prod(access(a, 1), access(b, 1)), "int32")
    rng = np.random.default_rng(0)
    arrays = {k: rng.integers(-128, 128, t.shape, "int8") for k, t in leaves([term]).items()}
    (got,) = run_on_opencl([term], arrays, {"b": arrays["b"]})
    np.testing.assert_array_equal(got, arrays["a"].astype("int32") @ arrays["b"].astype("int32").T)


def test_nothing_to_compute():
    x, w = tensor("x", (0, 4, 6, 6)), tensor("w", (8, 4, 3, 3))
    check(convolution(x, w))
    a, b = tensor("a", (3, 0)), tensor("b", (5, 0))
    check(compute("dot", cart_prod(access(a, 1), access(b, 1))), constant=())


def test_infinities_beyond_a_slice_do_not_leak_in():
    """A tile at the end of a reduced loop must not multiply what lies behind the loop's end."""
    a, w = tensor("a", (6, 40)), tensor("w", (8, 13))
    from glenside.language.builders import slice_

    term = compute("dot", cart_prod(access(w, 1), access(slice_(a, 1, 5, 18), 1)))
    arrays = {"a": weights(6, 40), "w": weights(8, 13)}
    arrays["a"][:, :5] = arrays["a"][:, 18:] = np.inf
    given = {"threads": {0: 2, 1: 4}, "registers": {0: 4}, "vector": {0: 4}, "chunk": {2: 4}}
    (got,) = run_on_opencl(
        [term], arrays, {"w": arrays["w"]}, choose=lambda space, limits: mapping(space, **given)
    )
    np.testing.assert_allclose(got, arrays["w"] @ arrays["a"][:, 5:18].T, rtol=1e-4, atol=1e-5)


@settings(max_examples=6, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(st.data())
def test_random_layers_and_mappings(data):
    """Sizes, strides and borders at random, and any solution of their constraint problem."""
    draw = data.draw
    groups = draw(st.sampled_from([1, 1, 2]))
    kernel = [draw(st.integers(1, 4)) for _ in range(2)]
    dilation = [draw(st.integers(1, 2)) for _ in range(2)]
    least = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    xs = (draw(st.integers(1, 2)), groups * draw(st.integers(1, 6)),
          least[0] + draw(st.integers(0, 8)), least[1] + draw(st.integers(0, 8)))  # fmt: skip
    ws = (groups * draw(st.integers(1, 7)), xs[1] // groups, *kernel)
    pads = tuple(draw(st.integers(0, 2)) for _ in range(4))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    term = convolution(tensor("x", xs), tensor("w", ws), stride, pads, tuple(dilation), groups)
    space, _ = space_and_step(term, {"w": weights(*ws)})
    found = ThreadProblem(space, POCL).solutions()
    assert found
    picked = found[draw(st.integers(0, len(found) - 1))]
    check(term, lambda space, limits: picked)


# --- limits --------------------------------------------------------------------------------------


def test_what_a_device_does_not_launch_is_refused_before_it_is_generated():
    term = convolution(tensor("x", (1, 64, 30, 30)), tensor("w", (64, 64, 3, 3)))
    params = {"w": weights(64, 64, 3, 3)}
    mali = device_profile("opencl:mali-g72")
    space, (builder, step) = space_and_step(term, params, mali)
    whole = mapping(space, threads={0: 16, 1: 7}, chunk={3: 64})
    (kernel, *_) = ThreadNest(builder, step, mali, space, whole).kernels("whole")
    assert kernel.local_bytes == Tiling(space, whole).local_bytes() > mali.local_bytes
    with pytest.raises(TargetError, match="bytes of local memory, opencl:mali-g72 allows 32768"):
        emit([kernel], "opencl", mali)
    wide = mapping(space, threads={0: 64, 1: 7}, chunk={3: 1})
    with pytest.raises(TargetError, match="448 threads in a group, opencl:mali-g72 allows 384"):
        emit(ThreadNest(builder, step, mali, space, wide).kernels("wide"), "opencl", mali)


@pytest.mark.parametrize("name", ["cuda:sm_90", "opencl:mali-g72", "opencl:adreno-640"])
def test_the_mappings_of_every_profile_are_within_its_limits(name):
    limits = device_profile(name)
    term = convolution(tensor("x", (1, 32, 28, 28)), tensor("w", (64, 32, 3, 3)), pads=(1, 1, 1, 1))
    space, (builder, step) = space_and_step(term, {"w": weights(64, 32, 3, 3)}, limits)
    for number, each in enumerate(best_mappings(space, limits, 3)):
        kernels = ThreadNest(builder, step, limits, space, each).kernels(f"k{number}")
        dialect = "cuda" if name.startswith("cuda") else "opencl"
        assert emit(kernels, dialect, limits).text
