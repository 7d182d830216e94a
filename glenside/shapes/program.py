"""The program of a model whose inputs have lengths that stay open: one for each size, held together
by the sizes of a call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glenside.calling import BoundProgram, results_for
from glenside.errors import GlensideError, InputError
from glenside.explain.records import Explanation
from glenside.language import AccessType, Term
from glenside.program import Given, Program, Results
from glenside.shapes.names import Named, Range, Sizes, spell
from glenside.shapes.naming import named_text
from glenside.shapes.parts import cut, run_in_parts
from glenside.shapes.specialise import Made, Maker, Split

if TYPE_CHECKING:
    import onnx
    import tvm

    from glenside.codegen.gpu.mapping.explain import MappingExplanation
    from glenside.explain.proof import ProgramProof

Array = np.ndarray[Any, Any]


class ShapedProgram(Program):
    """An optimised model for all sizes of its inputs: called as any :class:`Program`, it runs the
    program of the sizes that come, which is compiled when it is first needed.

    What is told of it (:attr:`terms`, :attr:`source`, :meth:`explain`) is that of the size it was
    explored at; :meth:`at` gives the program of any.

    :param maker: makes further sizes; None where nothing does.
    :param made: programs that are there, by their sizes; the first one is that told of.
    :param parts: whether sizes that are not there run as parts of those that are, where that is
        proved, rather than being compiled.
    :param splits: what is known of that without the maker, by name.
    """

    def __init__(
        self,
        named: Named,
        maker: Maker | None,
        made: Mapping[Sizes, Made],
        *,
        parts: bool = False,
        splits: Mapping[str, Split] | None = None,
    ) -> None:
        first = next(iter(made.values())).program
        model = first.as_model()
        super().__init__(
            first.name,
            first.inputs,
            model.outputs,
            _Dispatched(self),
            first.report,
            params=model.params,
            names=first.names,
            defaults=first.defaults,
        )
        self.requirements = first.requirements
        self.named = named
        """The names of lengths, their ranges, and the shapes that they are in."""
        self._maker, self._first, self._parts = maker, first, parts
        self._splits = dict(splits or {})
        self._made = dict(made)
        self._runs: dict[Sizes, Program | _InParts] = {k: m.program for k, m in made.items()}
        self._turn = threading.RLock()
        order = list(self.inputs)
        self._named_places = list(named.places().values())
        self._places = [(order.index(name), axis) for name, axis in self._named_places]
        self._tell()

    # --- calls ------------------------------------------------------------------------------------

    # Positional only: any name may be that of an input.
    def __call__(
        self, /, *args: Given | Mapping[str, Given], **kwargs: Given | Results
    ) -> Array | tuple[Array, ...]:
        try:
            # The program itself finds out what is wrong with inputs that disagree.
            given: Any = args
            places: Any = self._places
            if type(args[0] if args else kwargs) is dict:
                given, places = args[0] if args else kwargs, self._named_places
            found = self._runs[tuple([given[at].shape[axis] for at, axis in places])]
        except (AttributeError, IndexError, KeyError, TypeError):
            found = self._for(args, kwargs)
        try:
            return found(*args, **kwargs)
        except InputError:
            self.named.sizes_of(self._split(args, kwargs)[0])
            raise

    def run(self, /, *args: Given | Mapping[str, Given], **kwargs: Given | Results) -> list[Array]:
        """All outputs as a list; arguments as for calling, ``out=`` of that size.

        :raises InputError: as of any program; inputs disagree about a length that they share; or
            it is out of its range.
        :raises GlensideError: a program of that size cannot be made.
        """
        return self._for(args, kwargs).run(*args, **kwargs)

    def bind(
        self, /, *args: Given | Mapping[str, Given], **kwargs: Given | Results
    ) -> BoundProgram:
        """As of any program: the program of the size of these buffers, compiled if need be.

        :raises InputError: as for :meth:`run`, or as for any program.
        """
        given, _ = self._split(args, kwargs)
        sizes = self.named.sizes_of(given)
        _check_dtypes(given, self._first)
        return self._program(sizes).bind(*args, **kwargs)

    def trace(self, /, *args: Given | Mapping[str, Given], **kwargs: Given) -> dict[Term, Array]:
        """The value of every term that is materialised while the program of that size runs."""
        sizes = self.named.sizes_of(self._named(args, kwargs))
        return self._program(sizes).trace(*args, **kwargs)

    def _for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program | _InParts:
        """What runs a call, made first if need be."""
        given, _ = self._split(args, kwargs)
        sizes = self.named.sizes_of(given)
        found = self._runs.get(sizes)
        if found is not None:
            return found
        _check_dtypes(given, self._first)
        with self._turn:
            found = self._runs.get(sizes)
            if found is None and (self._parts or self._maker is None):
                found = self._in_parts(sizes, given)
            if found is None:
                return self._program(sizes)
            self._runs[sizes] = found
            self._tell()
        return found

    def _in_parts(self, sizes: Sizes, given: Mapping[str, Any]) -> _InParts | None:
        if any(hasattr(each, "__dlpack_device__") and not isinstance(each, np.ndarray)
               and each.__dlpack_device__()[0] != 1 for each in given.values()):  # fmt: skip
            return None  # Nothing is cut on a device.
        for number, name in enumerate(self.named.ranges):
            others = [
                each for each in self._made
                if all(a == b for at, (a, b) in enumerate(zip(each, sizes, strict=True))
                       if at != number) and each[number] > 0
            ]  # fmt: skip
            if not others:
                continue
            if self._maker is None:
                split = self._splits.get(name)
            else:
                split = self._maker.split(sizes, others[0])
            if split is None or (not sizes[number] and None in split.digits):
                continue
            programs = {each[number]: self._made[each].program for each in others}
            return _InParts(self.named, self._split, split, sizes[number], programs)
        return None

    # --- sizes ------------------------------------------------------------------------------------

    @property
    def ranges(self) -> dict[str, Range]:
        """The names of lengths that stay open, and the range of each."""
        return dict(self.named.ranges)

    @property
    def sizes(self) -> list[dict[str, int]]:
        """Those that there are programs of."""
        return [dict(zip(self.named.ranges, each, strict=True)) for each in self._made]

    def inputs_for(self, given: Mapping[str, Any]) -> dict[str, AccessType]:
        """The types of all inputs beside some that are given; names that these do not settle have
        the lengths that the program was explored at."""
        lengths = dict(self.sizes[0])
        for name, shape in self.named.shapes.items():
            if name in given and np.ndim(given[name]) == len(shape):
                there = zip(shape, np.shape(given[name]), strict=True)
                lengths |= {each: n for each, n in there if isinstance(each, str)}
        shapes = self.named.shapes_at(tuple(lengths[name] for name in self.named.ranges))
        return {
            name: type_.with_shape(shapes.get(name, type_.shape), type_.rank)
            for name, type_ in self.inputs.items()
        }

    def at(self, sizes: Mapping[str, int] | int | None = None, /, **named: int) -> Program:
        """The program of one size, compiled if it is not there yet: ``at(batch=8)``, or
        ``at({"batch": 8})`` for any name, or ``at(8)`` where there is one.

        :raises InputError: a name is missing or unknown, or its length out of range.
        :raises GlensideError: it cannot be made.
        """
        if isinstance(sizes, int):
            (found,) = self.named.read([sizes])
        else:
            (found,) = self.named.read([{**(sizes or {}), **named}])
        return self._program(found)

    def compile(self, sizes: object, /) -> None:
        """Compiles these sizes now, as ``sizes=`` of :func:`glenside.optimize` has them.

        :raises GlensideError: one cannot be made.
        """
        for each in self.named.read(sizes):
            self._program(each)

    def split(self, name: str) -> Split | None:
        """How calls are cut by the length of that name, if the program is known to treat rows along
        it one by one; found out by importing the model for other sizes than it has."""
        if self._maker is None:
            return self._splits.get(name)
        number = list(self.named.ranges).index(name)
        allowed = self.named.ranges[name]
        first = next((each for each in self._made if each[number] > 0), None)
        if first is None:
            return None
        found = None
        for other in (1, 2, 3, 7):
            if other in allowed and other != first[number]:
                with self._turn:
                    try:
                        found = self._maker.split(
                            (*first[:number], other, *first[number + 1 :]), first
                        )
                    except GlensideError:
                        return None
                if found is None:
                    return None
        return found

    def _program(self, sizes: Sizes) -> Program:
        with self._turn:
            if sizes not in self._made:
                if self._maker is None:
                    there = "; ".join(map(self.named.spell, self._made))
                    raise GlensideError(
                        f"{self.name} has no program for {self.named.spell(sizes)}, it was saved "
                        f"with {there}: make it from the model, with sizes= that list this one too"
                    )
                started = time.perf_counter()
                made = self._maker.make(sizes)
                taken = time.perf_counter() - started
                self._made[sizes] = replace(made, how=f"{made.how}, {taken:.1f} s")
                self._runs[sizes] = made.program
                self._tell()
            return self._made[sizes].program

    def _tell(self) -> None:
        """Has the report list what there is by now."""
        lines = [f"{self.named.spell(at)}: {made.how}" for at, made in self._made.items()]
        for at, run in self._runs.items():
            if isinstance(run, _InParts):
                lines.append(f"{self.named.spell(at)}: {run.how()}")
        self.report = replace(
            self._first.report,
            inputs={name: spell(shape) for name, shape in self.named.shapes.items()},
            ranges={name: str(each) for name, each in self.named.ranges.items()},
            sizes=tuple(lines),
        )

    # --- what is told -----------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The program in the text form, with names where lengths follow rows; others are those of
        the size it was explored at. Text that can be read back is that of :meth:`at`."""
        sizes = next(iter(self._made))
        return named_text(self._first.terms, self.named, sizes)

    @property
    def tir(self) -> tvm.IRModule:
        """The TVM IRModule of the kernels of the size it was explored at."""
        return self._first.tir

    @property
    def source(self) -> str:
        """The generated code of the kernels of the size it was explored at."""
        return self._first.source

    def explain(self, node: str | None = None) -> Explanation:
        """As of any program; of the size it was explored at."""
        return self._first.explain(node)

    def prove(self, *, seconds: float = 60.0) -> ProgramProof:
        """As of any program; of the size it was explored at, which is one for all sizes whose form
        it is."""
        return self._first.prove(seconds=seconds)

    def explain_mapping(self) -> MappingExplanation:
        """As of any program; of the size it was explored at."""
        return self._first.explain_mapping()

    def explain_passes(self) -> str:
        """As of any program; of the size it was explored at."""
        return self._first.explain_passes()

    def unavailable(self) -> str | None:
        """Why the program cannot run on this machine; None where it can."""
        return self._first.unavailable()

    # --- out again --------------------------------------------------------------------------------

    def to_onnx(self, *, opset: int | None = None) -> onnx.ModelProto:
        """The program as an ONNX ``ModelProto`` with ``dim_param`` for lengths that stay open.

        :param opset: as of any program.
        :raises GlensideError: its operators have a size built in; says which.
        """
        from glenside.shapes.naming import named_onnx

        return named_onnx(self._first, self.named, next(iter(self._made)), opset=opset)

    def to_relax(self) -> tvm.IRModule:
        """:raises GlensideError: only a program of one size is exported so."""
        raise self._of_one_size("a Relax module", "to_relax()")

    def to_c(self, directory: str | Path) -> Path:
        """:raises GlensideError: only a program of one size is exported so."""
        raise self._of_one_size("C source", "to_c(...)")

    def _of_one_size(self, what: str, call: str) -> GlensideError:
        given = ", ".join(f"{n}={size}" for n, size in self.sizes[0].items())
        return GlensideError(f"{what} is of one size: program.at({given}).{call}")

    def save(self, directory: str | Path) -> None:
        """Writes the program with the sizes it has to a directory that :func:`glenside.load` reads.

        Where rows are treated one by one, other sizes run as parts of these when it is loaded, and
        are compiled by :meth:`at` where the compiler is installed.

        :raises GlensideError: as for any program.
        """
        from glenside.shapes.saving import save_sizes

        with self._turn:
            made = dict(self._made)
        splits = {name: found for name in self.named.ranges if (found := self.split(name))}
        save_sizes(directory, self.name, self.named, made, splits)

    def __repr__(self) -> str:
        listed = ", ".join(f"{n!r} {spell(shape)}" for n, shape in self.named.shapes.items())
        ranges = ", ".join(f"{n} {each}" for n, each in self.named.ranges.items())
        return f"<ShapedProgram {self.name} for {self.report.target}: {listed}; {ranges}>"


