"""Kernels for OpenCL and CUDA devices: thread-bound TIR from the steps of a program."""
