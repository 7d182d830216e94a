"""False rules, of every kind there is, are never proved; true ones that do not ship are."""

from __future__ import annotations

import pytest
from egglog import String, Vec, eq, i64, rule, union, vars_

from glenside.rewrites import Rule
from glenside.rewrites.soundness.proofs import Proved, prove
from glenside.rewrites.vocabulary import (
    NO_DTYPE,
    Access,
    index_of,
    ints,
    lengths,
    permute,
    product,
)
from tests.rewrites.soundness.test_mutants import MUTANTS

x, y, z, whole = vars_("x y z whole", Access)
p, q, s, t, v = vars_("p q s t v", Vec[i64])
a, b, n, low, high, step = vars_("a b n low high step", i64)
dtype, other, fill = vars_("dtype other fill", String)


def _rule(name, left, right, *facts, exact=True, finite=False):
    found = rule(eq(whole).to(left), *facts).then(union(whole).with_(right))
    return Rule(name, (found,), exact, finite=finite)


def _two(name, one, other_):
    return one.pair(other_).compute(name, NO_DTYPE)


def _one(name, of):
    return of.compute(name, NO_DTYPE)


def _softmax_over_another_sum():
    """Powers of x less its maximum, over the sum of powers of x itself."""
    top, total = (
        each.reshape(s, ints(1)).broadcast(v)
        for each in (_one("max", x), _one("exp", x).compute("sum", dtype))
    )
    return _two("div", _one("exp", _two("sub", x, top)), total)


_ROWS = (
    eq(x.item.length()).to(i64(1)),
    eq(s).to(x.outer),
    eq(v).to(lengths(x)),
    eq(dtype).to(x.dtype),
    eq(dtype).to(String("float32")),
)

