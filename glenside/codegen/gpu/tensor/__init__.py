"""Products on the matrix units of NVIDIA's Hopper chips: one CUDA template for every product."""
