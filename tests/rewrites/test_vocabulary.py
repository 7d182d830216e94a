"""The egglog sort says what OPERATORS says."""

import inspect
import re

import pytest
from egglog import String, Vec, i64, var

from glenside.language.operators import OPERATORS, Kind, Operator
from glenside.rewrites import vocabulary
from glenside.rewrites.engine.encoding import SORTS
from glenside.rewrites.vocabulary import Access

SORT_OF = {"i64": i64, "String": String, "Vec[i64]": Vec[i64]}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_each_operator_is_a_method_that_takes_its_attributes_in_order(operator: Operator) -> None:
    attributes = {a.name: var(f"a_{a.name}", SORT_OF[SORTS[a.kind]]) for a in operator.attributes}
    if operator.arity is None:
        operands = [var("xs", Vec[Access])]
    else:
        operands = [var(f"x{i}", Access) for i in range(operator.arity)]
    method = getattr(Access, operator.name)
    assert method(*operands, **attributes) == method(*operands, *attributes.values())


def test_the_sort_has_no_methods_but_the_operators_and_the_analyses() -> None:
    source = inspect.getsource(vocabulary)
    methods = set(re.findall(r'egg_fn="Access\.(\w+)"', source))
    assert methods == set(OPERATORS) | {"outer", "item", "dtype"}


def test_every_kind_of_attribute_has_a_sort() -> None:
    assert set(SORTS) == set(Kind)
