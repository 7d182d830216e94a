"""The interactive view in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glenside.errors import GlensideError
from glenside.explore.page.data import page_data
from glenside.explore.page.document import asset

if TYPE_CHECKING:
    from glenside.explore.record import Record

_EXPORT = """
export default {
  render({ model, el }) {
    let shown;
    const fill = () => {
      shown?.stop();
      shown = glensideExplorer(el, model.get("data"));
    };
    model.on("change:data", fill);
    fill();
    return () => {
      shown.stop();
      model.off("change:data", fill);
    };
  },
};
"""


def widget(exploration: Record) -> Any:
    """The exploration as it is now, as an anywidget.

    :raises GlensideError: anywidget is not installed.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise GlensideError(
            "the notebook view needs anywidget: pip install 'glenside[explore]'"
        ) from None

    class Explorer(anywidget.AnyWidget):
        """Shows ``data``, which :func:`page_data` makes."""

        _esm = asset("explorer.js") + _EXPORT
        _css = asset("explorer.css")
        data = traitlets.Dict().tag(sync=True)

    return Explorer(data=page_data(exploration))
