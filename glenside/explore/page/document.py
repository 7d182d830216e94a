"""The page: one HTML file that holds style, code and data, and loads nothing."""

from __future__ import annotations

import html
import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from glenside.errors import GlensideError
from glenside.explore.page.data import page_data
from glenside.files import write_text

if TYPE_CHECKING:
    from glenside.explore.record import Record

_DOCUMENT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
body {{ margin: 0; }}
#explorer > div {{ min-height: 100vh; }}
{style}</style>
</head>
<body>
<main id="explorer"></main>
<script type="application/json" id="data">{data}</script>
<script>
{code}
window.explorer = glensideExplorer(
  document.getElementById("explorer"),
  JSON.parse(document.getElementById("data").textContent),
);
</script>
</body>
</html>
"""


def asset(name: str) -> str:
    """A file beside this one."""
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def page(exploration: Record) -> str:
    """The page as text."""
    data = json.dumps(page_data(exploration), separators=(",", ":"), allow_nan=False)
    return _DOCUMENT.format(
        title=html.escape(f"{exploration.model.name}: how its e-graph grew"),
        style=asset("explorer.css"),
        code=asset("explorer.js"),
        # Inside of a script element only its end has to be hidden.
        data=data.replace("<", "\\u003c"),
    )


def write_page(exploration: Record, path: str | Path) -> Path:
    """Writes the page, which works from disk and without a network.

    :raises GlensideError: the file cannot be written.
    """
    target = Path(path)
    try:
        write_text(target, page(exploration))
    except OSError as problem:
        raise GlensideError(f"cannot write {target}: {problem.strerror or problem}") from problem
    return target
