"""A PyTorch module on a GPU: ``python torch_to_gpu.py opencl``, or ``cuda``; without, on the CPU.

Needs ``pip install 'glenside[torch,pocl]'``; through PoCL the processor is an OpenCL device too.
"""

import sys

import torch

import glenside


def main(target: str) -> None:
    """Compiles, compares with eager PyTorch, and runs the same through ``torch.compile``."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 10),
    ).eval()
    image = torch.randn(2, 3, 32, 32)
    program = glenside.optimize(net, (image,), target=target)
    with torch.inference_mode():
        expected = net(image)
        fast = torch.compile(net, backend="glenside", options={"target": target})
        compiled = fast(image)
    mine = torch.from_numpy(program(image.numpy()))
    print(f"largest error {float((mine - expected).abs().max()):.1e}")
    assert torch.allclose(mine, expected, atol=1e-5)
    assert torch.allclose(compiled, expected, atol=1e-5)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["cpu"])
