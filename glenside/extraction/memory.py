"""Cost models that count memory: bytes of the values that compiled programs store on the way.

They price beside another model, which says what is allowed and what else counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glenside.extraction.cost import (
    Cost,
    CostModel,
    at_compile_time,
    read_bytes,
)
from glenside.language.functions import FUNCTIONS
from glenside.language.operators import CALLS
from glenside.language.shape import AccessType

_SHORT = 2
"""Elements of a tuple axis up to which reducing it is elementwise work."""


def stored_bytes(
    op: str, attributes: Mapping[str, Any], result: AccessType, operands: Sequence[AccessType]
) -> int:
    """Bytes of a node's value if compiled code stores it, else 0.

    Code generation stores what reduces an axis, what looks at whole rows (softmax), joined values,
    and what calls and host operators give back. Data movement is read through, and elementwise work
    is done where the value it follows is computed.
    """
    if op in CALLS or op in ("host_op", "concat"):
        return result.nbytes
    if op != "compute":
        return 0
    kind, item = FUNCTIONS[attributes["function"]].kind, operands[0].item
    if kind == "reduce" and len(item) == 1 and item[0] <= _SHORT:
        return 0
    return result.nbytes if kind in ("reduce", "vector") else 0


@dataclass(frozen=True)
class LeastMemory:
    """Least memory, then what another model counts: (bytes stored, \\*its parts).

    Bytes are those of all values that are stored on the way (:func:`stored_bytes`), in sum. How
    many of them are there at once is no sum over nodes; but forms of one layer differ by what
    stands between its input and its result, and the program's peak is that of some layer. What
    compiling evaluates is stored in place of what it is made of and counts by what it has more.

    :param then: breaks ties.
    """

    then: CostModel

    @property
    def name(self) -> str:
        """``memory``."""
        return "memory"

    @property
    def components(self) -> tuple[str, ...]:
        """What the parts of a price are."""
        return ("bytes stored", *getattr(self.then, "components", ()))

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        """The price of one node; None for what the other model does not allow."""
        price = self.then.node_cost(op, attributes, result, operands)
        if price is None:
            return None
        return float(stored_bytes(op, attributes, result, operands)), *price

    def folded(
        self,
        price: Cost,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost:
        """The price of a node that compiling evaluates."""
        more = max(price[0] - read_bytes(op, attributes, operands), 0.0)
        return more, *at_compile_time(price[1:], self.then, op, attributes, result, operands)


@dataclass(frozen=True)
class WeighedMemory:
    """Another model whose first part, time as a rule, also counts what memory is worth.

    :param then: the model.
    :param byte_weight: what a stored byte (as of :class:`LeastMemory`) adds to that part.
    :param name: what the model is called in reports.
    """

    then: CostModel
    byte_weight: float
    name: str

    @property
    def components(self) -> tuple[str, ...]:
        """What the parts of a price are."""
        first, *rest = getattr(self.then, "components", ("cost",))
        return (f"{first} and memory", *rest)

    def node_cost(
        self,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost | None:
        """The price of one node; None for what the other model does not allow."""
        return self._joined(LeastMemory(self.then).node_cost(op, attributes, result, operands))

    def folded(
        self,
        price: Cost,
        op: str,
        attributes: Mapping[str, Any],
        result: AccessType,
        operands: Sequence[AccessType],
    ) -> Cost:
        """The price of a node that compiling evaluates."""
        least = LeastMemory(self.then)
        whole = least.node_cost(op, attributes, result, operands)
        assert whole is not None, "a node that is not allowed has no price"
        return self._joined(least.folded(whole, op, attributes, result, operands)) or price

    def _joined(self, price: Cost | None) -> Cost | None:
        if price is None:
            return None
        stored, first, *rest = price
        return first + self.byte_weight * stored, *rest
