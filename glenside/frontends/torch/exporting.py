"""From a module to a program of ATen's core operators, by ``torch.export``."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glenside.errors import ModelError

KEPT = (
    "linear", "matmul", "einsum", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh",
    "rnn_relu", "instance_norm", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d",
    "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "silu", "softplus", "pixel_unshuffle", "im2col", "unfold", "prelu", "tril", "triu", "roll",
    "stack", "index_add", "logsumexp", "std", "var_mean", "std_mean", "baddbmm", "addmv",
    "bilinear", "rrelu", "eye", "bucketize", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d",
)  # fmt: skip
"""Operators that are not core, and that would lose what they are if they were decomposed."""


def export(module: Any, example_inputs: Any) -> Any:
    """The ``ExportedProgram`` of a module for inputs like the given ones.

    :param example_inputs: a tuple of what the module is called with, a mapping of what it is
        called with by keyword, or one tensor.
    :raises ModelError: PyTorch cannot export it; says why.
    """
    import torch

    args, kwargs = arguments(example_inputs)
    with (
        _telling(f"torch.export cannot export {type(module).__name__}"),
        torch.no_grad(),
        warnings.catch_warnings(),
    ):
        # Modules that cache tensors in themselves while they run; export puts that back.
        warnings.filterwarnings("ignore", message="The tensor attribute")
        return torch.export.export(module, args, kwargs, strict=False)


@contextlib.contextmanager
def _telling(what: str) -> Iterator[None]:
    """Failures of PyTorch as :class:`ModelError`: what failed, and the first line of why."""
    try:
        yield
    except Exception as problem:  # PyTorch raises all kinds.
        raise ModelError(f"{what}: {first_line(problem)}") from problem


def arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a call.

    :raises ModelError: these are none.
    """
    import torch

    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, Sequence) and not isinstance(example_inputs, str | bytes):
        return tuple(example_inputs), {}
    raise ModelError(
        "example_inputs must be a tuple of what the module takes, a mapping of it by keyword, or "
        f"one tensor; got {type(example_inputs).__name__}"
    )


def first_line(problem: BaseException) -> str:
    """What an error says first, with its kind."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__


def in_core_operators(program: Any) -> Any:
    """An ``ExportedProgram`` decomposed into core operators and :data:`KEPT`.

    :raises ModelError: PyTorch cannot.
    """
    import torch

    table = torch.export.default_decompositions()
    for name in KEPT:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    with _telling("torch.export cannot decompose it"), torch.no_grad():
        return program.run_decompositions(table)


def with_shapes(program: Any, shapes: Mapping[str, Sequence[int]], names: Sequence[str]) -> Any:
    """An ``ExportedProgram`` for fixed shapes of its inputs.

    :param names: what its inputs are called here, in order; None for those that are no tensor.
    :raises ModelError: it does not take them.
    """
    import torch
    from torch.utils import _pytree

    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    flat: list[Any] = []
    for given, name in zip(program.graph_signature.user_inputs, names, strict=True):
        if not isinstance(given, str):
            flat.append(given)
            continue
        value = nodes[given].meta["val"]
        shape = shapes.get(name, tuple(value.shape))
        flat.append(torch.zeros([int(each) for each in shape], dtype=value.dtype))
    args, kwargs = _pytree.tree_unflatten(flat, program.call_spec.in_spec)
    asked = ", ".join(f"{name}: {tuple(shape)}" for name, shape in shapes.items())
    with _telling(f"shapes {{{asked}}} do not fit"), torch.no_grad():
        return torch.export.export(program.module(), tuple(args), kwargs, strict=False)
