"""Wrong or unsupported text ends in one clear line, never in another exception."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glenside.errors import GlensideError, ModelError, UnsupportedOperator
from glenside.frontends.relay import import_relay
from glenside.language import to_text

HEAD = "def @main(%x: Tensor[(2, 3), float32]) {\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "  %0 = nn.relu(%x;\n %0 }", "relay: line 2, column 18: ';' cannot stand here"),
        (HEAD + "  %0 = nn.relu(%x)", "line 2, column 19: the end of the text cannot stand here"),
        (HEAD + "  $\n}", r"line 2, column 3: '\$' cannot stand here; expected .*%name"),
        (HEAD + "%x }}", "line 2, column 5: '}' cannot stand here"),
        ("\nhello", "line 2, column 1: 'hello' cannot stand here; expected .* or 'def'"),
        ("def @other(%x: float32) {\n %x }", "the module has no function @main"),
        (HEAD + "%y\n}", "line 2, column 1: %y is not bound"),
        (HEAD + "%x.0\n}", r"line 2, column 1: Tensor\[\(2, 3\), float32\] has no item 0"),
        (HEAD + "(%x, %x).2\n}", "has no item 2"),
        (HEAD + "300i8\n}", "300 is not a value of int8"),
        (HEAD + "nn.relu()\n}", "nn.relu takes 1 operands, got 0"),
        (HEAD + "add(%x, 1i8)\n}", "add: .*both must have the same type"),
        (HEAD + "nn.dense(%x, %x, units=3)\n}", r"nn.dense: units is 3, the weights have shape"),
        (HEAD + "split(%x, indices_or_sections=2, axis=1)\n}", "does not divide into 2 equal"),
        (HEAD + "concatenate(%x)\n}", "operand 1 of concatenate must be a tuple of tensors"),
        (HEAD + "concatenate(())\n}", "nothing to join"),
        (HEAD + "squeeze(%x, axis=[0])\n}", "axis 0 has not length 1"),
        (HEAD + "nn.relu(%x, a=1, a=2)\n}", "is given a twice"),
        (HEAD + "reshape(%x, newshape=[-1, 4])\n}", "do not divide evenly"),
        (HEAD + "expand_dims(%x, axis=0, num_newaxis=100000000)\n}", "num_newaxis must be 0 to 64"),
        ("def @main(%x: Tensor[(1.5), float32]) {\n %x }", "'1.5' is not the length of an axis"),
        ("def @main(%x: float32, %x: float32) {\n %x }", "%x is declared twice"),
        (f"def @main(%x: Tensor[({10**20}), int8]) {{\n %x }}", "line 1, column 11: .* 64 bits"),
        ("def @main(%x: float8) {\n %x }", "%x has the unsupported type float8"),
        ("def @main(%x: List[int8]) {\n %x }", "%x has the unsupported type List"),
        ("def @main() {\n 1f }\ndef @main() {\n 2f }", "line 3, column 5: @main is defined twice"),
    ],
)  # fmt: skip
def test_one_clear_line(text, message):
    with pytest.raises(ModelError, match=message) as caught:
        import_relay(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("binding", ["%0 =", "let %0 ="])
def test_what_the_result_does_not_need_may_be_unsupported(binding):
    model = import_relay(f"{HEAD} {binding} nn.fancy(%x); nn.relu(%x) }}")
    assert "relu" in to_text(*model.roots)


def test_everything_unsupported_is_in_one_error():
    text = (
        HEAD
        + """
      %0 = nn.fancy(%x);
      %1 = nn.relu(%0);
      %2 = other.thing(%1);
      %3 = nn.sparse_dense(%x, %x, %x, %x);
      %4 = nn.softmax(%x, beta=2);
      %5 = nn.pad(%x, 0, pad_width=[[0, 0], [1, 1]], pad_mode="wrap");
      %6 = nn.softmax(%0, axis="last");
      %7 = meta[relay.Other][0];
      %8 = nn.pad(%x);
      (%1, %2, %3, %4, %5, %6, %7, %8, nn.fancy(%x))
    }"""
    )
    with pytest.raises(UnsupportedOperator) as caught:
        import_relay(text)
    nodes = [(node.node, node.operator) for node in caught.value.nodes]
    assert nodes == [
        ("%0, line 3", "nn.fancy"),
        ("%2, line 5", "other.thing"),
        ("%3, line 6", "nn.sparse_dense"),
        ("%4, line 7", "nn.softmax"),
        ("%5, line 8", "nn.pad"),
        ("%6, line 9", "nn.softmax"),
        ("%7, line 10", "meta"),
        ("%8, line 11", "nn.pad"),
        ("the result, line 12", "nn.fancy"),
    ]
    text = str(caught.value)
    for reason in (
        "unknown operator",
        "attribute beta is not supported",
        "attribute pad_mode wrap is not supported; constant, edge, reflect are",
        "attribute axis must be an integer, got 'last'",
        "attribute pad_width is missing",
    ):
        assert reason in text


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ModelError, match=r"none.relay cannot be read"):
        import_relay(tmp_path / "none.relay")
    (tmp_path / "bad.relay").write_bytes(b"\xff\xfe")
    with pytest.raises(ModelError, match=r"bad.relay cannot be read"):
        import_relay(str(tmp_path / "bad.relay"))


def test_messages_name_the_file(tmp_path):
    (tmp_path / "net.relay").write_text(HEAD + "%y }")
    with pytest.raises(ModelError, match=r"^net.relay: line 2, column 1: %y is not bound$"):
        import_relay(tmp_path / "net.relay")


SEED_TEXT = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 4, 6, 6), float32], %w: Tensor[(4, 1, 3, 3), float32],
          %s: (Tensor[(1, 4), float32], int64)) -> Tensor[(1, 4), float32] {
  %0 = nn.conv2d(%data, %w, padding=[1, 1, 1, 1], groups=4, channels=4, kernel_size=[3, 3])
    /* ty=Tensor[(1, 4, 6, 6), float32] */;
  %1 = nn.max_pool2d(%0, pool_size=[3, 3], strides=[2, 2], padding=[0, 0, 1, 1]);
  %2 = nn.global_avg_pool2d(nn.relu(%1));
  %3 = squeeze(%2, axis=[2, 3]);
  %4 = (%3, %s.0);
  %5 = concatenate(%4, axis=0);
  %6 = split(%5, indices_or_sections=[1], axis=0);
  %7 = strided_slice(%6.0, begin=[0, 0], end=[1, 4], strides=[1, 1], axes=[0, 1]);
  %8 = reshape(take(%7, %s.1, axis=1), newshape=[-1, 1]);
  add(multiply(%8, 0.5f), %7)
}"""
PIECES = ["(", ")", "[", "]", ",", ";", "=", "%0", "-1", "0", "9999999999", "1e400", "nanf", "None"]


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_mutated_text_imports_or_ends_in_our_error(seed, count):
    choose = random.Random(seed)
    text = SEED_TEXT
    for _ in range(count):
        at = choose.randrange(len(text))
        match choose.randrange(4):
            case 0:
                text = text[:at] + text[at + choose.randrange(1, 8) :]
            case 1:
                text = text[:at] + choose.choice(PIECES) + text[at:]
            case 2:
                other = choose.randrange(len(text))
                text = text[:at] + text[other : other + choose.randrange(1, 40)] + text[at:]
            case _:
                digits = [i for i, letter in enumerate(text) if letter.isdigit()]
                at = choose.choice(digits)
                text = text[:at] + choose.choice(["0", "1", "2", "7", "64"]) + text[at + 1 :]
    try:
        import_relay(text)
    except GlensideError as problem:
        assert "\n" not in str(problem)
