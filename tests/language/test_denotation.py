"""Denotations on plain numbers, element by element, against the interpreter: random terms."""

import itertools
import math
import random

import numpy as np
import pytest

from glenside.errors import GlensideError
from glenside.language import builders
from glenside.language.denotation import (
    Apply,
    Choice,
    Constant,
    Denotation,
    Leaf,
    Logic,
    Read,
    Reduce,
    Softmax,
)
from glenside.language.functions import FUNCTIONS
from glenside.language.interpreter import evaluate
from glenside.language.operators import OPERATORS, fill_value
from glenside.language.term import make, topological_order
from tests.effort import tries


class IllTyped(Exception):
    pass


class Numbers(Logic):
    """Lengths are numbers; positions are read from arrays."""

    def __init__(self):
        self.arrays = {}

    def need(self, condition, what):
        if not condition:
            raise IllTyped(what)

    def text(self, text):
        return text

    def is_value(self, value, dtype):
        try:
            fill_value(value, dtype)
        except GlensideError:
            return False
        return True

    def holds(self, condition):
        return bool(condition)

    def pick(self, condition, then, otherwise):
        return then if condition else otherwise

    def less_one(self, length):
        return max(length - 1, 0)

    def unravel(self, lengths, of, index):
        if not lengths:
            return []
        return [int(i) for i in np.unravel_index(np.ravel_multi_index(index, of), lengths)]

    def steps(self, length, step):
        return length // step + 1

    def position(self, element):
        return int(self.value(element))

    def value(self, e):
        match e:
            case Read():
                return self.arrays[e.leaf.name][tuple(e.index)]
            case Constant():
                return fill_value(e.value, e.dtype)
            case Choice():
                return self.value(e.then() if e.condition else e.otherwise())
            case Apply():
                return self.applied(e)
            case Reduce():
                values = [self.value(e.body(list(i))) for i in np.ndindex(*e.lengths)]
                if e.operation in ("argmax", "argmin"):
                    return getattr(np, e.operation)(values)
                how = {"add": sum, "mul": math.prod}
                if e.operation in how:
                    return how[e.operation](values)
                extreme = max if e.operation == "max" else min
                return extreme(values, default=-np.inf if e.operation == "max" else np.inf)
            case Softmax():
                powers = np.exp([self.value(e.body(j)) for j in range(e.length)])
                return powers[e.at] / powers.sum()
        raise AssertionError(e)

    def applied(self, e):
        name, *more = e.function
        values = [self.value(each) for each in e.operands]
        match name:
            case "over":
                return values[0] / more[0] if more[0] else np.nan
            case "cast":
                return np.array(values[0]).astype(more[0])[()]
            case "where":
                return values[1] if values[0] else values[2]
        return FUNCTIONS[name].numpy(*(np.array(each) for each in values))


