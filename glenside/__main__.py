"""``python -m glenside``: the command line."""

from glenside.cli import main

if __name__ == "__main__":
    main()
