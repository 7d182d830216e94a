"""Measures mappings of a model's products on a device and keeps the fastest in a tuning file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glenside.errors import InputError, TargetError
from glenside.frontends import load_model
from glenside.hw_targets.target import Progress, find_target
from glenside.interrupt import between_steps

Array = np.ndarray[Any, Any]


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
    """Mappings whose numbers differed from the plain kernel's; they are never kept."""


def tune(
    model: object,
    target: str,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    params: Mapping[str, Array] | None = None,
    candidates: int = 16,
    time_limit: float | None = None,
    file: str | Path | None = None,
    progress: Progress | None = None,
) -> list[TunedProduct]:
    """Measures up to ``candidates`` mappings of every product of a model, the likeliest first.

    Every result is written to the tuning file (the user's own by default) at once, so that a run
    that was stopped goes on where it was; products that the file knows are not measured again.

    :param time_limit: seconds after which no further product is begun; None: no limit.
    :raises TargetError: the target is no GPU, or its device is not there.
    """
    from glenside.extraction import extract
    from glenside.hw_targets.codegen import tuning
    from glenside.hw_targets.codegen.device.executable import open_device
    from glenside.hw_targets.codegen.device.trials import make_trials, measure
    from glenside.hw_targets.codegen.gpu.interface import check_dtypes, make_builder
    from glenside.hw_targets.codegen.gpu.products import space_of
    from glenside.hw_targets.codegen.mapping import InfeasibleMapping, best_mappings
    from glenside.hw_targets.codegen.partition import Kernel, partition
    from glenside.hw_targets.gpu import GpuTarget
    from glenside.rewrites import saturate

    if candidates < 1:
        raise InputError(f"candidates must be a whole number from 1 up, got {candidates}")
    chosen = find_target(target)
    if not isinstance(chosen, GpuTarget):
        raise TargetError(f"only opencl and cuda targets are tuned, not {chosen.name!r}")
    device = open_device(chosen.dialect)
    path = Path(file) if file is not None else tuning.user_file()
    known = tuning.read(path, chosen.limits.name)
    end = time.monotonic() + (float("inf") if time_limit is None else time_limit)

    imported = load_model(model, shapes=shapes, params=params)
    explored = saturate(imported.roots, chosen.rules())
    extracted = extract(
        explored.egraph,
        chosen.cost_model(),
        original=imported.roots,
        constants=imported.params.keys(),
    )
    cut = partition(extracted.terms, imported.inputs, imported.params, plain=True)
    check_dtypes(cut, chosen.limits)
    builder = make_builder(cut)
    spaces: dict[str, tuple[int, Any]] = {}
    for number, step in enumerate(cut.steps):
        builder.at_step(number)
        space = space_of(builder, step, chosen.limits) if isinstance(step, Kernel) else None
        if space is not None:
            spaces.setdefault(space.key(), (number, space))

    results = []
    with between_steps() as interrupted:
        for done, (space_key, (number, space)) in enumerate(spaces.items()):
            interrupted()
            if progress:
                progress("tune", done, len(spaces))
            key = tuning.key_of(space_key)
            if key in known:
                results.append(TunedProduct(space_key, 0.0, known[key].seconds, 0))
                continue
            if time.monotonic() > end:
                break
            try:
                mappings = best_mappings(space, chosen.limits, candidates)
            except InfeasibleMapping:
                continue  # One thread an element computes it.
            trials = make_trials(
                cut, number, space_key, chosen.limits, chosen.dialect, mappings, chosen.builder()
            )
            times = measure(trials, device)[1:]
            ways = [
                (seconds, trial.mapping)
                for seconds, trial in zip(times, trials.trials[1:], strict=True)
                if seconds is not None and trial.mapping is not None
            ]
            if not ways:
                continue
            best = min(ways, key=lambda way: way[0])
            entry = tuning.Tuned(space_key, best[1], best[0], len(ways))
            tuning.record(path, chosen.limits.name, {key: entry})
            wrong = sum(seconds is None for seconds in times)
            results.append(TunedProduct(space_key, ways[0][0], best[0], len(ways), wrong))
    if progress:
        progress("tune", len(spaces), len(spaces))
    return results
