import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.helpers.idle_service import quiet_service
from tests.helpers.programs.hand_programs import addition, zipped

Check = Callable[..., dict]
LIMIT = 200_000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    limits = {f"max_{kind}_bytes": LIMIT for kind in ("model", "tensors", "program")}
    with quiet_service(tmp_path_factory.mktemp("small"), **limits) as running:
        yield running.client


def endless(total: int) -> Iterator[bytes]:
    for _ in range(total // 10_000):
        yield bytes(10_000)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/tensors", "/v1/programs"])
@pytest.mark.parametrize("total", [LIMIT + 10_000, 20 << 20])
def test_uploads_over_the_limit(small: httpx2.Client, is_problem: Check, path: str, total: int) -> None:
    is_problem(small.post(path, content=bytes(total)), 413, "too-large", "body")
    is_problem(small.post(path, content=endless(total)), 413, "too-large", "body")
    is_problem(small.post(path, files={"file": ("f", bytes(total))}), 413, "too-large", "body")
    assert small.get("/healthz").status_code == 200


def test_programs_over_the_limit_together_or_unpacked(small: httpx2.Client, is_problem: Check) -> None:
    parts = addition()
    assert small.post("/v1/programs", content=zipped(parts)).status_code == 201
    large = parts | {"x2.bin": bytes(LIMIT)}
    form = [("file", (name, data)) for name, data in large.items()]
    is_problem(small.post("/v1/programs", files=form), 413, "too-large", "body")
    is_problem(small.post("/v1/programs", content=zipped(large)), 422, "program-too-large", "body")


def test_other_bodies_over_the_limit(small: httpx2.Client, is_problem: Check) -> None:
    json = {"content-type": "application/json"}
    is_problem(small.post("/v1/jobs", content=b" " * 1_000_000, headers=json), 413, "too-large", "body")
    is_problem(small.post("/v1/jobs", content=endless(1_000_000), headers=json), 413, "too-large", "body")


def test_a_declared_length_beyond_all_measure_is_refused_unread(small: httpx2.Client) -> None:
    parts = urlsplit(str(small.base_url))
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        head = f"POST /v1/models HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {1 << 50}\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(4096)


def test_an_upload_that_breaks_off_leaves_nothing(small: httpx2.Client) -> None:
    parts = urlsplit(str(small.base_url))
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        head = f"POST /v1/models HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: 1000\r\n\r\npart"
        connection.sendall(head.encode())
    assert small.get("/healthz").status_code == 200
