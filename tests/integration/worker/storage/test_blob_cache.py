import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from worker.storage.compiler_cache import StoreCache
from worker.storage.identifiers import owner_digest
from worker.storage.object_store import Store

KEY = "ab" * 32


def test_entries_lie_under_their_own_prefix(store: Store) -> None:
    cache = StoreCache(store, 10, "a")
    assert cache.get(KEY) is None
    cache.put(KEY, b"first")
    cache.put(KEY, b"second")
    assert cache.get(KEY) == b"second"
    assert store.sizes("cache") == {f"cache/{owner_digest('a')}/ab/{KEY}": 6}


def test_an_entry_that_is_too_large_is_not_kept(store: Store) -> None:
    StoreCache(store, 10, "a").put(KEY, b"0123456789")
    assert StoreCache(store, 9, "a").get(KEY) is None
    StoreCache(store, 9, "a").put(KEY, b"x" * 10)
    assert StoreCache(store, 10, "a").get(KEY) == b"0123456789"


def test_a_store_that_fails_is_no_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = StoreCache(Store(tmp_path / "store"), 10, "a")
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").write_bytes(b"a file where the folder was")
    with caplog.at_level(logging.WARNING):
        cache.put(KEY, b"words")
        assert cache.get(KEY) is None
    assert any(KEY in record.getMessage() for record in caplog.records)


_WRITER = """
import sys
from pathlib import Path
from worker.storage.compiler_cache import StoreCache
from worker.storage.object_store import Store
cache = StoreCache(Store(Path(sys.argv[1])), 1 << 24, "a")
data = bytes(range(256)) * 4096
for _ in range(40):
    cache.put("ab" * 32, data)
    assert cache.get("ab" * 32) == data
"""


def test_two_processes_write_the_same_entry(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(tmp_path / "store")]
    writers = [subprocess.Popen(command, cwd=Path(__file__).parents[4]) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
