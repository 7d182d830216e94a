"""The text form: what it looks like, that it reads back, and what it refuses."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glenside.errors import GlensideError, ShapeError, TextError
from glenside.language import (
    OPERATORS,
    AccessType,
    builders,
    make,
    parse,
    parse_all,
    to_text,
    topological_order,
)
from glenside.language.builders import access, cart_prod, compute, constant, pair, tensor
from glenside.language.operators import Kind
from tests.effort import tries
from tests.strategies import STEPS, terms

x = tensor("x", (2, 3))


# --- what it looks like -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("(tensor x (2 3))", x),
        ("(tensor x (2 3) :dtype int8)", tensor("x", (2, 3), "int8")),
        ("(tensor s ())", tensor("s", ())),
        ("(constant 1.5 (2))", constant(1.5, (2,))),
        ("(constant -0.0 ())", constant(-0.0)),
        ("(constant nan ())", constant(float("nan"))),
        ("(constant -inf ())", constant(float("-inf"))),
        ("(constant 1e-07 ())", constant(1e-7)),
        ("(constant true () :dtype bool)", constant(True, (), "bool")),
        (
            "(constant 18446744073709551615 () :dtype uint64)",
            constant(2**64 - 1, (), "uint64"),
        ),
        ("(access 1 (tensor x (2 3)))", access(x, 1)),
        ("(transpose (1 0) (tensor x (2 3)))", builders.transpose(x, (1, 0))),
        ("(pad zero 0 1 2 (tensor x (2 3)))", builders.pad(x, 0, 1, 2)),
        ("(pad -1.5 0 1 2 :interior 3 (tensor x (2 3)))", builders.pad(x, 0, 1, 2, -1.5, 3)),
        ("(slice 1 0 2 (tensor x (2 3)))", builders.slice_(x, 1, 0, 2)),
        ("(slice 1 0 3 :step 2 (tensor x (2 3)))", builders.slice_(x, 1, 0, 3, 2)),
        (
            "(windows (2) (1) :dilation (2) (access 1 (tensor x (2 3))))",
            builders.windows(access(x, 1), (2,), (1,), (2,)),
        ),
        (
            "(compute dot :accumulate float64 (access 0 (tensor x (2 3))))",
            compute("dot", access(x, 0), "float64"),
        ),
        (
            "(cart-prod :batch 1 (tensor a (2)) (tensor b (2 3)))",
            cart_prod(tensor("a", (2,)), tensor("b", (2, 3)), 1),
        ),
        (
            '(host-op Elu (2 3) :version 6 :attributes "{\\"alpha\\": 2.0}" (tensor x (2 3)))',
            builders.host_op("Elu", [x], (2, 3), version=6, attributes='{"alpha": 2.0}'),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_spelling(text, term):
    assert to_text(term) == text
    assert parse(text) is term


def test_spelling_of_calls():
    # Built here: a unit that another test registers anew has new calls.
    term = builders.call("systolic-array", (3, 4), access(x, 1), access(tensor("w", (3, 4)), 0))
    text = "(call systolic-array (3 4) (access 1 (tensor x (2 3))) (access 0 (tensor w (3 4))))"
    assert to_text(term) == text
    assert parse(text) is term


def test_what_is_used_twice_is_bound_once():
    inner = compute("neg", access(x, 1))
    assert to_text(pair(inner, inner)) == (
        "(let ((%0 (compute neg (access 1 (tensor x (2 3)))))) (pair %0 %0))"
    )
    assert to_text(pair(x, x)) == "(let ((%0 (tensor x (2 3)))) (pair %0 %0))"


def test_bindings_use_earlier_ones():
    a = compute("neg", x)
    b = pair(a, a)
    text = to_text(pair(b, b))
    assert text.count("(tensor") == text.count("(compute") == text.count("(pair %0 %0)") == 1
    assert parse(text) is pair(b, b)


def test_several_terms_share_their_bindings():
    a, b = compute("neg", x), compute("exp", x)
    text = to_text(a, b)
    assert text == "(let ((%0 (tensor x (2 3)))) (compute neg %0) (compute exp %0))"
    assert parse_all(text) == [a, b]
    assert parse_all(to_text(a, x, a)) == [a, x, a]
    assert parse_all(to_text()) == []


# --- reading back -------------------------------------------------------------------------------


@given(terms(most=10))
def test_random_terms_read_back(term):
    assert parse(to_text(term)) is term


@pytest.mark.parametrize("operator", STEPS)
@settings(max_examples=tries(40))
@given(data=st.data())
def test_random_terms_over_one_operator_read_back(operator, data):
    term = data.draw(terms([operator], most=3))
    assert parse(to_text(term)) is term


@given(st.lists(terms(), max_size=4))
def test_several_random_terms_read_back(roots):
    assert parse_all(to_text(*roots)) == roots


@given(terms(most=10))
def test_the_text_says_every_shared_operator_once(term):
    text = to_text(term)
    order = topological_order([term])
    for name, operator in OPERATORS.items():
        used = sum(each.op == name for each in order)
        assert text.count(f"({operator.spelling} ") == used


ODD_NAMES = [
    "",
    " ",
    "a b",
    "gpu_0/data_0",
    "conv1.weight",
    "%0",
    ":dtype",
    "let",
    "1",
    "-1.5",
    "nan",
    "inf",
    "(",
    ")",
    '"',
    "\\",
    "\\n",
    "a\nb\r\tc",
    ";no comment",
    "x;y",
    "\x00",
    "\u3000",
    "\x85",
    "数据",
    "🂡",
    "\ud800",
    "true",
    "zero",
    "'",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_names_with_odd_characters_read_back(name):
    term = tensor(name, (2,))
    assert parse(to_text(term)) is term
    op = builders.host_op(name, [term], (2,), domain=name, attributes=name)
    assert parse(to_text(op)) is op


@given(st.text())
@example("\\" * 3 + '"')
def test_any_name_reads_back(name):
    term = pair(tensor(name, (1,)), tensor(name + name, (1,)))
    assert parse(to_text(term)) is term


@given(st.floats())
def test_any_number_reads_back(number):
    for dtype in ("float16", "float32", "float64"):
        term = constant(number, (), dtype)
        assert parse(to_text(term)) is term


# --- other ways to write it ---------------------------------------------------------------------


def test_options_stand_anywhere():
    wanted = cart_prod(tensor("a", (2,)), tensor("b", (2, 3)), 1)
    a, b = "(tensor a (2))", "(tensor b (2 3))"
    for text in (f":batch 1 {a} {b}", f"{a} :batch 1 {b}", f"{a} {b} :batch 1"):
        assert parse(f"(cart-prod {text})") is wanted
    for text in (":dtype int8 x (2)", "x :dtype int8 (2)", "x (2) :dtype int8"):
        assert parse(f"(tensor {text})") is tensor("x", (2,), "int8")
    for text in ("2 :dtype int8", ":dtype int8 2"):
        assert parse(f"(scalar {text})") is constant(2, (), "int8")


def test_default_options_may_be_spelled():
    assert parse("(slice 0 0 1 :step 1 (tensor x (2 3)))") is builders.slice_(x, 0, 0, 1)
    assert parse("(tensor x (2 3) :dtype float32)") is x


def test_blank_space_and_comments_do_not_matter():
    text = " ; a comment (with brackets\n( access\t1(tensor x(2 3) ) ); the end"
    assert parse(text) is access(x, 1)


def test_quotes_are_allowed_around_any_name():
    assert parse('(tensor "x" (2 3))') is x
    assert parse('(compute "neg" (tensor x (2 3)))') is compute("neg", x)


def test_scalar_is_a_constant_of_rank_zero():
    assert parse("(scalar 3)") is constant(3)
    assert parse("(scalar 3)", dtype="int8") is constant(3, (), "int8")


def test_numbers_of_floats_may_lack_the_point():
    assert parse("(constant 3 (2))") is constant(3.0, (2,))
    assert parse("(constant +.5e1 ())") is constant(5.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((2, 3), tensor("x", (2, 3), "int8")),
        ([2, 3], tensor("x", (2, 3), "int8")),
        ((), tensor("x", (), "int8")),
        (((2, 3), "float64"), tensor("x", (2, 3), "float64")),
        (([2, 3], np.float64), tensor("x", (2, 3), "float64")),
        (AccessType((2,), (3,), "bool"), tensor("x", (2, 3), "bool")),
        (np.zeros((2, 3), "uint8"), tensor("x", (2, 3), "uint8")),
    ],
    ids=str,
)
def test_inputs_give_shapes_and_dtypes(given, expected):
    assert parse("(tensor x)", {"x": given}, dtype="int8") is expected


def test_what_the_text_says_goes_before_what_inputs_say():
    inputs = {"x": ((2, 3), "int8")}
    assert parse("(tensor x (4))", inputs, dtype="bool") is tensor("x", (4,), "bool")
    assert parse("(tensor x :dtype int16)", inputs) is tensor("x", (2, 3), "int16")


def test_bindings_hold_for_the_texts_that_follow():
    text = "(let ((%a (tensor x (2 3))) (%b (compute neg %a))) %a %b) %b"
    assert parse_all(text) == [x, compute("neg", x), compute("neg", x)]


# --- what it refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "one term was expected, got 0"),
        ("; nothing", "one term was expected, got 0"),
        ("(tensor x (2)) (tensor y (2))", "one term was expected, got 2"),
        ("(tensor x (2)", "1 brackets are not closed"),
        ("(((", "3 brackets are not closed"),
        (")", "a closing bracket has no opening one"),
        ('(tensor "x (2))', "unreadable text at"),
        ("()", "a term starts with its operator, got '()'"),
        ("((tensor x (2)))", "a term starts with its operator"),
        ("x", "a term was expected, got 'x'"),
        ("%0", "a term was expected, got '%0'"),
        ('"%0"', "a term was expected"),
        ("(frobnicate 1)", "no operator is called 'frobnicate'; there are tensor, constant"),
        ("(cart_prod 1)", "no operator is called 'cart_prod'"),
        ("(tensor)", "tensor: name is missing"),
        ("(tensor x)", "tensor 'x' spells no shape and inputs= gives none"),
        ("(tensor (x) (2))", "tensor: name must be name, got '(x)'"),
        ("(tensor x 3)", "tensor: shape must be list of ints such as (1 2), got '3'"),
        ("(tensor x (a))", "tensor: shape must be list of ints, got '(a)'"),
        ("(tensor x (2 (3)))", "tensor: shape must be list of ints"),
        ("(tensor x (1_0))", "tensor: shape must be list of ints"),
        ('(tensor x ("1"))', "tensor: shape must be list of ints"),
        ("(tensor x (2.0))", "tensor: shape must be list of ints"),
        ("(tensor x (2) y)", "a term was expected, got 'y'"),
        ("(access)", "access: split is missing"),
        ("(access one (tensor x (2)))", "access: split must be int, got 'one'"),
        ("(access 1.0 (tensor x (2)))", "access: split must be int, got '1.0'"),
        ("(access (tensor x (2)))", "access: split must be int"),
        ("(constant abc ())", "constant: value must be number, got 'abc'"),
        ("(constant () ())", "constant: value must be number"),
        ("(constant 1_0 ())", "constant: value must be number"),
        ('(constant "1" ())', "constant: value must be number"),
        ("(constant 1)", "constant: shape is missing"),
        ("(constant " + "9" * 5000 + " ())", "constant: value must be number, got '9999"),
        ("(scalar)", "scalar: value is missing"),
        ("(scalar 1 ())", "a term starts with its operator"),
        ("(pad highest 0 1 1 (tensor x (2)))", "pad: value must be zero, lowest or a number"),
        ("(tensor x (2) :dtype)", "tensor: option ':dtype' is unknown or lacks its value"),
        ("(tensor x (2) :depth 1)", "tensor: option ':depth' is unknown"),
        ("(tensor x (2) :dtype (int8))", "tensor: dtype must be dtype, got '(int8)'"),
        ("(tensor x (2) :dtype int8 :dtype int8)", "tensor: option :dtype is given twice"),
        ("(cart-prod :batch (tensor x (2)))", "cart-prod: batch must be int"),
        ("(let)", "let is written (let ((%name term) ...) term ...)"),
        ("(let ())", "let is written"),
        ("(let x x)", "let is written"),
        ("(let ((x (tensor x (2)))) x)", "a binding is written (%name term)"),
        ('(let (("%x" (tensor x (2)))) %x)', "a binding is written (%name term)"),
        ("(let ((%x)) %x)", "a binding is written (%name term)"),
        ("(let ((%x %y)) %x)", "a term was expected, got '%y'"),
        ("(let ((%x %x)) %x)", "a term was expected, got '%x'"),
        ("(pair (let () (tensor x (2))) (tensor x (2)))", "no operator is called 'let'"),
    ],
    ids=lambda value: value[:40],
)
def test_text_errors(text, says):
    with pytest.raises(TextError) as caught:
        parse(text)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("(pair (tensor x (2)))", "pair takes 2 operands, got 1"),
        ("(access 3 (tensor x (2)))", "access 3 of ((2) ()) float32"),
        ("(compute tangent (tensor x (2)))", "compute tangent: the functions are"),
        ("(tensor x (2) :dtype float8)", "dtype 'float8' is not one of"),
        ("(tensor x (-1))", "must not be negative"),
        ("(tensor x (99999999999999999999))", "integer of 64 bits"),
        ("(constant 9223372036854775808 () :dtype int64)", "is not a value of int64"),
        ("(constant 1.5 () :dtype int8)", "is not a value of int8"),
        ("(constant nan () :dtype bool)", "is not a value of bool"),
        ("(call nobody ())", "no accelerator unit is called 'nobody'"),
        ("(blocked systolic-array (4) (tensor x (2)) (tensor x (2)))", "two positive parameters"),
    ],
)
def test_ill_shaped_terms_are_shape_errors(text, says):
    with pytest.raises(ShapeError) as caught:
        parse(text)
    assert says in str(caught.value)


@pytest.mark.parametrize("given", [5, None, 2.5, True], ids=repr)
def test_inputs_that_are_no_shapes_are_refused(given):
    with pytest.raises(TextError, match="inputs= takes a shape"):
        parse("(tensor x)", {"x": given})


def test_an_unknown_default_dtype_is_refused():
    with pytest.raises(ShapeError, match="'float8' is not one of"):
        parse("(tensor x (2))", dtype="float8")


def test_nesting_without_bound():
    depth = 100_000
    nested = "(" * depth + ")" * depth
    for text in ("(" * depth, nested, f"(let ({nested}) %x)", f"(tensor {nested} ())"):
        with pytest.raises(TextError):
            parse(text)
    term = parse("(compute neg " * 20_000 + "(tensor x (2 3))" + ")" * 20_000)
    assert len(topological_order([term])) == 20_001
    assert parse(to_text(term)) is term


WORDS = st.one_of(
    st.sampled_from(
        [operator.spelling for operator in OPERATORS.values()]
        + ["let", "scalar", "x", "%0", "dot", "add", "zero", "lowest", "int8", "systolic-array"]
        + [f":{a.name}" for operator in OPERATORS.values() for a in operator.attributes]
        + [
            "0",
            "1",
            "2",
            "-1",
            "1.5",
            "nan",
            "true",
            "9" * 30,
            "1e400",
            '"q"',
            "()",
            "(2)",
            "(2 2)",
        ]
        + ["(tensor x (2 2))", "(access 1 (tensor y (2 2)))", "(constant 1 (2))"]
    ),
    st.text(max_size=5),
)
GARBAGE = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=6).map(lambda ws: f"({' '.join(ws)})")
)


def reads_or_is_refused(text):
    try:
        terms = parse_all(text)
    except (TextError, ShapeError) as problem:
        assert str(problem)
    else:
        assert parse_all(to_text(*terms)) == terms


@given(GARBAGE)
def test_garbage_is_read_or_refused(text):
    reads_or_is_refused(text)


@given(st.sampled_from(list(OPERATORS.values())), st.lists(GARBAGE, max_size=7))
def test_any_words_after_an_operator_are_read_or_refused(operator, words):
    reads_or_is_refused(f"({operator.spelling} {' '.join(words)})")


@given(st.text(alphabet='()"\\;: %0-9.xyz\n\x00é'))
def test_any_characters_are_read_or_refused(text):
    reads_or_is_refused(text)


@given(terms(), st.data())
def test_a_text_with_a_piece_missing_is_read_or_refused(term, data):
    text = to_text(term)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(start + 10, len(text))))
    reads_or_is_refused(text[:start] + text[stop:])


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([np.int8(1), np.float32(1), np.array(1), np.array([1, 1]), np.zeros((2, 2))]),
    st.lists(st.one_of(st.integers(-1, 3), st.floats(), st.booleans()), max_size=3),
    st.just(object()),
)


@given(st.sampled_from(list(OPERATORS.values())), st.data())
def test_make_takes_any_arguments_or_raises_a_shape_error(operator, data):
    arguments = {a.name: data.draw(ANYTHING | _of_kind(a.kind)) for a in operator.attributes}
    count = operator.arity if operator.arity is not None else data.draw(st.integers(0, 2))
    children = [data.draw(terms(most=2)) for _ in range(count)]
    try:
        term = make(operator.name, children, **arguments)
    except GlensideError as problem:
        assert isinstance(problem, ShapeError)
    else:
        assert parse(to_text(term)) is term


def _of_kind(kind):
    return {
        Kind.INT: st.integers(-1, 3),
        Kind.INTS: st.lists(st.integers(0, 3), max_size=3),
        Kind.NAME: st.sampled_from(["x", "dot", "add", "neg", "systolic-array"]),
        Kind.DTYPE: st.sampled_from(["int8", "float32", "bool"]),
        Kind.NUMBER: st.floats() | st.integers(-1, 300),
        Kind.FILL: st.sampled_from(["zero", "lowest", 1, 1.5]),
    }[kind]
