import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.marking import rest_slow
from worker.storage.object_store import Store, StoreUnavailableError


def test_reads_what_was_written(any_store: Store) -> None:
    any_store.write("jobs/a/one.json", b"1")
    any_store.write("jobs/a/one.json", b"2")
    assert any_store.read("jobs/a/one.json") == b"2"
    assert any_store.size("jobs/a/one.json") == 1


def test_create_never_overwrites(any_store: Store) -> None:
    assert any_store.create("k", b"first")
    assert not any_store.create("k", b"second")
    assert not any_store.create("k", b"first")
    assert any_store.read("k") == b"first"


@pytest.mark.parametrize("any_store", rest_slow(["folder", "bucket"]), indirect=True)
def test_one_of_many_creates(any_store: Store) -> None:
    """Each by itself, all at once, with the same bytes: one is told that it was the one."""
    for turn in range(20):
        created = at_once(lambda _, key=f"jobs/{turn}/end.json": any_store.create(key, b"same"))
        assert sorted(created) == [False] * 7 + [True]


def at_once(work: Callable[[int], object], times: int = 8) -> list:
    barrier, found = threading.Barrier(times), []

    def one(number: int) -> None:
        barrier.wait()
        found.append(work(number))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.slow
def test_a_write_is_whole_at_any_time(any_store: Store) -> None:
    any_store.write("k", b"0" * 100_000)

    def write_or_read(number: int) -> bool:
        if number % 2:
            any_store.write("k", str(number).encode() * 100_000)
            return True
        data = any_store.read("k")
        return len(data) == 100_000 and len(set(data)) == 1

    assert all(all(at_once(write_or_read)) for _ in range(5))


