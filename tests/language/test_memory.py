"""Memory is counted before it is taken."""

import numpy as np
import pytest

from glenside.errors import GlensideError, NotEnoughMemory
from glenside.language import builders as b
from glenside.language import evaluate, memory, random_inputs
from glenside.language.shape import AccessType


@pytest.fixture
def little(monkeypatch):
    """A hundred mebibytes are left."""
    monkeypatch.setattr(memory, "available", lambda: 100 << 20)


def test_numbers_of_bytes_as_people_read_them():
    told = [memory.spelled(n) for n in (0, 1023, 1024, 3 << 19, 5 << 40, 1 << 60)]
    assert told == ["0 bytes", "1,023 bytes", "1.0 KiB", "1.5 MiB", "5.0 TiB", "1,024.0 PiB"]


def test_what_is_there_is_granted_and_what_is_not_is_refused(little):
    memory.require(100 << 20, "x")
    for count in ((100 << 20) + 1, float("inf"), float("nan")):
        with pytest.raises(NotEnoughMemory, match=r"^x takes .*, 100\.0 MiB are available$"):
            memory.require(count, "x")
    assert issubclass(NotEnoughMemory, GlensideError) and issubclass(NotEnoughMemory, MemoryError)


def test_the_least_of_machine_group_and_limits_counts(monkeypatch):
    monkeypatch.setattr(memory, "_of_machine", lambda: 300)
    monkeypatch.setattr(memory, "_of_group", lambda: 200)
    monkeypatch.setattr(memory, "_of_limits", lambda: 250)
    assert memory.available() == 200
    monkeypatch.setattr(memory, "_of_limits", lambda: -5)
    assert memory.available() == 0


def test_a_control_group_may_take_back_what_files_take(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory._of_group() > 1 << 60
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("700\n")
    assert memory._of_group() > 1 << 60
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.stat").write_text("anon 600\ninactive_file 60\nactive_file 40\n")
    assert memory._of_group() == 1000 - 700 + 100


def test_the_interpreter_names_the_value(little):
    x = b.tensor("x", (1, 1 << 10))
    ones = np.ones((1, 1 << 10), "float32")
    wide = b.broadcast(x, (1 << 15, 1 << 10))
    view = b.slice_(wide, 0, 0, 2)  # A view of what is never built.
    np.testing.assert_array_equal(evaluate([view], {"x": ones})[0], 1)
    with pytest.raises(NotEnoughMemory, match=r"compute: a value of \(\(32768 1024\) \(\)\)"):
        evaluate([b.compute("relu", b.access(wide, 2))], {"x": ones})


def test_inputs_are_counted(little):
    with pytest.raises(NotEnoughMemory, match="input 'x' of"):
        random_inputs({"x": AccessType((1 << 13, 1 << 13), (), "float32")})
