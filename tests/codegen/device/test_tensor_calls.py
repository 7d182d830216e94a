"""Calls with tensors on a device, by a driver whose device is the host's memory: it copies what it
is told of each kernel when it is told, as CUDA's does, and runs kernels written in Python."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from glenside.codegen.device import driver, tensor_calls
from glenside.codegen.device.device import Launch
from glenside.codegen.device.driver import DriverLaunch
from glenside.codegen.device.streams import StreamOrder
from glenside.codegen.device.tensor_calls import TensorCalls
from glenside.codegen.plan import Entry, KernelCall, Place, Plan, Slot
from glenside.errors import InputError, TargetError

N = 8
ENTRY = Entry([1, 1, 1], [N, 1, 1])
OWN_STREAM = 9


def values_at(address, count=N):
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def memory_of(array):
    return SimpleNamespace(ptr=array.ctypes.data, array=array)


def increment(x, y):
    values_at(y)[:] = values_at(x) + 1


def add(x, y, z):
    values_at(z)[:] = values_at(x) + values_at(y)


def increment_apart(x, y):
    """From every second element on from the first, to every third from the second."""
    values_at(y, 3 * N)[2::3] = values_at(x, 2 * N)[1::2] + 1


KERNELS = {1: (increment, 2), 2: (add, 3), 3: (increment_apart, 2)}


def struct(reference, kind):
    return ctypes.cast(reference, ctypes.POINTER(kind)).contents


class Driver:
    """The calls of CUDA's driver that are made, on the host's memory; ``log`` has what is asked of
    streams, and how often a graph is made or changed."""

    def __init__(self):
        self.log, self.graphs, self.nodes, self.capturing = [], {}, {}, set()
        self.made, self.destroyed = 100, set()

    def _new(self, reference):
        self.made += 1
        struct(reference, ctypes.c_void_p).value = self.made
        return self.made

    @staticmethod
    def _kernel(function, parameters):
        run, count = KERNELS[function]
        places = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))
        return run, [ctypes.c_uint64.from_address(places[k]).value for k in range(count)]

    def cuCtxGetCurrent(self, where):
        return 0

    def cuGraphCreate(self, where, flags):
        self.graphs[self._new(where)] = []
        return 0

    def cuGraphAddKernelNode_v2(self, where, graph, before, count, node):
        number = self._new(where)
        told = struct(node, driver._Node)
        self.nodes[number] = self._kernel(told.function, told.parameters)
        self.graphs[graph.value].append(number)
        return 0

    def cuGraphInstantiateWithFlags(self, where, graph, flags):
        self.graphs[self._new(where)] = self.graphs[graph.value]
        self.log.append("instantiate")
        return 0

    def cuGraphUpload(self, graph, stream):
        return 0

    def cuGraphExecKernelNodeSetParams_v2(self, graph, node, told):
        told = struct(told, driver._Node)
        self.nodes[node.value] = self._kernel(told.function, told.parameters)
        self.log.append("renew")
        return 0

    def cuGraphLaunch(self, graph, stream):
        assert stream.value not in self.capturing
        self.log.append(("launch", stream.value or 0))
        for node in self.graphs[graph.value]:
            run, pointers = self.nodes[node]
            run(*pointers)
        return 0

    def cuLaunchKernelEx(self, where, function, parameters, extra):
        stream = struct(where, driver._Configuration).stream
        self.log.append(("kernel", stream))
        run, pointers = self._kernel(function.value, parameters)
        run(*pointers)
        return 0

    def cuEventCreate(self, where, flags):
        self._new(where)
        return 0

    def cuEventRecord(self, event, stream):
        self.log.append(("record", stream.value or 0))
        return 0

    def cuEventQuery(self, event):
        return 600

    def cuStreamWaitEvent(self, stream, event, flags):
        self.log.append(("wait", stream.value or 0))
        return 0

    def cuEventSynchronize(self, event):
        return 0

    def cuStreamSynchronize(self, stream):
        return 0

    def cuStreamIsCapturing(self, stream, answer):
        struct(answer, ctypes.c_int).value = int(stream.value in self.capturing)
        return 0

    def cuMemcpyDtoDAsync_v2(self, target, source, count, stream):
        self.log.append("copy")
        ctypes.memmove(target.value, source.value, count.value)
        return 0

    def cuMemcpyHtoDAsync_v2(self, target, source, count, stream):
        self.log.append("upload")
        ctypes.memmove(target.value, source.value, count.value)
        return 0

    def cuGraphExecDestroy(self, graph):
        return 0

    cuGraphDestroy = cuGraphExecDestroy

    def cuEventDestroy_v2(self, event):
        self.destroyed.add(event.value)
        return 0


class Tensor:
    """A package's tensor: not NumPy's, though in memory that NumPy made."""

    def __init__(self, array):
        self.array = array


class Package:
    lends = False

    def __init__(self, outputs):
        self.outputs, self.now = outputs, 0

    def stream(self):
        return self.now

    def address(self, value, number, stream, kept):
        return value.array.ctypes.data

    def empty(self, number):
        return Tensor(np.full(self.outputs[number].shape, np.nan, np.float32))

    def pointer(self, tensor):
        return tensor.array.ctypes.data

    def handed_over(self, tensor):
        return tensor


class Device:
    number = 0
    stream = SimpleNamespace(ptr=OWN_STREAM)

    def ready(self, launch):
        return DriverLaunch(launch.kernel, launch.entry, [each.ptr for each in launch.arguments])

    def allocate(self, size):
        return memory_of(np.zeros(max(size, 1), np.uint8))

    def copying(self, place, itemsize, pointers, back):
        assert itemsize == 4
        ((stride,),) = [[atom[1] for atom in axis] for axis in place.axes]

        def copy(source, target):
            stored = values_at(target if not back else source, 3 * N)[place.offset :]
            plain = values_at(source if not back else target)
            if back:
                plain[:] = stored[: stride * N : stride]
            else:
                stored[: stride * N : stride] = plain

        KERNELS[100 + len(KERNELS)] = copy, 2
        return DriverLaunch(max(KERNELS), ENTRY, pointers)


def place(buffer, stride=1, offset=0):
    return Place(buffer, offset, [[[N, stride]]], [N], "float32")


@pytest.fixture
def gpu(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(driver, "_driver", lambda: fake)
    fake.package = None

    def opened(kind, device, inputs, outputs):
        fake.package = fake.package or Package(outputs)
        return fake.package

    monkeypatch.setattr(tensor_calls, "open_package", opened)
    return fake


def program(steps, inputs, outputs, sizes):
    """The calls of a program: ``steps`` are kernels and the buffers that they name."""
    memory = [np.zeros(size, np.float32) for size in sizes]
    slots = [Slot("float32", size, offset=0) for size in sizes]
    plan = Plan(0, slots, device="cuda")
    plan.steps = [KernelCall(f"k{n}", [[b, 0, N] for b in named]) for n, named in steps]
    plan.inputs = inputs
    plan.input_types = {name: [[N], [], "float32"] for name in inputs}
    plan.outputs = outputs
    held = [memory_of(each) for each in memory]
    launches = [Launch(n, ENTRY, [held[b] for b in named]) for n, named in steps]
    return TensorCalls(plan, held, launches, Device())


def two_steps():
    """x + 2: one kernel reads what the caller gives, one writes what it gets."""
    steps = [(1, [0, 1]), (1, [1, 2])]
    return program(steps, {"x": place(0)}, [place(2)], [N, N, N])


def tensor(start):
    return Tensor(np.arange(start, start + N, dtype=np.float32))


def test_tensors_are_read_and_written_where_they_lie_without_another_graph(gpu):
    calls = two_steps()
    given = [tensor(10 * k) for k in range(4)]
    results = [calls.call("any", [each], None)[0] for each in (*given, *given)]
    for got, each in zip(results, (*given, *given), strict=True):
        np.testing.assert_array_equal(got.array, each.array + 2)
    assert gpu.log.count("instantiate") == 1 and "copy" not in gpu.log
    # Nothing is renewed for what lies where it lay.
    gpu.log.clear()
    (out,) = calls.call("any", [given[3]], [results[7]])
    assert out is results[7] and gpu.log == [("launch", 0)]
    calls.call("any", [given[0]], [out])
    assert gpu.log == [("launch", 0), "renew", ("launch", 0)]
    np.testing.assert_array_equal(out.array, given[0].array + 2)


def test_a_value_that_many_kernels_name_is_copied_where_it_moves(gpu):
    steps = [(2, [0, k, k + 1]) for k in range(1, 9)]  # x is added to a sum eight times.
    calls = program(steps, {"x": place(0), "s": place(1)}, [place(9)], [N] * 10)
    zero = tensor(0)
    for start in (1, 2, 3):
        x = tensor(start)
        (got,) = calls.call("any", [x, zero], None)
        np.testing.assert_array_equal(got.array, 8 * x.array + zero.array)
    # The first time kernels are pointed to it; then it is given up, and copied from then on.
    assert gpu.log.count("copy") == 2
    gpu.log.clear()
    calls.call("any", [x, zero], [got])
    assert gpu.log == ["copy", ("launch", 0)]


def test_what_is_not_stored_row_by_row_is_laid_out_by_a_kernel_of_the_graph(gpu):
    stored = place(0, stride=2, offset=1), place(1, stride=3, offset=2)
    calls = program([(3, [0, 1])], {"x": stored[0]}, [stored[1]], [3 * N, 4 * N])
    for start in (3, 40):
        x = tensor(start)
        (got,) = calls.call("any", [x], None)
        np.testing.assert_array_equal(got.array, x.array + 1)
    assert gpu.log.count("instantiate") == 1 and "copy" not in gpu.log


def test_what_is_given_and_what_is_twice_an_output_are_copied(gpu):
    calls = program([(1, [0, 1])], {"x": place(0)}, [place(0), place(1), place(1)], [N, N])
    x = tensor(5)
    same, one, other = calls.call("any", [x], None)
    np.testing.assert_array_equal(same.array, x.array)
    np.testing.assert_array_equal(one.array, x.array + 1)
    np.testing.assert_array_equal(other.array, x.array + 1)
    assert len({each.array.ctypes.data for each in (x, same, one, other)}) == 4


def test_arrays_of_the_host_go_to_the_programs_own_memory(gpu):
    calls = two_steps()
    x, host = tensor(1), np.full(N, 7, np.float32)
    calls.call("any", [x], None)
    (got,) = calls.call("any", [host], None)
    np.testing.assert_array_equal(got.array, host + 2)
    np.testing.assert_array_equal(x.array, tensor(1).array)
    with pytest.raises(InputError, match=r"'x' must be float32 of shape \(8,\), got float64"):
        calls.call("any", [host.astype(np.float64)], None)
    np.testing.assert_array_equal(calls.call("any", [x], None)[0].array, x.array + 2)


def test_calls_on_several_streams_follow_each_other(gpu):
    calls = two_steps()
    x, out = tensor(1), Tensor(np.zeros(N, np.float32))
    calls.call("any", [x], [out])
    gpu.log.clear()
    for stream in (0, 5, 5, 6, 0):
        gpu.package.now = stream
        calls.call("any", [x], [out])
    assert gpu.log == [
        ("launch", 0),
        # The default stream is always there; others may be gone when they are to be waited for.
        ("record", 0), ("wait", 5), ("launch", 5), ("record", 5),
        ("launch", 5), ("record", 5),
        ("wait", 6), ("launch", 6), ("record", 6),
        ("wait", 0), ("launch", 0),
    ]  # fmt: skip


def test_a_call_is_captured_into_the_callers_graph_kernel_by_kernel(gpu):
    calls = two_steps()
    first, second = tensor(1), tensor(50)
    calls.call("any", [first], None)
    gpu.log.clear()
    gpu.capturing.add(4)
    gpu.package.now = 4
    (got,) = calls.call("any", [second], None)
    assert gpu.log == [("kernel", 4), ("kernel", 4)]
    np.testing.assert_array_equal(got.array, second.array + 2)
    # The program's own graph learns later where kernels were pointed meanwhile.
    gpu.package.now = 0
    (got,) = calls.call("any", [second], None)
    np.testing.assert_array_equal(got.array, second.array + 2)


def test_a_bound_program_only_launches(gpu):
    calls = two_steps()
    x, out = tensor(1), Tensor(np.zeros(N, np.float32))
    run = calls.bind("any", [x], [out])
    run()
    gpu.log.clear()
    x.array[:] = 40
    run()
    np.testing.assert_array_equal(out.array, 42)
    assert gpu.log == [("launch", 0)]
    calls.call("any", [tensor(9)], None)
    run()
    np.testing.assert_array_equal(out.array, 42)


def test_a_tensor_that_cannot_stay_is_not_bound(gpu):
    calls = two_steps()
    calls.call("any", [tensor(1)], None)
    copying = gpu.package.address
    gpu.package.address = lambda v, n, s, kept: (kept.append(v), copying(v, n, s, kept))[1]
    with pytest.raises(InputError, match="must be contiguous and start at a multiple of 16 bytes"):
        calls.bind("any", [tensor(1)], [Tensor(np.zeros(N, np.float32))])


def test_a_program_with_host_operators_runs_as_a_whole(gpu):
    calls = two_steps()
    memory = calls._memory

    def whole():
        memory[2].array[:] = memory[0].array * 3

    mixed = TensorCalls(calls._plan, memory, [], Device(), whole)
    x = tensor(2)
    (got,) = mixed.call("any", [x], None)
    np.testing.assert_array_equal(got.array, x.array * 3)
    gpu.capturing.add(4)
    gpu.package.now = 4
    with pytest.raises(TargetError, match="host operators cannot be captured"):
        mixed.call("any", [x], None)


def test_what_is_borrowed_is_kept_while_kernels_may_read_it(gpu):
    calls = two_steps()
    calls.call("any", [tensor(1)], None)
    gpu.package.lends = True
    plain = gpu.package.address
    gpu.package.address = lambda v, n, s, kept: (kept.append("borrowed"), plain(v, n, s, kept))[1]
    calls.call("any", [tensor(1)], None)
    calls.call("any", [tensor(1)], None)
    assert [values for _, values in calls._loans._held] == [["borrowed"], ["borrowed"]]
    gpu.cuEventQuery = lambda event: 0
    for _ in range(2):
        calls.call("any", [tensor(1)], None)
        assert len(calls._loans._held) == 1
        assert not gpu.destroyed & {event.value for event, _ in calls._loans._held}
    assert len(gpu.destroyed) == 1


def test_an_order_of_streams_starts_with_none(gpu):
    order = StreamOrder()
    order.before(3)
    order.wait()
    assert gpu.log == []
