"""Convolutions in one, two and three dimensions, in any order of axes."""

from __future__ import annotations

from glenside.frontends.lowering.tvm_convolution import CONVOLUTIONS
from glenside.frontends.relay.signature import operator

for _name, _lower in CONVOLUTIONS.items():
    operator(_name)(_lower)
