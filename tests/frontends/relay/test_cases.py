"""The shared cases of how Relay operators become access patterns."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from glenside.frontends.kinds import Terms
from glenside.frontends.relay import import_relay
from glenside.frontends.relay.operators import OPERATORS
from glenside.language import evaluate, map_terms, parse, rebuild
from glenside.language.syntax import read_expressions

GIVEN = os.environ.get("GLENSIDE_CASES")
FILE = Path(GIVEN) if GIVEN else Path(__file__).parents[2] / "cases" / "glenside.json"
CASES = json.loads(FILE.read_text())["cases"]
# That a unit takes an operator is tested with the rules.
RELAY = [
    case for case in CASES if case["family"] == "relay" and "hlscnn-conv2d" not in case["rules"]
]

# The same values in another form, on purpose: depthwise convolution is one product whose group
# axis is shared instead of one branch a channel, and flattening stays among the outer axes.
OTHER_FORM = {"lower-conv2d-depthwise", "lower-batch-flatten"}


def relay_text(case):
    """The case's call as Relay text."""
    word, name, (_, *attributes), *operands = read_expressions(case["term"])[0]
    assert word == "relay"
    parameters = ", ".join(
        f"%{tensor}: Tensor[({', '.join(map(str, shape))}), float32]"
        for tensor, shape in case["inputs"].items()
    )
    arguments = [f"%{tensor}" for _, tensor in operands]
    if OPERATORS[name].operands[0] == Terms:
        arguments = [f"({', '.join(arguments)})"]
    for attribute, *values in attributes:
        scalar = OPERATORS[name].kinds[attribute] in (int, float)
        listed = values[0] if scalar else f"[{', '.join(values)}]"
        arguments.append(f"{attribute}={listed}")
    return f"def @main({parameters}) {{ {name}({', '.join(arguments)}) }}"


def without_idle_accesses(root):
    """The term without ``access`` that changes nothing, at the root without any."""

    def change(term, children):
        idle = term.op == "access" and term["split"] == children[0].type.split
        return children[0] if idle else rebuild(term, children)

    term = map_terms([root], change)[root]
    while term.op == "access":
        term = term.children[0]
    return term


@pytest.mark.parametrize("case", RELAY, ids=lambda case: case["name"])
def test_lowering(case):
    (root,) = import_relay(relay_text(case)).roots
    shape = case["expect"]["shape"]
    assert (root.outer, root.item) == (tuple(shape["outer"]), tuple(shape["item"]))
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.integers(-4, 5, shape).astype("float32") for name, shape in case["inputs"].items()
    }
    for text in case["expect"]["equals"]:
        wanted = parse(text, inputs=case["inputs"])
        got, value = evaluate([root, wanted], arrays)
        np.testing.assert_array_equal(got, value)
        if case["name"] not in OTHER_FORM:
            assert without_idle_accesses(root) is without_idle_accesses(wanted)
