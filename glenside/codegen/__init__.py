"""Code generation for the CPU: terms cut into kernels, kernels lowered to TIR, programs run."""