def _check_dtypes(given: Mapping[str, Any], program: Program) -> None:
    """Before anything is compiled for them.

    :raises InputError: an input is of another dtype.
    """
    for name, value in given.items():
        wanted = program.inputs.get(name) or program.defaults.get(name)
        if wanted is None:
            raise InputError(
                f"{name!r} is no input of {program.name}: {', '.join(map(repr, program.inputs))}"
            )
        dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
        said = getattr(dtype, "name", str(dtype).removeprefix("torch."))
        if said != wanted.dtype:
            raise InputError(f"input {name!r} must be {wanted.dtype}, got {said}")


@dataclass(frozen=True)
class _InParts:
    """Runs a call of one size as calls of others."""

    named: Named
    taken: Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[dict[str, Any], Any]]
    """The arrays of a call by the names of inputs, and what results are written to."""
    split: Split
    rows: int
    programs: Mapping[int, Program]
    """By their length of the name that is cut."""

    def run(self, /, *args: Any, **kwargs: Any) -> list[Array]:
        given, out = self.taken(args, kwargs)
        self.named.sizes_of(given)
        targets = None if out is None else results_for(out, self._outputs(), given)
        results = self._results(given)
        if targets is None:
            return results
        for result, target in zip(results, targets.written, strict=True):
            if target is not None:
                target[...] = result
        return targets.returned(results)

    def _outputs(self) -> dict[str, AccessType]:
        """Shape and dtype of every output for these rows."""
        length, program = next(iter(self.programs.items()))
        found = dict(program.outputs)
        for name, digit in zip(found, self.split.digits, strict=True):
            if digit is not None:
                shape = list(found[name].shape)
                shape[digit.axis] = shape[digit.axis] // length * self.rows
                found[name] = found[name].with_shape(shape, len(shape))
        return found

    def _results(self, given: Mapping[str, Any]) -> list[Array]:
        if not self.rows:
            return self._nothing()
        return run_in_parts(
            self.split,
            self.rows,
            list(self.programs),
            given,
            lambda length, inputs: self.programs[length].run(inputs),
        )

    def _nothing(self) -> list[Array]:
        """The outputs for no rows."""
        program = next(iter(self.programs.values()))
        results = []
        for term, digit in zip(program.terms, self.split.digits, strict=True):
            assert digit is not None
            shape = list(term.shape)
            shape[digit.axis] = 0
            results.append(np.zeros(shape, term.dtype))
        return results

    def __call__(self, /, *args: Any, **kwargs: Any) -> Array | tuple[Array, ...]:
        results = self.run(*args, **kwargs)
        return results[0] if len(results) == 1 else tuple(results)

    def how(self) -> str:
        """In words."""
        name = self.split.name
        lengths = cut(self.rows, list(self.programs))
        counts = ", ".join(
            f"{lengths.count(n)} of {name}={n}" for n in sorted(set(lengths), reverse=True)
        )
        return f"in parts, row by row along {name}: {counts or 'none'}"


class _Dispatched:
    """The executable of a program of all sizes."""

    def __init__(self, program: ShapedProgram) -> None:
        self._program = program

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """By the program of the inputs' sizes."""
        return self._program.run(inputs)


def of_sizes(named: Named, maker: Maker, listed: Sequence[Sizes], *, parts: bool) -> ShapedProgram:
    """The program of all sizes, those listed made now."""
    made = {}
    for sizes in listed:
        started = time.perf_counter()
        each = maker.make(sizes)
        made[sizes] = replace(each, how=f"{each.how}, {time.perf_counter() - started:.1f} s")
    return ShapedProgram(named, maker, made, parts=parts)
