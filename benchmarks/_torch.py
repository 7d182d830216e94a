"""PyTorch beside Glenside: CUDA graphs of its functions and networks, timed by events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

LAYOUTS = ("NCHW", "NHWC")


def memory_format(layout: str) -> Any:
    """PyTorch's name of a layout."""
    import torch

    return {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}[layout]


def exact(tf32: bool = False) -> None:
    """cuDNN tries its algorithms; float32 is not rounded to tf32 unless that is asked for."""
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def graph_microseconds(
    function: Callable[..., Any], sets: Sequence[Sequence[Any]], inside: int, repeat: int
) -> float:
    """Microseconds of one call: the median over replays of a graph of ``inside`` calls, which take
    the sets of arguments in turn."""
    import torch

    with torch.no_grad():
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(2):
                for arguments in sets:
                    function(*arguments)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for k in range(inside):
                function(*sets[k % len(sets)])
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for _ in range(repeat + 3):
            start.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / inside)
    return median(times[3:])


NETWORKS = {
    "squeezenet": "squeezenet1_1",
    "resnet50": "resnet50",
    "vgg19": "vgg19",
    "mobilenet_v2": "mobilenet_v2",
}
"""What torchvision calls the networks of the benchmark."""


def network(name: str) -> Any:
    """PyTorch's network of the same layers with random weights; None where there is none."""
    if name == "mobilenet_v2_relay":
        return _small_mobilenet()
    if name not in NETWORKS:
        return None
    import torchvision

    return getattr(torchvision.models, NETWORKS[name])()


def _small_mobilenet() -> Any:
    """MobileNet v2 for images of 32 x 32, 10 classes, with convolutions where channels change."""
    from torch import nn

    def layer(c: int, k: int, size: int = 1, stride: int = 1, groups: int = 1) -> list[Any]:
        conv = nn.Conv2d(c, k, size, stride, size // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(k)]

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, c: int, k: int, expand: int, stride: int) -> None:
            super().__init__()
            wide = c * expand
            self.body = nn.Sequential(
                *layer(c, wide), nn.ReLU(), *layer(wide, wide, 3, stride, wide), nn.ReLU(),
                *layer(wide, k),
            )  # fmt: skip
            self.adds = stride == 1
            self.skip = nn.Sequential(*(layer(c, k) if c != k else []))

        def forward(self, x: Any) -> Any:
            y = self.body(x)
            return y + self.skip(x) if self.adds else y

    blocks: list[Any] = [*layer(3, 32, 3), nn.ReLU()]
    c = 32
    for expand, k, repeats, first in (
        (1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(repeats):
            blocks.append(Block(c, k, expand, first if number == 0 else 1))
            c = k
    head = [*layer(320, 1280), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(1280, 10)]
    return nn.Sequential(*blocks, *head)


def network_microseconds(
    name: str, shape: Sequence[int], dtype: str, repeat: int
) -> dict[str, float]:
    """PyTorch's network of that name as one CUDA graph, by layout; empty where there is none."""
    try:
        import torch
    except ImportError:
        return {}
    made = network(name)
    if made is None:
        return {}
    exact()
    kind = getattr(torch, dtype)
    result = {}
    net = made.eval().cuda().to(kind)
    for layout in LAYOUTS:
        form = memory_format(layout)
        net = net.to(memory_format=form)
        sets = [
            [torch.randn(*shape, device="cuda", dtype=kind).to(memory_format=form)]
            for _ in range(3)
        ]
        result[f"torch {layout}"] = graph_microseconds(net, sets, 3, repeat)
    return result
