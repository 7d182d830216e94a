"""Pages on targets and on the units that they have."""

from glenside.hw_targets.accelerator import Accelerator
from glenside.hw_targets.registry import REGISTRY, targets
from glenside.language.units import Unit, known_units
from tools.reference.text import laid_out, table

HEADER = """\
# Targets

What follows a colon in a target's name are its options. Several accelerators are joined by `+`.
`glenside targets` lists those of your own beside these.
"""

UNITS = """\
# Accelerator units

What each unit computes, on which operands, and what a call takes. From such a
[declaration](../guides/own_unit.md) follow the rule that finds it, the shape of its calls and its
simulator.
"""


def pages() -> dict[str, str]:
    """One page of targets, one of units."""
    rows = [(f"`{kind.name}`", kind.summary) for kind in targets()]
    lines = [HEADER, *table(("target", "what runs where"), rows), ""]
    units = [UNITS]
    REGISTRY.bring_in_what_ships()
    for unit in known_units():
        units += _unit(unit)
    return {"targets.md": "\n".join(lines), "units.md": "\n".join(units)}


def _unit(unit: Unit) -> list[str]:
    lines = [f"## {unit.name}", "", f"Target `{unit.target or unit.name}`.", ""]
    declared = unit.declaration
    if not isinstance(declared, Accelerator):
        return lines
    operands = [(f"`{name}`", f"`{of}`") for name, of in declared.operands.items()]
    lines += table(("operand", "type"), operands)
    lines += ["", "```lisp", *laid_out(" ".join(declared.computes.split())), "```", ""]
    told = [
        ("also", "\n".join(f"`{' '.join(each.split())}`" for each in declared.also)),
        ("where", ", ".join(f"`{each}`" for each in declared.constraints)),
        ("dtypes", ", ".join(declared.dtypes or ())),
        ("left out", ", ".join(f"`{k}` = {v:g}" for k, v in declared.defaults.items())),
        ("tile", ", ".join(f"`{k}` {v}" for k, v in declared.tile.items())),
        ("lanes", ", ".join(f"`{k}` {v}" for k, v in declared.lanes.items())),
        ("cycles", f"`{declared.cycles}`" if isinstance(declared.cycles, str) else ""),
        ("area", f"{declared.area:g}" if declared.area is not None else ""),
        ("numbers", declared.numerics),
    ]
    return [*lines, *table(("", ""), [row for row in told if row[1]]), ""]
