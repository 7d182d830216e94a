"""``torch.compile(model, backend="glenside", options={"target": "cpu"})``.

PyTorch cuts a model into graphs and hands each to the backend, which compiles it when it is first
called, once for every shape that comes. Parameters are constants of the program, in the memory they
have; when one is changed the program is compiled anew. What has no meaning here runs in PyTorch,
and so does what records gradients: a warning says so once, with the reason.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from glenside.calling import picked
from glenside.errors import GlensideError, InputError, ModelError
from glenside.frontends.lowering.half_precision import widened_halves
from glenside.frontends.torch.exporting import export
from glenside.frontends.torch.importer import core_of, input_names, read_core
from glenside.frontends.torch.values import as_array, as_tensor
from glenside.hw_targets.registry import find_target
from glenside.optimize import form_book, optimize
from glenside.program import Program
from glenside.shapes.specialise import FormBook

Array = np.ndarray[Any, Any]

MOST_PROGRAMS = 16
"""Programs that are kept of one graph, for the shapes that came last."""


class RunsInPyTorch(UserWarning):
    """A graph that :func:`backend` was given is run by PyTorch; says why."""


def backend(graph: Any, example_inputs: Sequence[Any], *, options: Any = None) -> Any:
    """The backend ``glenside`` of ``torch.compile``, registered as an entry point.

    :param graph: an ``torch.fx.GraphModule`` that gives a tuple.
    :param options: keyword arguments of :func:`glenside.optimize`, such as ``target``.
    :returns: what takes the graph's inputs and gives its outputs, tensors both.
    :raises InputError: an option is none of those.
    """
    del example_inputs  # They may be symbolic: what comes is compiled for when it comes.
    given = dict(options or {})
    known = _options()
    unknown = given.keys() - known
    if unknown:
        raise InputError(
            f"options: {', '.join(sorted(unknown))} is not one of {', '.join(sorted(known))}"
        )
    return _Compiled(graph, given)


def _options() -> set[str]:
    """What :func:`optimize` takes that has a meaning for every graph."""
    names = set(optimize.__kwdefaults__ or {}) | {"target"}
    return names - {"shapes", "sizes", "params", "egraph", "quantize", "progress"}


class _Compiled:
    """A graph, compiled for what it is called with: explored once for all numbers of rows, where it
    is shown to treat rows one by one."""

    def __init__(self, graph: Any, options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = options
        self._parameters = _parameters(graph)
        self._specialised: dict[tuple[Any, ...], _Specialised | None] = {}
        self._last: _Specialised | None = None
        self._forms: FormBook | None = None

    def __call__(self, *args: Any) -> Any:
        import torch

        if torch.is_grad_enabled() and any(
            isinstance(each, torch.Tensor) and each.requires_grad for each in args
        ):
            _tell(
                "gradients are recorded: PyTorch runs the graphs; call the model under "
                "torch.no_grad() or torch.inference_mode()"
            )
            return self._graph(*args)
        if self._last is not None and self._last.fits(args):
            return self._last(args)
        key = self._key(args)
        found = self._specialised.get(key)
        if key not in self._specialised or (found is not None and found.stale(args)):
            found = self._specialise(args)
            if len(self._specialised) >= MOST_PROGRAMS:
                del self._specialised[next(iter(self._specialised))]
            self._specialised[key] = found
        self._last = found
        return self._graph(*args) if found is None else found(args)

    def _key(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """What a program is compiled for: shapes, numbers, and which parameters."""
        import torch

        return tuple(
            (id(each) if position in self._parameters else tuple(each.shape))
            if isinstance(each, torch.Tensor)
            else each
            for position, each in enumerate(args)
        )

    def _specialise(self, args: Sequence[Any]) -> _Specialised | None:
        import torch

        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                if self._forms is None:
                    options = dict(self._options)
                    target = find_target(options.pop("target", None) or "cpu")
                    self._forms = form_book(target, None, options)
                return _Specialised(self._graph, args, self._parameters, self._forms)
        except GlensideError as problem:
            _tell(f"PyTorch runs a graph: {problem}")
            return None


def _parameters(graph: Any) -> dict[int, str]:
    """Which inputs of a graph are parameters or buffers of the model, and their names in it."""
    found: dict[int, str] = {}
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for position, node in enumerate(places):
        name = getattr(getattr(node, "_dynamo_source", None), "name", "")
        called = name() if callable(name) else name
        if any(part in str(called) for part in ("._parameters[", "._buffers[")):
            found[position] = _plain_name(str(called))
    return found


def _plain_name(source: str) -> str:
    """``fc.weight`` for ``L['self']._modules['fc']._parameters['weight']``."""
    parts = source.split("'")
    return ".".join(parts[3::2]) if len(parts) > 4 else source


class _Specialised:
    """A graph's program for shapes and parameters that are known."""

    def __init__(
        self,
        graph: Any,
        args: Sequence[Any],
        parameters: Mapping[int, str],
        forms: FormBook,
    ) -> None:
        import torch

        tensors = [position for position, each in enumerate(args) if isinstance(each, torch.Tensor)]
        examples = tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in args)
        exported = export(graph, examples)
        names = input_names(exported)
        if len(names) != len(args):
            raise ModelError(
                f"the graph has {len(args)} inputs, of which {len(names)} are exported"
            )
        core = core_of(exported, names)
        changed = set(read_core(core, names).mutated.values())
        held = {
            position: as_array(args[position], parameters[position])
            for position in tensors
            if position in parameters and names[position] not in changed
        }
        self._watched = _Watched(args, held)
        self._others = [
            (at, tuple(each.shape) if at in tensors else each, at in tensors)
            for at, each in enumerate(args)
            if at not in held
        ]
        params = {names[position]: array for position, array in held.items()}
        found = read_core(core, names, params=params)
        shapes = (tuple(args[at].shape) for at in tensors if at not in held)
        size = ", ".join(map(str, shapes))
        self._program: Program = forms.make(widened_halves(found.model), size).program
        self._taken = [names.index(name) for name in self._program.inputs]
        # New values of inputs, and which these are.
        self._mutated = [
            names.index(found.mutated[name]) if name in found.mutated else None
            for name in found.model.outputs
        ]
        self._results = _results(exported)

    def stale(self, args: Sequence[Any]) -> bool:
        """Whether a parameter is another tensor by now, or holds something else."""
        return not self._watched.same(args)

    def fits(self, args: Sequence[Any]) -> bool:
        """Whether it is what :class:`_Compiled` would look up for these, and not stale."""
        for at, wanted, tensor in self._others:
            if (args[at].shape if tensor else args[at]) != wanted:
                return False
        return self._watched.same(args)

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...]:
        outputs = self._program.run(*[_handed(args[at]) for at in self._taken])
        tensors = [as_tensor(each) for each in outputs]
        for at, tensor in zip(self._mutated, tensors, strict=True):
            if at is not None:
                args[at].copy_(tensor)
        plain = iter(t for at, t in zip(self._mutated, tensors, strict=True) if at is None)
        return tuple(next(plain) if each is _TENSOR else each for each in self._results)


