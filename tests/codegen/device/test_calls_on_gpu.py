"""Calls on a GPU that is there: PyTorch's, CuPy's and JAX's tensors, streams, graphs, threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX takes what there is.
cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
try:
    cupy.cuda.runtime.getDevice()
except cupy.cuda.runtime.CUDARuntimeError:
    pytest.skip("there is no CUDA device", allow_module_level=True)

from glenside.codegen.device.device import Code  # noqa: E402
from glenside.codegen.device.executable import DeviceExecutable  # noqa: E402
from glenside.codegen.plan import Entry, KernelCall, Place, Plan, Slot  # noqa: E402
from glenside.errors import InputError  # noqa: E402
from glenside.language.builders import tensor  # noqa: E402
from glenside.program import Program  # noqa: E402

SMALL, LARGE = (64, 128), (1024, 1024)
SOURCE = """
#define AT (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void add(const TYPE* x, const TYPE* y, TYPE* z) {
  z[AT] = (TYPE)((float)x[AT] + (float)y[AT]);
}
extern "C" __global__ void twice(const TYPE* x, TYPE* y) {
  y[AT] = (TYPE)(2.f * (float)x[AT]);
}
"""


def program(shape=SMALL, dtype="float32", turned=()):
    """2 (x + y), by two kernels; the buffers ``turned`` hold matrices column by column."""
    size = int(np.prod(shape))
    count = np.dtype(dtype).itemsize * size
    entry = Entry([size // 128, 1, 1], [128, 1, 1])

    def place(buffer):
        strides = (1, shape[0]) if buffer in turned else (shape[1], 1)
        axes = [[[n, stride]] for n, stride in zip(shape, strides, strict=True)]
        return Place(buffer, 0, axes, list(shape), dtype)

    plan = Plan(4 * count, [Slot(dtype, size, offset=k * count) for k in range(4)], device="cuda")
    plan.kernels = {"add": entry, "twice": entry}
    plan.steps = [
        KernelCall("add", [[k, 0, size] for k in (0, 1, 2)]),
        KernelCall("twice", [[2, 0, size], [3, 0, size]]),
    ]
    plan.inputs = {"x": place(0), "y": place(1)}
    plan.input_types = {name: [list(shape), [], dtype] for name in "xy"}
    plan.outputs = [place(3)]
    named = {"float32": "float", "bfloat16": "__nv_bfloat16"}[dtype]
    include = "#include <cuda_bf16.h>" if dtype == "bfloat16" else ""
    code = Code(include + SOURCE.replace("TYPE", named))
    executable = DeviceExecutable(plan, {}, code)
    types = plan.taken()
    return Program("sum", types, {"z": tensor("z", shape, dtype)}, executable, None)


def arrays(shape=SMALL, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape, np.float32) for _ in range(2)]


def right(x, y):
    return 2 * (x + y)


class Torch:
    def __init__(self):
        self.torch = pytest.importorskip("torch")
        self.kind = self.torch.Tensor

    def put(self, array):
        return self.torch.from_numpy(array).cuda()

    def get(self, tensor):
        return tensor.cpu().numpy()


class CuPy:
    kind = cupy.ndarray
    put = staticmethod(cupy.asarray)
    get = staticmethod(cupy.asnumpy)


class Jax:
    def __init__(self):
        self.jax = pytest.importorskip("jax")
        self.kind, self.put, self.get = self.jax.Array, self.jax.device_put, np.asarray


@pytest.fixture(params=[Torch, CuPy, Jax])
def package(request):
    return request.param()


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_tensors_in_and_out(package, shape):
    net = program(shape)
    results = []
    for seed in range(6):
        x, y = arrays(shape, seed)
        results.append((net(package.put(x), package.put(y)), right(x, y)))
    for got, wanted in results:
        assert isinstance(got, package.kind)
        np.testing.assert_array_equal(package.get(got), wanted)


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_arrays_in_and_out(shape):
    net = program(shape)
    kept = np.empty(shape, np.float32)
    for seed in range(3):
        x, y = arrays(shape, seed)
        np.testing.assert_array_equal(net(x, y), right(x, y))
        assert net(x, y=y[:], out=kept) is kept
        np.testing.assert_array_equal(kept, right(x, y))
        strided = np.empty((*shape, 2), np.float32)[..., 1]
        np.testing.assert_array_equal(net(x, y, out=strided), right(x, y))
        swapped = x.astype(">f4")
        np.testing.assert_array_equal(net(swapped, y), right(x, y))


def test_arrays_and_tensors_of_several_packages_together(torch):
    net, (x, y) = program(), arrays()
    on = torch.from_numpy(x).cuda()
    for other in (y, cupy.asarray(y), torch.from_numpy(y)):
        np.testing.assert_array_equal(net(on, other).cpu().numpy(), right(x, y))
    got = net(cupy.asarray(x), torch.from_numpy(y).cuda().requires_grad_())
    np.testing.assert_array_equal(cupy.asnumpy(got), right(x, y))


def test_what_does_not_lie_row_by_row_is_copied(torch):
    net, (x, y) = program(), arrays()
    turned = torch.from_numpy(x.T.copy()).cuda().T
    shifted = torch.empty(y.size + 1, device="cuda")[1:].view(y.shape)
    shifted.copy_(torch.from_numpy(y))
    np.testing.assert_array_equal(net(turned, shifted).cpu().numpy(), right(x, y))
    got = net(cupy.asarray(x, order="F"), cupy.asarray(y))
    np.testing.assert_array_equal(cupy.asnumpy(got), right(x, y))


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_what_a_program_stores_column_by_column(package, shape):
    x, y = arrays(shape)
    given = [package.put(each) for each in (x, y)]
    wanted = right(x, y)
    everywhere = program(shape, turned=(0, 1, 3))
    only_y = program(shape, turned=(1,))
    mixed = 2 * (x.ravel() + y.T.ravel()).reshape(shape)
    for _ in range(2):
        np.testing.assert_array_equal(package.get(everywhere(*given)), wanted)
        np.testing.assert_array_equal(everywhere(x, y), wanted)
        np.testing.assert_array_equal(package.get(only_y(*given)), mixed)
        np.testing.assert_array_equal(only_y(x, y), mixed)


def test_calls_run_on_the_current_stream(torch):
    net, (x, y) = program(), arrays()
    source = [torch.from_numpy(each).cuda() for each in (x, y)]
    given = [torch.zeros_like(each) for each in source]
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    results = []
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)  # What is computed before comes late.
            mine = [torch.empty_like(each) for each in given]
            for to, what in zip(mine, source, strict=True):
                to.copy_(what)
            results.append((net(*mine), torch.cuda.Event()))
            results[-1][1].record()
            assert not results[-1][1].query()  # Nobody waited.
    torch.cuda.synchronize()
    for got, _ in results:
        np.testing.assert_array_equal(got.cpu().numpy(), right(x, y))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        got = net(*[cupy.asarray(each) for each in (x, y)])
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(got), right(x, y))
    del stream  # A stream may go; what follows it does not need it.
    np.testing.assert_array_equal(net(*source).cpu().numpy(), right(x, y))


def test_results_are_written_to_the_callers_tensors(torch):
    net, (x, y) = program(), arrays()
    a, b = (torch.from_numpy(each).cuda() for each in (x, y))
    out = torch.empty_like(a)
    assert net(a, b, out=out) is out
    np.testing.assert_array_equal(out.cpu().numpy(), right(x, y))
    theirs = cupy.empty(SMALL, np.float32)
    assert net(x, y, out={"z": theirs}) is theirs
    np.testing.assert_array_equal(cupy.asnumpy(theirs), right(x, y))
    refused = {
        "shares memory with input 'x'": a,
        r"but out= is float32 of shape \(128, 64\)": out.view(128, 64),
        "but out= is float16": out.half(),
        "must be contiguous": out.T.contiguous().T,
        "must lie on the device": np.empty(SMALL, np.float32),
    }
    for message, bad in refused.items():
        with pytest.raises(InputError, match=message):
            net(a, b, out=bad)
    jax = pytest.importorskip("jax")
    with pytest.raises(InputError, match="PyTorch's and CuPy's tensors"):
        net(a, b, out=jax.device_put(x))


def test_bound_tensors(torch):
    net, (x, y) = program(), arrays()
    a, b = (torch.from_numpy(each).cuda() for each in (x, y))
    out = torch.empty_like(a)
    bound = net.bind(a, b, out=out)
    a.mul_(3)
    assert bound() is out
    np.testing.assert_array_equal(out.cpu().numpy(), right(3 * x, y))
    fresh = net.bind(x=a, y=b)
    np.testing.assert_array_equal(fresh().cpu().numpy(), right(3 * x, y))
    assert fresh.inputs["x"] is a and fresh.outputs["z"] is fresh()
    with pytest.raises(InputError, match="must be contiguous and start at"):
        net.bind(a.T.contiguous().T, b)
    host = net.bind(x, y)
    np.testing.assert_array_equal(host(), right(x, y))


def test_a_call_is_captured_into_pytorchs_graph(torch):
    net, (x, y) = program(), arrays()
    a, b = (torch.from_numpy(each).cuda() for each in (x, y))
    net(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = net(a + 1, b)
    a.mul_(5)
    graph.replay()
    np.testing.assert_array_equal(out.cpu().numpy(), right(np.float32(5) * x + 1, y))
    np.testing.assert_array_equal(net(a, b).cpu().numpy(), right(np.float32(5) * x, y))


def test_threads_share_a_program_each_on_its_stream(torch):
    net = program()

    def many(seed):
        x, y = arrays(seed=seed)
        with torch.cuda.stream(torch.cuda.Stream()):
            a, b = (torch.from_numpy(each).cuda() for each in (x, y))
            return all(np.array_equal(net(a, b).cpu(), right(x, y)) for _ in range(100))

    def hosts(seed):
        x, y = arrays(seed=seed)
        return all(np.array_equal(net(x, y), right(x, y)) for _ in range(50))

    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(work, seed) for seed in range(3) for work in (many, hosts)]
        assert all(each.result() for each in done)


def test_bfloat16(torch):
    net = program(dtype="bfloat16")
    a, b = (torch.randn(SMALL, device="cuda").bfloat16() for _ in range(2))
    got = net(a, b)
    assert got.dtype == torch.bfloat16
    np.testing.assert_array_equal(got.float().cpu(), (2 * (a + b)).float().cpu())
    jax = pytest.importorskip("jax")
    with pytest.raises(InputError, match="CuPy has no tensors of bfloat16"):
        net(jax.numpy.zeros(SMALL, "bfloat16"), jax.numpy.zeros(SMALL, "bfloat16"))


def test_tensors_of_another_shape_or_dtype(package):
    net, (x, y) = program(), arrays()
    with pytest.raises(InputError, match=r"'x' must be float32 of shape \(64, 128\), got float16"):
        net(package.put(x.astype(np.float16)), package.put(y))
    with pytest.raises(InputError, match=r"'y' must be .*, got float32 of shape \(128, 64\)"):
        net(package.put(x), package.put(y.T.copy()))
