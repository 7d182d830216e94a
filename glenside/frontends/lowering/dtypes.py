"""Dtypes that attributes name."""

from __future__ import annotations

from glenside.frontends.refusal import Refused
from glenside.language import DTYPES


def accumulator(out_dtype: str | None) -> str | None:
    """The dtype that ``out_dtype`` asks for; empty and ``void`` mean that of the operands."""
    if out_dtype in (None, "", "void"):
        return None
    if out_dtype not in DTYPES:
        raise Refused(f"attribute out_dtype {out_dtype} is not supported")
    return out_dtype


def dtype_of(dtype: str | None, default: str) -> str:
    """``dtype``, or ``default`` where the attribute leaves it open."""
    if dtype in (None, "", "void"):
        return default
    if dtype not in DTYPES:
        raise Refused(f"attribute dtype {dtype} is not one of {', '.join(DTYPES)}")
    return dtype
