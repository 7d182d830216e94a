"""Resolve ``.[dev,docs]`` afresh, as on an empty machine, and write ``constraints.txt``."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# The versions that `make` installs, for Linux and every supported Python. Written by `make lock`.
"""


def resolve() -> dict[str, str]:
    """Return the version of every distribution that pip would install, by normalised name."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-qq", "--dry-run"]
        # What is installed now must not hold a version back.
        command += ["--ignore-installed", "--report", str(report), "-e", ".[dev,docs]"]
        subprocess.run(command, cwd=ROOT, check=True)
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    found = (install["metadata"] for install in installs)
    versions = {re.sub(r"[-_.]+", "-", m["name"]).lower(): m["version"] for m in found}
    del versions["glenside"]
    return versions


def main() -> None:
    """Write the lock file."""
    try:
        versions = resolve()
    except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not resolve the dependencies (exit code {error.returncode})")
    lines = [f"{name}=={version}\n" for name, version in sorted(versions.items())]
    target = ROOT / "constraints.txt"
    target.write_text(HEADER + "".join(lines), encoding="utf-8")
    print(f"{target.name}: {len(lines)} versions")


if __name__ == "__main__":
    main()
