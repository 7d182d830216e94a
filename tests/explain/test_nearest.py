"""Nothing is amiss with a layer exactly where the unit's rule finds it."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from glenside.explain.nearest import Nearest, wanted_by
from glenside.hw_targets.accelerator import Accelerator
from glenside.hw_targets.units import flexasr, hlscnn, vta
from glenside.language import topological_order
from glenside.rewrites import RuleSet, saturate
from tests.effort import tries

UNITS = [
    flexasr.LINEAR,
    flexasr.MAXPOOL,
    flexasr.LAYER_NORM_OF_ROWS,
    hlscnn.CONV2D,
    vta.BATCH_DENSE,
]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_fits_is_what_the_rule_finds(unit: Accelerator) -> None:
    wanted = wanted_by(unit.name, unit)
    functions = {function for each in wanted for function in each.functions}
    rules = [RuleSet(unit.name, (unit.rule(),))]
    outcomes = set()

    @settings(
        max_examples=tries(15),
        database=None,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        term = data.draw(unit.programs())
        explored = saturate([term], rules)
        nearest = Nearest(explored.egraph)
        layers = [
            each
            for each in topological_order([term])
            if each.op == "compute" and each["function"] in functions
        ]
        reasons = [
            nearest.misfits(explored.term_classes[each], each["function"], wanted)[1]
            for each in layers
        ]
        found = explored.rules[unit.name] > 0
        assert found == any(not each for each in reasons), (str(term), reasons)
        outcomes.add(found)

    check()
    # A linear layer is mostly found, whatever becomes of its bias.
    assert outcomes >= ({True} if unit is flexasr.LINEAR else {True, False})
