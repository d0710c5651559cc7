import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.backend import listen
from service.middleware.access_control import resolve_auth
from service.server import serving_in_thread
from tests.helpers.idle_service import Quiet, a_model, quiet_service
from worker.config.settings import Settings
from worker.identity.api_keys import ApiKeys
from worker.storage.object_store import Store

Check = Callable[..., dict]


@pytest.mark.parametrize(
    ("host", "auth", "expected"),
    [
        ("127.0.0.1", "auto", "off"),
        ("localhost", "auto", "off"),
        ("127.1.2.3", "auto", "off"),
        ("0.0.0.0", "auto", "keys"),
        ("", "auto", "keys"),
        ("127.0.0.1", "keys", "keys"),
        ("0.0.0.0", "off", "off"),
    ],
)
def test_keys_are_needed_where_others_can_reach(host: str, auth: Any, expected: str) -> None:
    with listen(host, 0) as bound:
        assert resolve_auth(auth, bound) == expected


@pytest.mark.parametrize(("host", "expected"), [("::1", "off"), ("::", "keys"), ("::ffff:127.0.0.1", "off")])
def test_and_of_ipv6(host: str, expected: str) -> None:
    class Bound:
        def getsockname(self) -> tuple[str, int, int, int]:
            return host, 1, 0, 0

    assert resolve_auth("auto", Bound()) == expected  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    """Little may be asked, and little may wait."""
    limits = {"rate_uploads": 5, "rate_submissions": 20, "most_waiting": 3, "most_waiting_of_owner": 2}
    with quiet_service(tmp_path_factory.mktemp("narrow"), auth="keys", **limits) as running:
        yield running


@pytest.fixture
def enter(narrow: Quiet) -> Iterator[Callable[[str], httpx2.Client]]:
    with contextlib.ExitStack() as clients:

        def client_of(owner: str) -> httpx2.Client:
            headers = {"Authorization": f"Bearer {ApiKeys(narrow.store).add(owner, owner)[1]}"}
            made = httpx2.Client(base_url=narrow.client.base_url, timeout=30, headers=headers)
            return clients.enter_context(made)

        yield client_of


@pytest.mark.slow
def test_it_says_how_to_make_the_first_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(data=tmp_path, redis_url="unix:///nowhere", auth="keys")
    for told in (True, False):
        caplog.clear()
        with listen("127.0.0.1", 0) as bound, serving_in_thread(settings, bound) as url:
            assert httpx2.get(f"{url}/healthz").status_code == 200
        assert ("cyclops keys add" in caplog.text) is told
        ApiKeys(Store(settings.store_dir)).add("first", "first")


def test_too_many_uploads_of_an_owner(enter: Callable[[str], httpx2.Client], is_problem: Check) -> None:
    one, same, other = enter("one"), enter("one"), enter("other")
    for _ in range(5):
        answer = one.post("/v1/models", content=b"none")
        assert answer.status_code == 422
        assert '"uploads"' in answer.headers["RateLimit"]
    for client in (one, same):
        refused = client.post("/v1/models", content=b"none")
        is_problem(refused, 429, "rate-limited")
        assert 0 < int(refused.headers["Retry-After"]) <= 13
        assert refused.headers["RateLimit"].startswith('"uploads";r=0;t=')
    assert one.get("/v1/jobs").status_code == 200
    assert other.post("/v1/models", content=b"none").status_code == 422


def test_too_many_jobs_wait(enter: Callable[[str], httpx2.Client], is_problem: Check) -> None:
    """Of an owner two may wait, of all three."""
    model = a_model(1)
    clients = [enter("first"), enter("second")]
    jobs = [
        {"model": client.post("/v1/models", content=model).json()["id"], "accelerator": "vta"} for client in clients
    ]
    accepted = []
    for client, job in zip(clients, jobs, strict=True):
        for _ in range(4):
            answer = client.post("/v1/jobs", json=job)
            if answer.status_code != 202:
                problem = is_problem(answer, 429, "queue-full")
                assert int(answer.headers["Retry-After"]) > 0
                break
            accepted.append((client, answer.json()["id"]))
        if client is clients[0]:
            assert problem["detail"] == "2 jobs of yours wait; try again later"
    assert problem["detail"] == "3 jobs wait; try again later"
    assert [client for client, _ in accepted] == [clients[0], clients[0], clients[1]]
    for client, job_id in accepted:
        assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
    again = clients[0].post("/v1/jobs", json=jobs[0])
    assert again.status_code == 202
    assert clients[0].post(f"/v1/jobs/{again.json()['id']}/cancel").status_code == 200


@pytest.mark.slow
def test_where_no_keys_are_needed_addresses_may_be_counted(tmp_path: Path, is_problem: Check) -> None:
    with quiet_service(tmp_path, rate_by_address=True, rate_uploads=2) as running:  # which has had an upload
        assert running.client.post("/v1/models", content=b"none").status_code == 422
        is_problem(running.client.post("/v1/models", content=b"none"), 429, "rate-limited")


def test_without_keys_nothing_is_counted(client: httpx2.Client) -> None:
    assert "RateLimit" not in client.get("/v1/jobs", headers={"Authorization": "Bearer anything"}).headers
