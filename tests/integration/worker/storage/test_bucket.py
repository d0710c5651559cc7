"""A bucket that is away, slow, forgetful, or not there."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.buckets import BucketServer, bucket_server
from worker.storage.object_store import Store, StoreUnavailableError
from worker.storage.s3_bucket import BucketAccess, open_bucket

# where nothing answers; a busy machine may need longer to answer at all
RETRY_SECONDS = 0.6


@pytest.fixture
def store(bucket: BucketServer, tmp_path: Path) -> Store:
    return bucket.store(f"bucket/{tmp_path.name}", retry_seconds=30.0)


@pytest.fixture
def impatient(bucket: BucketServer, tmp_path: Path) -> Store:
    """The same objects, to be told soon that they cannot be reached."""
    return bucket.store(f"bucket/{tmp_path.name}", retry_seconds=RETRY_SECONDS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(bytes(20 << 20))
    return tmp_path / "file"


def uses(store: Store, file: Path) -> dict[str, Callable[[], object]]:
    """Everything that a store does with small objects, and the beginning of what it does with large ones."""
    return {
        "read": lambda: store.read("there"),
        "read_many": lambda: store.read_many(["there", "not-there"]),
        "write": lambda: store.write("other", b"1"),
        "create": lambda: store.create("new", b"1"),
        "size": lambda: store.size("there"),
        "sizes": lambda: store.sizes("jobs"),
        "folders": lambda: store.folders("jobs"),
        "delete": lambda: store.delete("there"),
        "read_range": lambda: store.read_range("there", 0, 1),
        "probe": store.probe,
        "take_file": lambda: store.take_file("blob", file),
        "stream": lambda: store.stream("there"),
    }


def assert_unavailable(work: Callable[[], object], name: str) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        work()
    assert "\n" not in str(caught.value), name


def test_how_long_a_bucket_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    class Recorded:
        @staticmethod
        def from_url(_url: str, **options: Any) -> None:
            given.append(options)

    monkeypatch.setattr("worker.storage.s3_bucket.S3Store", Recorded)
    open_bucket(BucketAccess("s3://a"), 4.0)
    seconds = [
        (
            options["client_options"]["connect_timeout"].total_seconds(),
            options["client_options"]["read_timeout"].total_seconds(),
            options["retry_config"]["retry_timeout"].total_seconds(),
        )
        for options in given
    ]
    assert seconds == [(1, 2, 2), (1, 60, 2)]


@pytest.mark.slow
def test_a_bucket_that_is_away(file: Path) -> None:
    with bucket_server() as server:
        server.store("a").write("there", b"1")
        store = server.store("a", retry_seconds=RETRY_SECONDS)
    for name, work in uses(store, file).items():
        assert_unavailable(work, name)


@pytest.mark.slow
def test_a_bucket_that_comes_back(bucket: BucketServer, store: Store, impatient: Store, file: Path) -> None:
    store.write("there", b"1")
    slow = {"take_file", "stream"}  # a blob's first byte may take a minute
    with bucket.silent():
        for name, work in uses(impatient, file).items():
            if name not in slow:
                assert_unavailable(work, name)
    store.probe()  # what was asked for meanwhile may be done later
    assert store.create("another", b"1")


@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 503])
def test_a_bucket_that_answers_with_an_error(
    bucket: BucketServer, store: Store, impatient: Store, file: Path, status: int
) -> None:
    store.write("there", b"1")
    with bucket.faulty(status=status):
        for name, work in uses(impatient, file).items():
            assert_unavailable(work, name)
    assert store.read("there") == b"1"


def test_a_bucket_that_does_not_exist(bucket: BucketServer, file: Path) -> None:
    store = bucket.store("a", name="another", retry_seconds=RETRY_SECONDS)
    for name, work in uses(store, file).items():
        if name not in {"size", "delete"}:  # their answers have no body that says what is missing
            assert_unavailable(work, name)


def test_a_creation_whose_answer_is_lost(bucket: BucketServer, store: Store) -> None:
    with bucket.faulty(lost=1):
        assert store.create("k", b"same")
    assert not store.create("k", b"same")
    with bucket.faulty(lost=1):
        assert not store.create("k", b"same")
    assert store.read("k") == b"same"


def test_a_bucket_that_creates_twice_is_not_ready(bucket: BucketServer, store: Store) -> None:
    with bucket.faulty(blind=1), pytest.raises(StoreUnavailableError, match="If-None-Match"):
        store.probe()


@pytest.mark.slow
def test_reads_that_wait_for_each_other_less(bucket: BucketServer, store: Store) -> None:
    keys = [f"jobs/{number}/x" for number in range(48)]
    with bucket.faulty(delay=0.1):
        begin = time.monotonic()
        assert store.read_many(keys) == [None] * 48
        assert time.monotonic() - begin < 48 * 0.1  # which one after the other takes at least


@pytest.mark.slow
def test_made_before_a_fork_and_used_after_it(store: Store) -> None:
    """As a worker does: its parent process never uses the store."""
    code = (
        "import os, sys\n"
        "from worker.storage.connections import open_store\n"
        "from worker.config.settings import Settings\n"
        "store = open_store(Settings())\n"
        "for _ in range(3):\n"
        "    if (pid := os.fork()) == 0:\n"
        "        store.write('forked', b'1')\n"
        "        os._exit(0 if store.read('forked') == b'1' else 1)\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
    )
    with bucket_server() as server:
        environment = os.environ | server.environment("forks")
        root = Path(__file__).parents[4]
        subprocess.run([sys.executable, "-c", code], cwd=root, env=environment, check=True, timeout=60)
        assert server.store("forks").read("forked") == b"1"


_LARGE = """
import resource, sys
from pathlib import Path
from typing import Any
from worker.storage.connections import open_store
from worker.config.settings import Settings
store = open_store(Settings())
store.write("k", b"1")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
store.take_file("large", Path(sys.argv[1]))
store.fetch("large", Path(sys.argv[1] + ".copy"))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


@pytest.mark.slow
def test_a_large_file_takes_little_memory(tmp_path: Path) -> None:
    size = 256 << 20
    with (tmp_path / "large").open("wb") as file:
        file.truncate(size)
    with bucket_server() as server:
        done = subprocess.run(
            [sys.executable, "-c", _LARGE, tmp_path / "large"],
            cwd=Path(__file__).parents[4],
            env=os.environ | server.environment("large"),
            stdout=subprocess.PIPE,
            check=True,
            timeout=120,
        )
        assert server.store("large").size("large") == size
    assert (tmp_path / "large.copy").stat().st_size == size
    assert int(done.stdout) < size // 3
