from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from service.middleware.bodies import HeadAsGet
from service.middleware.compression import Compression


def test_head_is_get_without_its_body(client: httpx2.Client) -> None:
    for path in ("/healthz", "/v1/jobs", "/v1/accelerators/vta", "/openapi.json", "/v1/models/nothing"):
        got, head = client.get(path), client.head(path)
        assert head.status_code == got.status_code
        assert head.content == b""
        for name in ("content-type", "content-length"):
            assert head.headers[name] == got.headers[name]


def test_head_of_what_is_only_posted(client: httpx2.Client) -> None:
    assert client.head(f"/v1/jobs/{'0' * 32}/cancel").status_code == 405


@pytest.mark.parametrize("encoding", ["identity", "zstd"])
def test_of_a_long_answer_only_the_beginning_is_made(encoding: str) -> None:
    made = 0
    closed = False

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal made, closed
        try:
            for number in range(1000):
                made += 1
                yield f"{number} ".encode() * 10_000
        finally:
            closed = True

    async def long(_: Request) -> StreamingResponse:
        return StreamingResponse(pieces(), media_type="text/plain", headers={"ETag": '"1"'})

    app = Starlette(routes=[Route("/", long)], middleware=[Middleware(HeadAsGet), Middleware(Compression)])
    with TestClient(app) as client:
        head = client.head("/", headers={"Accept-Encoding": encoding})
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["etag"] == ('W/"1"' if encoding == "zstd" else '"1"')
    assert made < 100
    assert closed
