"""The ways in which a unit's term may stand in a program, each checked by computing."""

import numpy as np
import pytest

import glenside
from glenside.errors import TargetError
from glenside.hw_targets import Accelerator
from glenside.language import builders as b
from glenside.language import evaluate, parse
from glenside.language.functions import FUNCTIONS
from glenside.language.shape import INTEGERS
from glenside.language.units import known_units
from glenside.rewrites.soundness import check_fires
from tests.effort import tries

FOLDS = [
    f.name
    for f in FUNCTIONS.values()
    if f.kind == "fold" and "bool" not in (f.result, f.domain[0])  # Defaults are numbers.
]
VECTORS = {"x": "((N) ())", "y": "((N) ())"}
SHIPPED = [
    unit
    for unit in (known.declaration for known in known_units())
    # Units that differ in numbers have the same term.
    if isinstance(unit, Accelerator) and not unit.numerics and "batch-tdp" not in unit.name
]


@pytest.mark.parametrize("side", ["x", "y"])
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("name", FOLDS)
def test_an_operand_is_left_out_only_where_its_default_changes_nothing(name, value, side):
    """Of every fold, with either operand left out: what is claimed is computed."""
    unit = Accelerator(
        "test-fold",
        operands=VECTORS,
        computes=f"(access 1 (compute {name} (pair (access 0 ?x) (access 0 ?y))))",
        defaults={side: value},
        dtypes=None if FUNCTIONS[name].domain[0] not in INTEGERS else ["int32"],
    )
    check_fires(unit.rule(), examples=tries(5))
    function = FUNCTIONS[name]
    leaves_out = value == function.neutral and (function.commutes or side == "y")
    assert any(form.absent for form in unit.forms) == leaves_out
    kept, gone = np.arange(-6, 7, dtype="int32"), np.full(13, value, "int32")
    sides = (kept, gone) if side == "y" else (gone, kept)
    if leaves_out:
        np.testing.assert_array_equal(FUNCTIONS[name].numpy(*sides), kept)


@pytest.mark.parametrize(
    ("inner", "outer", "value"), [("add", "mul", 0), ("mul", "add", 1), ("mul", "add", 0)]
)
def test_an_operand_at_two_places_is_left_out_at_neither_alone(inner, outer, value):
    """Where it is there at the other place, nothing says that it is its default at this one."""
    unit = Accelerator(
        "test-twice",
        operands={"x": "((N) ())", "y": "((N) ())"},
        computes=f"(access 1 (compute {outer} (pair (access 0 (compute {inner} (pair ?x ?y))) "
        "(access 0 ?y))))",
        defaults={"y": value},
    )
    assert not any(form.absent for form in unit.forms)
    x, y = (b.tensor(name, (3,), "int32") for name in ("x", "y"))
    alone = b.elementwise(outer, x, y)
    program = glenside.optimize(alone, "test-twice", check=False)
    values = np.array([2, 3, 4], "int32"), np.array([5, 6, 7], "int32")
    fold = np.add if outer == "add" else np.multiply
    np.testing.assert_array_equal(program(*values), fold(*values))


LINEAR = """(access 2 (compute add (pair (access 0 (compute dot (cart-prod ?x ?w)))
    (access 0 (broadcast (M N) (unsqueeze 0 ?b))))))"""


@pytest.mark.parametrize(
    ("zero", "dtype"),
    [(0.0, "float16"), (0, "float32"), (0.0, "int8"), (np.float32(0), "uint8"), (0.0, "float64")],
)
def test_a_default_is_a_number_of_every_dtype(zero, dtype):
    Accelerator(
        "test-linear",
        operands={"x": "((M) (K))", "w": "((N) (K))", "b": "((N) ())"},
        computes=LINEAR,
        defaults={"b": zero},
    )
    x, w = (b.access(b.tensor(n, (r, 4), dtype), 1) for n, r in (("x", 2), ("w", 3)))
    program = glenside.optimize(b.compute("dot", b.cart_prod(x, w)), "test-linear")
    assert program.report.offloads == {"test-linear": 1}


def test_a_default_that_integers_have_not_leaves_them_alone():
    Accelerator(
        "test-scaled",
        operands={"x": "((N) ())", "y": "((N) ())"},
        computes="(access 1 (compute add (pair (access 0 ?x) (access 0 ?y))))",
        defaults={"y": 0.5},
    )
    x = b.tensor("x", (3,), "int8")
    program = glenside.optimize(b.elementwise("add", x, b.tensor("y", (3,), "int8")), "test-scaled")
    assert program.report.offloads == {"test-scaled": 1}


