"""Kernels of processors: loops, tiles in registers, vectors."""
