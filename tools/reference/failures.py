"""The page on errors and warnings."""

import inspect

from glenside import errors
from tools.reference.text import markdown

HEADER = """\
# Errors

Every error that Glenside raises on purpose is a `GlensideError` of one line, which names the node,
operator or attribute and what would be accepted. The command line prints it and exits with code 2.
"""


def pages() -> dict[str, str]:
    """One page."""
    own = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if each.__module__ == errors.__name__ and issubclass(each, Exception)
    ]
    own.sort(key=lambda each: inspect.getsourcelines(each)[1])
    lines = [HEADER]
    for each in own:
        bases = ", ".join(f"`{base.__name__}`" for base in each.__bases__)
        lines += [f"## {each.__name__}", "", f"*is a {bases}*", "", markdown(each.__doc__), ""]
    return {"errors.md": "\n".join(lines)}
