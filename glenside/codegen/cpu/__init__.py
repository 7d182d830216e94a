"""Kernels for the processor: objects by TVM and LLVM, linked, loaded and called."""
