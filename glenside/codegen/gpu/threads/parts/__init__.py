"""The parts of a product's kernels, one job each; ``products.py`` puts them together."""
