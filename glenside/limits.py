"""The limits where none are given: counts, so that runs are reproducible."""

NODE_LIMIT = 200_000
"""E-nodes."""

ITER_LIMIT = 50
"""Passes over the rules, for each stage of them."""

AREAS = (64, 256, 1024, 4096, 16384)
"""Multipliers, of hardware that is chosen."""

SOLVER_LIMIT = 30.0
"""Deterministic seconds of the solver for each area."""
