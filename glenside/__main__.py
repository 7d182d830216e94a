"""``python -m glenside``, and the command ``glenside``."""

import sys
from typing import NoReturn

from glenside.needs import COMPILER


def main() -> NoReturn:
    """The command line, or what to install for it."""
    try:
        from glenside.cli import main as command_line
    except ModuleNotFoundError as problem:
        if problem.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: the command line needs {problem.name}: {COMPILER}")
    command_line()


if __name__ == "__main__":
    main()
