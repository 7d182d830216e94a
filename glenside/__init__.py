"""Glenside: equality saturation for tensor programs."""
