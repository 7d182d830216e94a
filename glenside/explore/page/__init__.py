"""The interactive view of an exploration: a page that needs no network, and a notebook widget.

Both run ``explorer.js`` over the same data (:func:`~glenside.explore.page.data.page_data`).
"""

from glenside.explore.page.document import page, write_page
from glenside.explore.page.widget import widget

__all__ = ["page", "widget", "write_page"]
