"""Kernels as C functions: nothing but the C library is needed to build them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glenside.codegen.scalars import storage_dtype
from glenside.codegen.text.dialects import C, Dialect
from glenside.codegen.text.kernels import Scratch, preamble, print_kernel
from glenside.codegen.text.lowering import lowered


def c_type(dtype: str) -> str:
    """The C type of an element in memory.

    :raises TargetError: C has none.
    """
    return C.type_of(storage_dtype(dtype))


@dataclass(frozen=True)
class CKernel:
    """A C function. ``arguments`` are positions in the parameters of the TIR function, or scratch
    memory that the caller provides."""

    name: str
    arguments: tuple[int | Scratch, ...]


def c_kernels(
    functions: Sequence[Any], prefix: str = "kernel", dialect: Dialect = C
) -> tuple[str, list[CKernel]]:
    """The source of all kernels, and how each is called; ``kernel_0`` is the first one.

    :param functions: TIR functions over buffers; loops are run one after the other.
    :param prefix: of the functions' names.
    :param dialect: C, or C that is checked.
    :raises TargetError: C has no type for a dtype.
    """
    if not functions:
        return "", []
    named = {f"{prefix}_{k}": function for k, function in enumerate(functions)}
    printed = {
        name: print_kernel(name, function, dialect)
        for name, function in lowered(named, dialect, {}).items()
    }
    needs = {need for each in printed.values() for need in each.needs}
    texts = [preamble(needs, dialect), *(printed[name].text for name in named)]
    calls = [
        CKernel(name, (*range(len(function.params)), *printed[name].given))
        for name, function in named.items()
    ]
    return "\n".join(text for text in texts if text), calls
