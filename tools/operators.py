"""Write the tables of operators that front ends know, in ``docs/``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def relay() -> str:
    """The page on Relay's operators."""
    from glenside.frontends.relay.operators import OPERATORS, REFUSED

    return _page("Relay", "TVM 0.8 to 0.17", OPERATORS, REFUSED)


def relax() -> str:
    """The page on Relax's operators."""
    from glenside.frontends.relax.operators import OPERATORS, REFUSED

    return _page("Relax", "TVM 0.27", OPERATORS, REFUSED)


def torch() -> str:
    """The page on PyTorch's operators."""
    from glenside.frontends.torch.operators import OPERATORS, REFUSED

    return _page(
        "PyTorch",
        "ATen's core set in PyTorch 2.14, and some that would lose what they are in it",
        OPERATORS,
        REFUSED,
        " All others are decomposed into these by `torch.export`.",
    )


PAGES = {
    "relay_operators.md": relay,
    "relax_operators.md": relax,
    "torch_operators.md": torch,
}
"""What makes each file of ``docs/``."""


def _page(
    language: str,
    versions: str,
    lowered: Mapping[str, Any],
    refused: Mapping[str, str],
    more: str = "",
) -> str:
    lines = [
        f"# {language} operators",
        "",
        f"Every operator of {versions}, written by `python tools/operators.py`: {len(lowered)} are "
        f"imported, {len(refused)} are refused by name, with the reason.{more}",
        "",
        "| operator | imported | meaning, or reason of the refusal |",
        "| --- | --- | --- |",
    ]
    for name in sorted(lowered.keys() | refused.keys()):
        if name in lowered:
            text = (lowered[name].lower.__doc__ or "").strip().split("\n\n")[0]
            lines.append(f"| `{name}` | yes | {_cell(text)} |")
        else:
            lines.append(f"| `{name}` | no | {_cell(refused[name])} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """One line, without what a table or a renderer would take for markup of its own."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write all pages."""
    for name, make in PAGES.items():
        (ROOT / "docs" / name).write_text(make(), encoding="utf-8")
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
