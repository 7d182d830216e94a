"""What is made once is found again, and nothing that was damaged is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from glenside import disk_cache
from glenside.errors import InputError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GLENSIDE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GLENSIDE_CACHE_SIZE", raising=False)
    return tmp_path / "cache"


def test_an_entry_is_found_again(folder):
    assert disk_cache.get("kernels", "a" * 64) is None
    disk_cache.put("kernels", "a" * 64, b"code")
    assert disk_cache.get("kernels", "a" * 64) == b"code"
    assert disk_cache.get("programs", "a" * 64) is None
    assert [each.name for each in (folder / "kernels").iterdir()] == ["a" * 64]


@pytest.mark.parametrize(
    "change",
    [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"", lambda d: d[:40] + b"?" + d[41:]],
)
def test_a_damaged_entry_is_none_and_is_replaced(change, folder):
    disk_cache.put("kernels", "k", b"some code of a kernel")
    path = folder / "kernels" / "k"
    path.write_bytes(change(path.read_bytes()))
    assert disk_cache.get("kernels", "k") is None
    assert not path.exists()
    disk_cache.put("kernels", "k", b"code")
    assert disk_cache.get("kernels", "k") == b"code"


def test_keys_tell_parts_apart():
    assert disk_cache.key_of(["ab", "c"]) != disk_cache.key_of(["a", "bc"])
    assert disk_cache.key_of(["a"]) == disk_cache.key_of([b"a"])


def test_what_was_not_used_for_longest_goes_first(folder, monkeypatch):
    monkeypatch.setenv("GLENSIDE_CACHE_SIZE", "500")
    for number in range(4):
        disk_cache.put("kernels", str(number), bytes(90))
        os.utime(folder / "kernels" / str(number), (number, number))
    disk_cache.get("kernels", "0")
    (folder / "proofs.json").write_bytes(bytes(10_000))  # Of others: neither counted nor removed.
    disk_cache.put("programs", "new", bytes(90))
    disk_cache.shrink()
    assert {each.name for each in folder.glob("*/*")} == {"0", "2", "3", "new"}
    assert (folder / "proofs.json").exists()


def test_the_first_entry_of_a_process_makes_room(folder, monkeypatch):
    for number in range(10):
        disk_cache.put("kernels", str(number), bytes(1000))
        os.utime(folder / "kernels" / str(number), (number, number))
    code = "from glenside import disk_cache as d; d.put('kernels', 'new', bytes(1000))"
    environment = {**os.environ, "GLENSIDE_CACHE_SIZE": "5KB"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert sorted(each.name for each in folder.glob("*/*")) == ["7", "8", "9", "new"]


def test_a_large_entry_is_not_kept(folder, monkeypatch):
    monkeypatch.setenv("GLENSIDE_CACHE_SIZE", "1K")
    disk_cache.put("kernels", "k", bytes(300))
    assert disk_cache.get("kernels", "k") is None


@pytest.mark.parametrize(
    ("said", "size"), [("500", 500), ("2KB", 2048), ("1.5 MiB", 1.5 * 2**20), ("3g", 3 * 2**30)]
)
def test_sizes_are_read(said, size, monkeypatch):
    monkeypatch.setenv("GLENSIDE_CACHE_SIZE", said)
    assert disk_cache.size_limit() == size


def test_what_is_no_size_is_told(monkeypatch):
    monkeypatch.setenv("GLENSIDE_CACHE_SIZE", "much")
    with pytest.raises(InputError, match=r"^\$GLENSIDE_CACHE_SIZE is a number of bytes, such as"):
        disk_cache.size_limit()


def test_nothing_is_kept_where_it_is_off(folder, monkeypatch):
    monkeypatch.setenv("GLENSIDE_CACHE", "OFF")
    disk_cache.put("kernels", "k", b"code")
    assert disk_cache.get("kernels", "k") is None
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GLENSIDE_CACHE", str(tmp_path / "file"))
    disk_cache.put("kernels", "k", b"code")
    assert disk_cache.get("kernels", "k") is None


def test_the_folder_is_xdgs(tmp_path, monkeypatch):
    monkeypatch.delenv("GLENSIDE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk_cache.folder() == tmp_path / "glenside"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.folder() == tmp_path / ".cache" / "glenside"


def test_readers_see_whole_entries_while_writers_replace_them():
    contents = [bytes([n]) * 100_000 for n in range(4)]
    end = time.monotonic() + 0.5

    def write(data: bytes) -> None:
        while time.monotonic() < end:
            disk_cache.put("kernels", "k", data)

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, each) for each in contents]
        while time.monotonic() < end:
            assert disk_cache.get("kernels", "k") in (None, *contents)
        for each in writing:
            each.result()
    assert disk_cache.get("kernels", "k") in contents
