"""PyTorch's programs for many sizes: dynamic dimensions, modules exported size by size."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make test-torch)")

from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import glenside  # noqa: E402
from glenside.errors import GlensideError, InputError  # noqa: E402
from glenside.frontends.open_lengths import open_model  # noqa: E402


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 5)

    def forward(self, image, added):
        return self.head(torch.relu(self.conv(image)).mean((2, 3))) + added


NET = Net().eval()
EXAMPLE = (torch.randn(3, 3, 8, 8), torch.randn(3, 5))


def exported():
    batch = Dim("batch", min=1, max=16)
    return torch.export.export(NET, EXAMPLE, dynamic_shapes=({0: batch}, {0: batch}))


def right(program, batch, height=8):
    image, added = torch.randn(batch, 3, height, 8), torch.randn(batch, 5)
    with torch.no_grad():
        expected = NET(image, added).numpy()
    np.testing.assert_allclose(program(image.numpy(), added.numpy()), expected, atol=1e-5)


def test_dynamic_dimensions_stay_open_with_their_ranges():
    program = glenside.optimize(exported())
    assert {name: str(each) for name, each in program.ranges.items()} == {"batch": "1..16"}
    for batch in (1, 5):
        right(program, batch)
    assert program.report.sizes[-1].startswith("batch=5: the form of batch=2")
    with pytest.raises(InputError, match=r"batch is 17; the program takes 1\.\.16"):
        program(np.zeros((17, 3, 8, 8), "float32"), np.zeros((17, 5), "float32"))


def test_dynamic_dimensions_are_fixed_by_name_or_example():
    program = glenside.optimize(exported(), shapes={"batch": 4}, check=False)
    assert program.inputs["image"].shape == (4, 3, 8, 8)
    program = glenside.optimize(exported(), EXAMPLE, check=False)
    assert program.inputs["image"].shape == (3, 3, 8, 8)
    with pytest.raises(GlensideError, match=r"batch is 17, it must be 1\.\.16"):
        glenside.optimize(exported(), shapes={"batch": 17})


def test_a_module_is_exported_for_each_size():
    shapes = {"image": ("n", 3, "height=4..64", 8), "added": ("n", 5)}
    program = glenside.optimize(NET, EXAMPLE, shapes=shapes, sizes=[{"n": 2, "height": 8}])
    right(program, 3)
    right(program, 2, height=6)
    assert program.sizes == [{"n": 2, "height": 8}, {"n": 2, "height": 6}]


def test_what_a_dimension_is_not_named_after():
    auto = torch.export.export(NET, EXAMPLE, dynamic_shapes=({0: Dim.AUTO}, {0: Dim.AUTO}))
    opened = open_model(auto)
    assert opened is not None and opened.meant
    (name, *_), (other, *_) = opened.lengths["image"], opened.lengths["added"]
    assert name == other and opened.ranges == {name: (1, None)}


def test_compiled_graphs_of_dynamic_shapes_are_explored_once(monkeypatch):
    from glenside.pipeline import Pipeline

    explored, whole = [], Pipeline.explored
    monkeypatch.setattr(Pipeline, "explored", lambda *a, **k: explored.append(1) or whole(*a, **k))
    torch.compiler.reset()
    fast = torch.compile(NET, backend="glenside", dynamic=True)
    with torch.no_grad():
        for batch in (6, 5, 2):  # PyTorch takes one that is as long as another axis for that.
            image, added = torch.randn(batch, 3, 8, 8), torch.randn(batch, 5)
            torch.testing.assert_close(fast(image, added), NET(image, added))
    assert len(explored) == 1
