"""Operators of TVM 0.8 to 0.17 that have no meaning here, each with the reason.

Together with :data:`~glenside.frontends.relay.signature.OPERATORS` these are all that those
versions have.
"""

from __future__ import annotations

from collections.abc import Iterable

REFUSED: dict[str, str] = {}
"""Reasons by name."""


def _refuse(reason: str, names: Iterable[str]) -> None:
    REFUSED.update(dict.fromkeys(names, reason))


_refuse(
    "how many results there are depends on the data; shapes are fixed here",
    ("argwhere", "unique", "sparse_fill_empty_rows", "sparse_reshape"),
)
_refuse(
    "sparse tensors are not supported: use the dense operator",
    (
        "nn.sparse_dense", "nn.sparse_add", "nn.sparse_transpose", "nn.sparse_conv2d",
        "nn.internal.sparse_dense_padded", "dyn.sparse_to_dense",
    ),
)  # fmt: skip
_refuse(
    "numbers packed bit by bit are not supported: there is no dtype for them",
    ("nn.bitpack", "nn.bitserial_conv2d", "nn.bitserial_dense"),
)
_refuse(
    "only passes of TVM for one target make it, of nn.conv2d, nn.conv3d or nn.dense: export the "
    "module before they run",
    (
        "nn.contrib_conv2d_winograd_without_weight_transform",
        "nn.contrib_conv2d_winograd_weight_transform",
        "nn.contrib_conv2d_winograd_nnpack_without_weight_transform",
        "nn.contrib_conv2d_winograd_nnpack_weight_transform",
        "nn.contrib_conv3d_winograd_without_weight_transform",
        "nn.contrib_conv3d_winograd_weight_transform",
        "nn.contrib_conv2d_gemm_without_weight_transform",
        "nn.contrib_conv2d_gemm_weight_transform",
        "auto_scheduler_layout_transform",
        "meta_schedule_layout_transform",
        "mlas_matmul", "mlas_packb",
        "qnn.contrib_dense_pack",
    ),
)  # fmt: skip
_refuse(
    "gradients are not supported: only inference is",
    ("nn.conv2d_backward_weight", "nn.max_pool2d_grad", "nn.avg_pool2d_grad"),
)
_refuse(
    "random numbers are not supported: draw them outside and hand them in as an input",
    (
        "random.threefry_generate", "random.threefry_split", "random.uniform", "random.normal",
        "random.multinomial",
    ),
)  # fmt: skip
_refuse(
    "memory and calls of kernels are explicit only after TVM has lowered a module: export it "
    "before",
    (
        "memory.alloc_storage", "memory.alloc_tensor", "memory.kill", "vm.invoke_tvm_op",
        "vm.shape_func", "vm.reshape_tensor", "call_lowered",
    ),
)  # fmt: skip
_refuse(
    "calibration is not supported: export the module after it, with qnn operators",
    (
        "relay.op.annotation.simulated_quantize", "qnn.simulated_quantize",
        "qnn.simulated_dequantize",
    ),
)  # fmt: skip
_refuse(
    "its integer approximation is TVM's own: use dequantize, the operator on floats, and quantize",
    ("qnn.softmax", "qnn.avg_pool2d"),
)
_refuse(
    "up to thousands of boxes suppress each other one after the other: use "
    "vision.non_max_suppression with top_k",
    ("vision.proposal", "vision.regular_non_max_suppression"),
)
_refuse(
    "a debugger cannot be entered from a compiled program: drop the call",
    ("debug",),
)
_refuse(
    "depth and axis of a one-hot tensor must be attributes: use one_hot",
    ("dyn.one_hot",),
)
_refuse(
    "windows of a signal are not transformed together: use sliding_window and dft",
    ("stft",),
)
_refuse(
    "it is an operation of the Arm Ethos-U unit: export the module before it is partitioned",
    (
        f"contrib.ethosu.{name}"
        for name in (
            "conv2d", "depthwise_conv2d", "pooling", "binary_elementwise", "unary_elementwise",
            "identity",
        )
    ),
)  # fmt: skip
