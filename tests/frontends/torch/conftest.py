"""These tests are skipped where PyTorch is not installed: `make test-torch` installs it."""

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make test-torch)")
