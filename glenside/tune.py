"""Measures mappings of a model's products on a device and keeps the fastest in a tuning file.

:func:`tune` does all of it where compiler and device are on one machine. Where they are not,
:func:`build` makes what is to be measured into a folder, :func:`measure` times it on the device's
machine (without TVM), and :func:`record` puts the fastest into a tuning file.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.errors import InputError, TargetError
from glenside.files import write_text
from glenside.hw_targets.registry import find_target
from glenside.hw_targets.target import Progress
from glenside.interrupt import between_steps
from glenside.pipeline import Pipeline

if TYPE_CHECKING:
    from glenside.codegen.device.device import Device
    from glenside.codegen.device.trials import Trials
    from glenside.codegen.gpu.mapping.product import ProductMapping
    from glenside.codegen.gpu.space import ProductSpace
    from glenside.codegen.program.record import Cut
    from glenside.hw_targets.gpu import GpuTarget
    from glenside.rewrites.ruleset import Rule, RuleSet

Array = np.ndarray[Any, Any]
RESULTS = "results.json"
_LIMITS = "limits.json"
_AMONG = 12
"""Mappings that are looked at for each that is measured."""


@dataclass(frozen=True)
class TunedProduct:
    """A product: its space, the time of the predicted mapping and of the fastest, in seconds.

    ``tried`` counts mappings measured now, 0 where the tuning file knew the answer.
    """

    space: str
    predicted: float
    seconds: float
    tried: int
    wrong: int = 0
    """Mappings that the device does not run, or whose numbers differed from the plain kernel's;
    they are never kept."""


@dataclass
class BuiltProduct:
    """A product that is to be measured: its space, how often the model computes it, the seconds
    of all that by the prediction, and the mappings built."""

    space: str
    uses: int
    predicted: float
    built: int


def tune(
    model: object,
    target: str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: Mapping[str, Array] | None = None,
    precision: str | None = None,
    rules: Sequence[RuleSet | Rule] | None = None,
    add_rules: Sequence[RuleSet | Rule] | None = None,
    candidates: int = 16,
    time_limit: float | None = None,
    file: str | Path | None = None,
    progress: Progress | None = None,
) -> list[TunedProduct]:
    """Measures up to ``candidates`` mappings of every product of a model, the likeliest first.

    Every result is written to the tuning file (the user's own by default) at once, so that a run
    that was stopped goes on where it was; products that the file knows are not measured again.

    :param precision: as of :func:`glenside.optimize`, likewise ``rules`` and ``add_rules``.
    :param time_limit: seconds after which no further product is begun; None: no limit.
    :raises TargetError: the target is no GPU, or its device is not there.
    """
    from glenside.codegen.device.executable import open_device
    from glenside.codegen.gpu.mapping import tuning
    from glenside.rewrites.ruleset import explored_with

    chosen = _gpu(target, candidates)
    device = open_device(chosen.dialect)
    path = Path(file) if file is not None else tuning.user_file()
    known = tuning.read(path, chosen.limits.name)
    end = _end(time_limit)
    using = explored_with(chosen.rules, rules, add_rules)
    products = _products(model, chosen, shapes, params, using, precision)
    results = []
    for product in _steps(products.found, progress):
        space = product.space.key()
        key = tuning.key_of(space)
        if key in known:
            results.append(TunedProduct(space, 0.0, known[key].seconds, 0))
            continue
        if time.monotonic() > end:
            break
        trials = products.trials(product, candidates, [])
        best = None if trials is None else _measured(trials, device)
        if best is None:
            continue
        results.append(best.product)
        entry = tuning.Tuned(space, best.mapping, best.product.seconds, best.product.tried)
        tuning.record(path, chosen.limits.name, {key: entry})
    return results


def build(
    model: object,
    target: str,
    folder: str | Path,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: Mapping[str, Array] | None = None,
    precision: str | None = None,
    rules: Sequence[RuleSet | Rule] | None = None,
    add_rules: Sequence[RuleSet | Rule] | None = None,
    candidates: int = 16,
    time_limit: float | None = None,
    most: int | None = None,
    compile: bool = True,
    file: str | Path | None = None,
    progress: Progress | None = None,
) -> list[BuiltProduct]:
    """Builds up to ``candidates`` mappings of a model's products into a folder, to be measured by
    :func:`measure` on a machine that may lack all but the device.

    Products come in the order of their share in the model's predicted time. Those that the folder
    or the tuning file has are passed over, so several models can go into one folder, and a run
    that was stopped goes on where it was. A mapping that was measured for the same product with
    other work behind it is always among the candidates.

    :param precision: as of :func:`glenside.optimize`, likewise ``rules`` and ``add_rules``.
    :param most: products to build, at most; None: all of them.
    :param compile: whether nvcc makes machine code here, where it is installed; else it does where
        the mappings are measured, as many sources at a time as that machine has processors.
    :raises TargetError: the target is no GPU with limits known here.
    :raises InputError: the folder is that of another target, or cannot be written.
    """
    from glenside.codegen.gpu.mapping import tuning
    from glenside.rewrites.ruleset import explored_with

    chosen = _gpu(target, candidates)
    path, place = Path(file) if file is not None else tuning.user_file(), Path(folder)
    known = tuning.read(path, chosen.limits.name)
    _claim(place, chosen.limits.name)
    nearest = tuning.nearest(chosen.limits)
    end = _end(time_limit)
    using = explored_with(chosen.rules, rules, add_rules)
    products = _products(model, chosen, shapes, params, using, precision)
    results: list[BuiltProduct] = []
    for product in _steps(products.ranked(), progress):
        space = product.space.key()
        name = tuning.key_of(space)
        if time.monotonic() > end or len(results) == most:
            break
        if name in known or (place / f"{name}.json").is_file():
            continue
        like = nearest(product.space)
        more = [] if like is None else [like]
        trials = products.trials(product, candidates, more, compile)
        if trials is None:
            continue
        with _writing(place):
            trials.save(place, name)
        built = sum(trial.mapping is not None for trial in trials.trials)
        results.append(BuiltProduct(space, product.uses, product.seconds, built))
    return results


def measure(
    folder: str | Path,
    *,
    device: Device | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> list[TunedProduct]:
    """Measures what :func:`build` left in a folder, into ``results.json`` there.

    Products that were measured are passed over. Needs the device, not TVM.

    :param device: where to; by default the machine's.
    :raises InputError: the folder was not made by :func:`build`, or holds results that no run of
        this wrote.
    """
    from glenside.codegen.device.executable import open_device

    place = Path(folder)
    limits = _limits_of(place)
    opened = device or open_device(limits.partition(":")[0])
    results = place / RESULTS
    data: dict[str, Any] = {"limits": limits, "device": opened.name, "best": {}}
    if results.is_file():
        data = _read_results(results)
        if data["limits"] != limits:
            raise InputError(f"{results} is of {data['limits']}, what was built here of {limits}")
    end = _end(time_limit)
    names = sorted(p.stem for p in place.glob("*.json") if p.name not in (RESULTS, _LIMITS))
    names = [name for name in names if name not in data["best"]]
    done = []
    for built, name in zip(_compiled(place, names, opened), _steps(names, progress), strict=True):
        if time.monotonic() > end:
            break
        best = _measured(built, opened, name)
        if best is None:
            continue
        done.append(best.product)
        data["best"][name] = asdict(best.product) | {"mapping": best.mapping, "times": best.times}
        with _writing(place):
            write_text(results, json.dumps(data, indent=1) + "\n")
    return done


def record(results: str | Path, *, file: str | Path | None = None) -> list[TunedProduct]:
    """Puts the fastest mappings of a ``results.json`` into a tuning file (the user's own by
    default).

    :raises InputError: it is no such file.
    """
    from glenside.codegen.gpu.mapping import tuning

    path = Path(file) if file is not None else tuning.user_file()
    data = _read_results(Path(results))
    found = [_product_of(each) for each in data["best"].values()]
    entries = {
        tuning.key_of(each.space): tuning.Tuned(each.space, mapping, each.seconds, each.tried)
        for mapping, each in found
    }
    if entries:
        tuning.record(path, data["limits"], entries)
    return [each for _, each in found]


# --- products -------------------------------------------------------------------------------------


@dataclass
class _Product:
    """A step that computes a product, the first of ``uses`` alike."""

    number: int
    space: ProductSpace
    uses: int = 1
    seconds: float = 0.0


@dataclass
class _Products:
    """The distinct products of a program that was cut into kernels."""

    target: GpuTarget
    cut: Cut
    cache: int
    """Bytes of the device's cache where the model's parameters do not fit into it, else 0."""
    found: list[_Product] = field(default_factory=list)

    def ranked(self) -> list[_Product]:
        """By predicted time, uses counted, longest first."""
        from glenside.codegen.gpu.mapping.choose import InfeasibleMapping, best_mapping

        for product in self.found:
            try:
                mapping = best_mapping(product.space, self.target.limits)
            except InfeasibleMapping:
                continue  # One thread an element computes it.
            product.seconds = mapping.predicted * product.uses
        return sorted(self.found, key=lambda each: -each.seconds)

    def trials(
        self,
        product: _Product,
        candidates: int,
        more: Sequence[ProductMapping],
        compile: bool = True,
    ) -> Trials | None:
        """The ways to compute a product, the plain one first; None where none can be mapped."""
        from glenside.codegen.device.trials import make_trials
        from glenside.codegen.gpu.mapping.choose import InfeasibleMapping, best_mappings

        target = self.target
        try:
            found = best_mappings(product.space, target.limits, _AMONG * candidates)
        except InfeasibleMapping:
            return None
        mappings = _spread(found, candidates)
        mappings = [*mappings, *(each for each in more if each not in mappings)]
        return make_trials(
            self.cut,
            product.number,
            product.space.key(),
            target.limits,
            target.dialect,
            mappings,
            target.builder() if compile else None,
            cache=self.cache,
        )


def _products(
    model: object,
    target: GpuTarget,
    shapes: Mapping[str, Sequence[int]] | None,
    params: Mapping[str, Array] | None,
    rules: Sequence[RuleSet],
    precision: str | None,
) -> _Products:
    from glenside.codegen.device.compile import cut_for_device
    from glenside.codegen.gpu.dispatch import space_of
    from glenside.codegen.gpu.interface import make_builder
    from glenside.codegen.program.record import Kernel

    pipeline = Pipeline("the products are those of the program as it was imported")
    imported = pipeline.imported(model, shapes=shapes, params=params, precision=precision).model
    explored = pipeline.explored(imported, rules)
    extracted = pipeline.extracted(explored, imported, target.cost_model())
    cut = cut_for_device(extracted.terms, imported.inputs, imported.params, target.limits)
    builder = make_builder(cut)
    spaces: dict[str, _Product] = {}
    for number, step in enumerate(cut.steps):
        builder.at_step(number)
        space = space_of(builder, step, target.limits) if isinstance(step, Kernel) else None
        if space is None:
            continue
        known = spaces.get(space.key())
        if known is None:
            spaces[space.key()] = _Product(number, space)
        else:
            known.uses += 1
    size, cache = sum(each.nbytes for each in cut.weights.values()), target.limits.cache_bytes
    return _Products(target, cut, cache if size > cache else 0, list(spaces.values()))


def _gpu(target: str, candidates: int) -> GpuTarget:
    from glenside.hw_targets.gpu import GpuTarget

    if candidates < 1:
        raise InputError(f"candidates must be a whole number from 1 up, got {candidates}")
    chosen = find_target(target)
    if not isinstance(chosen, GpuTarget):
        raise TargetError(f"only opencl and cuda targets are tuned, not {chosen.name!r}")
    return chosen


def _spread(mappings: Sequence[ProductMapping], count: int) -> list[ProductMapping]:
    """So many of the mappings, best predicted first: those of every kind in turns, since the
    prediction may err for a whole kind."""
    kinds: dict[Any, list[int]] = {}
    for number, mapping in enumerate(mappings):
        kinds.setdefault(_kind(mapping), []).append(number)
    turns = [
        number for turn in zip_longest(*kinds.values()) for number in turn if number is not None
    ]
    return [mappings[number] for number in sorted(turns[:count])]


def _kind(mapping: ProductMapping) -> tuple[Any, ...]:
    """What a mapping has in common with others of about the same speed."""
    split = np.prod(getattr(mapping, "split", 1))
    ways = (getattr(mapping, name, None) for name in ("staged", "gathered", "parts"))
    return type(mapping), *ways, bool(split > 1)


# --- measuring ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Best:
    product: TunedProduct
    mapping: Mapping[str, Any]
    times: list[float | None]


def _measured(trials: Trials | Future[Trials], device: Device, name: str = "") -> _Best | None:
    """The fastest of the ways; None, with a warning, where the device runs none: other products
    remain."""
    try:
        made = trials.result() if isinstance(trials, Future) else trials
        return _fastest(made, device)
    except TargetError as problem:
        said = name or getattr(trials, "space", "a product")
        warnings.warn(f"{said} is not measured: {problem}", stacklevel=3)
        return None


def _fastest(trials: Trials, device: Device) -> _Best | None:
    """The fastest of the ways that are right; None where none is."""
    from glenside.codegen.device.trials import measure as measure_trials

    times = measure_trials(trials, device)
    ways = [
        (seconds, trial.mapping)
        for seconds, trial in zip(times, trials.trials, strict=True)
        if seconds is not None and trial.mapping is not None
    ]
    if not ways:
        return None
    seconds, mapping = min(ways, key=lambda way: way[0])
    wrong = sum(each is None for each in times)
    return _Best(TunedProduct(trials.space, ways[0][0], seconds, len(ways), wrong), mapping, times)


def _compiled(folder: Path, names: Sequence[str], device: Device) -> Iterator[Future[Trials]]:
    """The sets of trials in a folder, machine code being made ahead where it is missing."""
    from glenside.codegen.device.trials import Trials

    architecture = getattr(device, "architecture", "")

    def one(name: str) -> Trials:
        return Trials.load(folder, name).with_machine_code(architecture)

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Trials]] = deque()
        rest = iter(names)
        try:
            for _ in names:
                # Not all at once: their parameters would fill the memory.
                waiting.extend(
                    pool.submit(one, name) for name in islice(rest, 2 * workers - len(waiting))
                )
                yield waiting.popleft()
        finally:
            for each in waiting:
                each.cancel()


def _steps[T](items: Sequence[T], progress: Progress | None) -> Iterator[T]:
    """The items, telling how far it is; Ctrl-C stops between them."""
    with between_steps() as interrupted:
        for done, item in enumerate(items):
            interrupted()
            if progress:
                progress("tune", done, len(items))
            yield item
        if progress:
            progress("tune", len(items), len(items))


def _end(time_limit: float | None) -> float:
    return time.monotonic() + (float("inf") if time_limit is None else time_limit)


def _claim(folder: Path, limits: str) -> None:
    """Makes the folder and notes the device whose mappings are built into it."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / _LIMITS).is_file():
            write_text(folder / _LIMITS, json.dumps(limits) + "\n")
    if _limits_of(folder) != limits:
        raise InputError(f"{folder} holds mappings for {_limits_of(folder)}, not for {limits}")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise InputError(f"cannot write into {folder}: {problem.strerror}") from problem


def _limits_of(folder: Path) -> str:
    try:
        limits = json.loads((folder / _LIMITS).read_text())
        if not isinstance(limits, str):
            raise ValueError(f"{_LIMITS} is {limits!r}")
    except (OSError, ValueError) as problem:
        raise InputError(f"{folder} holds no mappings to be measured: {problem}") from problem
    return limits


def _read_results(path: Path) -> dict[str, Any]:
    """What :func:`measure` wrote, every entry of the right kind."""
    try:
        data = json.loads(path.read_text())
        for each in data["best"].values():
            _product_of(each)
        if not isinstance(data["limits"], str):
            raise ValueError(f"limits is {data['limits']!r}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise InputError(f"{path} holds no measured mappings: {problem}") from problem
    return dict(data)


def _product_of(best: Mapping[str, Any]) -> tuple[Mapping[str, Any], TunedProduct]:
    """The mapping and the product of an entry of a ``results.json``."""
    from glenside.codegen.gpu.mapping import tuning

    product = TunedProduct(**{k: v for k, v in best.items() if k not in ("mapping", "times")})
    entry = {"space": product.space, "seconds": product.seconds, "tried": product.tried}
    tuning.entry_of({**entry, "mapping": best["mapping"]})
    if not isinstance(product.predicted, int | float):
        raise ValueError(f"predicted is {product.predicted!r}")
    return best["mapping"], product
