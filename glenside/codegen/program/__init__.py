"""A program cut into kernels: passes over one record (``record.py``), one a file, in the order of
``cut.py``."""