_TENSOR = object()
"""Stands for a result that the program computes."""


def _results(exported: Any) -> list[Any]:
    """The results of a graph: numbers and None as they are, tensors marked."""
    from torch.export.graph_signature import OutputKind, TensorArgument

    return [
        _TENSOR if isinstance(spec.arg, TensorArgument) else getattr(spec.arg, "value", None)
        for spec in exported.graph_signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT
    ]


class _Watched:
    """The parameters that a program has built in.

    There may be hundreds, and every call looks at them: by functions that loop in C.
    """

    def __init__(self, args: Sequence[Any], positions: Collection[int]) -> None:
        self._of = picked(positions)
        # Inference tensors have none.
        self._counted = picked([at for at in positions if not args[at].is_inference()])
        self._gone = False
        self._references = [weakref.ref(each, self._lost) for each in self._of(args)]
        self._ids = tuple(map(id, self._of(args)))
        self._changes = tuple(map(_CHANGES, self._counted(args)))

    def _lost(self, _: object) -> None:
        self._gone = True

    def same(self, args: Sequence[Any]) -> bool:
        """Whether all are these very tensors and hold what they held."""
        return (
            not self._gone  # Another tensor may have the number of one that is gone.
            and tuple(map(id, self._of(args))) == self._ids
            and tuple(map(_CHANGES, self._counted(args))) == self._changes
        )


_CHANGES = attrgetter("_version")
"""PyTorch's counter of changes in place, which its documentation names for this."""


def _handed(tensor: Any) -> Any:
    """A tensor as the program takes it: in its memory, on the device where that takes such."""
    if tensor.is_cuda:
        return tensor
    try:
        return tensor.numpy()
    except (TypeError, RuntimeError):  # Of a dtype that NumPy lacks, one that records gradients.
        return as_array(tensor, "input")


_told: set[str] = set()


def _tell(reason: str) -> None:
    """Warns, once for every reason."""
    if reason not in _told:
        _told.add(reason)
        warnings.warn(f"glenside: {reason}", RunsInPyTorch, stacklevel=3)


__all__ = ["RunsInPyTorch", "backend"]
