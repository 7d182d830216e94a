"""The units that ship, one a file. Each file says in ``DECLARED`` what it brings; nothing of it is
known before :mod:`glenside.hw_targets.registry` asks for it.
"""
