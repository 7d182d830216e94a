"""Programs on OpenCL and CUDA devices: source text, builds, memory and launches.

What runs a program (``executable``, ``opencl``, ``cuda``) needs NumPy and the device's package
alone; what compiles one (``compile``, ``source``) loads TVM.
"""
