"""Puts the pages that are made from declarations, and the notebooks, on the site.

MkDocs runs it (``gen-files`` in ``mkdocs.yml``): ``make docs``.
"""

import sys
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tools.reference import pages  # noqa: E402  the folder is not on the path before

BEHIND = "---\nsearch:\n  boost: 0.5\n---\n\n"
"""The reference names everything: what guides say of it is found first."""

for path, text in pages().items():
    with mkdocs_gen_files.open(f"reference/{path}", "w") as page:
        page.write(f"{BEHIND}{text}")
for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
    with mkdocs_gen_files.open(f"tutorials/{notebook.name}", "w") as page:
        page.write(notebook.read_text("utf-8"))
