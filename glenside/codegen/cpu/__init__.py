"""Kernels of processors: loops, tiles in registers, vectors; their objects by TVM and LLVM, linked,
loaded and called."""
