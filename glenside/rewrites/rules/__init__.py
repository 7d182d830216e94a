"""The rules that ship, one family a file (``ruleset.FAMILIES`` names them)."""
