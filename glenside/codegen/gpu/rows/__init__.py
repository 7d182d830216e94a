"""Reductions over rows: norms, softmax, pools, sums."""
