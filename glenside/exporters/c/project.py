"""A program as a folder of C: sources, parameters, driver header, simulators and a Makefile."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glenside.codegen.compile import lower_terms
from glenside.errors import GlensideError
from glenside.exporters.c.driver import HEADER, SIMULATORS, UnitFunctions, size_names
from glenside.exporters.c.functions import COPY, PREAMBLE, CFunction, c_function
from glenside.exporters.c.kernels import c_type
from glenside.exporters.c.naming import identifier
from glenside.exporters.c.simulators import simulators
from glenside.files import folder_of, replacing, write_text
from glenside.language.shape import AccessType
from glenside.language.term import Term

Array = np.ndarray[Any, Any]

MANIFEST = "glenside.json"

_MAKEFILE = """\
# `make` builds lib{name}.so and the program {name}; with `make DRIVER=path/libdriver.so` they are
# linked with a driver of the real units in place of their simulators.
CC     ?= cc
CFLAGS ?= -O2
FLAGS   = -std=c11 -fPIC -fno-strict-aliasing -Wall $(CFLAGS)
DRIVER ?= {driver}

all: lib{name}.so {name}

lib{name}.so: {name}.c {name}.h{headers} $(DRIVER)
	$(CC) $(FLAGS) -shared -o $@ {name}.c $(DRIVER) -Wl,-rpath,'$$ORIGIN' -lm

{name}: main.c lib{name}.so
	$(CC) $(FLAGS) -o $@ main.c lib{name}.so $(DRIVER) -Wl,-rpath,'$$ORIGIN' -lm
{simulators}
clean:
	rm -f *.so {name}

.PHONY: all clean
"""

_SIMULATORS_RULE = """
lib{library}.so: {source} {header}
	$(CC) $(FLAGS) -shared -o $@ {source} -lm
"""


def to_c(
    directory: str | Path,
    name: str,
    inputs: Mapping[str, AccessType],
    params: Mapping[str, Array],
    outputs: Mapping[str, Term],
) -> Path:
    """Writes a program as C source that ``make`` and a C compiler build; returns the folder.

    The program is one function in ``NAME.c``; its parameters lie in ``NAME.bin``. Accelerator calls
    are functions of ``glenside_units.h``, which ``glenside_simulators.c`` provides.

    :raises GlensideError: the folder cannot be written, or the program has host operators or
        element types that C lacks.
    """
    from glenside.codegen.cpu import schedule

    folder, called = folder_of(directory), identifier(name)
    units = UnitFunctions((called,))
    lowered = lower_terms(list(outputs.values()), inputs, params, schedule.PORTABLE)
    function = c_function(called, lowered, list(outputs), units)
    header = f'#include "{HEADER}"\n' if units.functions else ""
    driver = {HEADER: units.header(), SIMULATORS: simulators(units)} if units.functions else {}
    # Loaders know a library by its name: different ones may be in one process.
    found = hashlib.sha256("".join(driver.values()).encode()).hexdigest()[:8]
    library = f"glenside_simulators_{found}" if driver else ""
    files = {
        **driver,
        f"{called}.h": _header(called, function),
        f"{called}.c": "\n".join(
            [f'#include "{called}.h"', header, PREAMBLE, COPY, function.source]
        ),
        "main.c": _main(called, function, inputs, outputs),
        "Makefile": _makefile(called, library),
        MANIFEST: json.dumps(_manifest(called, library, inputs, outputs, units), indent=2) + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            write_text(folder / file, text)
        with replacing(folder / f"{called}.bin") as block:
            for at, array in sorted(function.parameters.values(), key=lambda each: each[0]):
                block.write(b"\0" * (at - block.tell()))
                block.write(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))
            block.write(b"\0" * (function.parameter_bytes - block.tell()))
    except OSError as problem:
        raise GlensideError(
            f"cannot write C to {folder}: {problem.strerror or problem}"
        ) from problem
    return folder


def _header(name: str, function: CFunction) -> str:
    guard = f"{name.upper()}_H"
    return f"""\
#ifndef {guard}
#define {guard}

#include <stdbool.h>
#include <stdint.h>

