"""Rules proved for all sizes, all dtypes and, mostly, all ranks.

Sampling tries a rule on programs; a proof is about every program. The commands of egglog that run
are read, both sides of each case are evaluated over lengths that are symbols, and their elements at
a symbolic index are shown to be equal, by structure and by Z3 where it comes to integers. A rule
that is not sound is refuted by a program, on which it was run and failed; one that is neither
proved nor refuted is **sampled**, and says which obligation stays open.

Needs Z3: ``pip install 'glenside[prove]'``.
"""

from glenside.rewrites.soundness.proofs.proving import (
    check_proved,
    prove,
    prove_all,
    require_solver,
)
from glenside.rewrites.soundness.proofs.verdicts import Proved, Refuted, Sampled, Verdict

__all__ = [
    "Proved",
    "Refuted",
    "Sampled",
    "Verdict",
    "check_proved",
    "prove",
    "prove_all",
    "require_solver",
]
