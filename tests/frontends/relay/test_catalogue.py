"""Every operator of TVM 0.8 to 0.17 is imported or refused by name, and the docs say which."""

import importlib.util
import re
from pathlib import Path

import pytest

from glenside.errors import UnsupportedOperator
from glenside.frontends.relay import import_relay
from glenside.frontends.relay.operators import OPERATORS, REFUSED

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def registered():
    lines = (HERE / "operators.txt").read_text("utf-8").splitlines()
    return [name for line in lines if not line.startswith("#") for name in line.split()]


def test_every_operator_is_either_imported_or_refused():
    names = registered()
    assert len(names) == len(set(names))
    assert OPERATORS.keys() | REFUSED.keys() == set(names)
    assert not OPERATORS.keys() & REFUSED.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_the_operator_and_says_why(name):
    with pytest.raises(UnsupportedOperator) as caught:
        import_relay(f"def @main(%x: float32) {{ {name}(%x, some=1) }}")
    (node,) = caught.value.nodes
    assert (node.operator, node.reason) == (name, REFUSED[name])


def test_every_operator_has_a_test():
    texts = "".join(path.read_text("utf-8") for path in HERE.glob("test_*.py"))
    # Calls as the tests spell them, and names that tables and loops fill in.
    called = set(re.findall(r"(?<![\w.])([a-z_]\w*(?:\.\w+)*)\(", texts))
    called |= set(re.findall(r'^ +"([\w.]+)": ', texts, re.MULTILINE))
    called |= {f"{kind}_{name}" for kind in ("logical", "bitwise") for name in ("and", "or", "xor")}
    called |= {f"nn.adaptive_{kind}_pool2d" for kind in ("avg", "max")}
    assert OPERATORS.keys() - called <= {"argmax", "argmin", "max", "mean", "min", "prod", "sum"}


@pytest.mark.parametrize("page", ["relay_operators.md", "relax_operators.md", "torch_operators.md"])
def test_the_docs_are_up_to_date(page):
    spec = importlib.util.spec_from_file_location("operators_tool", ROOT / "tools/operators.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    written = (ROOT / "docs" / page).read_text("utf-8")
    assert written == tool.PAGES[page](), "run python tools/operators.py"
