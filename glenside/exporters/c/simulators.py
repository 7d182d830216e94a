"""Simulators of accelerator units behind the driver's functions, as C source."""

from __future__ import annotations

from glenside.codegen.compile import lower_terms
from glenside.errors import TargetError
from glenside.exporters.c.driver import (
    HEADER,
    Invocation,
    UnitFunction,
    UnitFunctions,
    operand_names,
    signature,
    size_names,
)
from glenside.exporters.c.functions import COPY, PREAMBLE, CFunction, c_function
from glenside.language import builders
from glenside.language.shape import AccessType
from glenside.language.units import find_unit

_HOOKS = """\
/* A simulator written elsewhere takes the place of the compiled term once it is given here. */
typedef void (*glenside_simulator)(const int64_t *sizes, const void *const *operands, void *result);
static glenside_simulator simulators[{count}];

void glenside_simulate(int unit, glenside_simulator simulator);
void glenside_simulate(int unit, glenside_simulator simulator) {{ simulators[unit] = simulator; }}

static void refuse(const char *unit) {{
  fprintf(stderr, "%s: no simulator for these sizes\\n", unit);
  abort();
}}
"""


def simulators(units: UnitFunctions) -> str:
    """Source of a library that has all of ``units``, for the sizes that were noted.

    :raises TargetError: the term of a unit cannot be written in C.
    """
    parts = [
        f'#include "{HEADER}"\n\n{PREAMBLE}#include <stdio.h>\n#include <stdlib.h>',
        _HOOKS.format(count=len(units.functions)),
        COPY,
    ]
    for number, function in enumerate(units.functions.values()):
        cases = []
        for k, invocation in enumerate(units.invocations[function.name]):
            made = _compiled(f"{function.name}_{k}", function, invocation)
            parts.append(made.source)
            cases.append((invocation, made))
        parts.append(_function(number, function, cases))
    return "\n".join(parts)


def _compiled(name: str, function: UnitFunction, invocation: Invocation) -> CFunction:
    """What one invocation computes, by the unit's term."""
    from glenside.codegen.cpu import schedule

    names = [f"operand{i}" for i in range(len(invocation.operands))]
    leaves = tuple(
        builders.access(builders.tensor(n, t.shape, t.dtype), t.split)
        for n, t in zip(names, invocation.operands, strict=True)
    )
    term = find_unit(function.unit).meaning(invocation.parameters, leaves)
    inputs = {
        n: AccessType(t.shape, (), t.dtype) for n, t in zip(names, invocation.operands, strict=True)
    }
    made = c_function(
        name, lower_terms([term], inputs, {}, schedule.PORTABLE), ["result"], static=True
    )
    if made.parameter_bytes:
        raise TargetError(f"C source: the term of {function.unit} holds arrays")
    return made


def _function(
    number: int, function: UnitFunction, cases: list[tuple[Invocation, CFunction]]
) -> str:
    names = size_names(function)
    operands = operand_names(function)
    lines = [
        f"const int64_t sizes[] = {{{', '.join(names) or '0'}}};",
        f"const void *const operands[] = {{{', '.join(operands)}}};",
        f"if (simulators[{number}]) {{",
        f"  simulators[{number}](sizes, operands, result);",
        "  return;",
        "}",
    ]
    for invocation, made in cases:
        same = " && ".join(
            f"{name} == {value}" for name, value in zip(names, invocation.sizes, strict=True)
        )
        room = max(made.workspace, 64)
        lines += [
            f"if ({same or '1'}) {{",
            f"  void *workspace = aligned_alloc(64, {room});",
            "  if (!workspace) abort();",
            f"  {made.name}(0, workspace, {', '.join([*operands, 'result'])});",
            "  free(workspace);",
            "  return;",
            "}",
        ]
    lines.append(f'refuse("{function.unit}");')
    body = "".join(f"  {line}\n" for line in lines)
    return f"{signature(function)} {{\n{body}}}\n"
