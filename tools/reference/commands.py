"""The page on the command line, from what the commands themselves say."""

import typer.main

from glenside.cli import app
from tools.reference.text import markdown, table


def pages() -> dict[str, str]:
    """One page."""
    command = typer.main.get_command(app)
    lines = ["# Command line", "", markdown(command.help), ""]
    for name, each in command.commands.items():  # type: ignore[attr-defined]
        arguments = [p.name or "" for p in each.params if p.param_type_name == "argument"]
        usage = " ".join([name, *(argument.upper() for argument in arguments), "[OPTIONS]"])
        lines += [f"## glenside {name}", "", f"`glenside {usage}`", ""]
        lines += [markdown(each.help), ""]
        rows = [
            (" ".join(f"`{option}`" for option in p.opts), getattr(p, "help", "") or "")
            for p in each.params
            if p.param_type_name == "option"
        ]
        lines += [*table(("option", ""), rows), ""]
    return {"command_line.md": "\n".join(lines)}
