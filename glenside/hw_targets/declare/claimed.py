"""What a declaration claims about the unit's own sizes, and that it may not claim what is false.

:mod:`~glenside.hw_targets.declare.claims` proves it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass

from glenside.errors import TargetError
from glenside.hw_targets.declare import proved
from glenside.hw_targets.declare.checked import CheckedDeclaration, Declared
from glenside.hw_targets.declare.tiling import Declaration, Tiling, least_failing


@dataclass(frozen=True)
class Claim:
    """One thing that a declaration says of a size: it is ``cut`` along it, or ``padded``.

    ``how`` is what parts give, ``outer``, ``sum`` or ``max``, or what stands behind the elements,
    ``zero`` or ``lowest``; ``axis`` that of the result which is cut.
    """

    unit: str
    size: str
    what: str
    how: str
    axis: int = -1

    def __str__(self) -> str:
        if self.what == "padded":
            behind = "zeros" if self.how == "zero" else "lowest values"
            return f"{self.unit}: {behind} behind {self.size} change nothing"
        gives = {"outer": "side by side", "sum": "in sum", "max": "as maximum"}[self.how]
        return f"{self.unit}: parts along {self.size} give the whole {gives}"


def claims(accelerator: Declared) -> Iterator[Claim]:
    """What a declaration claims of the unit's own sizes."""
    return claims_of(accelerator.name, accelerator.tiling)


def claims_of(unit: str, tiling: Tiling) -> Iterator[Claim]:
    """Likewise of a unit that is being declared."""
    for size, role in tiling.roles.items():
        yield Claim(unit, size, "cut", role.kind, role.axis)
    for size in tiling.padded:
        yield Claim(unit, size, "padded", "lowest" if size in tiling.lowest else "zero")


def require(a: Declared, checked: CheckedDeclaration, declared: Declaration) -> None:
    """Refuses a declaration of which the proof finds a claim to be false.

    The units that ship are on a list (:mod:`~.proved`), others are proved once and remembered.
    Where Z3 is not installed, or a claim is neither proved nor false, the argument on the term and
    the trials have decided.

    :raises TargetError: the claim, and the least sizes at which it fails.
    """
    found = list(claims_of(a.name, checked.tiling))
    if not found or importlib.util.find_spec("z3") is None:
        return
    own = proved.fingerprint(a, checked.tiling)
    if own in proved.shipped():
        return
    # Needs Z3, and takes its time to import.
    from glenside.hw_targets.declare.claims import prove_claim
    from glenside.rewrites.soundness.proofs import Proved, cache, fingerprint

    key = f"{a.name} {own} {fingerprint.of_prover()}"
    if cache.read().get(key) is not None:
        return
    verdicts = [prove_claim(each, checked) for each in found]
    for claim, verdict in zip(found, verdicts, strict=True):
        if isinstance(verdict, Proved):
            continue
        fails = least_failing(declared, checked.tiling, claim.size, claim.how)
        if fails:
            raise TargetError(f"{str(claim).partition(': ')[2]}: that is not so{fails}")
    if all(isinstance(each, Proved) for each in verdicts):
        cache.add(key, Proved(a.name, None, (), len(verdicts)))
