"""The program after each pass, as text."""

import numpy as np

from glenside.codegen.compile import compile_terms
from glenside.codegen.program.cut import PASSES
from glenside.codegen.program.show import show, show_passes
from glenside.language import builders as b
from tests.codegen.program.passes_help import after

X, W = b.tensor("x", (5, 6)), b.tensor("w", (16, 6))
RELU = b.compute("relu", b.compute("dot", b.cart_prod(b.access(W, 1), b.access(X, 1))))
PARAMS = {"w": np.ones((16, 6), "float32") + np.eye(16, 6, dtype="float32")}
STORED = """\
%1 = of parameters, by access : ((16) (6)) float32  # known
%2 = (tensor x (5 6)) : ((5 6) ()) float32  # kept; b0: 0 + (5*6, 6*1)
%3 = (access 1 %2) : ((5) (6)) float32
%4 = (cart-prod %1 %3) : ((16 5) (2 6)) float32
%5 = (compute dot %4) : ((16 5) ()) float32  # kept; %1 along registers, %3 streamed
%6 = (compute relu %5) : ((16 5) ()) float32  # kept; with %5 inside; b1: 0 + (16*1, 5*16)
results %6
step 0: %6 with %5 inside, in register tiles from %1, %2
b0: 30 float32 for %2
b1: 80 float32 for %6"""


def test_a_record_is_shown():
    assert "\n".join(show(after("storing", RELU, params=PARAMS))) == STORED


def test_what_each_pass_adds_is_shown():
    term = b.concat(0, b.compute("neg", X), X)
    looks = b.compute("max", b.windows(b.access(b.pad(term, 1, 1, 1, 0.0), 1), (3,), (1,)))
    text = "\n".join(show(after("margins", looks)))
    assert "in %2 from 0 on" in text
    assert "%0 copied to 5; margins of 0.0: 1+1 of axis 1" in text


def test_all_passes_and_the_plan():
    program = compile_terms([RELU], {"x": X.type}, PARAMS, threads=1)
    text = show_passes(program.start, program.plan)
    assert [
        line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith("after")
    ] == [*PASSES]
    assert text.count("  (same)") == 6  # moving, bounding, streaming, rows, placing, margins
    assert "kernel_0(" in text.partition("plan: ")[2]
    assert text == show_passes(program.start, program.plan)
