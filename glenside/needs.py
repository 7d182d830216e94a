"""What is not there in an installation that only runs saved programs."""

from __future__ import annotations

from importlib.util import find_spec

from glenside.errors import GlensideError

COMPILER = "pip install 'glenside[compiler]'"
_PACKAGES = {"egglog": "egglog", "onnx": "onnx", "ortools": "ortools", "tvm": "apache-tvm"}
"""By what they are imported as."""


def require_compiler() -> None:
    """:raises GlensideError: something lacks that models are rewritten and compiled with."""
    missing = [package for name, package in _PACKAGES.items() if find_spec(name) is None]
    if missing:
        listed = ", ".join(missing)
        raise GlensideError(f"models are rewritten and compiled with {listed}: {COMPILER}")
