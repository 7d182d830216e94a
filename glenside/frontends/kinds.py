"""Kinds of operands and attributes, by which lowerings annotate what they take."""

from __future__ import annotations

from glenside.language import Term

Ints = tuple[int, ...]
Floats = tuple[float, ...]
Rows = tuple[tuple[int, ...], ...]
Terms = tuple[Term, ...]
"""An operand that is a tuple of tensors."""
