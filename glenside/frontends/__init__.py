"""Model files in: each front end turns one kind of file into a `Model`."""
