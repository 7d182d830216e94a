"""The exception by which a lowering says that it cannot express what it was given."""

from __future__ import annotations

from glenside.errors import GlensideError


class Refused(GlensideError):
    """A valid node or call that has no meaning here; the importer lists all of them."""
