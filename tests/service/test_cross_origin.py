"""What scripts of other sites' pages see."""

from collections.abc import Iterator

import pytest

from tests.service.quiet import Quiet, quiet_service

ORIGIN = "https://a.example"
# scripts always see these (Fetch, section 3.3.3)
SAFE = {"cache-control", "content-language", "content-length", "content-type", "expires", "last-modified", "pragma"}
# these are for the browser and for caches, which see to them
BROWSERS = {
    *("access-control-allow-origin", "access-control-expose-headers", "content-encoding", "content-security-policy"),
    *("cross-origin-resource-policy", "date", "referrer-policy", "server", "vary", "x-content-type-options"),
    *("transfer-encoding", "x-accel-buffering"),
}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    made = quiet_service(tmp_path_factory.mktemp("quiet"), cors_origins=ORIGIN, rate_by_address=True, rate_uploads=3)
    with made as running:
        yield running


def test_scripts_see_every_header_that_is_for_them(quiet: Quiet) -> None:
    client, asking = quiet.client, {"Origin": ORIGIN}
    job = client.post("/v1/jobs", json=quiet.request(), headers=asking | {"Idempotency-Key": "1", "Prefer": "wait=0"})
    again = client.post("/v1/jobs", json=quiet.request(), headers=asking | {"Idempotency-Key": "1"})
    home = job.headers["location"]
    client.post(f"{home}/cancel")
    answers = [
        *(job, again, client.get(home, headers=asking), client.get("/v1/jobs", headers=asking)),
        client.get("/v1/accelerators", headers=asking),
        client.put("/v1/jobs", headers=asking),
        client.get("/v1/jobs/none", headers=asking),
        client.post("/v1/jobs", content=b"x", headers=asking | {"Content-Encoding": "gzip"}),
        client.get(f"{home}/events", headers=asking),
        *(client.post("/v1/tensors", content=b"x", headers=asking) for _ in range(4)),
    ]
    assert {answer.status_code for answer in answers} >= {200, 202, 404, 405, 415, 422, 429}
    seen = set()
    for answer in answers:
        shown = {name.strip().lower() for name in answer.headers["Access-Control-Expose-Headers"].split(",")}
        names = {name.lower() for name in answer.headers}
        assert names - SAFE - BROWSERS <= shown, answer.request.url
        seen |= names
    assert seen >= {"x-request-id", "etag", "location", "retry-after", "ratelimit", "idempotent-replayed", "allow"}


def test_scripts_may_send_what_the_api_reads(quiet: Quiet) -> None:
    for name in ("Authorization", "Idempotency-Key", "If-None-Match", "Prefer", "Last-Event-ID", "X-Request-Id"):
        asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": name}
        assert quiet.client.options("/v1/jobs", headers=asked).status_code == 200, name