FALSE = [
    _rule(
        "power-of-a-product",
        _two("mul", _one("exp", x), _one("exp", y)),
        _one("exp", _two("mul", x, y)),
        exact=False,
        finite=True,
    ),
    _rule(
        "power-of-one-of-two",
        _two("mul", _one("exp", x), _one("exp", y)),
        _one("exp", _two("sub", x, y)),
        exact=False,
        finite=True,
    ),
    _rule(
        "a-softmax-over-another-sum",
        _one("softmax", x),
        _softmax_over_another_sum(),
        *_ROWS,
        exact=False,
        finite=True,
    ),
    _rule(
        "another-is-taken-away",
        _two("add", _two("sub", x, y), z),
        x,
        exact=False,
        finite=True,
    ),
    _rule(
        "taken-away-though-it-may-be-infinite",
        _two("add", _two("sub", x, y), y),
        x,
        exact=False,
    ),
    _rule("last-access-counts-not", x.access(a).access(b), x.access(a)),
    _rule(
        "transposes-merge-the-other-way", x.transpose(p).transpose(q), x.transpose(permute(q, p))
    ),
    _rule(
        "slice-through-transpose-by-the-inverse",
        x.transpose(p).slice(a, low, high, step),
        x.slice(index_of(p, a), low, high, step).transpose(p),
        eq(n).to(index_of(p, a)),
    ),
    _rule("sides-of-a-difference-swapped", _two("sub", x, y), _two("sub", y, x)),
    _rule("branches-swapped", z.where(x, y), z.where(y, x)),
    _rule("concat-commutes", x.concat(y, a), y.concat(x, a)),
    _rule("sum-of-a-mean", x.compute("mean", dtype), x.compute("sum", dtype)),
    _rule(
        "sum-spread-afterwards",
        x.broadcast(v).compute("sum", dtype),
        x.compute("sum", dtype),
        eq(v).to(lengths(whole)),
    ),
    _rule(
        "accumulated-in-any-dtype",
        x.compute("sum", dtype),
        x.cast(dtype).compute("sum", dtype).cast(other),
        eq(other).to(x.dtype),
    ),
    _rule(
        "zero-padding-below-a-maximum",
        x.pad("zero", a, b, n, 0).compute("max", NO_DTYPE),
        x.compute("max", NO_DTYPE),
        a >= x.outer.length(),
        exact=False,
    ),
    _rule(
        "lowest-padding-below-a-sum",
        x.pad("lowest", a, b, n, 0).compute("sum", dtype),
        x.compute("sum", dtype),
        a >= x.outer.length(),
        exact=False,
    ),
    _rule(
        "axis-added-at-the-split",
        x.access(n).unsqueeze(n),
        x.unsqueeze(n).access(n),
    ),
    _rule(
        "softmax-of-a-transpose",
        x.transpose(p).compute("softmax", NO_DTYPE),
        x.compute("softmax", NO_DTYPE).transpose(p),
    ),
    _rule(
        "division-of-integers-distributes",
        _two("add", _two("div", x, z), _two("div", y, z)),
        _two("div", _two("add", x, y), z),
        exact=False,
    ),
    _rule("padding-moved", x.pad(fill, a, low, high, 0), x.pad(fill, a, high, low, 0)),
    _rule(
        "reshape-across-the-split",
        x.reshape(s, t).access(n),
        x.access(n),
        eq(product(s)).to(product(x.outer)),
    ),
    _rule("windows-of-other-strides", x.windows(s, t, v), x.windows(s, v, t)),
    _rule("a-cast-is-nothing", x.cast(dtype), x),
    _rule(
        "differences-associate",
        _two("sub", _two("sub", x, y), z),
        _two("sub", x, _two("sub", y, z)),
        exact=False,
    ),
    _rule(
        "a-sign-is-lost",
        _two("mul", _two("sub", x, y), z),
        _two("add", _two("mul", x, z), _two("mul", z, y)),
        exact=False,
    ),
    _rule("the-first-branch-always", z.where(x, y), x),
    _rule(
        "clipped-the-other-way-round",
        _two("minimum", _two("maximum", x, y), z),
        _two("maximum", _two("minimum", x, z), y),
    ),
    _rule("windows-of-windows", x.windows(s, t, v).windows(s, t, v), x.windows(s, t, v)),
    _rule(
        "a-slice-before-windows",
        x.slice(a, low, high, step).windows(s, t, v),
        x.windows(s, t, v).slice(a, low, high, step),
    ),
    _rule(
        "slices-merge-by-the-outer-step",
        x.slice(a, low, high, step).slice(a, b, n, 2),
        x.slice(a, low + b, low + n, step * 2),
    ),
    _rule("products-commute", x.cart_prod(y, 0), y.cart_prod(x, 0)),
    _rule(
        "a-product-commutes-untransposed",
        x.cart_prod(y, 0).compute("dot", dtype),
        y.cart_prod(x, 0).compute("dot", dtype),
        exact=False,
    ),
    _rule(
        "a-maximum-of-products",
        _two("mul", x, y).access(n).compute("max", NO_DTYPE),
        _two(
            "mul",
            x.access(n).compute("max", NO_DTYPE),
            y.access(n).compute("max", NO_DTYPE),
        ),
    ),
    _rule(
        "padded-with-the-first-filling",
        x.pad(fill, a, low, high, 0).pad(other, a, low, high, 0),
        x.pad(fill, a, low + low, high + high, 0),
    ),
    _rule(
        "added-up-in-few-bits",
        x.compute("sum", "int8").cast("int32"),
        x.compute("sum", "int32"),
        exact=False,
    ),
]


