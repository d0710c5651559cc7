from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.store import Store


def test_reads_what_was_written(store: Store) -> None:
    store.write("jobs/a/one.json", b"1")
    store.write("jobs/a/one.json", b"2")
    assert store.read("jobs/a/one.json") == b"2"
    assert store.size("jobs/a/one.json") == 1


def test_create_never_overwrites(store: Store) -> None:
    assert store.create("k", b"first")
    assert not store.create("k", b"second")
    assert store.read("k") == b"first"


def test_what_is_not_there(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        store.read("k")
    with pytest.raises(FileNotFoundError):
        store.stream("k")
    with pytest.raises(FileNotFoundError):
        store.fetch("k", tmp_path / "copy")
    assert store.size("k") is None
    assert store.sizes("folder") == {}
    assert store.folders("folder") == []
    store.delete("k")


def test_streams_whole_files_and_ranges(store: Store, tmp_path: Path) -> None:
    data = bytes(range(256)) * 40_000
    (tmp_path / "big").write_bytes(data)
    store.put_file("big", tmp_path / "big")
    assert b"".join(store.stream("big")) == data
    assert b"".join(store.stream("big", 1000, 3_000_000)) == data[1000:3_000_000]
    assert b"".join(store.stream("big", 10_000_000)) == data[10_000_000:]
    store.fetch("big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_lists_by_folder(store: Store) -> None:
    for key in ("jobs/b/x", "jobs/a/x", "jobs/a/deep/y", "jobsother/z"):
        store.write(key, b"12")
    assert store.folders("jobs") == ["a", "b"]
    assert store.sizes("jobs/a") == {"jobs/a/deep/y": 2, "jobs/a/x": 2}


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "a/../b", "..", "a//b", "a/", ".hidden", "a/.b", "a b", "a\\b", "a\0b"]
)
def test_refuses_what_is_no_key(store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        store.write(key, b"")


@given(st.text(max_size=40))
def test_a_key_never_leaves_the_root(key: str) -> None:
    try:
        Store.check(key)
    except ValueError:
        return
    assert not key.startswith("/")
    assert all(part not in {"", ".", ".."} for part in key.split("/"))
