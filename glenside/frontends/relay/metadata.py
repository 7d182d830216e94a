"""The ``#[metadata]`` section: TVM's JSON graph of what the text format cannot spell inline."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from typing import Any

import numpy as np

from glenside.errors import ModelError
from glenside.frontends.relay.syntax_tree import Attribute, Meta
from glenside.language.shape import DTYPES

Array = np.ndarray[Any, Any]

_MAGIC = 0xDD5E40F096B4A13F
"""First eight bytes of a serialised array (dmlc's NDArray file format)."""

_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
"""DLPack's type codes."""


class Metadata:
    """Entries by kind and index, as ``meta[relay.attrs.BatchMatmulAttrs][0]`` names them."""

    def __init__(self, text: str | None, source: str) -> None:
        self.graph: dict[str, Any] = {}
        if text is None:
            return
        try:
            graph = json.loads(text.removeprefix("#[metadata]"))
        except (ValueError, RecursionError) as problem:
            raise ModelError(f"{source}: #[metadata] is not a JSON object: {problem}") from None
        if not isinstance(graph, dict):
            raise ModelError(f"{source}: #[metadata] is not a JSON object")
        self.graph = graph

    def attributes(self, meta: Meta) -> dict[str, Attribute]:
        """The attributes an entry holds; those at their "undefined" value are left out."""
        attrs = self._entry(meta).get("attrs") or {}
        return {name: _value(value) for name, value in attrs.items() if value != ""}

    def array(self, meta: Meta) -> Array:
        """The array of a ``relay.Constant`` entry."""
        try:
            encoded = self.graph["b64ndarrays"][int(self._entry(meta)["attrs"]["data"])]
            return _array(base64.b64decode(encoded))
        except (KeyError, IndexError, TypeError, ValueError, binascii.Error, struct.error) as error:
            raise self._missing(meta, f"holds no array ({error})") from None

    def _entry(self, meta: Meta) -> dict[str, Any]:
        # The root is a map from kinds to lists; maps, lists and entries are nodes named by number.
        try:
            nodes = self.graph["nodes"]
            kinds = nodes[self.graph["root"]]
            entries = nodes[kinds["data"][kinds["keys"].index(meta.kind)]]
            entry = nodes[entries["data"][meta.index]]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError):
            raise self._missing(meta, "is not in the #[metadata] section") from None
        if not isinstance(entry, dict) or not isinstance(entry.get("attrs", {}), dict):
            raise self._missing(meta, "is malformed")
        return entry

    def _missing(self, meta: Meta, what: str) -> ModelError:
        return ModelError(f"meta[{meta.kind}][{meta.index}] {what}")


def _value(text: object) -> Attribute:
    """Numbers are written as strings; anything else stays one."""
    text = str(text)
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def _array(data: bytes) -> Array:
    """dmlc's NDArray format: magic, reserved, device, rank, dtype, shape, byte count, elements."""
    magic, _, _, _, rank, code, bits, lanes = struct.unpack_from("<QQiiiBBH", data)
    if magic != _MAGIC or lanes != 1 or not 0 <= rank <= 64:
        raise ValueError("not a serialised array")
    shape = struct.unpack_from(f"<{rank}q", data, 32)
    dtype = "bool" if (code, bits) == (1, 1) else f"{_KINDS.get(code)}{bits}"
    if dtype not in DTYPES:
        raise ValueError(f"DLPack type code {code} with {bits} bits")
    count = math.prod(shape)
    (size,) = struct.unpack_from("<q", data, 32 + 8 * rank)
    if min(shape, default=0) < 0 or size != count * np.dtype(dtype).itemsize:
        raise ValueError("its size is not that of its shape")
    return np.frombuffer(data, dtype, count, 40 + 8 * rank).reshape(shape)
