"""Code in the documentation runs, and prints what the documentation says."""

import contextlib
import io
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
STEP = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def printed(page: str) -> list[tuple[str, str]]:
    """What each block of code of a page prints, and what the page says; one goes on with what the
    ones before it have."""
    names: dict[str, object] = {}
    found = []
    for code, said in STEP.findall((DOCS / page).read_text()):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, names)
        found.append((out.getvalue(), said))
    return found


def test_the_life_of_a_convolution():
    steps = printed("life_of_a_convolution.md")
    assert len(steps) == 7
    for got, said in steps:
        assert got == said


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
