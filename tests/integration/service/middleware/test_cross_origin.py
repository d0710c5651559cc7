"""What pages of other sites may do, and what their scripts see."""

from collections.abc import Callable, Iterator

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from service.middleware.cross_origin import AllowedHosts, CrossOriginGuard
from tests.helpers.idle_service import Quiet, quiet_service
from worker.config.settings import Settings

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


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST:8000", "localhost.", "app.localhost:1", "127.0.0.1", "127.1.2.3:65535"),
        *("[::1]", "[::1]:80", "[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]:8000"),
    ],
)
def test_names_of_the_loopback_address(host: str) -> None:
    assert AllowedHosts([]).known(host)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "evillocalhost"),
        *("localhost:8000@evil.example", "evil.example/localhost", "localhost, evil.example", "localhost:x"),
        *("localhost:65536", "127.0.0.1:99999"),
        *("", ":8000", "[::1].evil.example", "[::2]", "10.0.0.1", "169.254.169.254", "0.0.0.0", "cyclops", "\xff"),
    ],
)
def test_other_names(host: str) -> None:
    assert not AllowedHosts([]).known(host)
    assert AllowedHosts([], others=True).known(host)
    assert AllowedHosts(["*"]).known(host)


def test_names_of_the_settings() -> None:
    settings = Settings(allowed_hosts="Cyclops.example, *.lab.example,[2001:db8::1], 192.0.2.1")
    names = AllowedHosts(settings.hosts)
    for host in (
        "cyclops.example:443",
        "a.lab.example",
        "a.b.LAB.example:8",
        "[2001:db8::1]:1",
        "192.0.2.1",
        "localhost",
    ):
        assert names.known(host), host
    for host in ("lab.example", "evillab.example", "a.cyclops.example", "192.0.2.2"):
        assert not names.known(host), host


@pytest.mark.parametrize("text", ["a.example/", "http://a.example", "a.example:80", "*.", "a,", "*a.example"])
def test_names_that_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match="allowed_hosts"):
        Settings(allowed_hosts=text)


def test_a_page_under_a_name_that_leads_here_reads_nothing(quiet: Quiet, is_problem: Callable[..., dict]) -> None:
    evil = {"Host": "evil.example:8000"}
    for path in ("/", "/docs", "/openapi.json", "/v1/jobs", "/v1/about", "/metrics", "/healthz", "/v1/jobs/x/events"):
        problem = is_problem(quiet.client.get(path, headers=evil), 403, "forbidden-host", "Host")
        assert "evil.example" in problem["detail"]
        assert "CYCLOPS_ALLOWED_HOSTS" in problem["detail"]
        assert quiet.client.head(path, headers=evil).status_code == 403
    is_problem(quiet.client.post("/v1/jobs", json=quiet.request(), headers=evil), 403, "forbidden-host")


def test_containers_ask_by_their_own_names_how_it_is(quiet: Quiet) -> None:
    for host in ("api:8000", "172.18.0.3:8000", "[fd00::3]:8000"):
        assert quiet.client.get("/healthz", headers={"Host": host}).status_code == 200
        assert quiet.client.get("/readyz", headers={"Host": host}).status_code != 403
        assert quiet.client.get("/v1/jobs", headers={"Host": host}).status_code == 403


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},  # another server of the same machine
    {"Origin": "file://"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_page_of_another_site_changes_nothing(
    quiet: Quiet, is_problem: Callable[..., dict], headers: dict[str, str]
) -> None:
    job = quiet.post(quiet.request(seed=5))["id"]
    client = quiet.client
    for method, path in (
        *(("POST", f"/v1/jobs/{job}/cancel"), ("POST", f"/v1/jobs/{job}/share"), ("DELETE", f"/v1/jobs/{job}")),
        ("DELETE", f"/v1/models/{quiet.model}"),
    ):
        is_problem(client.request(method, path, headers=headers), 403, "cross-origin")
    for body in ({"content": b"x"}, {"data": {"a": "b"}}, {"files": {"file": b"x"}}):  # forms need no script
        is_problem(client.post("/v1/tensors", headers=headers, **body), 403, "cross-origin")
    is_problem(client.post("/v1/jobs", json=quiet.request(), headers=headers), 403, "cross-origin")
    assert client.get(f"/v1/jobs/{job}", headers=headers).json()["state"] == "queued"  # links lead here
    client.post(f"/v1/jobs/{job}/cancel")


def test_our_own_pages_and_those_that_may_write(quiet: Quiet) -> None:
    own = str(quiet.client.base_url).rstrip("/")
    for headers in (
        {"Origin": own},
        {"Origin": own, "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},  # a form of a page that sends no referrer
        {"Sec-Fetch-Site": "none"},
        {"Origin": ORIGIN},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {},
    ):
        assert quiet.client.post("/v1/jobs/none/cancel", headers=headers).status_code == 404, headers


def test_where_keys_are_needed_any_name_will_do_unless_some_are_set() -> None:
    def status(headers: dict[str, str], method: str = "GET", **settings: str) -> int:
        client = TestClient(CrossOriginGuard(Starlette(), Settings(**settings)), base_url="http://cyclops.example")
        return client.request(method, "/nothing", headers=headers).status_code

    assert status({}, auth="keys") == 404
    assert status({}, auth="off") == 403
    assert status({}, auth="keys", allowed_hosts="other.example") == 403
    assert status({}, auth="off", allowed_hosts="cyclops.example") == 404
    # a proxy that speaks TLS, and one that asks by a name of its own
    assert status({"Origin": "https://cyclops.example"}, "POST", auth="keys") == 404
    proxied = {"Host": "api:8000", "Origin": "https://cyclops.example"}
    assert status(proxied, "POST", auth="keys") == 403
    assert status(proxied | {"Sec-Fetch-Site": "same-origin"}, "POST", auth="keys") == 404
    assert status({"Origin": "https://evil.example"}, "POST", auth="keys") == 403
    assert status({"Origin": "https://evil.example"}, "POST", auth="keys", cors_origins="*") == 404
