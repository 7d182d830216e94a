"""Reads TVM's objects: plain values of attributes, types of variables."""

from __future__ import annotations

from typing import Any

from glenside.errors import ModelError


def attributes_of(attrs: Any) -> dict[str, object]:
    """The attributes of a call as Python values; what is no plain value stays TVM's object."""
    result: dict[str, object] = {}
    info = None if attrs is None else type(attrs).__tvm_ffi_type_info__
    while info is not None:
        for field in info.fields:
            result[field.name] = plain(getattr(attrs, field.name))
        info = info.parent_type_info
    return result


def plain(value: Any) -> Any:
    """An int, float, bool, str, None or tuple of these where ``value`` stands for one."""
    import tvm
    import tvm_ffi

    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tvm.tirx.IntImm | tvm.tirx.FloatImm):
        return value.value
    if isinstance(value, str):
        # A dtype is a str as well.
        return str(value)
    if isinstance(value, tvm.ir.PrimType):
        return str(value.dtype)
    if isinstance(value, tvm_ffi.Array | list | tuple):
        return tuple(plain(each) for each in value)
    return value


class Lengths:
    """What the symbolic lengths of a module stand for."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def bind(self, dims: Any, shape: tuple[int, ...]) -> bool:
        """Lets the lengths ``dims`` be ``shape``; False where they contradict."""
        import tvm

        if len(dims) != len(shape):
            return False
        for dim, length in zip(dims, shape, strict=True):
            if isinstance(dim, tvm.tirx.Var):
                if self._known.setdefault(dim, length) != length:
                    return False
            elif isinstance(dim, tvm.tirx.IntImm) and dim.value != length:
                return False
        # Expressions of lengths are compared when all of their variables are known.
        return all(self.resolve(d) in (None, n) for d, n in zip(dims, shape, strict=True))

    def forget(self, dims: Any) -> None:
        """Drops the variables of ``dims``: a function is called anew with other lengths."""
        for dim in dims:
            self._known.pop(dim, None)

    def resolve(self, dim: Any) -> int | None:
        """The number that a length comes to; None while it is not known."""
        import tvm

        if isinstance(dim, tvm.tirx.IntImm):
            return int(dim.value)
        if dim in self._known:
            return self._known[dim]
        if isinstance(dim, tvm.tirx.Var):
            return None
        analyzer = tvm.sym.Analyzer()
        for variable, length in self._known.items():
            analyzer.bind(variable, tvm.tirx.const(length, variable.ty.dtype))
        result = analyzer.simplify(dim)
        return int(result.value) if isinstance(result, tvm.tirx.IntImm) else None

    def shape(self, dims: Any) -> tuple[int, ...]:
        """All of ``dims`` as numbers; raises :class:`ModelError` naming one that is not known."""
        result = []
        for dim in dims:
            length = self.resolve(dim)
            if length is None:
                raise ModelError(f"length {dim} is not known: give the inputs' shapes with shapes=")
            result.append(length)
        return tuple(result)


def dims_of(type_: Any) -> Any:
    """The lengths in a ``TensorType``; None where not even their number is known."""
    from tvm import relax

    return type_.shape.values if isinstance(type_.shape, relax.ShapeExpr) else None


def dtype_of(type_: Any) -> str:
    """The dtype in a ``TensorType``, ``unknown`` where there is none."""
    return "unknown" if type_.dtype is None else str(plain(type_.dtype))
