"""The examples run as they stand, from outside the package."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_an_accelerator_of_ones_own(tmp_path):
    source = (EXAMPLES / "my_accelerator.py").read_text()
    declaration = source[source.index("glenside.Accelerator(") : source.index("\n)\n")]
    assert declaration.count("\n") < 20
    done = subprocess.run(
        [sys.executable, EXAMPLES / "my_accelerator.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "my-unit 26" in done.stdout
