"""What a user holds: a compiled program that can be called, inspected and saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from glenside import saved_arrays, saved_folder
from glenside.calling import BoundProgram, Caller, check_bindable, results_for
from glenside.codegen.arguments import as_input
from glenside.errors import (
    GlensideError,
    InputError,
    ShapeError,
    TargetError,
    TextError,
    UnknownRule,
)
from glenside.explain.records import Explanation
from glenside.files import folder_of
from glenside.hw_targets.target import Executable, Runnable
from glenside.language import (
    CALLS,
    AccessType,
    Model,
    Requirement,
    Term,
    evaluate,
    parse_all,
    to_text,
    topological_order,
)
from glenside.language.units import find_unit, is_unit
from glenside.report import Report
from glenside.saved_folder import SavedFolder, damaged

if TYPE_CHECKING:
    import onnx
    import tvm

    from glenside.codegen.gpu.mapping.explain import MappingExplanation
    from glenside.explain.proof import ProgramProof
    from glenside.explain.recipe import Recipe

Array = np.ndarray[Any, Any]


class DeviceTensor(Protocol):
    """A tensor that may lie in a device's memory, as CuPy's and PyTorch's."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Kind and number of the device."""


type Given = npt.ArrayLike | DeviceTensor
"""What a program takes for an input."""

type Results = Given | Sequence[Given | None] | Mapping[str, Given] | None
"""What ``out=`` takes."""

_TEXT = "program.glenside"
_SOURCE = "source.txt"
_TIR = "tir.json"
_EXPLANATION = "explain.json"


