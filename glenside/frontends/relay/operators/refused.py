"""placeholder"""

REFUSED: dict[str, str] = {}
