from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from examples.resnet8 import resnet8
from service.middleware.access_control import resolve_auth
from service.server import listen
from tests.conftest import Service
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
def narrow(start_service: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Little may be asked, and little may wait."""
    limits = {
        "CYCLOPS_RATE_UPLOADS": "5",
        "CYCLOPS_RATE_SUBMISSIONS": "20",
        "CYCLOPS_MOST_WAITING": "3",
        "CYCLOPS_MOST_WAITING_OF_OWNER": "2",
    }
    with start_service(tmp_path_factory.mktemp("narrow"), CYCLOPS_AUTH="keys", **limits) as running:
        yield running


@pytest.fixture
def enter(narrow: Service) -> Iterator[Callable[[str], httpx2.Client]]:
    clients: list[httpx2.Client] = []

    def client_of(owner: str) -> httpx2.Client:
        key = ApiKeys(Store(narrow.data / "store")).add(owner, owner)[1]
        headers = {"Authorization": f"Bearer {key}"}
        clients.append(httpx2.Client(base_url=narrow.url, timeout=30, headers=headers))
        return clients[-1]

    yield client_of
    for client in clients:
        client.close()


def test_it_says_how_to_make_the_first_key(narrow: Service) -> None:
    assert any("cyclops keys add" in line for line in narrow.lines)


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


def test_too_many_jobs_wait(enter: Callable[[str], httpx2.Client], is_problem: Check, narrow: Service) -> None:
    """One runs; of an owner two more may wait, of all three."""
    model = resnet8().SerializeToString()
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
    assert 3 <= len(accepted) <= 4
    for client, job_id in accepted:
        assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200
    again = clients[0].post("/v1/jobs", json=jobs[0])
    assert again.status_code == 202
    assert clients[0].post(f"/v1/jobs/{again.json()['id']}/cancel").status_code == 200


@pytest.mark.slow
def test_where_no_keys_are_needed_addresses_may_be_counted(
    start_service: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory, is_problem: Check
) -> None:
    settings = {"CYCLOPS_RATE_BY_ADDRESS": "true", "CYCLOPS_RATE_UPLOADS": "1"}
    with start_service(tmp_path_factory.mktemp("addresses"), **settings) as running:
        assert running.client.post("/v1/models", content=b"none").status_code == 422
        is_problem(running.client.post("/v1/models", content=b"none"), 429, "rate-limited")


def test_without_keys_nothing_is_counted(client: httpx2.Client) -> None:
    assert "RateLimit" not in client.get("/v1/jobs", headers={"Authorization": "Bearer anything"}).headers