class Program:
    """An optimised, compiled model.

    ``program(x)`` takes NumPy arrays in the order of the model's inputs, by keyword, or as one
    mapping from names to arrays; it returns one array for one output, else a tuple. With ``out=``
    results are written to arrays of the caller's. Programs for CUDA also take tensors on the device
    (PyTorch's, CuPy's, JAX's), run on the caller's current stream without waiting, and then return
    such. Threads may share a program.
    """

    def __init__(
        self,
        name: str,
        inputs: Mapping[str, AccessType],
        outputs: Mapping[str, Term] | tuple[str, ...],
        executable: Executable | Runnable,
        report: Report,
        *,
        params: Mapping[str, Array] | None = None,
        names: Mapping[Term, str] | None = None,
        explain: Recipe | None = None,
        saved: SavedFolder | None = None,
        requirements: Sequence[Requirement] = (),
        defaults: Mapping[str, AccessType] | None = None,
        given: Callable[[Iterable[str]], Program] | None = None,
    ) -> None:
        self.name = name
        self.inputs = dict(inputs)
        """Shape and dtype of every input, in order."""
        self.output_names = tuple(outputs)
        self.report = report
        self._requirements = tuple(requirements)
        self.defaults = dict(defaults or {})
        """Shape and dtype of the inputs that the model holds a value of. The program has these
        values built in; calls that give others are those of a program compiled for them, once."""
        self._given = given
        self._compiled_for: dict[frozenset[str], Program] = {}
        self._executable = executable
        self._caller: Caller | None = None
        self._outputs: dict[str, AccessType] | None = None
        self._params = dict(params or {})
        self.names = dict(names or {})
        """What the user's model calls the values of terms; empty in a loaded program."""
        self._explain = explain
        self._explanation: Explanation | None = None
        self._saved = saved
        self._text = None if saved is None else saved.text(_TEXT).strip()
        self._terms = tuple(outputs.values()) if isinstance(outputs, Mapping) else None

    # Positional only: any name may be that of an input.
    def __call__(
        self, /, *args: Given | Mapping[str, Given], **kwargs: Given | Results
    ) -> Array | tuple[Array, ...]:
        results = self.run(*args, **kwargs)
        return results[0] if len(results) == 1 else tuple(results)

    def unavailable(self) -> str | None:
        """Why the program cannot run on this machine (its device is missing); None where it can."""
        ask = getattr(self._executable, "unavailable", None)
        return None if ask is None else ask()

    def run(self, /, *args: Given | Mapping[str, Given], **kwargs: Given | Results) -> list[Array]:
        """All outputs as a list; arguments as for calling.

        ``out=`` gives what results are written to: an array or tensor for one output, one for each
        in order, or a mapping from some of their names. (Where an input is called ``out``, that is
        meant, unless inputs are given as one mapping.)

        :raises InputError: an input is missing, unknown, or of another shape or dtype, or holds an
            index that is out of range. Indices that the program itself computes are not checked:
            kernels take the nearest position that exists for one that does not. Or what ``out=``
            gives for an output is of another shape or dtype, cannot be written to, or shares
            memory with an input or another output.
        """
        if not kwargs and len(args) == len(self.inputs):
            caller = self._caller or self._called()
            if len(args) != 1 or type(args[0]) is np.ndarray or not isinstance(args[0], Mapping):
                return caller(args) if caller.quick is None else caller.quick(args)
        given, out = self._split(args, kwargs)
        if self.defaults and (program := self._taking(given.keys() & self.defaults.keys())):
            return program.run(given, out=out)
        values = self._values(given)
        if out is None:
            return self._called()(values)
        targets = results_for(out, self.outputs, given)
        return targets.returned(self._called()(values, targets.written))

    def bind(
        self, /, *args: Given | Mapping[str, Given], **kwargs: Given | Results
    ) -> BoundProgram:
        """The program with buffers that every call of the result reads and writes.

        Arguments are as for calling, but must be arrays or tensors, which are kept and not copied:
        what is in them counts when the result is called. Without ``out=`` (or for outputs that it
        leaves out), there are new buffers. Everything is checked now, and the program is run once;
        with tensors on a device, a call is then one launch of a graph on the current stream.

        :raises InputError: as for :meth:`run`; or an argument has no memory of its own, or on a
            device none that kernels can read as it lies (contiguous, from a multiple of 16 bytes).
        """
        given, out = self._split(args, kwargs)
        if program := self._taking(given.keys() & self.defaults.keys()):
            return program.bind(given, out=out)
        values = self._values(given)
        check_bindable(given)
        targets = results_for({} if out is None else out, self.outputs, given)
        caller = self._called()
        results = caller(values, targets.written)
        return BoundProgram(
            caller.bound(values, results),
            dict(zip(self.inputs, values, strict=True)),
            dict(zip(self.output_names, targets.returned(results), strict=True)),
        )

    @property
    def outputs(self) -> dict[str, AccessType]:
        """Shape and dtype of every output, in order."""
        if self._outputs is None:
            types = (term.type for term in self.terms)
            self._outputs = {
                name: AccessType(type_.shape, (), type_.dtype)
                for name, type_ in zip(self.output_names, types, strict=True)
            }
        return self._outputs

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What is asked of the values of inputs: indices in range, say. Tensors on a device are not
        looked at, since that would wait for it."""
        return self._requirements

    @requirements.setter
    def requirements(self, given: Sequence[Requirement]) -> None:
        self._requirements, self._caller = tuple(given), None

    def _called(self) -> Caller:
        # Not before: an executable may be compiled when it is first asked for something.
        if self._caller is None:
            self._caller = Caller(self._executable, self.inputs, self._requirements)
        return self._caller

    def _split(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], Any]:
        """The values of a call by the names of inputs, and what results are written to."""
        as_mapping = len(args) == 1 and isinstance(args[0], Mapping)
        if "out" in kwargs and (as_mapping or "out" not in self.inputs):
            others = {name: value for name, value in kwargs.items() if name != "out"}
            return self._named(args, others), kwargs["out"]
        return self._named(args, kwargs), None

    def _taking(self, defaults: Collection[str]) -> Program | None:
        """The program that takes these inputs, which the model has values of, at every call."""
        if not defaults:
            return None
        names = frozenset(defaults)
        if names not in self._compiled_for:
            if self._given is None:
                listed = ", ".join(
                    f"{name!r}: {self.defaults[name].shape}" for name in sorted(names)
                )
                raise InputError(
                    f"{self.name} was saved with the values that its model holds for "
                    f"{', '.join(map(repr, sorted(names)))}: make and save one that takes them, "
                    f"with shapes={{{listed}}}"
                )
            self._compiled_for[names] = self._given(sorted(names))
        return self._compiled_for[names]

    def _named(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of a call by the names of inputs."""
        given: dict[str, Any] = dict(kwargs)
        if len(args) == 1 and isinstance(args[0], Mapping):
            given |= args[0]
        elif len(args) > len(self.inputs):
            raise InputError(f"{self._takes()}, got {len(args)} arrays")
        else:
            for name, value in zip(self.inputs, args, strict=False):
                if name in given:
                    raise InputError(f"input {name!r} was given twice")
                given[name] = value
        return given

    def _values(self, given: Mapping[str, Any]) -> list[Any]:
        """The inputs of a call in order.

        :raises InputError: one is missing, or there is none of a name.
        """
        if given.keys() != self.inputs.keys():
            unknown = [name for name in given if name not in self.inputs]
            missing = [name for name in self.inputs if name not in given]
            problems = [f"{n!r} is not one of them" for n in unknown]
            problems += [f"{n!r} is missing" for n in missing]
            raise InputError(f"{self._takes()}: {', '.join(problems)}")
        return [given[name] for name in self.inputs]

    def _takes(self) -> str:
        listed = ", ".join(f"{n!r} {t.dtype}{list(t.shape)}" for n, t in self.inputs.items())
        return f"{self.name} takes {listed or 'no inputs'}"

    @property
    def terms(self) -> tuple[Term, ...]:
        """The extracted program: one term for each output.

        :raises GlensideError: the program was loaded from files that are damaged.
        """
        if self._terms is None:
            try:
                self._terms = tuple(parse_all(self.text))
            except (TextError, ShapeError) as problem:
                assert self._saved is not None
                raise damaged(self._saved.code / _TEXT, problem) from problem
        return self._terms

    @property
    def term(self) -> Term:
        """The extracted program of the only output; see :attr:`terms` when there are several."""
        if len(self.output_names) != 1:
            raise GlensideError(f"{self.name} has {len(self.output_names)} outputs: use .terms")
        return self.terms[0]

    @property
    def text(self) -> str:
        """The extracted program in the text form."""
        return to_text(*self.terms) if self._text is None else self._text

    @property
    def tir(self) -> tvm.IRModule:
        """The TVM IRModule of its kernels (needs TVM's compiler library).

        :raises GlensideError: the program was loaded from files that are gone or damaged by now.
        """
        if self._saved is not None:
            import tvm

            return self._read_saved(_TIR, tvm.ir.load_json)
        return self._compiled.module

    @property
    def source(self) -> str:
        """The generated code of its kernels.

        :raises GlensideError: the program was loaded from files that are gone or damaged by now.
        """
        if self._saved is not None:
            return self._read_saved(_SOURCE, str)
        return self._compiled.source

    def _read_saved[T](self, name: str, parse: Callable[[str], T]) -> T:
        assert self._saved is not None
        try:
            return parse(self._saved.text(name))
        except OSError as problem:
            raise GlensideError(
                f"{self.name} was loaded from {self._saved.code}: {name}: {problem.strerror}"
            ) from problem
        except UnknownRule:
            raise
        except Exception as problem:  # Damaged text leads to any kind.
            raise damaged(self._saved.code / name, problem) from problem

    def explain(self, node: str | None = None) -> Explanation:
        """From which layers of the user's model the accelerator calls came and which rules led
        there, and why other layers stayed on the host; printing it shows tables.

        The first time exploration is repeated for it, also where the program was loaded, unless it
        was explained before it was saved.

        :param node: only what concerns this value of the model.
        :raises InputError: the model computes no value of that name.
        :raises GlensideError: optimisation failed, so that the program is the one imported; or the
            program was loaded from files that hold no explanation, or that are gone or damaged,
            or was made with rules that are not known here.
        """
        if self._explanation is None:
            known = self._known_origin()
            if known is None:
                raise GlensideError(f"nothing is known about where {self.name} came from")
            self._explanation = known if isinstance(known, Explanation) else known()
        return self._explanation if node is None else self._explanation.of(node)

    def _known_origin(self) -> Explanation | Recipe | None:
        """What is told of where the program came from, or how that is found out.

        :raises GlensideError: nowhere, since optimisation failed; or its files are damaged.
        """
        if self.report.failure is not None:
            raise GlensideError(
                f"{self.name} is the model as it was imported, since optimisation failed: "
                f"{self.report.failure}"
            )
        if self._saved is not None:
            return self._read_saved(_EXPLANATION, _explained)
        return self._explain

    def prove(self, *, seconds: float = 60.0) -> ProgramProof:
        """That the program's term equals the model as it was imported: the exploration is repeated
        with no more rules than it takes, and each is listed with its law and what is proved of it.

        This is about terms. What compiling makes of them is checked with numbers when
        :func:`glenside.optimize` ends.

        :param seconds: for leaving out rules that are not needed.
        :raises GlensideError: optimisation failed, or the program was loaded from files that do not
            tell how it was explored, since it was explained before it was saved.
        """
        recipe = self._known_origin()
        if recipe is None or isinstance(recipe, Explanation):
            raise GlensideError(
                f"it is not known how {self.name} was explored: prove it before it is saved, or "
                "save it before it is explained"
            )
        told = (
            ("precision", self.report.precision is not None),
            ("quantising", self.report.quantization is not None),
        )
        changed = tuple(name for name, done in told if done)
        return replace(recipe.prove(seconds), changed=changed)

    def explain_mapping(self) -> MappingExplanation:
        """How each product and reduction over rows of a program for a GPU is mapped to the device,
        and why: the chosen mapping, where in the term each loop comes from, every constraint with
        its numbers, and what other kinds of mappings there were. Printing it shows a text.

        Of a program that was loaded, what would be chosen here and now is told.

        :raises GlensideError: the program is for no GPU.
        :raises TargetError: it is for the GPU at hand, and there is none.
        """
        from glenside.codegen.device.explain import explain_mappings
        from glenside.codegen.gpu.mapping.tuning import chooser
        from glenside.hw_targets import find_target
        from glenside.hw_targets.gpu import GpuTarget

        target = find_target(self.report.target)
        if not isinstance(target, GpuTarget):
            raise GlensideError(
                f"{self.name} is for {self.report.target}: only programs for opencl and cuda are "
                "mapped to a device"
            )
        made = getattr(self._executable, "products", {}).values()
        return explain_mappings(
            self.terms,
            self.inputs,
            self._params,
            target.limits,
            target.dialect,
            chooser(target.limits),
            {each.space: each.mapping for each in made},
            self.names,
        )

    def explain_passes(self) -> str:
        """The program after each pass that cuts it into kernels, and where in memory its values
        lie.

        :raises GlensideError: it was loaded, or its target does not cut it.
        """
        compiled: Any = self._compiled
        if getattr(compiled, "start", None) is None:
            raise GlensideError(
                f"the target {self.report.target} does not tell how it cuts programs"
            )
        from glenside.codegen.program.show import show_passes

        return show_passes(compiled.start, compiled.plan)

    def trace(self, /, *args: Given | Mapping[str, Given], **kwargs: Given) -> dict[Term, Array]:
        """The value of every term that is materialised while the program runs."""
        given = self._named(args, kwargs)
        if program := self._taking(given.keys() & self.defaults.keys()):
            return program.trace(given)
        arrays = zip(self.inputs, self._values(given), strict=True)
        return self._compiled.trace({n: as_input(n, v, self.inputs[n]) for n, v in arrays})

    @property
    def _compiled(self) -> Executable:
        if self._saved is not None:
            raise GlensideError(f"{self.name} was loaded: only the program as compiled can do this")
        return cast(Executable, self._executable)

    def expanded(self, *, unrolled: bool = False, check: bool = True) -> tuple[Term, ...]:
        """The extracted program in calls on the units' own sizes, one term for each output.

        Tiles are axes of the operands of one ``call``, ``:batch`` of them; ``unrolled`` spells each
        as a term.

        :param check: compute every kind of expansion on small numbers and compare.
        :raises CheckFailed: an expansion computes something else.
        """
        from glenside.hw_targets.expansion import expand

        return tuple(expand(self.terms, unrolled=unrolled, check=check))

    def to_onnx(self) -> onnx.ModelProto:
        """The program as an ONNX ``ModelProto``, accelerator calls being local functions.

        :raises GlensideError: the model exceeds the 2 GiB of an ONNX file.
        """
        from glenside.exporters.onnx import to_onnx

        return to_onnx(self.name, self.inputs, *self._exported())

    def to_relax(self) -> tvm.IRModule:
        """The program as a TVM ``IRModule`` that ``tvm.compile`` builds for the Relax VM.

        :raises GlensideError: the program has host operators.
        """
        from glenside.exporters.relax import to_relax

        return to_relax(self.name, self.inputs, *self._exported())

    def to_c(self, directory: str | Path) -> Path:
        """Writes the program as C source that ``make`` and a C compiler build; returns the folder.

        Accelerator calls are functions of the header ``glenside_units.h``, for which simulators
        are written as well: see :mod:`glenside.exporters.c`.

        :raises GlensideError: the program has host operators or element types that C lacks, or the
            folder cannot be written.
        """
        from glenside.exporters.c import to_c

        params, outputs, _ = self._exported()
        return to_c(directory, self.name, self.inputs, params, outputs)

    def as_model(self) -> Model:
        """The program's terms with its inputs and parameters, to import or to export again."""
        params, outputs, names = self._exported()
        return Model(self.name, self.inputs, dict(params), outputs, names)

    def _exported(self) -> tuple[Mapping[str, Array], dict[str, Term], dict[Term, str]]:
        """Parameters, outputs and names, as exporters take them."""
        outputs = dict(zip(self.output_names, self.terms, strict=True))
        return self._params, outputs, self.names

    def save(self, directory: str | Path) -> None:
        """Writes the program to a directory (made when missing) that :func:`load` reads.

        It then runs without egglog, onnx and the TVM compiler: ``program.json`` holds inputs,
        outputs, the report and the hashes of all files, and names the folder ``code-<hash>`` that
        they are in: ``program.glenside`` is the term, ``source.txt`` and ``tir.json`` are the
        kernels to look at, ``explain.json`` is what :meth:`explain` tells or goes by, ``arrays.*``
        are the model's parameters, the rest are the compiled kernels and what they read. A program
        that was there before is replaced at once and as a whole, whoever else saves or loads
        meanwhile; where it is loaded it keeps running.

        A program with kernels for the processor is linked by a C compiler or linker.

        :raises GlensideError: the directory cannot be written, there is no linker, or the program
            was loaded from files that are gone or damaged by now. The directory is as it was.
        """
        folder = folder_of(directory)
        try:
            saved_folder.publish(folder, self._write_files, self._manifest())
        except OSError as problem:
            reason = problem.strerror or problem
            raise GlensideError(f"cannot save to {folder}: {reason}") from problem

    def _write_files(self, folder: Path) -> None:
        """Writes all but the manifest."""
        if self._saved is not None:
            try:
                self._saved.copy(folder)
            except FileNotFoundError as problem:
                gone = f"{self.name} was loaded from {self._saved.code}, which is gone"
                raise GlensideError(gone) from problem
            except ValueError as problem:
                raise damaged(self._saved.folder, problem) from problem
            return
        self._compiled.save(str(folder))
        used = {term["name"] for term in topological_order(self.terms) if term.op == "tensor"}
        saved_arrays.write(folder, {n: a for n, a in self._params.items() if n in used})
        _write(folder / _TEXT, self.text + "\n")
        _write(folder / _SOURCE, self.source)
        _write(folder / _TIR, _tir_json(self.tir))
        told = self._told()
        if told is not None:
            _write(folder / _EXPLANATION, json.dumps(told, indent=2) + "\n")

    def _told(self) -> dict[str, Any] | None:
        """The explanation if there is one by now, else what it takes to make it when asked for."""
        if self._explanation is not None:
            return self._explanation.to_json()
        return None if self._explain is None else {"recipe": self._explain.to_json()}

    def _manifest(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inputs": _types_to_json(self.inputs),
            "outputs": self.output_names,
            "units": {unit: find_unit(unit).meaning.__module__ for unit in sorted(self._units())},
            "defaults": _types_to_json(self.defaults),
            "requires": [each.to_json() for each in self.requirements],
            "report": self.report.to_json(),
        }

    def _units(self) -> set[str]:
        """The accelerators that it calls."""
        return {term["unit"] for term in topological_order(self.terms) if term.op in CALLS}

    def __repr__(self) -> str:
        return f"<Program {self.name} for {self.report.target}: {self._takes()}>"


