"""Operators of TVM 0.27 that have no meaning here, each with the reason.

Together with :data:`~glenside.frontends.relax.signature.OPERATORS` these are all it has.
"""

from __future__ import annotations

from collections.abc import Iterable

REFUSED: dict[str, str] = {}
"""Reasons by name, without ``relax.``."""


def _refuse(reason: str, names: Iterable[str]) -> None:
    REFUSED.update(dict.fromkeys(names, reason))


_refuse(
    "how many results there are depends on the data; shapes are fixed here",
    ("nonzero", "unique"),
)
_refuse(
    "memory, closures and calls of kernels are explicit only after TVM has lowered a module: "
    "import it before",
    (
        "builtin.alloc_tensor", "call_builtin_with_ctx", "call_dps_packed", "call_inplace_packed",
        "call_pure_packed", "call_py_func", "call_tir_inplace", "call_tir_with_grad",
        "invoke_closure", "invoke_pure_closure", "make_closure", "memory.alloc_storage",
        "memory.alloc_tensor", "memory.ensure_zero_offset", "memory.kill_storage",
        "memory.kill_tensor", "memory.view", "vm.alloc_storage", "vm.alloc_tensor",
        "vm.call_tir_dyn", "vm.kill_object",
    ),
)  # fmt: skip
_refuse(
    "several devices are not supported: import the module of one of them",
    (
        "ccl.allgather", "ccl.allreduce", "ccl.broadcast_from_worker0",
        "ccl.scatter_from_worker0", "dist.annotate_sharding", "dist.call_tir_local_view",
        "dist.redistribute", "dist.redistribute_replica_to_shard",
    ),
)  # fmt: skip
_refuse(
    "gradients are not supported: only inference is",
    (
        "grad.avg_pool2d_backward", "grad.end_checkpoint", "grad.max_pool2d_backward",
        "grad.nll_loss_backward", "grad.no_grad", "grad.start_checkpoint", "grad.take_backward",
    ),
)  # fmt: skip
_refuse(
    "how a tensor lies in memory is decided when it is compiled, not before",
    (
        f"inspect.tensor_{name}"
        for name in (
            "byte_offset", "dtype_bits", "dtype_code", "dtype_lanes", "elem_offset", "ndim",
            "shape_i", "stride_i",
        )
    ),
)  # fmt: skip
_refuse(
    "a compiled program neither prints nor checks itself: drop the call",
    ("assert_op", "print"),
)
_refuse(
    "random numbers are not supported: draw them outside and hand them in as an input",
    ("multinomial_from_uniform",),
)
_refuse(
    "there is no arc tangent of two operands: divide, and use atan",
    ("atan2",),
)
_refuse(
    "queries of many lengths in one tensor are not supported: use nn.attention",
    ("nn.attention_var_len",),
)
_refuse(
    "an index map is not read: say what it does with reshape and permute_dims",
    ("layout_transform",),
)
_refuse(
    "a detector's head is not read from Relax: import the model as ONNX or Relay text",
    (
        "vision.all_class_non_max_suppression", "vision.get_valid_counts",
        "vision.multibox_transform_loc", "vision.non_max_suppression", "vision.roi_align",
        "vision.roi_pool",
    ),
)  # fmt: skip
_refuse(
    "places in an image that are computed are not read from Relax: import the model as ONNX",
    ("image.affine_grid", "image.grid_sample"),
)
_refuse(
    "there is no operator for it: sort, and take the middle",
    ("median",),
)
_refuse(
    "it is made of known numbers: hand it in as a constant",
    ("hamming_window",),
)
