"""Core operators of ATen that have no meaning here, each with the reason.

Together with :data:`~glenside.frontends.torch.signature.OPERATORS` these are all of PyTorch 2.14;
what is in neither is decomposed into them.
"""

from __future__ import annotations

from collections.abc import Iterable

REFUSED: dict[str, str] = {}
"""Reasons by name, without namespace and overload."""


def _refuse(reason: str, names: Iterable[str]) -> None:
    REFUSED.update(dict.fromkeys(names, reason))


_refuse(
    "gradients are not supported: only inference is",
    (
        "_adaptive_avg_pool2d_backward", "avg_pool2d_backward", "convolution_backward",
        "embedding_dense_backward", "max_pool2d_with_indices_backward",
        "native_group_norm_backward", "native_layer_norm_backward",
    ),
)  # fmt: skip
_refuse(
    "how many results there are depends on the data; shapes are fixed here",
    ("nonzero", "nonzero_static", "masked_select", "unique_dim", "_unique2", "bincount"),
)
_refuse(
    "a number that is computed cannot decide what the program is: keep it a tensor",
    ("_local_scalar_dense", "item", "sym_is_contiguous", "sym_numel", "sym_size",
     "sym_storage_offset", "sym_stride"),
)  # fmt: skip
_refuse(
    "random numbers are not supported: draw them outside and hand them in as an input",
    ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like",
     "bernoulli", "multinomial", "normal", "uniform", "exponential"),
)  # fmt: skip
_refuse(
    "complex numbers are not supported: transform outside, and hand in real and imaginary part",
    ("_fft_c2r", "_fft_r2c", "_fft_c2c", "view_as_real", "view_as_complex", "real", "imag",
     "complex", "polar", "angle"),
)  # fmt: skip
_refuse(
    "how a tensor lies in memory is decided when it is compiled: use reshape, permute and slices",
    ("as_strided", "resize_", "as_strided_copy", "set_"),
)
_refuse(
    "bags of embeddings are not supported: use embedding, and sum",
    ("_embedding_bag", "_embedding_bag_forward_only"),
)
_refuse(
    "distances are not supported: form them with sub, mul, sum and sqrt, or matmul",
    ("_cdist_forward", "_pdist_forward"),
)
_refuse(
    "matrices are not factorised here",
    ("linalg_inv_ex", "_linalg_svd", "_linalg_det", "linalg_qr", "linalg_cholesky_ex",
     "_linalg_solve_ex", "_linalg_eigh"),
)  # fmt: skip
_refuse(
    "the sign of a zero is not kept apart here: compare with 0",
    ("signbit", "copysign"),
)
