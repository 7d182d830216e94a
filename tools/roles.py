"""An extension of mkdocstrings' reader: reStructuredText in docstrings becomes Markdown."""

from typing import Any

import griffe

from tools.reference.text import markdown


class Roles(griffe.Extension):
    """Rewrites each docstring once it is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """``:class:`X` `` is code, and so is what stands in double backticks."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)
