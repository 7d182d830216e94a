"""What is known of a rule: it is proved, refuted, or only sampled."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from glenside.language.term import Term


@dataclass(frozen=True)
class Proved:
    """Both sides of the rule are equal, for all sizes.

    The rule as it stands is proved: with the parameters in its name, if it has any.
    """

    rule: str
    ranks: int | None
    """None: for any number of axes; else for up to so many outer and so many item axes of each
    operand and list."""
    steps: tuple[str, ...] = ()
    """What the proof does that keeps the value but not the bits of floats: reorder a sum, say."""
    instances: int = 0
    """Ways to match that were proved."""
    seconds: float = 0.0

    ok = True
    verdict = "proved"

    @property
    def holds(self) -> str:
        """What it is proved for."""
        ranks = "all" if self.ranks is None else f"up to {self.ranks} + {self.ranks}"
        return f"all sizes, {ranks} ranks, {self.numbers}"

    @property
    def numbers(self) -> str:
        """Of which numbers it holds: floats are real numbers where their sums are rearranged."""
        return "to the bit" if not self.steps else "reals and wrapping integers"

    @property
    def detail(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.steps)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {"verdict": self.verdict, **asdict(self), "steps": list(self.steps)}


@dataclass(frozen=True)
class Refuted:
    """There is a program on which the rule fails, when it is run."""

    rule: str
    program: Term | str
    reason: str
    seconds: float = 0.0

    ok = False
    verdict = "refuted"
    holds = ""

    @property
    def detail(self) -> str:
        """The program, and what is wrong with it."""
        return f"{self.program}: {self.reason}"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        found = {"rule": self.rule, "program": str(self.program), "reason": self.reason}
        return {"verdict": self.verdict, **found, "seconds": self.seconds}


@dataclass(frozen=True)
class Sampled:
    """Nothing speaks for the rule but the programs that it was tried on."""

    rule: str
    obligation: str
    """The first that the prover leaves open."""
    open: int = 1
    """Cases of the rule that are."""
    seconds: float = 0.0

    ok = True
    verdict = "sampled"
    holds = ""

    @property
    def detail(self) -> str:
        """The first open obligation."""
        return self.obligation

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {"verdict": self.verdict, **asdict(self)}


Verdict = Proved | Refuted | Sampled


def from_data(data: dict[str, Any]) -> Verdict:
    """What :meth:`data` of a verdict gave; raises KeyError or TypeError for anything else."""
    given = dict(data)
    kind = {"proved": Proved, "refuted": Refuted, "sampled": Sampled}[given.pop("verdict")]
    if "steps" in given:
        given["steps"] = tuple(given["steps"])
    return kind(**given)
