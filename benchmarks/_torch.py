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


BUILT = {
    "bert_base": (1, 128, 768),
    "vit_b_16": (1, 3, 224, 224),
    "convnext_tiny": (1, 3, 224, 224),
    "layer_norm": (1, 128, 768),
    "softmax": (1, 12, 128, 128),
}
"""Networks and layers that come from PyTorch, and the shape of what they take."""


def network(name: str) -> Any:
    """PyTorch's network of the same layers with random weights; None where there is none."""
    if name in ("bert_base", "layer_norm", "softmax"):
        from torch import nn

        if name == "bert_base":
            return _encoder(layers=12, width=768, heads=12, wide=3072)
        return nn.LayerNorm(768) if name == "layer_norm" else nn.Softmax(-1)
    if name in BUILT:
        import torchvision

        return getattr(torchvision.models, name)()
    if name == "mobilenet_v2_relay":
        return _small_mobilenet()
    if name not in NETWORKS:
        return None
    import torchvision

    return getattr(torchvision.models, NETWORKS[name])()


def _encoder(layers: int, width: int, heads: int, wide: int) -> Any:
    """BERT's layers (Devlin et al. 2019), from what its embedding gives on."""
    from torch import nn
    from torch.nn import functional as f

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.given, self.merged = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width)
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            count, length, _ = x.shape
            parts = self.given(x).reshape(count, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            y = f.scaled_dot_product_attention(q, k, v).transpose(1, 2)
            x = self.first(x + self.merged(y.reshape(count, length, width)))
            return self.second(x + self.down(f.gelu(self.up(x))))

    return nn.Sequential(*[Layer() for _ in range(layers)])


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
    for layout in LAYOUTS if len(shape) == 4 else LAYOUTS[:1]:
        form = memory_format(layout)
        net = net.to(memory_format=form)
        sets = [
            [torch.randn(*shape, device="cuda", dtype=kind).to(memory_format=form)]
            for _ in range(3)
        ]
        result[f"torch {layout}"] = graph_microseconds(net, sets, 3, repeat)
    return result
