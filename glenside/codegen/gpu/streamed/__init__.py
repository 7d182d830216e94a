"""Products of softmaxed rows in one pass over blocks of the rows, which are never stored."""
