"""Kernels as text: what TVM lowers, printed by one printer with a table a dialect."""
