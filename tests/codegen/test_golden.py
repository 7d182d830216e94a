"""The text of kernels of each kind is what is checked in: a change of it is seen where it is made.

That the text computes what it should is tested elsewhere.
"""

from __future__ import annotations

import difflib

import pytest

from tests.codegen.golden.programs import FOLDER, GOLDEN, path


@pytest.mark.parametrize("name", GOLDEN)
def test_the_text_is_the_one_checked_in(name):
    known, made = path(name).read_text(encoding="utf-8"), GOLDEN[name].text()
    changes = difflib.unified_diff(known.splitlines(), made.splitlines(), "checked in", "made now")
    assert made == known, (
        f"the text of {name} changed; if that is meant, `python tools/golden.py --update` and "
        "look at the difference:\n" + "\n".join(changes)
    )


def test_nothing_else_is_checked_in():
    found = {each for each in FOLDER.iterdir() if each.suffix in (".c", ".cl", ".cu")}
    assert found == {path(name) for name in GOLDEN}
