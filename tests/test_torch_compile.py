"""torch.compile with our backend: what runs here, what PyTorch keeps, and what is said of it."""

import re
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test-torch)")

from torch import nn  # noqa: E402

import glenside  # noqa: E402
from glenside import torch_compile  # noqa: E402
from glenside.errors import InputError  # noqa: E402
from glenside.program import Program  # noqa: E402
from glenside.torch_compile import RunsInPyTorch  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch_compile._told.clear()


@pytest.fixture
def runs(monkeypatch):
    """The names of inputs of every program of ours that runs."""
    seen = []
    run = Program.run

    def counted(self, *args, **kwargs):
        seen.append(list(self.inputs))
        return run(self, *args, **kwargs)

    monkeypatch.setattr(Program, "run", counted)
    return seen


def compiled(function, **options):
    return torch.compile(function, backend="glenside", options={"check": False, **options})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x):
        return {"y": self.b(self.norm(self.a(x)).relu()), "n": x.shape[0], "none": None}


def test_the_backend_is_registered():
    assert "glenside" in torch._dynamo.list_backends()


@torch.no_grad()
def test_a_module_keeps_its_structure_and_takes_any_batch(runs):
    net = Net().eval()
    fast = compiled(net)
    for batch in (3, 5, 6, 3):
        x = torch.randn(batch, 8)
        got, right = fast(x), net(x)
        assert got.keys() == right.keys() and got["n"] == batch and got["none"] is None
        torch.testing.assert_close(got["y"], right["y"])
    assert len(runs) == 4
    assert all(len(names) == 1 for names in runs)  # Parameters are no inputs.


@torch.no_grad()
def test_a_parameter_that_changes_is_seen():
    net = Net().eval()
    fast, x = compiled(net), torch.randn(2, 8)
    fast(x)
    net.a.weight.mul_(2)
    torch.testing.assert_close(fast(x)["y"], net(x)["y"])
    net.a = nn.Linear(8, 16)
    torch.testing.assert_close(fast(x)["y"], net(x)["y"])


@torch.no_grad()
def test_two_modules_of_one_class_keep_their_own_parameters():
    one, two, x = Net().eval(), Net().eval(), torch.randn(2, 8)
    for net in (one, two, one):
        torch.testing.assert_close(compiled(net)(x)["y"], net(x)["y"])


@torch.no_grad()
def test_inputs_that_a_function_changes_are_changed(runs):
    def step(x, cache):
        cache.add_(x)
        return cache * 2

    x, cache = torch.ones(3), torch.zeros(3)
    fast = compiled(step)
    assert fast(x, cache).tolist() == [2, 2, 2] and cache.tolist() == [1, 1, 1]
    assert fast(x, cache).tolist() == [4, 4, 4] and cache.tolist() == [2, 2, 2]
    assert len(runs) == 2


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_dtypes_come_through(dtype, runs):
    x = torch.tensor([[1, 0], [0, 1]]).to(dtype)
    got = compiled(lambda x: torch.cat([x, x]).T)(x)
    assert got.dtype == dtype and runs
    assert torch.equal(got, torch.cat([x, x]).T)


@torch.no_grad()
def test_a_graph_break_leaves_two_graphs(runs):
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    assert compiled(function)(torch.ones(2)).tolist() == [3, 3]
    assert len(runs) == 2


@torch.no_grad()
def test_what_has_no_meaning_runs_in_pytorch_and_is_named_once():
    def function(x):
        return torch.linalg.inv(x) + 1

    fast, x = compiled(function), torch.eye(3)
    with pytest.warns(RunsInPyTorch, match=r"aten\.linalg_inv_ex"):
        assert torch.equal(fast(x), function(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RunsInPyTorch)
        assert torch.equal(fast(x), function(x))


def test_training_runs_in_pytorch_with_its_gradients():
    net, x = Net().train(), torch.randn(4, 8)
    with pytest.warns(RunsInPyTorch, match="gradients are recorded"):
        compiled(net)(x)["y"].sum().backward()
    assert net.a.weight.grad is not None


def test_unknown_options_are_refused():
    with pytest.raises(Exception, match=r"targt is not one of .*target"):
        torch.compile(Net(), backend="glenside", options={"targt": "cpu"})(torch.randn(2, 8))


def test_the_readme_shows_both_ways(runs):
    text = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n(import torch\n.*?)```", text, re.DOTALL)
    found = {"glenside": glenside}
    exec(block, found)
    torch.testing.assert_close(found["y"], found["net"](found["x"]))
    assert len({tuple(each) for each in runs}) == 2  # A program of each way.


@torch.no_grad()
def test_a_program_reads_and_writes_tensors_in_the_processors_memory():
    net, x = nn.Linear(8, 4).eval(), torch.randn(2, 8)
    program = glenside.optimize(net, (x,), target="cpu", check=False)
    out = torch.empty(2, 4)
    assert program(x, out=out) is out
    torch.testing.assert_close(out, net(x))
    bound = program.bind(x, out=out)
    x.mul_(-3)
    assert bound() is out
    torch.testing.assert_close(out, net(x))
    with pytest.raises(InputError, match="out= shares memory with input"):
        program(x, out=x.view(-1)[:8].view(2, 4))
    with pytest.raises(InputError, match=r"out= is float64 of shape \(2, 4\)"):
        program(x, out=out.double())


def test_parameters_are_watched_for_changes_and_for_going_away():
    args = [torch.zeros(2), 3, torch.ones(2), torch.ones(1)]
    with torch.inference_mode():
        args.append(torch.ones(3))
    watched = torch_compile._Watched(args, [0, 2, 4])
    assert watched.same(args)
    assert watched.same([*args[:3], torch.zeros(7), args[4]])
    assert not watched.same([args[0].clone(), *args[1:]])
    args[2].add_(1)
    assert not watched.same(args)
    gone = torch_compile._Watched(args, [2])
    (number,) = gone._ids
    args[2] = None
    gone._ids = (id(None),)  # As if another had its number.
    gone._changes = ()
    gone._counted = lambda args: ()
    assert number and not gone.same(args)