class Grower:
    def __init__(self, seed):
        self.rng, self.logic = random.Random(seed), Numbers()

    def leaf(self, shape, dtype):
        name = f"t{len(self.logic.arrays)}"
        split = self.rng.randint(0, len(shape))
        values = np.random.default_rng(len(self.logic.arrays)).integers(-3, 4, shape)
        self.logic.arrays[name] = values.astype(dtype)
        leaf = Leaf(name, list(shape[:split]), list(shape[split:]), dtype)
        term = builders.access(builders.tensor(name, shape, dtype), split)
        at = lambda i: Read(leaf, list(i))  # noqa: E731
        return term, Denotation(self.logic, leaf.outer, leaf.item, dtype, at)

    def term(self, depth):
        rng = self.rng
        if depth == 0:
            lengths = [rng.choice((1, 2, 3, 2, 0, 4)) for _ in range(rng.randint(0, 3))]
            return self.leaf(tuple(lengths), "float64")
        t, v = self.term(depth - 1)
        name = rng.choice(NAMES)
        more, attributes = self.choose(name, t)
        others = [self.leaf(shape, dtype) for shape, dtype in more]
        if name == "where":
            order = [others[0], (t, v), (t, v)]
            order[0] = (
                builders.access(order[0][0], t.type.split),
                order[0][1].moved(order[0][1].lengths, t.type.split, order[0][1].at),
            )
        elif name in ("pair", "concat", "cart_prod"):
            order = [(t, v), (t, v)]
        else:
            order = [(t, v), *others]
        if name == "compute" and FUNCTIONS[attributes["function"]].accumulates:
            attributes["accumulate"] = t.dtype
        given = {k: list(v) if isinstance(v, tuple) else v for k, v in attributes.items()}
        if name == "compute":
            given.setdefault("accumulate", "")

        def denote():
            return OPERATORS[name].denote(self.logic, [each for _, each in order], given)

        try:
            made = make(name, [each for each, _ in order], **attributes)
        except GlensideError:
            with pytest.raises(IllTyped):
                denote()
            raise
        return made, denote()

    def choose(self, name, t):
        """Shapes and dtypes of further operands, and attributes."""
        rng, rank = self.rng, t.type.rank
        axis = rng.randint(0, max(rank - 1, 0))
        match name:
            case "access":
                return [], {"split": rng.randint(0, rank)}
            case "transpose":
                return [], {"permutation": tuple(rng.sample(range(rank), rank))}
            case "cart_prod":
                return [], {"batch": rng.randint(0, t.type.split)}
            case "windows":
                n = len(t.type.item)
                some = lambda most: tuple(rng.randint(1, most) for _ in range(n))  # noqa: E731
                return [], {"shape": some(3), "stride": some(2), "dilation": some(2)}
            case "slice":
                low = rng.randint(0, 2)
                high = low + rng.randint(0, 3)
                return [], {"axis": axis, "low": low, "high": high, "step": rng.randint(1, 2)}
            case "concat" | "squeeze":
                return [], {"axis": axis}
            case "unsqueeze":
                return [], {"axis": rng.randint(0, rank)}
            case "pad":
                widths = {each: rng.randint(0, 2) for each in ("before", "after", "interior")}
                return [], {"value": rng.choice(("zero", "lowest", 2.0)), "axis": axis, **widths}
            case "broadcast":
                return [], {"shape": tuple(rng.randint(1, 3) if n == 1 else n for n in t.shape)}
            case "reshape":
                return [], {"outer": self.factors(t.type.outer), "item": self.factors(t.type.item)}
            case "gather":
                length = t.shape[axis] if rank else 0
                shape = (2,) * rng.randint(0, 2) if length >= 4 else (0,)
                return [(shape, "int32")], {"axis": axis}
            case "where":
                return [(t.shape, "bool")], {}
            case "cast":
                return [], {"dtype": rng.choice(("int32", "bool", "float64"))}
            case "constant":
                return [], {"value": 2.0, "shape": (2,), "dtype": "float64"}
            case "compute":
                fitting = [f for f in COMPUTED if t.dtype in FUNCTIONS[f].domain]
                return [], {"function": rng.choice(fitting)}
        return [], {}

    def factors(self, part):
        size = math.prod(part)
        first = self.rng.choice([k for k in range(1, size + 1) if size % k == 0] or [0])
        return (first, size // first if first else 3)


NAMES = (
    sorted({name for name, each in OPERATORS.items() if each.denote} - {"constant", "blocked"})
    + ["compute"] * 2
)
COMPUTED = sorted(set(FUNCTIONS) - {"pow", "asin", "acos", "atanh", "acosh", "tan"})


def test_every_operator_but_leaves_and_calls_denotes():
    without = {name for name, each in OPERATORS.items() if each.denote is None}
    assert without == {"tensor", "call", "host_op"}


@pytest.mark.parametrize("seed", range(tries(300)))
def test_denotations_are_what_the_interpreter_computes(seed):
    grower = Grower(seed)
    try:
        t, v = grower.term(grower.rng.randint(1, 4))
    except GlensideError:
        return  # It is not a term, which both meanings said.
    if t.type.size > 400:
        return
    assert (tuple(v.outer), tuple(v.item), v.dtype) == (t.type.outer, t.type.item, t.dtype)
    arrays = {
        x["name"]: grower.logic.arrays[x["name"]]
        for x in topological_order([t])
        if x.op == "tensor"
    }
    with np.errstate(all="ignore"):
        wanted = evaluate([t], arrays)[0]
        for index in itertools.islice(np.ndindex(*t.shape), 60):
            found = grower.logic.value(v.at(list(index)))
            assert np.allclose(
                np.float64(found), np.float64(wanted[index]), equal_nan=True, rtol=1e-9
            ), (t, index)
