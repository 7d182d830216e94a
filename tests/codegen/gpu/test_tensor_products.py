"""Products on matrix units: the kernels' text, run on the processor, against NumPy in float64."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from glenside.codegen.device.nvcc import compile_cubin, find_nvcc
from glenside.codegen.gpu.devices import device_profile
from glenside.codegen.gpu.dispatch import make_kernels
from glenside.codegen.gpu.emit import emit
from glenside.codegen.gpu.mapping.choose import best_mappings
from glenside.codegen.gpu.mapping.reading import read_mapping
from glenside.codegen.gpu.streams.kind import Streams
from glenside.codegen.gpu.streams.mapping import StreamMapping
from glenside.codegen.gpu.tensor.kernel import round_to_tf32
from glenside.codegen.gpu.tensor.mapping import UnitMapping
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.warpgroups.kind import Warpgroups
from glenside.codegen.gpu.warpgroups.mapping import WarpgroupMapping
from glenside.errors import TargetError
from glenside.hw_targets import find_target
from glenside.language import Term, evaluate
from glenside.language import builders as b
from tests.codegen.gpu.gpu_help import POCL, Device
from tests.codegen.gpu.tensor_help import HOPPER, emulate, make_case

FEW = replace(HOPPER, name="few", compute_units=2)
"""A device so small that groups that stay compute several tiles."""
ERRORS = {"float16": 1e-3, "bfloat16": 4e-3, "float32": 1e-3}
"""Relative norm; float32 operands are cut to 10 bits of mantissa."""
WORST = {"float16": 5e-3, "bfloat16": 1.2e-2, "float32": 5e-3}
"""Of one element, relative to the largest."""


def convolution(
    x, w, stride=(1, 1), before=(1, 1), after=(1, 1), dilation=(1, 1), groups=1, last=False
) -> Term:
    """A convolution of NHWC images (``last``) or NCHW ones by filters of the same layout."""
    spatial = (1, 2) if last else (2, 3)
    channels = 3 if last else 1
    for axis, low, high in zip(spatial, before, after, strict=True):
        if low or high:
            x = b.pad(b.access(x, 1), axis, low, high)
    each = x.shape[channels] // groups
    sizes = [w.shape[axis] for axis in spatial]
    if last:
        window, step, apart = (*sizes, each), (*stride, 1), (*dilation, 1)
    else:
        window, step, apart = (each, *sizes), (1, *stride), (1, *dilation)
    if groups == 1:
        seen = b.windows(b.access(x, 1), window, step, apart)
        seen = b.squeeze(seen, 3 if last else 1)
        if last:
            return b.outer_only(b.compute("dot", b.cart_prod(seen, b.access(w, 1))))
        product = b.compute("dot", b.cart_prod(b.access(w, 1), seen))
        return b.outer_only(b.transpose(product, (1, 0, 2, 3)))
    assert not last
    n, c, height, width = x.shape
    data = b.access(b.reshape(b.outer_only(x), (n, groups, c // groups, height, width)), 2)
    seen = b.squeeze(b.windows(data, window, step, apart), 2)
    filters = b.access(b.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:])), 2)
    seen = b.transpose(seen, (1, 0, *range(2, len(seen.shape))))
    return b.outer_only(b.compute("dot", b.cart_prod(filters, seen, 1)))


def images(x, w, *places, **options):
    def term(dtype):
        return convolution(b.tensor("x", x, dtype), b.tensor("w", w, dtype), *places, **options)

    return term


def finished(x, w, last):
    """A convolution with bias, residual and activation."""

    def term(dtype):
        product = convolution(b.tensor("x", x, dtype), b.tensor("w", w, dtype), last=last)
        rows = w[0]
        bias = b.tensor("bias", (rows,), dtype)
        for axis in range(4):
            if axis != (3 if last else 1):
                bias = b.unsqueeze(bias, axis)
        bias = b.broadcast(bias, product.shape)
        other = b.tensor("other", product.shape, dtype)
        added = b.compute("add", b.pair(product, b.access(bias, 4)))
        added = b.compute("add", b.pair(added, b.access(other, 4)))
        return b.compute("relu", added)

    return term


def dense(rows, depth, columns, batch=0):
    """A product of matrices, both given at run time where there is a batch."""

    def term(dtype):
        lead = (batch,) if batch else ()
        first = b.access(b.tensor("x", (*lead, rows, depth), dtype), 1 + len(lead))
        second = b.access(b.tensor("y" if batch else "w", (*lead, columns, depth), dtype),
                          1 + len(lead))  # fmt: skip
        return b.outer_only(b.compute("dot", b.cart_prod(first, second, len(lead))))

    return term


@dataclass(frozen=True)
class Given:
    term: Callable[[str], Term]
    mapping: UnitMapping | None = None
    """By default the one predicted to be fastest."""
    dtype: str = "float16"


def mapped(tile, rows=64, groups=(1, 1), chunk=16, stages=2, **others):
    kind = StreamMapping if "boxes" in others else WarpgroupMapping
    return kind(tile, rows, groups, chunk, stages, **others)


CASES = {
    "tall": Given(
        images((1, 14, 14, 32), (64, 3, 3, 32), last=True),
        mapped((4, 14), chunk=16, stages=2),
    ),
    "cluster": Given(
        images((1, 9, 9, 64), (72, 3, 3, 64), last=True),
        mapped((5, 9), rows=128, groups=(2, 1), stages=3, split=2, kept=1),
    ),
    "images in one tile": Given(
        images((3, 7, 5, 32), (64, 3, 3, 32), (1, 1), (2, 1), (1, 2), last=True),
        mapped((2, 8, 6), stages=2),
    ),
    "stride": Given(
        images((3, 13, 11, 40), (72, 3, 3, 40), stride=(2, 2), last=True),
        mapped((1, 4, 6), rows=128, groups=(1, 1), chunk=32, stages=2, split=2),
    ),
    "warpgroups": Given(
        images((1, 12, 12, 24), (130, 3, 3, 24), last=True),
        mapped((6, 12), rows=128, groups=(2, 2), stages=2),
    ),
    "flat": Given(
        images((2, 9, 9, 80), (40, 1, 1, 80), before=(0, 0), after=(0, 0), last=True),
        mapped((100,), chunk=32, stages=2),
    ),
    "gathered": Given(
        images((1, 17, 15, 3), (64, 7, 7, 3), (2, 2), (3, 3), (3, 3), last=True),
        mapped((4, 8), chunk=160, stages=1, gathered=True),
    ),
    "gathered in steps": Given(
        images((1, 3, 12, 12), (16, 3, 5, 5), before=(2, 2), after=(2, 2)),
        mapped((5, 12), chunk=16, stages=3, split=2, gathered=True),
    ),
    "channels first": Given(images((2, 20, 7, 10), (24, 20, 3, 3))),
    "dilation": Given(
        images((1, 12, 10, 16), (48, 3, 3, 16), (1, 1), (2, 2), (2, 2), (2, 2), last=True)
    ),
    "stride and dilation": Given(
        images((1, 19, 17, 16), (32, 3, 3, 16), (2, 3), (2, 0), (0, 1), (3, 1), last=True),
        mapped((3, 5), chunk=16, stages=1),
    ),
    "odd channels": Given(images((3, 8, 9, 13), (17, 3, 3, 13), last=True)),
    "long window": Given(images((1, 6, 15, 32), (40, 1, 7, 32), (1, 3), (0, 3), (0, 2), last=True)),
    "groups": Given(images((2, 32, 8, 8), (64, 16, 3, 3), groups=2)),
    "finished": Given(finished((2, 8, 6, 32), (24, 3, 3, 32), last=True)),
    "finished, channels first": Given(finished((1, 16, 7, 9), (20, 16, 3, 3), last=False)),
    "matrix": Given(dense(757, 72, 33)),
    "matrices at run time": Given(dense(40, 48, 72, batch=3)),
    "odd matrices at run time": Given(dense(19, 27, 21, batch=2)),
    "bfloat16": Given(images((1, 13, 11, 24), (48, 3, 3, 24), last=True), dtype="bfloat16"),
    "bfloat16, gathered": Given(images((1, 3, 16, 16), (32, 3, 3, 3), (2, 2)), dtype="bfloat16"),
    "bfloat16, finished": Given(
        finished((2, 8, 6, 32), (24, 3, 3, 32), last=True), dtype="bfloat16"
    ),
    "streamed": Given(
        images((2, 12, 11, 96), (130, 3, 3, 96), last=True),
        mapped((1, 5, 11), rows=128, groups=(2, 1), chunk=64, stages=3, boxes=2),
    ),
    "streamed, windows apart": Given(
        images((2, 13, 13, 48), (72, 3, 3, 48), stride=(2, 2), last=True),
        mapped((1, 5, 4), chunk=32, stages=2, boxes=3, apart=True),
    ),
    "streamed, halves of a tile": Given(
        images((3, 9, 9, 24), (40, 3, 3, 24), last=True),
        mapped((1, 9, 9), groups=(1, 2), chunk=16, stages=2, boxes=2),
    ),
    "streamed, flat": Given(
        images((3, 13, 13, 80), (250, 1, 1, 80), before=(0, 0), after=(0, 0), last=True),
        mapped((120,), rows=192, groups=(3, 1), chunk=64, stages=2, boxes=2),
    ),
    "streamed, finished": Given(
        finished((2, 8, 6, 32), (24, 3, 3, 32), last=True),
        mapped((1, 8, 6), chunk=32, stages=4, boxes=2),
    ),
    "streamed, bfloat16": Given(
        images((1, 13, 13, 48), (72, 3, 3, 48), last=True),
        mapped((6, 13), chunk=32, stages=2, boxes=2),
        "bfloat16",
    ),
    "streamed, tf32": Given(
        images((1, 14, 10, 20), (64, 3, 3, 20), last=True),
        mapped((7, 10), chunk=32, stages=2, boxes=2),
        "float32",
    ),
    "tf32": Given(images((1, 14, 10, 20), (64, 3, 3, 20), last=True), dtype="float32"),
    "tf32, gathered": Given(images((1, 3, 16, 16), (32, 3, 3, 3), (2, 2)), dtype="float32"),
    "tf32 in a cluster": Given(
        images((1, 7, 7, 64), (64, 3, 3, 64), last=True),
        mapped((7, 7), chunk=16, stages=3, split=2, kept=1),
        "float32",
    ),
}


def arrays_of(term, dtype):
    rng = np.random.default_rng(7)
    made = {}
    for leaf in _leaves(term):
        scale = 1 / np.sqrt(np.prod(leaf.shape[1:])) if leaf["name"] in ("w", "y") else 1
        made[leaf["name"]] = (rng.standard_normal(leaf.shape) * scale).astype(dtype)
    return made


def _leaves(term):
    from glenside.language import topological_order

    return [each for each in topological_order([term]) if each.op == "tensor"]


@pytest.fixture(scope="module")
def cases():
    made = {}
    for number, (name, given) in enumerate(CASES.items()):
        arrays = arrays_of(given.term(given.dtype), given.dtype)
        params = {k: a for k, a in arrays.items() if k in ("w", "bias")}
        inputs = {k: a for k, a in arrays.items() if k not in params}

        def choose(geometry, given=given):
            if given.mapping is not None:
                return given.mapping
            return best_mappings(geometry.space, HOPPER, 1)[0]

        limits = FEW if given.mapping and given.mapping.kind == "streams" else HOPPER
        case = make_case(f"case_{number}", given.term(given.dtype), inputs, params, choose, limits)
        made[name] = case, arrays
    return made


@pytest.fixture(scope="module")
def results(cases, tmp_path_factory):
    listed = [case for case, _ in cases.values()]
    outputs = emulate(listed, tmp_path_factory.mktemp("tensor"))
    return dict(zip(cases, outputs, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_every_element_is_right(name, cases, results):
    _, arrays = cases[name]
    wide = {key: array.astype(np.float64) for key, array in arrays.items()}
    (right,) = evaluate([CASES[name].term("float64")], wide)
    got = results[name].astype(np.float64)
    assert got.shape == right.shape
    assert np.linalg.norm(got - right) < ERRORS[CASES[name].dtype] * np.linalg.norm(right)
    assert np.abs(got - right).max() < WORST[CASES[name].dtype] * np.abs(right).max()


def test_compiles_for_hopper(cases):
    if find_nvcc() is None:
        pytest.skip("there is no nvcc")
    text = emit([case.kernel for case, _ in cases.values()], "cuda", HOPPER).text
    assert compile_cubin(text, "sm_90a", ("-Werror=all-warnings",))


def test_a_product_that_a_kernel_forgets_to_wait_for_is_found(cases, results, tmp_path):
    case, _ = cases["tall"]
    library = [part.replace("products_wait<P::KEPT>();", "") for part in case.kernel.library]
    library = [part.replace("products_wait<0>();", "products_wait<9>();") for part in library]
    broken = [replace(case, kernel=replace(case.kernel, library=tuple(library)))]
    # The same of boxes and of rows that are not waited for, and of memory given back too early.
    case, _ = cases["streamed"]
    for number, (line, instead) in enumerate((
        ("wait_for(box_full[box_slot], box_round);", ""),
        ("wait_for(rows_full[rows_slot], rows_round);", ""),
        ("products_wait<1>();", "products_wait<9>();"),
    )):  # fmt: skip
        assert any(line in part for part in case.kernel.library)
        called = f"streamed_product_{number}"
        library = [
            part.replace(line, instead).replace("streamed_product", called)
            for part in case.kernel.library
        ]
        name = f"{case.name}_{number}"
        source = (case.kernel.source or "").replace("streamed_product", called)
        kernel = replace(case.kernel, name=name, library=tuple(library), source=source)
        broken.append(replace(case, name=name, kernel=kernel))
    told: list[str] = []
    for number, got in enumerate(emulate(broken, tmp_path, told)):
        right = results["streamed" if number else "tall"].astype(np.float64)
        difference = np.linalg.norm(got.astype(np.float64) - right)
        assert told[number] or not difference < 0.1 * np.linalg.norm(right)


def test_tf32_is_asked_for():
    term = images((1, 14, 10, 20), (64, 3, 3, 20), last=True)("float32")
    limits = device_profile("cuda:sm_90")
    arrays = arrays_of(term, "float32")
    found = []

    def choose(geometry):
        found.append(geometry.space)
        return best_mappings(geometry.space, HOPPER, 1)[0]

    make_case("asked", term, {"x": arrays["x"]}, {"w": arrays["w"]}, choose)
    assert isinstance(best_mappings(found[0], limits, 1)[0], ThreadMapping)
    assert isinstance(best_mappings(found[0], HOPPER, 1)[0], WarpgroupMapping)
    if find_nvcc() is None:
        pytest.skip("there is no nvcc, without which targets have no matrix units")
    target = find_target("cuda:sm_90:tf32")
    assert target.limits.tf32 and target.name == target.limits.name == "cuda:sm_90:tf32"
    assert not find_target("cuda:sm_90").limits.tf32
    with pytest.raises(TargetError, match="no profile of a device cuda:sm_90:tf31"):
        find_target("cuda:sm_90:tf31")
    with pytest.raises(TargetError, match="no matrix units that take tf32"):
        find_target("opencl:mali-g72:tf32")


def test_mappings_survive_their_text():
    one = mapped((4, 14), stages=3, split=2, kept=1)
    assert read_mapping(one.to_json()) == one


@pytest.mark.parametrize(
    ("mapping", "what"),
    [
        (mapped((4,)), "2 loops over positions, 1 tiles"),
        (mapped((4, 14), rows=96), "96 rows"),
        (mapped((4, 14), chunk=24), "chunks of 24"),
        (mapped((4, 14), chunk=32, stages=1, split=2), "1 steps for 2 groups"),
        (mapped((4, 14), stages=1), "1 stages"),
        (mapped((4, 14), boxes=1), "2 stages, 1 boxes"),
        (mapped((4, 14), boxes=2, chunk=48), "chunks of 48"),
        (mapped((4, 14), boxes=2, groups=(1, 4)), "warpgroups"),
        (mapped((14,), boxes=2), "2 loops over positions, 1 tiles"),
        (mapped((14, 14), rows=192, groups=(3, 1), boxes=2), "112 sums of a thread"),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(mapping, what):
    term = CASES["tall"].term("float16")
    arrays = arrays_of(term, "float16")
    with pytest.raises(TargetError, match=what):
        make_case("refused", term, {"x": arrays["x"]}, {"w": arrays["w"]}, mapping)


def test_mappings_obey_the_device():
    """What the solver finds fits: shared memory, registers, whole cells, no idle group."""
    from glenside.codegen.gpu.warpgroups.tiling import WarpgroupTiling

    term = images((2, 14, 14, 64), (96, 3, 3, 64), last=True)("float16")
    arrays = arrays_of(term, "float16")
    held = []

    def choose(geometry):
        held.append(geometry)
        return best_mappings(geometry.space, HOPPER, 1)[0]

    make_case("held", term, {"x": arrays["x"]}, {"w": arrays["w"]}, choose)
    small = replace(HOPPER, name="small", local_bytes=64 << 10, cluster_groups=2)
    found = Warpgroups().ranked(held[0].space, small).mappings
    assert len(found) > 100
    for mapping in found:
        tiling = WarpgroupTiling(held[0], mapping)
        tiling.check()
        assert tiling.local_bytes(True) <= small.local_bytes
        assert tiling.threads * (tiling.sums + 24) <= small.unit_registers
        assert mapping.split <= 2 and (mapping.split - 1) * tiling.share < tiling.steps
        assert tiling.columns >= tiling.box.span


def geometry_for(term, params=("w",)):
    """The geometry of a product, by what is asked of whoever chooses its mapping."""
    arrays = arrays_of(term, "float16")
    held = []

    def choose(geometry):
        held.append(geometry)
        return mapped(
            (1,) * len(geometry.loops), chunk=64, stages=2, gathered=geometry.inner is None
        )

    inputs = {k: a for k, a in arrays.items() if k not in params}
    make_case("held", term, inputs, {k: arrays[k] for k in params}, choose)
    return held[0]


@pytest.mark.parametrize(
    ("first", "offset", "direct"),
    [(0, 0, True), (8, 0, True), (0, 16, True), (1, 0, False), (4, 0, False), (0, 1, False)],
)
def test_what_does_not_begin_at_16_bytes_is_not_copied_16_bytes_at_a_time(first, offset, direct):
    """Such a copy traps on a GPU, and nowhere else.

    ``first``: of a slice; ``offset``: where the operand lies in its buffer, as part of a concat.
    """
    x, w = b.tensor("x", (128, 160), "float16"), b.tensor("w", (64, 128), "float16")
    part = b.slice_(x, 1, first, first + 128)
    term = b.compute("dot", b.cart_prod(b.access(part, 1), b.access(w, 1)), "float32")
    geometry = geometry_for(term)
    geometry.memory = replace(geometry.memory, offset=offset)
    assert geometry.direct(gathered=False) == direct


def test_mappings_whose_groups_stay_obey_the_device():
    from glenside.codegen.gpu.streams.tiling import StreamTiling

    geometry = geometry_for(images((4, 28, 28, 96), (256, 3, 3, 96), last=True)("float16"))
    small = replace(HOPPER, name="small", local_bytes=200 << 10, compute_units=4)
    found = Streams().ranked(geometry.space, small).mappings
    assert len(found) > 100 and {m.apart for m in found} == {True, False}
    assert {m.groups for m in found} >= {(1, 1), (1, 2), (2, 1)}
    assert len({m.boxes for m in found}) > 1
    for mapping in found:
        tiling = StreamTiling(geometry, mapping, small)
        tiling.check()
        assert tiling.local_bytes(True) <= small.local_bytes
        assert tiling.residents * (tiling.local_bytes(True) + 1024) <= small.unit_local_bytes
        registers = tiling.registers or 65536 // (2 * tiling.threads) // 8 * 8
        assert tiling.sums + 30 <= registers
        assert 128 * tiling.consumers * tiling.registers + 128 * 24 <= small.unit_registers
        assert tiling.columns >= tiling.box.span and tiling.lines == tiling.box.positions
        # The first warpgroup begins the others before it waits for them to give back a box.
        assert tiling.lag * (tiling.consumers - 1) <= (mapping.boxes - 1) * tiling.taps


def test_large_products_have_groups_that_stay():
    """Large for the device: one with few units here, so that there is less to solve."""

    geometry = geometry_for(images((4, 14, 14, 64), (128, 3, 3, 64), last=True)("float16"))
    found = best_mappings(geometry.space, replace(FEW, compute_units=4), 20)
    assert {m.kind for m in found} == {"streams", "warpgroups"}
    assert not Streams().ranked(geometry.space, HOPPER).mappings


def test_boxes_that_the_copy_engine_cannot_bring():
    from glenside.codegen.gpu.tensor.boxes import boxes_of

    def found(apart, *given, **options):
        return boxes_of(geometry_for(images(*given, **options)("float16")), apart)

    strided = (2, 13, 13, 48), (64, 3, 3, 48), (2, 2)
    assert found(False, *strided, last=True) is None  # Neighbours would not be neighbours.
    made = found(True, *strided, last=True)
    assert [each.step for each in made.dimensions] == [1, 2, 2, 1]
    assert [each.corner for each in made.dimensions] == [0, -1, -1, 0]
    assert found(False, (2, 48, 9, 9), (64, 48, 3, 3)) is None  # Channels are no neighbours.
    assert found(False, (2, 9, 9, 20), (64, 3, 3, 20), last=True) is None  # 40 bytes apart.


def test_rounding_to_tf32_is_to_the_nearest():
    values = np.array([1.0, 1 + 2**-11, 1 + 2**-11 - 2**-20, -3.3333333, np.inf, 0.0], np.float32)
    right = np.array([1.0, 1 + 2**-10, 1.0, -3.333984375, np.inf, 0.0], np.float32)
    np.testing.assert_array_equal(round_to_tf32(values), right)


def test_results_lie_with_their_rows_innermost():
    """A whole network in that layout, computed by an OpenCL device."""
    from glenside.codegen.gpu.interface import make_builder
    from glenside.codegen.program.cut import cut_program
    from glenside.codegen.program.record import Kernel

    x, one, two = (
        b.tensor("x", (2, 6, 9, 8)),
        b.tensor("one", (8, 6, 3, 3)),
        b.tensor("two", (8, 8, 3, 3)),
    )
    three = b.tensor("three", (5, 8, 1, 1))
    first = b.compute("relu", convolution(x, one))
    added = b.compute("relu", b.compute("add", b.pair(first, convolution(first, two))))
    side = convolution(first, three, before=(0, 0), after=(0, 0))
    outputs = [b.concat(1, added, side), added]
    rng = np.random.default_rng(0)
    arrays = {t["name"]: rng.standard_normal(t.shape).astype("f") for t in (x, one, two, three)}
    params = {key: arrays[key] for key in ("one", "two", "three")}
    cut = cut_program(outputs, {"x": x.type}, params, plain=True, rows_last=True)
    assert [axis[-1][1] for axis in cut.memory.stored[first].view.axes] == [8 * 72, 1, 64, 8]
    assert [axis[-1][1] for axis in cut.memory.stored[x].view.axes] == [6 * 72, 72, 8, 1]
    builder = make_builder(cut)
    kernels = []
    for number, step in enumerate(cut.steps):
        assert isinstance(step, Kernel)
        kernels += make_kernels(builder, step, number, POCL, "opencl")
    got = Device(replace(cut, memory=builder.memory), kernels, POCL).run({"x": arrays["x"]})
    for mine, right in zip(got, evaluate(outputs, arrays), strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4)


def random_case(rng, number):
    """A convolution that nobody chose, by one of the mappings that the solver admits."""
    last = bool(rng.integers(2))
    n, c, k = (int(rng.choice(sizes)) for sizes in ([1, 2, 3], [3, 8, 13, 16, 40], [8, 9, 24, 65]))
    window = [int(each) for each in rng.integers(1, 6, 2)]
    stride, dilation = (tuple(int(each) for each in rng.integers(1, 4, 2)) for _ in range(2))
    reach = [(size - 1) * step for size, step in zip(window, dilation, strict=True)]
    before, after = (tuple(int(rng.integers(0, r + 1)) for r in reach) for _ in range(2))
    size = [int(rng.integers(3, 15)) + r for r in reach]
    shapes = (n, *size, c) if last else (n, c, *size)
    filters = (k, *window, c) if last else (k, c, *window)
    term = images(shapes, filters, stride, before, after, dilation, last=last)
    arrays = arrays_of(term("float16"), "float16")

    def choose(geometry):
        ranked = Warpgroups().ranked(geometry.space, HOPPER).mappings
        return ranked[int(rng.integers(min(len(ranked), 2000)))]

    given = {"x": arrays["x"]}, {"w": arrays["w"]}
    return term, arrays, make_case(f"random_{number}", term("float16"), *given, choose)


def test_random_products_by_random_mappings(tmp_path):
    rng = np.random.default_rng(5)
    made = []
    while len(made) < 10:
        term, arrays, case = random_case(rng, len(made))
        if np.prod(arrays["w"].shape[1:]) >= 8:
            made.append((term, arrays, case))
    outputs = emulate([case for _, _, case in made], tmp_path)
    for (term, arrays, case), got in zip(made, outputs, strict=True):
        wide = {key: array.astype(np.float64) for key, array in arrays.items()}
        (right,) = evaluate([term("float64")], wide)
        error = np.linalg.norm(got.astype(np.float64) - right)
        assert error < 1e-3 * np.linalg.norm(right), (term("float16"), case.tiling.mapping)
    assert len({case.tiling.mapping.gathered for _, _, case in made}) == 2