def test_what_is_not_there(any_store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        any_store.read("k")
    with pytest.raises(FileNotFoundError):
        any_store.stream("k")
    with pytest.raises(FileNotFoundError):
        any_store.stream("k", 1, 2)
    with pytest.raises(FileNotFoundError):
        any_store.read_range("k", 0, 1)
    with pytest.raises(FileNotFoundError):
        any_store.fetch("k", tmp_path / "copy")
    assert any_store.size("k") is None
    assert not any_store.exists("k")
    assert any_store.sizes("folder") == {}
    assert any_store.folders("folder") == []
    any_store.delete("k")


def test_a_folder_is_no_object(any_store: Store) -> None:
    any_store.write("jobs/a/b", b"1")
    with pytest.raises(FileNotFoundError):
        any_store.read("jobs/a")
    assert any_store.size("jobs/a") is None
    assert any_store.read_many(["jobs/a", "jobs/a/b"]) == [None, b"1"]


def test_what_is_being_written_is_no_object(store: Store, tmp_path: Path) -> None:
    store.write("jobs/a/one", b"1")
    (tmp_path / "store" / "jobs" / "a" / "one#123").write_bytes(b"a writer that was killed left it")
    assert list(store.sizes("jobs")) == list(store.keys("jobs")) == list(store.modified("jobs")) == ["jobs/a/one"]
    assert [path.name for path in (tmp_path / "store" / "jobs" / "a").iterdir()] != ["one"]


def test_nothing_is_left_of_a_write_that_failed(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("jobs/a/one", b"1")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr(os, "link", refuse)
    for attempt in (lambda: store.write("jobs/a/one", b"2"), lambda: store.create("jobs/a/two", b"2")):
        with pytest.raises(StoreUnavailableError):
            attempt()
    assert [path.name for path in (tmp_path / "store" / "jobs" / "a").iterdir()] == ["one"]
    assert store.read("jobs/a/one") == b"1"


def test_a_folder_that_cannot_be_read_is_a_store_that_is_away(store: Store, tmp_path: Path) -> None:
    store.write("jobs/a", b"1")
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    (tmp_path / "store").write_bytes(b"")
    for ask in (store.read, store.size, store.exists):
        with pytest.raises(StoreUnavailableError):
            ask("jobs/a")


@pytest.mark.parametrize("any_store", rest_slow(["folder", "bucket"]), indirect=True)
def test_streams_whole_files_and_ranges(any_store: Store, tmp_path: Path) -> None:
    data = bytes(range(256)) * 80_000
    (tmp_path / "big").write_bytes(data)
    any_store.take_file("big", tmp_path / "big")
    assert any_store.size("big") == len(data)
    assert b"".join(any_store.stream("big")) == data
    assert b"".join(any_store.stream("big", 1000, 3_000_000)) == data[1000:3_000_000]
    assert b"".join(any_store.stream("big", 10_000_000)) == data[10_000_000:]
    assert any_store.read_range("big", 9_000_000, 9_000_010) == data[9_000_000:9_000_010]
    any_store.fetch("big", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_streams_in_small_chunks(any_store: Store, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(40 << 20))
    any_store.take_file("big", tmp_path / "big")
    assert max(len(chunk) for chunk in any_store.stream("big")) <= 10 << 20


def test_a_file_on_the_same_disk_is_not_copied(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    path.chmod(0o600)
    store.take_file("jobs/a/file", path)
    kept = tmp_path / "store" / "jobs" / "a" / "file"
    assert kept.samefile(path)
    assert kept.stat().st_mode & 0o777 == 0o644
    store.take_file("jobs/a/file", path)  # once more, as after an answer that was lost
    path.unlink()
    path.write_bytes(b"two")
    store.take_file("jobs/a/file", path)
    assert store.read("jobs/a/file") == b"two"
    path.unlink()
    assert store.read("jobs/a/file") == b"two"
    assert [entry.name for entry in kept.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_a_file_that_cannot_have_two_names_is_copied(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "file").write_bytes(b"data")
    store.take_file("jobs/a/file", tmp_path / "file")
    (tmp_path / "file").write_bytes(b"later")
    assert store.read("jobs/a/file") == b"data"


def test_a_file_that_is_not_there(any_store: Store, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="file"):
        any_store.take_file("jobs/a/file", tmp_path / "file")
    assert any_store.sizes("jobs") == {}


def test_files_are_replaced_at_once(store: Store, tmp_path: Path) -> None:
    """Whoever reads meanwhile finds one or the other."""
    (tmp_path / "0").write_bytes(b"0" * 1000)
    store.take_file("k", tmp_path / "0")

    def put_or_read(number: int) -> bool:
        if number % 2:
            path = tmp_path / str(number)
            path.unlink(missing_ok=True)
            path.write_bytes(str(number).encode() * 1000)
            store.take_file("k", path)
            return True
        data = store.read("k")
        return len(data) == 1000 and len(set(data)) == 1

    assert all(all(at_once(put_or_read)) for _ in range(20))


def test_an_empty_object(any_store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    any_store.take_file("file", tmp_path / "empty")
    any_store.write("record", b"")
    for key in ("file", "record"):
        assert any_store.read(key) == b"".join(any_store.stream(key)) == b""
        assert any_store.size(key) == 0


@pytest.mark.slow
def test_reads_many_at_once(any_store: Store) -> None:
    for number in range(40):
        any_store.write(f"jobs/{number}/x", str(number).encode())
    keys = [f"jobs/{number}/x" for number in range(50)]
    found = any_store.read_many(keys)
    assert found == [str(number).encode() for number in range(40)] + [None] * 10
    assert any_store.read_many([]) == []
    assert any_store.read_many(keys[:1]) == [b"0"]


def test_lists_by_folder(any_store: Store) -> None:
    for key in ("jobs/b/x", "jobs/a/x", "jobs/a/deep/y", "jobsother/z"):
        any_store.write(key, b"12")
    assert any_store.folders("jobs") == ["a", "b"]
    assert any_store.sizes("jobs/a") == {"jobs/a/deep/y": 2, "jobs/a/x": 2}
    assert list(any_store.sizes("jobs/a")) == sorted(any_store.sizes("jobs/a"))


@pytest.mark.slow
def test_lists_more_than_a_page(any_store: Store) -> None:
    names = [f"{number:03}" for number in range(230)]
    for name in reversed(names):
        any_store.write(f"jobs/{name}/x", b"")
    assert any_store.folders("jobs") == names
    assert list(any_store.sizes("jobs")) == [f"jobs/{name}/x" for name in names]


def test_a_folder_ends_with_its_last_object(any_store: Store) -> None:
    any_store.write("jobs/a/x", b"1")
    any_store.write("jobs/a/deep/y", b"1")
    any_store.delete("jobs/a/x")
    assert any_store.folders("jobs") == ["a"]
    any_store.delete("jobs/a/deep/y")
    assert any_store.folders("jobs") == []
    any_store.write("jobs/a/x", b"2")
    assert any_store.read("jobs/a/x") == b"2"


@pytest.mark.slow
def test_a_folder_that_is_emptied_while_it_is_filled(any_store: Store) -> None:
    def fill_and_empty(number: int) -> bool:
        for _ in range(20):
            any_store.write(f"open/{number}", b"")
            any_store.delete(f"open/{number}")
        return any_store.create(f"open/last-{number}", b"")

    assert all(at_once(fill_and_empty, 4))
    assert len(any_store.sizes("open")) == 4


def test_probes(any_store: Store) -> None:
    any_store.probe()
    any_store.probe()


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "a/../b", "..", "a//b", "a/", ".hidden", "a/.b", "a b", "a\\b", "a\0b"]
)
def test_refuses_what_is_no_key(any_store: Store, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        any_store.write(key, b"")


@given(st.text(max_size=40))
def test_a_key_never_leaves_the_root(key: str) -> None:
    try:
        Store.check(key)
    except ValueError:
        return
    assert not key.startswith("/")
    assert all(part not in {"", ".", ".."} for part in key.split("/"))
