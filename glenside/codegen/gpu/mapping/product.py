"""What mappings of every kind have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Self


@dataclass(frozen=True)
class ProductMapping:
    """How a product, or a reduction over rows, is spread over a device; each kind of mapping says
    what it is made of."""

    kind: ClassVar[str]
    """The name of the kind, which JSON carries."""

    predicted: float = field(default=0.0, kw_only=True)
    """Seconds, by the model."""

    @property
    def order(self) -> Any:
        """What decides between mappings of one kind that are predicted to take the same time."""
        return self.to_json()

    def to_json(self) -> str:
        """Text that :func:`~.reading.read_mapping` reads."""
        return json.dumps(self.to_fields(), sort_keys=True)

    def to_fields(self) -> dict[str, Any]:
        """The kind and what a mapping is made of, as JSON has it."""
        return {"kind": self.kind, **asdict(self)}

    def same(self, other: ProductMapping) -> bool:
        """Whether the kernels are the same, whatever was predicted of them."""
        return replace(self, predicted=0.0) == replace(other, predicted=0.0)

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """The mapping with these fields, as JSON has them.

        :raises TypeError: there are others, or some lack.
        """
        given: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()
        }
        return cls(**given)
