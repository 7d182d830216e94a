"""Every error a user of Glenside can meet.

All derive from :class:`GlensideError`, so one ``except`` catches what is ours; the command line
prints such an error as one line and exits with code 2. A message says what was being done, with
which shapes or attributes, and what would have been accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class GlensideError(Exception):
    """Base of all errors raised on purpose.

    The message stays on one line, whatever the names in a user's file are made of.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(" ".join(str(message).splitlines()))


class ShapeError(GlensideError, ValueError):
    """A term was built whose operands do not fit (shape, rank or dtype)."""


class TextError(GlensideError, ValueError):
    """The text form of a program could not be read."""


class ModelError(GlensideError, ValueError):
    """A model file could not be turned into a program."""


@dataclass(frozen=True)
class Unsupported:
    """One node that a front end has no meaning for."""

    node: str
    operator: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node!r} ({self.operator}): {self.reason}"


class UnsupportedOperator(ModelError):
    """A model uses operators without a meaning here; all such nodes are listed."""

    def __init__(self, nodes: Sequence[Unsupported]) -> None:
        self.nodes = tuple(nodes)
        count = len(self.nodes)
        listed = "; ".join(map(str, self.nodes))
        super().__init__(f"{count} unsupported node{'s' if count != 1 else ''}: {listed}")


class TargetError(GlensideError, ValueError):
    """The target is unknown, or its description cannot be satisfied."""


class InputError(GlensideError, ValueError):
    """A program was called with inputs it does not take (name, shape or dtype)."""


class NotEnoughMemory(GlensideError, MemoryError):
    """Something would take more memory than there is; found out before it is taken."""


class MemoryLimit(GlensideError):
    """No program that is known of a model keeps the memory limit that was asked for."""


class RewriteFailed(GlensideError):
    """A rule cannot be applied to a program; nothing is wrong with the program."""


class UnsoundRewrite(RewriteFailed):
    """A rewrite equated two programs of different shape or dtype, or two that are known to differ.

    The message names the rule and both values.
    """


class ExtractionError(GlensideError):
    """No program of finite cost stands in an e-class that is needed."""


class UnknownRule(GlensideError):
    """A saved program was made with a rule that is not defined here."""


class Damaged(GlensideError):
    """The files of a saved program are not what was written."""


class CheckFailed(GlensideError):
    """The optimised program does not compute what the imported one does.

    :ivar rewriting: whether a rewrite is to blame: neither compiled code nor a unit's simulator.
    """

    def __init__(self, message: object = "", *, rewriting: bool = False) -> None:
        self.rewriting = rewriting
        super().__init__(message)


class NotOptimised(UserWarning):
    """Optimisation failed for a reason of ours: the program runs, but as it was imported."""


class NotExplained(UserWarning):
    """Explaining failed for a reason of ours: the program is what it would be, the report lacks
    what exact matching finds and why layers stayed on the host."""
