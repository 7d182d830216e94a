"""What a call is given, in the order and form in which executables take it.

Every step that calls need not repeat is taken here once: :class:`Caller` knows the order of an
executable's inputs, and :class:`BoundProgram` has its buffers checked when it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from glenside.codegen.arguments import as_input, as_result, check_apart
from glenside.codegen.device import tensors
from glenside.errors import InputError
from glenside.language import AccessType, Requirement

Array = np.ndarray[Any, Any]
Types = Mapping[str, AccessType]


def picked(positions: Collection[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What takes the elements at these positions."""
    if not positions:
        return lambda args: ()
    if len(positions) == 1:
        (only,) = positions
        return lambda args: (args[only],)
    return itemgetter(*positions)


class Caller:
    """An executable that takes values in the order of a program's inputs."""

    def __init__(
        self, executable: Any, inputs: Types, requirements: Sequence[Requirement] = ()
    ) -> None:
        """
        :param executable: has ``run``, and may have ``names``, ``call`` and ``bind``.
        :param requirements: what is asked of the values of inputs.
        """
        self._inputs, self._requirements = inputs, requirements
        self._executable = executable
        self._call: Callable[..., list[Any]] | None = getattr(executable, "call", None)
        self._bind = getattr(executable, "bind", None)
        names, there = list(inputs), list(getattr(executable, "names", inputs))
        self._reordered = None if there == names else picked([names.index(each) for each in there])
        self.quick = self._call if not requirements and self._reordered is None else None
        """What takes the values as they are; None where more has to be done."""

    def __call__(self, values: Sequence[Any], out: Sequence[Any] | None = None) -> list[Any]:
        """The outputs for these inputs, in new arrays or those of ``out``.

        :raises InputError: an input is not what the program takes.
        """
        self._check(values)
        if self._call is not None:
            return self._call(self._ordered(values), out)
        arrays = {n: as_input(n, v, self._inputs[n]) for n, v in self._by_name(values)}
        results: list[Any] = list(self._executable.run(arrays))
        for number, given in enumerate(out or ()):
            if given is not None:
                given[...] = results[number]
                results[number] = given
        return results

    def bound(self, values: Sequence[Any], out: Sequence[Any]) -> Callable[[], object]:
        """What reads these inputs and writes these outputs whenever it is called."""
        if self._bind is None:
            return lambda: self(values, out)
        run: Callable[[], object] = self._bind(self._ordered(values), out)
        if not self._requirements:
            return run

        def checked() -> None:
            self._check(values)
            run()

        return checked

    def _ordered(self, values: Sequence[Any]) -> Sequence[Any]:
        return values if self._reordered is None else self._reordered(values)

    def _by_name(self, values: Sequence[Any]) -> list[tuple[str, Any]]:
        return list(zip(self._inputs, values, strict=True))

    def _check(self, values: Sequence[Any]) -> None:
        """Tensors on a device are not looked at, since that would wait for it."""
        if self._requirements and not any(tensors.on_cuda(each) for each in values):
            arrays = {n: as_input(n, v, self._inputs[n]) for n, v in self._by_name(values)}
            for each in self._requirements:
                each.check(arrays)


class BoundProgram:
    """A program with buffers that every call reads and writes; made by
    :meth:`glenside.program.Program.bind`."""

    def __init__(
        self, run: Callable[[], object], inputs: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> None:
        self._run = run
        self.inputs = dict(inputs)
        """What every call reads, by the names of inputs."""
        self.outputs = dict(outputs)
        """What every call writes, by the names of outputs."""
        results = tuple(self.outputs.values())
        self._results = results[0] if len(results) == 1 else results

    def __call__(self) -> Any:
        """Runs; gives the outputs: the same arrays or tensors every time."""
        self._run()
        return self._results


@dataclass(slots=True)
class Targets:
    """What ``out=`` says of each output, None where it says nothing."""

    given: Sequence[Any]
    """As the caller has it."""
    written: Sequence[Any]
    """The same memory, as executables write it."""

    def returned(self, results: Sequence[Any]) -> list[Any]:
        """The results as the caller gets them."""
        pairs = zip(results, self.given, strict=True)
        return [made if theirs is None else theirs for made, theirs in pairs]


def results_for(out: Any, outputs: Types, given: Mapping[str, Any]) -> Targets:
    """What ``out=`` says of each output.

    :param out: an array for one output, else one for each in order; or some by their names.
    :param given: the inputs of the call.
    :raises InputError: an output is none, or what is given for one cannot be written to, is of
        another shape or dtype, or shares memory with an input or another output.
    """
    named = _named(out, outputs)
    written: list[Any] = []
    arrays: list[tuple[str, Array]] = []
    spans: list[tuple[str, tuple[int, int]]] = []
    for name, wanted in outputs.items():
        value = named.get(name)
        if value is None:
            written.append(None)
        elif tensors.package_of(value) is None:
            array = as_result(name, value, wanted)
            arrays.append((name, array))
            written.append(array)
        else:
            spans.append((name, tensors.check_out(name, value, wanted)))
            written.append(value)
    if arrays:
        check_apart(arrays, _arrays(given))
    if spans:
        there = [(n, tensors.bytes_of(v)) for n, v in given.items() if tensors.package_of(v)]
        tensors.check_apart(spans, there)
    return Targets([named.get(name) for name in outputs], written)


def _named(out: Any, outputs: Types) -> dict[str, Any]:
    if type(out) is np.ndarray and len(outputs) == 1:
        return dict.fromkeys(outputs, out)
    names = list(outputs)
    if isinstance(out, Mapping):
        unknown = [name for name in out if name not in outputs]
        if unknown:
            raise InputError(f"out= names {unknown[0]!r}; the outputs are {', '.join(names)}")
        return {name: value for name, value in out.items() if value is not None}
    if not isinstance(out, tuple | list):
        if len(names) != 1:
            raise InputError(
                f"out= takes {len(names)} arrays, of {', '.join(names)}, got {type(out).__name__}"
            )
        out = (out,)
    if len(out) != len(names):
        raise InputError(f"out= takes {len(names)} arrays, of {', '.join(names)}, got {len(out)}")
    return {name: value for name, value in zip(names, out, strict=True) if value is not None}


def _arrays(given: Mapping[str, Any]) -> list[tuple[str, Array]]:
    """Inputs in the processor's memory; what had to be made an array shares none."""
    found = []
    for name, value in given.items():
        if isinstance(value, np.ndarray):
            found.append((name, value))
        elif hasattr(value, "__array__") and not tensors.on_cuda(value):
            try:
                found.append((name, np.asarray(value)))
            except Exception:  # The call says what is wrong with it.
                continue
    return found


def check_bindable(given: Mapping[str, Any]) -> None:
    """:raises InputError: a value is none that lies in memory of its own."""
    for name, value in given.items():
        if not isinstance(value, np.ndarray) and not hasattr(value, "__dlpack__"):
            raise InputError(
                f"input {name!r}: bind keeps arrays and tensors, which every call reads, got "
                f"{type(value).__name__}"
            )
