"""The register of operators: each is one function whose parameters are named as in ATen's schemas.

``self`` is called ``x``. A first parameter annotated :class:`Node` is no argument: through it a
lowering makes arrays, asks for known ones and sees what its results are stated to be. One function
serves all overloads of an operator. An argument that a function does not take must have its
default.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glenside.frontends.lowering.constants import Constants
from glenside.frontends.refusal import Refused
from glenside.language import AccessType, Term

Array = np.ndarray[Any, Any]
Number = Term | int | float
"""An operand that is a tensor or a number."""
Value = Term | int | float | str | None | tuple["Value", ...]

OPERATORS: dict[str, Signature] = {}
"""All operators, by ATen's name without namespace and overload."""

IGNORED = {
    "device", "layout", "pin_memory", "memory_format", "non_blocking", "implicit", "generator",
    "sparse", "sparse_grad", "scale_grad_by_freq", "momentum", "cudnn_enabled", "half_to_float",
}  # fmt: skip
"""Arguments that say where and how values lie, or that only training asks for."""


class Node:
    """A node of the graph as its lowering sees it."""

    def __init__(self, constants: Constants, types: Sequence[AccessType | None]) -> None:
        self._constants = constants
        self.types = tuple(types)
        """What its results are stated to be; None for what is no tensor."""

    @property
    def type(self) -> AccessType:
        """What its only, or first, result is stated to be."""
        assert self.types and self.types[0] is not None
        return self.types[0]

    @property
    def dtype(self) -> str:
        """The dtype of its first result."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of its first result."""
        return self.type.shape

    def parameter(self, array: Array, name: str, /) -> Term:
        """A term that stands for ``array``."""
        return self._constants.parameter(array, name)

    def make_room(self, shape: Sequence[float], what: str, /) -> None:
        """Refuses to make an array that does not fit in memory."""
        self._constants.make_room(shape, what)

    def require(self, term: Term, low: int, high: int, what: str, /) -> bool:
        """Has ``low <= term < high`` hold, now or at every call, as :class:`Constants` does."""
        return self._constants.require(term, low, high, what)

    def known(self, term: Term) -> Array | None:
        """The value of a small term that depends on no input; None for any other."""
        return self._constants.known(term)

    @property
    def constants(self) -> Constants:
        """The arrays of this import."""
        return self._constants


@dataclass(frozen=True)
class Signature:
    """An operator: its lowering, and the names of the arguments that it takes."""

    lower: Callable[..., Value]
    wants_node: bool
    takes: frozenset[str]
    implied: frozenset[str]

    def __call__(
        self, node: Node, given: Mapping[str, Any], defaults: Mapping[str, object]
    ) -> Value:
        """What the operator makes of its arguments.

        :param given: all arguments of the schema by name, ``self`` as ``x``.
        :param defaults: what the schema says of those that may be left out.
        :raises Refused: an argument, or its kind, has no meaning here.
        """
        for name, value in given.items():
            unread = name not in self.takes and name not in self.implied
            if unread and (name not in defaults or value != defaults[name]):
                only = f"; only {defaults[name]} is" if name in defaults else ""
                raise Refused(f"argument {name} = {_shown(value)} is not supported{only}")
        taken = {name: value for name, value in given.items() if name in self.takes}
        return self.lower(*([node] if self.wants_node else []), **taken)


def _shown(value: object) -> str:
    return str(value.type) if isinstance(value, Term) else str(value)


def operator[F: Callable[..., Any]](*names: str, implied: Sequence[str] = ()) -> Callable[[F], F]:
    """Registers a function as the meaning of ATen's operators ``names``, all overloads.

    :param implied: arguments that it need not take, since what its result is stated to be tells.
    """

    def register(lower: F) -> F:
        hints = typing.get_type_hints(lower)
        parameters = list(inspect.signature(lower).parameters)
        wants_node = bool(parameters) and hints[parameters[0]] is Node
        takes = frozenset(parameters[wants_node:])
        for name in names:
            OPERATORS[name] = Signature(lower, wants_node, takes, frozenset(implied) | IGNORED)
        return lower

    return register
