"""Access-pattern programs as C source: :func:`to_c` writes a folder, :class:`CProgram` runs one."""

from glenside.exporters.c.project import to_c
from glenside.exporters.c.run import CProgram

__all__ = ["CProgram", "to_c"]
