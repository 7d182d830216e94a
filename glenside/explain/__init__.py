"""Where accelerator calls come from, and why other layers stayed on the host.

Importing this package does not import egglog: programs that are only loaded do without.
"""

from glenside.explain.records import CallOrigin, Explanation, Left, RuleStep

__all__ = ["CallOrigin", "Explanation", "Left", "RuleStep"]