def test_a_scalar_is_an_operand():
    unit = Accelerator(
        "test-scale",
        operands={"x": "((M) ())", "s": "(() ())"},
        computes="""(access 1 (compute mul (pair
            (access 0 ?x) (access 0 (broadcast (M) (unsqueeze 0 ?s))))))""",
        simulate=lambda sizes, x, s: x * s,
    )
    check_fires(unit.rule(), examples=tries(20))
    x, s = b.tensor("x", (5,)), b.tensor("s", ())
    program = glenside.optimize(b.elementwise("mul", x, s), "test-scale")
    assert program.report.offloads == {"test-scale": 1}
    rows = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(program(x=rows, s=np.float32(3)), rows * 3)
    batch = b.call("test-scale", (), b.tensor("a", (2, 5)), b.tensor("t", (2,)), batch=1)
    arrays = {"a": np.ones((2, 5), "float32"), "t": np.array([2, 3], "float32")}
    (done,) = evaluate([batch], arrays)
    np.testing.assert_array_equal(done, [[2] * 5, [3] * 5])


def test_constants_compare_in_their_dtype():
    def gelu_scale(value):
        return f"(access 1 (compute mul (pair (access 0 ?x) (access 0 (constant {value} (N))))))"

    unit = Accelerator(
        "test-half",
        operands={"x": "((N) ())"},
        computes=gelu_scale(0.7071067811865476),
        also=[gelu_scale(0.70710678118654752440)],
    )
    assert unit.checked.dtypes == ("float32",)
    for value in (0.7071067811865476, float(np.float32(0.7071067811865476))):
        factor = b.access(b.constant(value, (4,)), 0)
        x = b.access(b.tensor("x", (4,)), 0)
        report = glenside.optimize(
            b.access(b.compute("mul", b.pair(x, factor)), 1), "test-half", check=False
        ).report
        assert report.offloads == {"test-half": 1}, value


@pytest.mark.parametrize("unit", SHIPPED, ids=lambda unit: unit.name)
def test_what_is_printed_of_a_unit_is_a_term_of_a_unit(unit):
    """The term of a call as Glenside prints it, ``let`` and all, declares the same at one size."""
    checked = unit.checked
    sizes = next(iter(_sizes(unit)))
    dtype = "float32" if "float32" in checked.dtypes else checked.dtypes[0]
    types = {name: each.of(sizes, dtype) for name, each in checked.operands.items()}
    leaves = [b.leaf(name, each) for name, each in types.items()]
    printed = str(unit.term(tuple(sizes[name] for name in checked.parameters), leaves))
    pasted = Accelerator(
        "test-pasted", operands={name: str(each) for name, each in types.items()}, computes=printed
    )
    assert str(pasted.term((), leaves)) == printed
    report = glenside.optimize(parse(printed), "test-pasted", check=False).report
    assert report.offloads == {"test-pasted": 1}


def _sizes(unit):
    from glenside.hw_targets.declare.samples import samples

    checked = unit.checked
    own = {size.text for each in checked.operands.values() for size in each.axes}
    for sizes in samples(checked.names, checked.conditions):
        if all(sizes[name] >= 1 for name in checked.names if name in own):
            try:
                types = [each.of(sizes, "float32") for each in checked.operands.values()]
                unit.sizes(tuple(sizes[n] for n in checked.parameters), types)
                leaves = [b.leaf(str(i), each) for i, each in enumerate(types)]
                unit.term(tuple(sizes[n] for n in checked.parameters), leaves)
            except glenside.errors.GlensideError:
                continue
            yield sizes


def test_integers_scalars_and_let_are_read():
    unit = Accelerator(
        "test-let",
        operands={"x": "((N) ()) int32"},
        computes="""(let ((%0 (access 0 ?x)) (%1 (compute mul (pair %0 %0))))
            (access 1 (compute add (pair %1 (access 0 (broadcast (N)
                (unsqueeze 0 (scalar 3 :dtype int32))))))))""",
    )
    check_fires(unit.rule(), examples=tries(10))
    x = b.tensor("x", (4,), "int32")
    (value,) = evaluate([unit.term((), [x])], {"x": np.arange(4, dtype="int32")})
    np.testing.assert_array_equal(value, [3, 4, 7, 12])


@pytest.mark.parametrize(
    ("computes", "says"),
    [
        ("(let ((%0 ?x)) %1)", "'%1' is no operand"),
        ("(let (%0) ?x)", "a binding of let is written"),
        ("(let ((%0 ?x)))", "let is written"),
        ("(tensor x)", "tensor x spells no shape: write"),
        ("(compute relu (call vta-dense () ?x ?x))", "'call' is no operator"),
    ],
)
def test_what_cannot_be_read_is_told(computes, says):
    with pytest.raises(TargetError, match=says):
        Accelerator("test-bad", operands={"x": "((N) ())"}, computes=computes)
