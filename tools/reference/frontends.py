"""The page on ONNX's operators; those of other languages are written by ``tools/operators.py``."""

import onnx

from glenside.frontends.onnx import host, operators
from glenside.frontends.onnx.node import LOWERINGS
from tools.reference.text import first_sentence, table

HEADER = """\
# ONNX operators

*Native* ones become access patterns. *Host* ones are computed by onnxruntime
(`pip install 'glenside[host]'`), and the report counts them. Others are refused by name.
"""
DOMAINS = ("", "com.microsoft", "ai.onnx.ml")


def pages() -> dict[str, str]:
    """The page on ONNX."""
    assert operators.__all__  # Imported: every family has registered its lowerings.
    lines = [HEADER]
    declared = {(each.domain, each.name) for each in onnx.defs.get_all_schemas()}
    for domain in DOMAINS:
        names = {name for d, name in declared | LOWERINGS.keys() if d == domain}
        if not names:
            continue
        lines += [f"## {domain or 'ai.onnx'}", ""]
        rows = [(f"`{name}`", *_state(domain, name)) for name in sorted(names)]
        lines += [*table(("operator", "", "meaning"), rows), ""]
    return {"onnx_operators.md": "\n".join(lines)}


def _state(domain: str, name: str) -> tuple[str, str]:
    lowering = LOWERINGS.get((domain, name))
    if lowering is not None:
        return "native", first_sentence(lowering.__doc__)
    if onnx.defs.has(name, domain) and onnx.defs.get_schema(name, domain).has_function:
        return "native", "by the function that ONNX defines it as"
    return ("host", "") if host.knows(domain, name) else ("refused", "")
