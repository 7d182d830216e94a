"""Intel AMX: the matrix unit of a CPU, tiles of 16 rows by 64 bytes (Intel, "Architecture
Instruction Set Extensions Programming Reference", chapter 3; throughput from the "Optimization
Reference Manual").

One instruction adds the products of a 16 x 64 tile of bytes and a 64 x 16 one to 16 x 16 integers
of 32 bits. ``TDPBSSD`` takes both signed, ``TDPBUUD`` both unsigned, ``TDPBSUD`` and ``TDPBUSD``
one of each. Products of bytes are exact and sums wrap around; nothing saturates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glenside.hw_targets.accelerator import Accelerator, Sizes

Array = np.ndarray[Any, Any]

ROWS, BYTES, COLUMNS = 16, 64, 16
CYCLES = 16
"""Of one instruction behind others of its kind."""
MULTIPLIERS = ROWS * BYTES * COLUMNS // CYCLES


def tdpb(sizes: Sizes, a: Array, b: Array) -> Array:
    """One instruction on fresh sums. The second tile holds four bytes of a column side by side, so
    that each step adds four products to every sum."""
    a, b = a.reshape(ROWS, BYTES), b.reshape(COLUMNS, BYTES)
    first = a.reshape(ROWS, BYTES // 4, 4).astype("int32")
    second = b.reshape(COLUMNS, BYTES // 4, 4).swapaxes(0, 1).astype("int32")
    sums = np.zeros((ROWS, COLUMNS), "int32")
    for step in range(BYTES // 4):
        sums += first[:, step] @ second[step].T
    return sums.reshape(*[1] * ("B" in sizes), ROWS, COLUMNS)


def _instruction(kinds: str, batch: bool = False, **others: Any) -> Accelerator:
    b = "B " if batch else ""
    first, second = ("int8" if kind == "s" else "uint8" for kind in kinds)
    shared = ":batch 1" if batch else ""
    product = f"(compute dot :accumulate int32 (cart-prod {shared} ?a ?b))"
    if first != second:
        product = f"(compute dot (cart-prod {shared} (cast int32 ?a) (cast int32 ?b)))"
    return Accelerator(
        f"amx-{'batch-' * batch}tdpb{kinds}d",
        operands={"a": f"(({b}M) (K)) {first}", "b": f"(({b}N) (K)) {second}"},
        computes=product,
        tile={**({"B": 1} if batch else {}), "M": ROWS, "K": BYTES, "N": COLUMNS},
        cycles=f"{CYCLES} * {'B * ' * batch}tiles(M, 16) * tiles(K, 64) * tiles(N, 16)",
        area=MULTIPLIERS,
        loops=False,
        simulate=tdpb,
        target="amx",
        known=False,
        **others,
    )


TDPBSSD = _instruction(
    "ss", summary="Intel's CPU matrix unit: products of int8 and uint8, 16 x 64 by 64 x 16 bytes"
)
OTHERS = tuple(
    _instruction(kinds, batch)
    for batch in (False, True)
    for kinds in ("ss", "uu", "su", "us")
    if batch or kinds != "ss"
)

DECLARED = (TDPBSSD, *OTHERS)
