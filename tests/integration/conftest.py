import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.buckets import BucketServer, bucket_server
from worker.queue.job_queue import JobQueue
from worker.records.job_request import JobRequest
from worker.records.job_store import Jobs
from worker.storage.object_store import Store
from worker.storage.redis_server import connect, redis_server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def bucket() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(params=["folder", "bucket"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store of each kind."""
    if request.param == "folder":
        return Store(tmp_path / "store")
    server: BucketServer = request.getfixturevalue("bucket")
    return server.store(f"tests/{secrets.token_hex(4)}")


@pytest.fixture
def jobs(store: Store) -> Jobs:
    return Jobs(store)


@pytest.fixture
def request_() -> JobRequest:
    return JobRequest(model="a" * 64, accelerator="vta")


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def queue(redis_url: str) -> Iterator[JobQueue]:
    connection = connect(redis_url)
    connection.flushall()
    yield JobQueue(connection, "test")
    connection.close()
