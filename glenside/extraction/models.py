"""The cost models that ship, by name."""

from __future__ import annotations

from collections.abc import Callable

from glenside.errors import ExtractionError
from glenside.extraction.cost import CostModel, MaximiseOffload, Roofline, cpu_roofline
from glenside.extraction.cycles import Cycles
from glenside.extraction.memory import LeastMemory

COST_MODELS: dict[str, Callable[[], CostModel]] = {
    MaximiseOffload.name: MaximiseOffload,
    Roofline.name: cpu_roofline,
    Cycles.name: Cycles,
    "memory": lambda: LeastMemory(cpu_roofline()),
}
"""Cost models by name, in their default form."""


def find_cost_model(cost_model: str | CostModel) -> CostModel:
    """The cost model of that name; a cost model is its own answer.

    :raises ExtractionError: there is none of that name, or it is no cost model.
    """
    if not isinstance(cost_model, str):
        name, price = (getattr(cost_model, each, None) for each in ("name", "node_cost"))
        if isinstance(cost_model, type) or not (isinstance(name, str) and callable(price)):
            known = ", ".join(COST_MODELS)
            raise ExtractionError(
                f"a cost model is a name ({known}) or an object with a name and "
                f"node_cost(op, attributes, result, operands), got {cost_model!r}"
            )
        return cost_model
    if cost_model not in COST_MODELS:
        known = ", ".join(COST_MODELS)
        raise ExtractionError(f"unknown cost model {cost_model!r}: the cost models are {known}")
    return COST_MODELS[cost_model]()