#define {name.upper()}_PARAMETER_BYTES {function.parameter_bytes}
#define {name.upper()}_WORKSPACE_BYTES {max(function.workspace, 1)}

#ifdef __cplusplus
extern "C" {{
#endif

/* Computes the outputs; arrays are row-major. `parameters` is the content of {name}.bin; it and
   `workspace` start on a boundary of 64 bytes. Returns 0. */
{function.signature};

#ifdef __cplusplus
}}
#endif
#endif
"""


def _makefile(name: str, library: str) -> str:
    rule = _SIMULATORS_RULE.format(library=library, source=SIMULATORS, header=HEADER)
    return _MAKEFILE.format(
        name=name,
        driver=f"lib{library}.so" if library else "",
        headers=f" {HEADER}" if library else "",
        simulators=rule if library else "",
    )


def _main(
    name: str,
    function: CFunction,
    inputs: Mapping[str, AccessType],
    outputs: Mapping[str, Term],
) -> str:
    """A program that reads inputs from files and writes outputs to files, as raw elements."""
    types = [*inputs.values(), *(term.type for term in outputs.values())]
    kinds = [c_type(each.dtype) for each in types]
    sizes = [each.nbytes for each in types]
    files = [*(identifier(f"IN_{n}") for n in inputs), *(identifier(f"OUT_{n}") for n in outputs)]
    arguments = ", ".join(f"({kind} *)values[{i}]" for i, kind in enumerate(kinds))
    upper = name.upper()
    return f"""\
/* {name} {" ".join(files)}: raw elements, row-major. Parameters are read from {name}.bin. */
#include "{name}.h"

#include <stdio.h>
#include <stdlib.h>

static char *room(size_t bytes) {{
  char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!memory) exit(2);
  return memory;
}}

static void transfer(const char *path, char *memory, size_t bytes, int write) {{
  FILE *file = fopen(path, write ? "wb" : "rb");
  size_t done = !file ? 0 : write ? fwrite(memory, 1, bytes, file) : fread(memory, 1, bytes, file);
  if (!file || done != bytes || fclose(file)) {{
    fprintf(stderr, "%s: cannot %s %zu bytes\\n", path, write ? "write" : "read", bytes);
    exit(1);
  }}
}}

int main(int count, char **arguments) {{
  static const size_t sizes[] = {{{", ".join(map(str, sizes))}}};
  enum {{ inputs = {len(inputs)}, all = {len(types)} }};
  if (count != all + 1) {{
    fprintf(stderr, "usage: {name} {" ".join(files)}\\n");
    return 2;
  }}
  char *parameters = room({upper}_PARAMETER_BYTES), *workspace = room({upper}_WORKSPACE_BYTES);
  transfer("{name}.bin", parameters, {upper}_PARAMETER_BYTES, 0);
  char *values[all];
  for (int i = 0; i < all; ++i) {{
    values[i] = room(sizes[i]);
    if (i < inputs) transfer(arguments[i + 1], values[i], sizes[i], 0);
  }}
  {name}(parameters, workspace, {arguments});
  for (int i = inputs; i < all; ++i) transfer(arguments[i + 1], values[i], sizes[i], 1);
  return 0;
}}
"""


def _manifest(
    name: str,
    library: str,
    inputs: Mapping[str, AccessType],
    outputs: Mapping[str, Term],
    units: UnitFunctions,
) -> dict[str, Any]:
    """What :mod:`glenside.exporters.c.run` needs to know."""

    def described(given: AccessType) -> dict[str, Any]:
        return {"shape": given.shape, "dtype": given.dtype}

    return {
        "name": name,
        "driver": library,
        "inputs": {n: described(t) for n, t in inputs.items()},
        "outputs": {n: described(t.type) for n, t in outputs.items()},
        "units": [
            {
                "function": function.name,
                "unit": function.unit,
                "sizes": size_names(function),
                "invocations": [
                    {
                        "sizes": each.sizes,
                        "parameters": each.parameters,
                        "operands": [[list(t.outer), list(t.item), t.dtype] for t in each.operands],
                    }
                    for each in units.invocations[function.name]
                ],
            }
            for function in units.functions.values()
        ],
    }