def _explained(text: str) -> Explanation | Recipe:
    """What ``explain.json`` holds: the explanation, or what makes it."""
    data = json.loads(text)
    if "recipe" not in data:
        return Explanation.from_json(data)
    from glenside.explain.recipe import Recipe

    return Recipe.from_json(data["recipe"])


def _tir_json(module: Any) -> str:
    import tvm

    return str(tvm.ir.save_json(module))


class _Interpreted:
    """A program run by the interpreter: slowly, and without any code of the saved program."""

    def __init__(self, terms: Sequence[Term], params: Mapping[str, Array]) -> None:
        self._terms, self._params = terms, params

    def run(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The outputs for these inputs."""
        return evaluate(self._terms, {**self._params, **inputs})


def load(directory: str | Path, *, trusted: bool = True) -> Program:
    """The program that :meth:`Program.save` wrote, once every byte of it is found to be as written.

    **Loading runs code**: the compiled kernels of a program are a shared library, or source and
    machine code for a GPU, which run with all rights of the process. The hashes that are checked
    tell damage, not who wrote the files. Load programs of others with ``trusted=False``: they are
    then run by the NumPy interpreter from their term and parameters alone. No library is loaded, no
    kernel compiled, and nothing that the files name is imported; it is slow, and operators without
    an access-pattern meaning still go to onnxruntime.

    Units of one's own have to be declared before a program that calls them is loaded.

    :raises GlensideError: the directory holds no saved program, one of another format, or one
        whose files are damaged; or something that the program needs is missing.
    """
    return saved_folder.read(folder_of(directory), _loaded if trusted else _interpreted)


def _loaded(saved: SavedFolder) -> Program:
    from glenside.codegen.load import load as load_compiled

    return _program(saved, lambda inputs, params: load_compiled(saved.code, inputs))


def _interpreted(saved: SavedFolder) -> Program:
    def executable(inputs: Mapping[str, AccessType], params: Mapping[str, Array]) -> Runnable:
        terms = parse_all(saved.text(_TEXT))
        known = {name: AccessType(a.shape, (), a.dtype.name) for name, a in params.items()}
        for term in topological_order(terms):
            if term.op == "tensor" and {**known, **inputs}.get(term["name"]) != term.type:
                raise ValueError(f"tensor {term['name']!r} of {term.type} is not among its files")
        return _Interpreted(terms, params)

    return _program(saved, executable)


def _program(
    saved: SavedFolder,
    executable: Callable[[Mapping[str, AccessType], Mapping[str, Array]], Runnable],
) -> Program:
    manifest = saved.manifest
    try:
        inputs = _types_from_json(manifest["inputs"])
        for unit, module in manifest["units"].items():
            _check_declared(unit, module)
        params = saved_arrays.read(saved.code)
        return Program(
            manifest["name"],
            inputs,
            tuple(manifest["outputs"]),
            executable(inputs, params),
            Report.from_json(manifest["report"]),
            params=params,
            saved=saved,
            requirements=[Requirement.from_json(each) for each in manifest["requires"]],
            defaults=_types_from_json(manifest["defaults"]),
        )
    except (TargetError, ImportError, MemoryError):
        raise  # The files are not to blame.
    except Exception as problem:  # Damaged files lead to any kind.
        raise damaged(saved.folder, problem) from problem


def _types_to_json(types: Mapping[str, AccessType]) -> dict[str, Any]:
    return {name: {"shape": type_.shape, "dtype": type_.dtype} for name, type_ in types.items()}


def _types_from_json(types: Mapping[str, Any]) -> dict[str, AccessType]:
    return {
        name: AccessType(tuple(each["shape"]), (), each["dtype"]) for name, each in types.items()
    }


def _check_declared(unit: str, module: str) -> None:
    """What a program names is never imported, since that would run it.

    :raises TargetError: the accelerator is not declared here; says what to do.
    """
    if is_unit(unit):
        return
    needs = f"the program calls the accelerator {unit}, which"
    if module == "__main__":
        raise TargetError(f"{needs} a script or notebook declared: declare it before loading it")
    raise TargetError(
        f"{needs} {module} declares: import that before loading it (--import {module})"
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
