from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.util.content_cache import FolderCache, SealedCache, cache_key

KEY = "ab" * 32


class MemoryCache(dict[str, bytes]):
    """A cache for one process."""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data


@given(st.binary())
def test_what_is_put_is_there(data: bytes) -> None:
    cache = MemoryCache()
    SealedCache(cache).put(KEY, data)
    assert SealedCache(cache).get(KEY) == data
    assert SealedCache(cache).get("cd" * 32) is None


@given(st.data())
def test_an_entry_that_was_changed_is_not_there(data: st.DataObject) -> None:
    cache = MemoryCache()
    SealedCache(cache).put(KEY, b"some instruction words" * 9)
    whole = cache[KEY]
    at = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(flipped), whole[:at], whole + b"\0", b""):
        cache[KEY] = damaged
        assert SealedCache(cache).get(KEY) is None


def test_an_entry_under_another_key_is_not_there() -> None:
    cache = MemoryCache()
    SealedCache(cache).put(KEY, b"words")
    cache["cd" * 32] = cache[KEY]
    assert SealedCache(cache).get("cd" * 32) is None


def test_without_a_cache_nothing_is_kept() -> None:
    SealedCache(None).put(KEY, b"words")
    assert SealedCache(None).get(KEY) is None


def test_a_key_is_of_all_its_parts_and_of_their_borders() -> None:
    keys = [cache_key(*parts) for parts in [("a", "b", "c"), ("a", "bc"), ("a", "b", ""), ("b", "a", "c"), ("abc",)]]
    assert len({*keys}) == len(keys)
    assert all(len(key) == 64 and key == key.lower() for key in keys)
    assert cache_key("a", "b", "c") == keys[0]


def test_a_folder_keeps_entries(tmp_path: Path) -> None:
    FolderCache(tmp_path / "new").put(KEY, b"one")
    FolderCache(tmp_path / "new").put(KEY, b"two")
    assert FolderCache(tmp_path / "new").get(KEY) == b"two"
    assert FolderCache(tmp_path / "new").get("cd" * 32) is None
    assert [path.name for path in (tmp_path / "new").iterdir()] == [KEY]


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_keeps_nothing(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    cache = FolderCache(tmp_path / place)
    cache.put(KEY, b"one")
    assert cache.get(KEY) is None
