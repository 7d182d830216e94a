"""ONNX models in: :func:`import_model` reads one into access patterns."""

from glenside.frontends.onnx import operators  # noqa: F401 (registers the lowerings)
from glenside.frontends.onnx.importer import import_model

__all__ = ["import_model"]
