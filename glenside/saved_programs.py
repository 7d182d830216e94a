"""Saved programs, of one size or of several, read back."""

from __future__ import annotations

from pathlib import Path

from glenside import saved_folder
from glenside.files import folder_of
from glenside.program import Program, read_program
from glenside.saved_folder import SavedFolder


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

    def one(saved: SavedFolder) -> Program:
        return read_program(saved, trusted=trusted)

    def read(saved: SavedFolder) -> Program:
        if "parts" not in saved.manifest:
            return one(saved)
        from glenside.shapes.loading import load_sizes

        return load_sizes(saved, one, compiles=trusted)

    return saved_folder.read(folder_of(directory), read)
