"""Numbers on a coarse scale: ``real = scale * (quantised - zero point)``."""

from __future__ import annotations

from glenside.frontends.lowering.dtypes import dtype_of
from glenside.frontends.lowering.quantization import dequantized, quantized
from glenside.frontends.refusal import Refused
from glenside.frontends.relax.signature import operator
from glenside.language import Term


@operator("quantize")
def quantize(x: Term, scale: Term, zero_point: Term, *, out_dtype: str, axis: int) -> Term:
    """The nearest quantised number (of two, the even one), brought into the range of the dtype."""
    if out_dtype not in ("int8", "uint8", "int16", "uint16"):
        raise Refused(f"attribute out_dtype {out_dtype} is not supported; int8, uint8, ... are")
    return quantized(x, scale, zero_point, axis, out_dtype)


@operator("dequantize")
def dequantize(x: Term, scale: Term, zero_point: Term, *, out_dtype: str, axis: int) -> Term:
    """The real number that a quantised one stands for."""
    return dequantized(x, scale, zero_point, axis, dtype_of(out_dtype, "float32"))
