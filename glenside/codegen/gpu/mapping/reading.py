"""Mappings from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from glenside.codegen.gpu.mapping.product import ProductMapping
from glenside.codegen.gpu.matrices.mapping import MatrixMapping
from glenside.codegen.gpu.rows.mapping import RowMapping
from glenside.codegen.gpu.streams.mapping import StreamMapping
from glenside.codegen.gpu.threads.mapping import ThreadMapping
from glenside.codegen.gpu.warpgroups.mapping import WarpgroupMapping
from glenside.codegen.gpu.warps.mapping import WarpMapping

_KINDS: Mapping[str, type[ProductMapping]] = {
    each.kind: each
    for each in (
        WarpgroupMapping,
        StreamMapping,
        WarpMapping,
        MatrixMapping,
        ThreadMapping,
        RowMapping,
    )
}


def read_mapping(text: str | Mapping[str, Any]) -> ProductMapping:
    """A mapping of any kind from its text, or from what ``json.loads`` makes of it.

    :raises KeyError: there is no such kind.
    :raises TypeError: its fields are others.
    """
    fields = dict(json.loads(text) if isinstance(text, str) else text)
    if "kind" not in fields:
        fields = _of_the_first_format(fields)
    return _KINDS[fields.pop("kind")].of(fields)


def _of_the_first_format(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was written before JSON carried the kind: the three kinds of matrix units had one set
    of fields, of which those of the other kinds were zero."""
    if "stages" not in fields:
        return {**fields, "kind": "matrices" if "depth" in fields else "threads"}
    kind = "streams" if fields.get("boxes") else "warps" if fields.get("warps") else "warpgroups"
    others = {
        "warpgroups": ("boxes", "apart", "warps"),
        "streams": ("split", "kept", "gathered", "warps"),
        "warps": ("boxes", "apart", "kept", "warps"),
    }[kind]
    return {**{k: v for k, v in fields.items() if k not in others}, "kind": kind}
