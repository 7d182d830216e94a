"""Resolve ``.[dev,docs]`` afresh, as on an empty machine, and write ``constraints.txt``; then what
the environment with PyTorch has beside it, and write ``constraints-torch.txt``."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = (".[test,torch]", "torchvision", "timm", "transformers")
"""What `make setup-torch` installs."""
HEADER = """\
# The versions that `make` installs, for Linux and every supported Python. Written by `make lock`.
"""


TORCH_HEADER = """\
# The versions that `make setup-torch` installs beside those of constraints.txt. Written by
# `make lock`.
"""


def resolve(*wanted: str) -> dict[str, str]:
    """Return the version of every distribution that pip would install, by normalised name."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run"]
        # What is installed now must not hold a version back.
        command += ["--ignore-installed", "--report", str(report), *wanted]
        subprocess.run(command, cwd=ROOT, check=True)
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = (install["metadata"] for install in installs)
    versions = {re.sub(r"[-_.]+", "-", m["name"]).lower(): m["version"] for m in found}
    del versions["glenside"]
    return versions


def write(name: str, header: str, versions: dict[str, str]) -> None:
    """Write one lock file."""
    lines = [f"{each}=={version}\n" for each, version in sorted(versions.items())]
    (ROOT / name).write_text(header + "".join(lines), encoding="utf-8")
    print(f"{name}: {len(lines)} versions")


def main() -> None:
    """Write the lock files."""
    try:
        versions = resolve("-e", ".[dev,docs]")
        write("constraints.txt", HEADER, versions)
        more = resolve("-c", "constraints.txt", *TORCH)
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not resolve the dependencies (exit code {error.returncode})")
    beside = {name: version for name, version in more.items() if name not in versions}
    write("constraints-torch.txt", TORCH_HEADER, beside)


if __name__ == "__main__":
    main()
