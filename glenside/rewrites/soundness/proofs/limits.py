"""How far proofs go."""

BOUND = 2
"""Axes in each list up to which ranks are enumerated, where they must be."""
HIGHEST_BOUND = 5
"""Likewise where a rule matches nothing below."""
SECONDS = 60.0
"""Of computing, for one rule."""
EXAMPLES = 100
"""Random programs on which a rule is tried that is neither proved nor refuted."""
