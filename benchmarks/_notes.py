"""Parts of a benchmark that fail are noted, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Notes:
    """What failed, by the name of the part."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Runs a part; what it raises is printed in one line, and kept."""
        try:
            yield
        except Exception as problem:  # Drivers and compilers raise errors of many kinds.
            lines = str(problem).strip().splitlines() or [type(problem).__name__]
            self.reasons[name] = lines[0]
            print(f"{name}: {lines[0]}", flush=True)

    def end(self) -> None:
        """Ends the run, once all that could be done is done.

        :raises SystemExit: something failed; says what.
        """
        if self.reasons:
            raise SystemExit("without " + ", ".join(sorted(self.reasons)))
