"""What a program is: access patterns, their operators, text form and meaning.

This package imports nothing else of Glenside but its errors.
"""

from glenside.language import builders
from glenside.language.functions import FUNCTIONS, Function
from glenside.language.interpreter import evaluate, trace
from glenside.language.model import Model, random_inputs
from glenside.language.operators import APART, CALLS, OPERATORS, TRANSFORMERS, Operator
from glenside.language.requirements import Requirement, can_require, index_requirements
from glenside.language.shape import DTYPES, AccessType
from glenside.language.syntax import parse, parse_all, to_text
from glenside.language.term import Term, make, map_terms, rebuild, topological_order
from glenside.language.units import Unit, find_unit, register_unit

__all__ = [
    "APART",
    "CALLS",
    "DTYPES",
    "FUNCTIONS",
    "OPERATORS",
    "TRANSFORMERS",
    "AccessType",
    "Function",
    "Model",
    "Operator",
    "Requirement",
    "Term",
    "Unit",
    "builders",
    "can_require",
    "evaluate",
    "find_unit",
    "index_requirements",
    "make",
    "map_terms",
    "parse",
    "parse_all",
    "random_inputs",
    "rebuild",
    "register_unit",
    "to_text",
    "topological_order",
    "trace",
]
