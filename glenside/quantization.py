"""Quantises the products of a float model, asked for explicitly and before anything is explored.

Sample inputs are run through the model; the largest magnitude that each activation takes sets its
scale. Products then multiply integers of 8 bits, symmetric around zero: one scale for each
activation, one for each row of weights (an output channel)::

    x w  ->  float32(int8(x / sx) int8(w / sw)) (sx sw)

Everything else stays in floats. Source: Krishnamoorthi, "Quantizing deep convolutional networks for
efficient inference", arXiv 1806.08342, section 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glenside.array_files import read_npz
from glenside.errors import InputError
from glenside.language import (
    AccessType,
    Model,
    Term,
    builders,
    evaluate,
    topological_order,
    trace,
)
from glenside.language.operators import Moves, transformers
from glenside.language.shape import is_float
from glenside.language.term import rebuild

Array = np.ndarray[Any, Any]
Progress = Callable[[int, int], None]

DTYPE, LARGEST = "int8", 127
"""-128 is left out, so that the range is symmetric."""
DEEPEST = (2**31 - 1) // LARGEST**2
"""Products that int32 holds the sum of, whatever they are."""

_MOVES = transformers(~Moves.ADDS)
"""Data movement of one operand; what it moves is quantised before."""

Samples = Mapping[str, Array] | Sequence[Mapping[str, Array]]


@dataclass(frozen=True)
class Quantization:
    """How a float model is quantised.

    :param samples: inputs to calibrate with: mappings from names to arrays, or one mapping whose
        arrays hold several samples along the first axis (an axis of their own, or the batch).
    :param percentile: of the magnitudes of an activation in one sample that its range holds; what
        is beyond saturates. 100, the default, is the greatest. Over samples the greatest counts.
    """

    samples: Samples
    percentile: float = 100.0

    def __post_init__(self) -> None:
        given: Any = self.percentile
        if not isinstance(given, int | float | np.number) or not 0 < given <= 100:
            raise InputError(f"percentile must be a number above 0 and at most 100, got {given!r}")

    def inputs(self, wanted: Mapping[str, AccessType]) -> list[dict[str, Array]]:
        """The samples, each an array for every input of a model.

        :raises InputError: there are none, or one does not fit; says which.
        """
        given = [self.samples] if isinstance(self.samples, Mapping) else list(self.samples)
        found = [sample for each in given for sample in _divided(each, wanted)]
        if not found:
            raise InputError("no samples were given to quantise with")
        return found


@dataclass(frozen=True)
class QuantizationError:
    """What quantising cost, against the float model on the samples."""

    samples: int
    products: int
    """Products that multiply integers now."""
    relative: dict[str, float]
    """By output: norm of the difference over the norm of what the float model gives."""
    top1: dict[str, float]
    """By output that scores classes: in what share of the samples the same one is best."""

    def __str__(self) -> str:
        lost = [
            f"{name} differs from the float model by {error:.2%} (relative)"
            + (f", the best class agrees in {self.top1[name]:.0%}" if name in self.top1 else "")
            for name, error in self.relative.items()
        ]
        count = f"{self.samples} sample{'s' * (self.samples != 1)}"
        return f"{self.products} products to int8; on {count}: {'; '.join(lost)}"


def as_quantization(given: object) -> Quantization:
    """From a :class:`Quantization`, samples, or the path of an ``.npz`` with arrays by input name.

    :raises InputError: it is none of these, or the file cannot be read.
    """
    if isinstance(given, Quantization):
        return given
    if isinstance(given, str | Path):
        return Quantization(read_npz(Path(given)))
    if isinstance(given, Mapping) or (
        isinstance(given, Sequence) and all(isinstance(each, Mapping) for each in given)
    ):
        return Quantization(given)
    raise InputError(
        "quantize takes samples (arrays by input name, or a list of such), an .npz of them or a "
        f"Quantization; got {type(given).__name__}"
    )


def quantize(
    model: Model, how: Quantization, progress: Progress | None = None
) -> tuple[Model, QuantizationError]:
    """The model with its products of float32 quantised, and what that costs.

    Left as they are: products of other dtypes, of two constants, and longer ones than int32 can
    add up.

    :param progress: called with (samples run, samples to run).
    :raises InputError: the samples do not fit the model, or it has no product to quantise.
    """
    samples = how.inputs(model.inputs)
    products = _products(model)
    if not products:
        raise InputError(f"{model.name} has no product of float32 to quantise")
    bases = {side.base: 0.0 for each in products.values() for side in each if side.base}
    exact: list[list[Array]] = []
    for done, sample in enumerate(samples):
        exact.append(_calibrate(model, sample, how.percentile, bases))
        if progress:
            progress(done + 1, 2 * len(samples))
    quantised = _Rewriting(model, products, bases).model()
    got = []
    for done, sample in enumerate(samples):
        got.append(evaluate(quantised.roots, {**quantised.params, **sample}))
        if progress:
            progress(len(samples) + done + 1, 2 * len(samples))
    relative, top1 = {}, {}
    for name, right, ours in zip(
        model.outputs, zip(*exact, strict=True), zip(*got, strict=True), strict=True
    ):
        relative[name] = _relative(np.stack(ours), np.stack(right))
        if _scores(right[0]):
            best = [np.array_equal(_best(a), _best(b)) for a, b in zip(ours, right, strict=True)]
            top1[name] = float(np.mean(best))
    return quantised, QuantizationError(len(samples), len(products), relative, top1)


# --- samples --------------------------------------------------------------------------------------


def _divided(
    given: Mapping[str, Array], wanted: Mapping[str, AccessType]
) -> Iterable[dict[str, Array]]:
    unknown, missing = given.keys() - wanted.keys(), wanted.keys() - given.keys()
    if unknown or missing:
        problems = [f"{n!r} is not one of them" for n in sorted(unknown)]
        problems += [f"{n!r} is missing" for n in sorted(missing)]
        raise InputError(
            f"samples are arrays for the inputs {', '.join(map(repr, wanted))}: "
            + ", ".join(problems)
        )
    parts = {name: _samples_of(name, np.asarray(given[name]), t) for name, t in wanted.items()}
    counts = {name: len(each) for name, each in parts.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name!r} {count}" for name, count in counts.items())
        raise InputError(f"inputs have different numbers of samples: {shown}")
    for i in range(min(counts.values(), default=0)):
        yield {name: each[i] for name, each in parts.items()}


def _samples_of(name: str, array: Array, wanted: AccessType) -> list[Array]:
    shape = wanted.shape
    if array.dtype.name == wanted.dtype:
        if array.shape == shape:
            return [array]
        if array.shape[1:] == shape:
            return list(array)
        if shape and array.shape[1:] == shape[1:] and shape[0] and array.shape[0] % shape[0] == 0:
            return list(array.reshape(-1, *shape))
    raise InputError(
        f"samples of input {name!r} must be {wanted.dtype} of shape {shape}, or several along the "
        f"first axis; got {array.dtype.name} of shape {array.shape}"
    )


def _calibrate(
    model: Model, sample: Mapping[str, Array], percentile: float, ranges: dict[Term, float]
) -> list[Array]:
    """Widens ``ranges`` to what one sample shows; returns the outputs."""
    outputs: dict[Term, Array] = {}
    roots = set(model.roots)
    for term, value in trace(model.roots, {**model.params, **sample}):
        if term in ranges and value.size:
            size = np.abs(value)
            most = float(size.max() if percentile == 100 else np.percentile(size, percentile))
            if not math.isfinite(most):
                name = model.names.get(term, repr(term))
                raise InputError(f"a sample makes {name} infinite or nan: it has no range")
            ranges[term] = max(ranges[term], most)
        if term in roots:
            outputs[term] = np.array(value)
    return [outputs[term] for term in model.roots]


# --- the model ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Side:
    """One operand of a product: constant, or ``moves`` (the last first) of an activation."""

    term: Term
    base: Term | None
    moves: tuple[Term, ...] = ()


def _products(model: Model) -> dict[Term, tuple[_Side, _Side]]:
    varies: dict[Term, bool] = {}
    found = {}
    for term in topological_order(model.roots):
        varies[term] = (
            term["name"] in model.inputs
            if term.op == "tensor"
            else term.op == "host_op" or any(varies[child] for child in term.children)
        )
        if term.op != "compute" or term["function"] != "dot" or term.dtype != "float32":
            continue
        pairs = term.children[0]
        if pairs.op != "cart_prod" or pairs.dtype != "float32" or not varies[pairs]:
            continue
        if pairs.type.size > 0 and math.prod(pairs.item[1:]) <= DEEPEST:
            left, right = (_side(each, varies[each]) for each in pairs.children)
            found[term] = left, right
    return found


def _side(term: Term, varies: bool) -> _Side:
    if not varies:
        return _Side(term, None)
    moves: list[Term] = []
    base = term
    while base.op in _MOVES or (base.op == "pad" and base["value"] == "zero"):
        moves.append(base)
        (base,) = base.children
    return _Side(term, base, tuple(moves))


class _Rewriting:
    def __init__(
        self,
        model: Model,
        products: Mapping[Term, tuple[_Side, _Side]],
        ranges: Mapping[Term, float],
    ) -> None:
        self.old, self.products, self.ranges = model, products, ranges
        self.params = dict(model.params)
        self.new: dict[Term, Term] = {}
        self.codes: dict[Term, Term] = {}
        """Activations as integers."""
        self.weights: dict[Term, tuple[Term, Array]] = {}
        """Constant operands as integers, and the scale of each row."""

    def model(self) -> Model:
        old = self.old
        for term in topological_order(old.roots):
            sides = self.products.get(term)
            below = tuple(self.new[child] for child in term.children)
            self.new[term] = rebuild(term, below) if sides is None else self._product(term, *sides)
        outputs = {name: self.new[term] for name, term in old.outputs.items()}
        order = topological_order(outputs.values())
        used = {term["name"] for term in order if term.op == "tensor"}
        return replace(
            old,
            params={name: array for name, array in self.params.items() if name in used},
            outputs=outputs,
            names={self.new[t]: name for t, name in old.names.items() if t in self.new},
        )

    def _product(self, term: Term, left: _Side, right: _Side) -> Term:
        batch = term.children[0]["batch"]
        (a, scale_a), (b, scale_b) = self._quantised(left), self._quantised(right)
        # Each scale in the axes of the product: those of the other operand have length 1.
        rows, columns = a.type.split - batch, b.type.split - batch
        scale_a = scale_a.reshape(*scale_a.shape, *[1] * columns)
        split = min(batch, scale_b.ndim)
        scale_b = scale_b.reshape(*scale_b.shape[:split], *[1] * rows, *scale_b.shape[split:])
        scale = np.asarray(scale_a * scale_b, "float32")
        sums = builders.compute("dot", builders.cart_prod(a, b, batch), "int32")
        real = builders.cast(sums, "float32")
        if scale.size == 1:
            factor = builders.constant(scale.item(), real.shape)
        else:
            named = self._parameter(scale, right.term if right.base is None else left.term, "scale")
            factor = builders.broadcast(named, real.shape)
        return builders.elementwise("mul", real, factor)

    def _quantised(self, side: _Side) -> tuple[Term, Array]:
        """An operand as integers, and its scale along its outer axes."""
        if side.base is None:
            return self._constant(side.term)
        scale = self._scale(self.ranges[side.base])
        codes = self.codes.get(side.base)
        if codes is None:
            codes = self.codes[side.base] = _codes(self.new[side.base], scale)
        for move in reversed(side.moves):
            codes = rebuild(move, (codes,))
        return codes, np.full((1,) * codes.type.split, scale, "float32")

    def _constant(self, term: Term) -> tuple[Term, Array]:
        if term not in self.weights:
            (array,) = evaluate([term], self.old.params)
            axes = tuple(range(term.type.split, term.type.rank))
            most = np.abs(array).max(axis=axes, initial=0.0)
            scale = np.where(most > 0, most / np.float32(LARGEST), 1).astype("float32")
            wide = scale.reshape(*scale.shape, *[1] * len(axes))
            codes = np.clip(np.rint(array / wide), -LARGEST, LARGEST).astype(DTYPE)
            leaf = self._parameter(codes, term, DTYPE)
            self.weights[term] = builders.access(leaf, term.type.split), scale
        return self.weights[term]

    @staticmethod
    def _scale(most: float) -> float:
        return float(np.float32(most / LARGEST)) or 1.0

    def _parameter(self, array: Array, of: Term, suffix: str) -> Term:
        leaves = [t["name"] for t in topological_order([of]) if t.op == "tensor"]
        name = f"{leaves[0] if leaves else 'constant'}.{suffix}"
        unique, count = name, 0
        while unique in self.params or unique in self.old.inputs:
            count += 1
            unique = f"{name}_{count}"
        self.params[unique] = array
        return builders.tensor(unique, array.shape, array.dtype.name)


def _codes(x: Term, scale: float) -> Term:
    def number(value: float) -> Term:
        return builders.constant(value, x.shape)

    codes = builders.elementwise("div", x, number(scale))
    codes = builders.outer_only(builders.compute("round", builders.item_only(codes)))
    codes = builders.elementwise("maximum", codes, number(-LARGEST))
    codes = builders.elementwise("minimum", codes, number(LARGEST))
    return builders.access(builders.cast(codes, DTYPE), x.type.split)


# --- the error ------------------------------------------------------------------------------------


def _relative(got: Array, right: Array) -> float:
    if right.dtype.kind == "b":
        return float(np.mean(got != right)) if right.size else 0.0
    difference = np.linalg.norm((got.astype("float64") - right.astype("float64")).ravel())
    norm = np.linalg.norm(right.astype("float64").ravel())
    return float(difference / norm) if norm else float(difference)


def _scores(output: Array) -> bool:
    """Whether an output holds one number for each class: two axes, any others of length 1."""
    lengths = output.shape
    return (
        len(lengths) >= 2
        and lengths[1] > 1
        and math.prod(lengths[2:]) == 1
        and is_float(output.dtype)
    )


def _best(output: Array) -> Array:
    return np.asarray(output.argmax(axis=1))
