"""A declaration may not claim what is false.

What is claimed is in :mod:`~glenside.hw_targets.declare.claimed`, its proof in
:mod:`~glenside.hw_targets.declare.claims`.
"""

from __future__ import annotations

import importlib.util

from glenside.errors import TargetError
from glenside.hw_targets.declare import proved
from glenside.hw_targets.declare.checked import CheckedDeclaration, Declared
from glenside.hw_targets.declare.claimed import claims_of
from glenside.hw_targets.declare.tiling import Declaration, least_failing


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
