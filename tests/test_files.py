"""Files are written as a whole or not at all."""

import os
import stat
import threading

import numpy as np
import pytest

from glenside import files
from glenside.array_files import read_array, read_npz, write_npz
from glenside.errors import GlensideError, InputError, NotEnoughMemory


def test_a_file_is_replaced_only_when_it_is_whole(tmp_path):
    path = tmp_path / "file.txt"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.replacing(path) as file:
        file.write(b"half")
        assert path.read_text() == "old"
        raise RuntimeError
    assert path.read_text() == "old"
    files.write_text(path, "new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_permissions_and_links_stay(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        files.write_text(tmp_path / "fresh", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


def test_a_pipe_stays_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    files.write_text(tmp_path / "pipe", "through")
    reader.join()
    assert read == ["through"] and stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def _writers():
    from glenside.codegen.gpu.mapping import tuning
    from glenside.explore.svg import Svg

    entry = tuning.Tuned("m4 k4", {}, 1.0, 1)
    return {
        "npz": (lambda path: write_npz(path, {"x": np.ones(3)}), InputError),
        "svg": (lambda path: Svg(1, 1).save(path), GlensideError),
        "tuning": (lambda path: tuning.record(path, "opencl:cpu", {"k": entry}), GlensideError),
    }


@pytest.mark.parametrize("kind", ["npz", "svg", "tuning"])
def test_a_full_disk_leaves_what_was_there(kind, tmp_path, monkeypatch):
    write, error = _writers()[kind]
    path = tmp_path / "out"
    write(path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(error, match=r"cannot write .*: No space left on device"):
        write(path)
    assert path.read_bytes() == before
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".out-")]


def test_arrays_are_counted_before_they_are_read(tmp_path, monkeypatch):
    """A few kilobytes may stand for gigabytes."""
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, x=np.zeros(32 << 20, np.uint8), y=np.zeros(40 << 20, np.uint8))
    assert path.stat().st_size < 1 << 20
    assert read_npz(path)["y"].shape == (40 << 20,)
    monkeypatch.setattr("glenside.language.memory.available", lambda: 70 << 20)
    with pytest.raises(NotEnoughMemory, match=r"bomb\.npz: what it holds takes 72\.0 MiB, 70\.0"):
        read_npz(path)


def test_an_array_shorter_than_its_header_says_is_refused(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((2, 3)))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"(2, 3)", b"(2, 9)"))
    with pytest.raises(InputError, match="holds no array"):
        read_array(path)
    path.write_bytes(data[:-8])
    with pytest.raises(InputError, match="holds no array"):
        read_array(path)
