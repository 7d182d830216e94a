"""PyTorch modules: exported by ``torch.export``, and read from the graph that gives.

PyTorch itself is imported when there is something of it to read, never before.
"""

from glenside.frontends.torch.exporting import export
from glenside.frontends.torch.importer import Imported, import_torch, read, shapes_of

__all__ = ["Imported", "export", "import_torch", "read", "shapes_of"]
