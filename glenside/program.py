"""What a user holds: a compiled program that can be called, inspected and saved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from glenside.errors import GlensideError, InputError
from glenside.hw_targets.target import Executable, Runnable
from glenside.language import AccessType, Term, parse_all, to_text
from glenside.report import Report

Array = np.ndarray[Any, Any]

_FORMAT = 1
_MANIFEST = "program.json"
_TEXT = "program.glenside"
_CODE = "code"
_SOURCE = "source.txt"
_TIR = "tir.json"


class Program:
    """An optimised, compiled model.

    ``program(x)`` takes NumPy arrays in the order of the model's inputs, by keyword, or as one
    mapping from names to arrays; it returns one array for one output, else a tuple.
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
        saved: Path | None = None,
    ) -> None:
        self.name = name
        self.inputs = dict(inputs)
        """Shape and dtype of every input, in order."""
        self.output_names = tuple(outputs)
        self.report = report
        self._executable = executable
        self._params = params
        self.names = dict(names or {})
        """What the user's model calls the values of terms; empty in a loaded program."""
        self._saved = saved
        self._terms = tuple(outputs.values()) if isinstance(outputs, Mapping) else None

    def __call__(self, *args: Any, **kwargs: Any) -> Array | tuple[Array, ...]:
        results = self.run(*args, **kwargs)
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, *args: Any, **kwargs: Any) -> list[Array]:
        """All outputs as a list; arguments as for calling.

        :raises InputError: an input is missing, unknown, or of another shape or dtype.
        """
        return self._executable.run(self._bind(args, kwargs))

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Array]:
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
        unknown = [name for name in given if name not in self.inputs]
        missing = [name for name in self.inputs if name not in given]
        if unknown or missing:
            problems = [f"{n!r} is not one of them" for n in unknown]
            problems += [f"{n!r} is missing" for n in missing]
            raise InputError(f"{self._takes()}: {', '.join(problems)}")
        return {name: _checked(name, given[name], wanted) for name, wanted in self.inputs.items()}

    def _takes(self) -> str:
        listed = ", ".join(f"{n!r} {t.dtype}{list(t.shape)}" for n, t in self.inputs.items())
        return f"{self.name} takes {listed or 'no inputs'}"

    @property
    def terms(self) -> tuple[Term, ...]:
        """The extracted program: one term for each output."""
        if self._terms is None:
            self._terms = tuple(parse_all(self.text))
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
        if self._saved is not None:
            return (self._saved / _TEXT).read_text().strip()
        return to_text(*self.terms)

    @property
    def tir(self) -> Any:
        """The TVM IRModule of its kernels (needs TVM's compiler library)."""
        if self._saved is not None:
            import tvm

            return tvm.ir.load_json((self._saved / _TIR).read_text())
        return self._compiled.module

    @property
    def source(self) -> str:
        """The generated code of its kernels."""
        if self._saved is not None:
            return (self._saved / _SOURCE).read_text()
        return self._compiled.source

    def trace(self, *args: Any, **kwargs: Any) -> dict[Term, Array]:
        """The value of every term that is materialised while the program runs."""
        return self._compiled.trace(self._bind(args, kwargs))

    @property
    def _compiled(self) -> Executable:
        if self._saved is not None:
            raise GlensideError(f"{self.name} was loaded: only the program as compiled can do this")
        return cast(Executable, self._executable)

    def to_onnx(self) -> Any:
        """The program as an ONNX ``ModelProto``, accelerator calls being local functions.

        :raises GlensideError: the program was loaded, so that its parameters are only there as
            packed for its kernels; or the model exceeds the 2 GiB of an ONNX file.
        """
        from glenside.exporters.onnx import to_onnx

        return to_onnx(self.name, self.inputs, *self._exported())

    def to_relax(self) -> Any:
        """The program as a TVM ``IRModule`` that ``tvm.compile`` builds for the Relax VM.

        :raises GlensideError: the program has host operators, or was loaded.
        """
        from glenside.exporters.relax import to_relax

        return to_relax(self.name, self.inputs, *self._exported())

    def _exported(self) -> tuple[Mapping[str, Array], dict[str, Term], dict[Term, str]]:
        """Parameters, outputs and names, as exporters take them."""
        if self._params is None:
            raise GlensideError(
                f"{self.name} was loaded from a directory, which keeps no parameters as the model "
                "had them: export the program that optimize() returned"
            )
        outputs = dict(zip(self.output_names, self.terms, strict=True))
        return self._params, outputs, self.names

    def save(self, directory: str | Path) -> None:
        """Writes the program to a directory (made when missing) that :func:`load` reads.

        It then runs without egglog, onnx and the TVM compiler: ``program.json`` holds inputs,
        outputs and the report, ``program.glenside`` the term, ``source.txt`` and ``tir.json`` the
        kernels to look at, ``code/`` the compiled kernels and the parameters.
        """
        folder = Path(directory)
        if self._saved is not None:
            if folder.resolve() != self._saved.resolve():
                shutil.copytree(self._saved, folder, dirs_exist_ok=True)
            return
        text, source, tir = self.text, self.source, self.tir
        try:
            (folder / _CODE).mkdir(parents=True, exist_ok=True)
            self._compiled.save(str(folder / _CODE))
            (folder / _TEXT).write_text(text + "\n")
            (folder / _SOURCE).write_text(source)
            (folder / _TIR).write_text(_tir_json(tir))
        except OSError as problem:
            raise GlensideError(f"cannot save to {folder}: {problem.strerror}") from problem
        manifest = {
            "format": _FORMAT,
            "name": self.name,
            "inputs": {n: {"shape": t.shape, "dtype": t.dtype} for n, t in self.inputs.items()},
            "outputs": self.output_names,
            "report": self.report.to_json(),
        }
        # Last, so that a directory with a manifest is a whole program.
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")

    def __repr__(self) -> str:
        return f"<Program {self.name} for {self.report.target}: {self._takes()}>"


def _tir_json(module: Any) -> str:
    import tvm

    return str(tvm.ir.save_json(module))


def load(directory: str | Path) -> Program:
    """The program that :meth:`Program.save` wrote.

    :raises GlensideError: the directory holds no saved program, or one of another format.
    """
    from glenside.hw_targets.codegen import launch

    folder = Path(directory)
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
    except (OSError, ValueError) as problem:
        raise GlensideError(f"{folder} holds no saved program: {problem}") from problem
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise GlensideError(f"{folder} was saved in another format than {_FORMAT}: save it anew")
    inputs = {
        name: AccessType(tuple(each["shape"]), (), each["dtype"])
        for name, each in manifest["inputs"].items()
    }
    return Program(
        manifest["name"],
        inputs,
        tuple(manifest["outputs"]),
        launch.load(str(folder / _CODE)),
        Report.from_json(manifest["report"]),
        saved=folder,
    )


def _checked(name: str, value: Any, wanted: AccessType) -> Array:
    array = np.asarray(value)
    if array.shape != wanted.shape or array.dtype.name != wanted.dtype:
        raise InputError(
            f"input {name!r} must be {wanted.dtype} of shape {wanted.shape}, "
            f"got {array.dtype.name} of shape {array.shape}"
        )
    return array
