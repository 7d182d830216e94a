"""The limits of exploration where none are given: counts, so that runs are reproducible."""

NODE_LIMIT = 200_000
"""E-nodes."""

ITER_LIMIT = 50
"""Passes over the rules, for each stage of them."""
