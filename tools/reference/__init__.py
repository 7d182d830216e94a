"""The reference pages, made from declarations: what is declared anew appears by itself.

Each module has ``pages()``, which gives the text of pages by their path under ``docs/reference/``,
and pictures by theirs. ``tools/build_docs.py`` puts them on the site.
"""

from collections.abc import Callable

from tools.reference import commands, failures, frontends, language, rules, targets

MAKERS: tuple[Callable[[], dict[str, str]], ...] = (
    language.pages,
    rules.pages,
    targets.pages,
    frontends.pages,
    failures.pages,
    commands.pages,
)


def pages() -> dict[str, str]:
    """All of them."""
    made: dict[str, str] = {}
    for make in MAKERS:
        made |= make()
    return made
