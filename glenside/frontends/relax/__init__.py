"""Relax, the graph language of TVM: an ``IRModule`` becomes a program."""

from glenside.frontends.relax.importer import import_relax

__all__ = ["import_relax"]
