"""Convolutions and their transposes in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

from glenside.frontends.lowering.tvm_convolution import CONVOLUTIONS, TRANSPOSED
from glenside.frontends.relax.signature import operator

for _name, _lower in (CONVOLUTIONS | TRANSPOSED).items():
    operator(_name)(_lower)
