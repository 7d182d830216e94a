"""Access-pattern programs as ONNX models: :func:`to_onnx` writes one."""

from glenside.exporters.onnx.model import to_onnx

__all__ = ["to_onnx"]
