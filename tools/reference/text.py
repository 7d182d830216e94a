"""Parts of Markdown that several pages have."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

from glenside.language import Term
from glenside.language.syntax import to_text

WIDTH = 88


def markdown(docstring: str | None) -> str:
    """A docstring as Markdown: reStructuredText's literals and roles become code."""
    text = inspect.cleandoc(docstring or "")
    text = re.sub(r":\w+(?::\w+)*:`~?([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


def first_sentence(docstring: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(markdown(docstring).partition("\n\n")[0].split())


def cell(text: str) -> str:
    """Text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table's lines."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return lines + [f"| {' | '.join(map(cell, row))} |" for row in rows]


def folded(title: str, body: Sequence[str]) -> list[str]:
    """What is shown once it is asked for."""
    return [f'??? note "{title}"', "", *(f"    {line}".rstrip() for line in body), ""]


def source(function: object) -> list[str]:
    """The code of a function as a block, without its docstring's indentation."""
    try:
        text = textwrap.dedent(inspect.getsource(function)).strip()  # type: ignore[arg-type]
    except (OSError, TypeError):  # One of NumPy's own.
        text = f"numpy.{getattr(function, '__name__', function)}"
    return ["```python", *text.splitlines(), "```"]


def term(given: Term) -> list[str]:
    """A term as a block, a line an operand where it is long."""
    return ["```lisp", *laid_out(to_text(given)), "```"]


def laid_out(text: str) -> list[str]:
    """An s-expression over lines of at most :data:`WIDTH` characters, where that can be."""
    if len(text) <= WIDTH or not text.startswith("("):
        return [text]
    parts = _parts(text)
    head = [parts[0]]
    while (
        len(head) < len(parts)
        and not parts[len(head)].startswith("((")
        and (not parts[len(head)].startswith("(") or len(parts[len(head)]) < 16)
    ):
        head.append(parts[len(head)])
    lines = [f"({' '.join(head)}"]
    for part in parts[len(head) :]:
        lines += [f"  {line}" for line in laid_out(part)]
    lines[-1] += ")"
    return lines


def _parts(text: str) -> list[str]:
    """What stands between the outermost brackets."""
    parts, depth, start = [], 0, None
    for at, letter in enumerate(text[1:-1], 1):
        if letter == " " and depth == 0:
            if start is not None:
                parts.append(text[start:at])
            start = None
            continue
        depth += (letter == "(") - (letter == ")")
        start = at if start is None else start
    return [*parts, text[start:-1]] if start is not None else parts