TRUE = [
    _rule(
        "powers-of-a-sum",
        _two("mul", _one("exp", x), _one("exp", y)),
        _one("exp", _two("add", x, y)),
        exact=False,
    ),
    _rule(
        "taken-away-and-added",
        _two("add", _two("sub", x, y), y),
        x,
        exact=False,
        finite=True,
    ),
    _rule("access-twice", x.access(a).access(b), x.access(b)),
    _rule("transposes-merge", x.transpose(p).transpose(q), x.transpose(permute(p, q))),
    _rule("sum-commutes", _two("add", x, y), _two("add", y, x)),
    _rule(
        "lowest-of-nothing",
        x.squeeze(a).unsqueeze(a),
        x,
        a < x.outer.length(),
    ),
    _rule(
        "sum-of-a-concat",
        x.concat(y, a).compute("sum", dtype),
        _two("add", x.compute("sum", dtype).access(0), y.compute("sum", dtype).access(0)).access(n),
        a >= x.outer.length(),
        eq(n).to(x.outer.length()),
        exact=False,
    ),
    _rule(
        "product-distributes",
        _two("mul", _two("add", x, y), z),
        _two("add", _two("mul", x, z), _two("mul", y, z)),
        exact=False,
    ),
    _rule(
        "maximum-of-a-concat",
        x.concat(y, a).compute("max", NO_DTYPE),
        _two(
            "maximum", x.compute("max", NO_DTYPE).access(0), y.compute("max", NO_DTYPE).access(0)
        ).access(n),
        a >= x.outer.length(),
        eq(n).to(x.outer.length()),
    ),
    _rule(
        "relu-before-a-slice",
        x.slice(a, low, high, step).compute("relu", NO_DTYPE),
        x.compute("relu", NO_DTYPE).slice(a, low, high, step),
    ),
    _rule(
        "cart-prod-of-cast",
        x.cast(dtype).cart_prod(y.cast(dtype), n),
        x.cart_prod(y, n).cast(dtype),
        eq(x.dtype).to(y.dtype),
    ),
    _rule("flatten-twice", x.flatten().flatten(), x.flatten()),
    _rule("alike-in-both-branches", z.where(x, x), x),
    _rule(
        "less-and-more",
        _two("sub", _two("sub", x, y), z),
        _two("sub", x, _two("add", y, z)),
        exact=False,
    ),
    _rule(
        "a-difference-distributes",
        _two("mul", _two("sub", x, y), z),
        _two("sub", _two("mul", x, z), _two("mul", z, y)),
        exact=False,
    ),
    _rule(
        "sum-of-a-difference",
        _two("sub", x, y).compute("sum", dtype),
        _two("sub", x.compute("sum", dtype), y.compute("sum", dtype)),
        eq(dtype).to(x.dtype),
        exact=False,
    ),
    _rule(
        "maxima-associate",
        _two("maximum", _two("maximum", x, y), z),
        _two("maximum", x, _two("maximum", y, z)),
    ),
    _rule(
        "unsqueezes-swap",
        x.unsqueeze(a).unsqueeze(b),
        x.unsqueeze(b).unsqueeze(a + 1),
        b <= a,
        a < x.outer.length(),
    ),
    _rule(
        "slices-merge",
        x.slice(a, low, high, step).slice(a, b, n, 2),
        x.slice(a, low + b * step, low + (n - 1) * step + 1, step * 2),
        b < n,
    ),
    _rule(
        "padding-taken-off",
        x.pad(fill, a, low, high, 0).slice(a, low, n, 1),
        x,
        eq(n).to(lengths(x)[a] + low),
    ),
    _rule(
        "a-product-commutes-transposed",
        x.cart_prod(y, 0).compute("dot", dtype),
        y.cart_prod(x, 0).compute("dot", dtype).transpose(ints(1, 0)),
        eq(x.outer.length()).to(i64(1)),
        eq(y.outer.length()).to(i64(1)),
    ),
    _rule(
        "windows-beside-a-row",
        x.windows(s, t, v).access(n).compute("relu", NO_DTYPE),
        x.compute("relu", NO_DTYPE).windows(s, t, v).access(n),
    ),
    _rule(
        "pads-merge",
        x.pad("zero", a, low, high, 0).pad("zero", a, b, n, 0),
        x.pad("zero", a, low + b, high + n, 0),
    ),
    Rule(
        "another-name-of-an-access",
        (rule(eq(x).to(y), eq(y).to(z.access(n))).then(union(x).with_(z.access(0).access(n))),),
        True,
    ),
]


def _prove(each):
    return prove(each, examples=0, keep=False, seconds=8)


def _named(rules):
    return [pytest.param(each, id=each.name) for each in rules]


@pytest.mark.parametrize("each", [rule for rule, _ in MUTANTS.values()], ids=list(MUTANTS))
def test_rules_that_lack_a_condition_are_not_proved(each):
    assert not isinstance(_prove(each), Proved)


@pytest.mark.parametrize("each", _named(FALSE))
def test_false_rules_are_not_proved(each):
    assert not isinstance(_prove(each), Proved)


@pytest.mark.parametrize("each", _named(TRUE))
def test_true_rules_are_proved_for_all_ranks(each):
    verdict = _prove(each)
    assert isinstance(verdict, Proved), verdict.detail
    assert verdict.ranks is None


def test_a_rule_that_never_matches_is_not_proved():
    never = _rule("never", x.access(n), x.access(n + 1), n < 0)
    verdict = _prove(never)
    assert verdict.verdict == "sampled" and "never matches" in verdict.detail
