"""Code in the documentation runs, and prints what the documentation says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from glenside.hw_targets.registry import REGISTRY

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
PAGES = [
    str(page.relative_to(DOCS))
    for page in sorted(DOCS.rglob("*.md"))
    if BLOCK.search(page.read_text("utf-8"))
]


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_prints_what_the_page_says(page):
    # One block goes on with what the ones before it have.
    names: dict[str, object] = {"__name__": "docs"}
    with REGISTRY.forgetting():
        for code, said in BLOCK.findall((DOCS / page).read_text("utf-8")):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(code, names)
            assert out.getvalue() == said, code


def test_there_are_pages_with_code():
    assert {"life_of_a_convolution.md", "guides/own_unit.md", "getting_started.md"} <= {*PAGES}


def test_the_files_that_a_page_names_exist():
    page = (DOCS / "life_of_a_convolution.md").read_text()
    names = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", page))
    assert len(names) > 15
    root = DOCS.parent
    assert not [
        name
        for name in names
        if not ((root / "glenside" / name).exists() or (root / name).exists())
    ]


def test_the_search_needs_no_network():
    """The theme fetches what runs it in a page opened as a file, unless the site brings it."""
    brought = re.findall(r"polyfills: \[(.*)\]", (DOCS.parent / "mkdocs.yml").read_text("utf-8"))
    assert brought == ["assets/iframe-worker.js"]
    assert "window.Worker=" in (DOCS / brought[0]).read_text("utf-8")
