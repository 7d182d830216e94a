"""What a front end tells of a model whose inputs have lengths that are not fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from glenside.language import Model

Length = int | str | None
"""A number, a name, or nothing that the model would say."""
Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class OpenModel:
    """A model of which any size can be imported.

    ``lengths`` are those of its inputs, in order; None for an input whose rank it leaves open.
    ``ranges`` are what it says of names: the least length and the greatest, None where there is no
    such. ``meant``: whoever made it said that these lengths are to stay open. ``fixed`` may be
    opened as well, where ``reopens`` holds.
    """

    lengths: Mapping[str, Sequence[Length] | None]
    load: Callable[..., Model]
    """Imports one size: takes shapes and params, as :func:`~glenside.frontends.load_model` does."""
    source: object
    """What :func:`~glenside.frontends.load_model` takes for it."""
    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    meant: bool = False
    reopens: bool = False
    """Whether lengths that it fixes can be opened all the same."""
