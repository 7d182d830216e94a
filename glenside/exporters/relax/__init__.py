"""Access-pattern programs as Relax modules: :func:`to_relax` writes one."""

from glenside.exporters.relax.module import to_relax

__all__ = ["to_relax"]
