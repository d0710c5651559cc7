from collections.abc import Iterator
from pathlib import Path

import pytest

from worker.jobs import JobRequest, Jobs
from worker.queue import JobQueue
from worker.redis_server import connect, redis_server
from worker.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


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
    yield JobQueue(connection, "test", job_seconds=60)
    connection.close()
