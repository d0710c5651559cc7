"""Webhooks at the door: what is refused, who sees them, and that they change nothing else."""

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from service.http.problems import ProblemError
from service.http.resources import JobSubmission
from service.jobs.webhook_submission import check_webhook
from tests.helpers.idle_service import Quiet, quiet_service
from worker.records.accelerator_store import Accelerators
from worker.records.result_cache import ResultCache

SECRET = "whsec_" + "A" * 44
NO_PORTS = [{"webhook_ports": text} for text in ("", "0", "65536", "9-8", "443,", "https", "1-99999")]
Check = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("quiet"), webhook_networks="10.0.0.0/8") as made:
        yield made


def hook(url: str = "https://example.com/x", secret: str = SECRET) -> dict[str, Any]:
    return {"webhook": {"url": url, "secret": secret}}


@pytest.mark.parametrize(
    ("webhook", "field"),
    [
        (hook("http://example.com/"), "webhook.url"),
        (hook("https://u:p@example.com/"), "webhook.url"),
        (hook("https://example.com/#f"), "webhook.url"),
        (hook("https://example.com:99999/"), "webhook.url"),
        (hook("https://example.com/" + "a" * 3000), "webhook.url"),
        (hook("https://127.0.0.1/"), "webhook.url"),
        (hook("https://[::ffff:127.0.0.1]/"), "webhook.url"),
        (hook("https://[::1]/"), "webhook.url"),
        (hook("https://169.254.169.254/latest"), "webhook.url"),
        (hook("https://2130706433/"), "webhook.url"),
        (hook("https://192.168.1.1/"), "webhook.url"),
        (hook(secret="secret"), "webhook.secret"),
        ({"webhook": {"url": "https://example.com"}}, "webhook.secret"),
        ({"webhook": "https://example.com"}, "webhook"),
        ({"webhook": hook()["webhook"] | {"events": []}}, "webhook.events"),
    ],
)
def test_what_cannot_be_sent_to_is_refused(quiet: Quiet, is_problem: Check, webhook: Any, field: str) -> None:
    answer = quiet.client.post("/v1/jobs", json=quiet.request() | webhook)
    problem = is_problem(answer, 422, "invalid-request", field)
    assert SECRET[6:] not in answer.text
    assert problem["detail"]
    assert not quiet.store.sizes("webhooks")


def test_a_port_that_webhooks_do_not_go_to(quiet: Quiet, is_problem: Check) -> None:
    request = JobSubmission.model_validate(quiet.request() | hook("https://example.com:8443/"))
    for ports, networks, refused in (("443", "", True), ("443, 8000-9000", "", False), ("443", "10.0.0.0/8", False)):
        settings = quiet.settings.model_copy(update={"webhook_ports": ports, "webhook_networks": networks})
        with pytest.raises(ProblemError, match="port 443, not to 8443") if refused else contextlib.nullcontext():
            check_webhook(request, SimpleNamespace(settings=settings))  # type: ignore[arg-type]
    for url in ("https://1.1.1.1:22/", "https://[2606:4700::1111]:80/"):
        answer = quiet.client.post("/v1/jobs", json=quiet.request() | hook(url))
        assert "port 443" in is_problem(answer, 422, "invalid-request", "webhook.url")["detail"]
    quiet.post(quiet.request(seed=11) | hook("https://10.1.2.3:8443/"))


def test_it_waits_for_the_end_and_is_in_no_record(quiet: Quiet) -> None:
    job = quiet.post(quiet.request(seed=1) | hook("https://10.1.2.3/x"))
    (item,) = quiet.client.get(job["links"]["webhooks"]).json()["items"]
    assert (item["state"], item["attempts"], item["url"]) == ("pending", 0, "https://10.1.2.3/x")
    assert "webhook" not in job
    home = f"jobs/{job['id']}/"
    assert not [key for key in quiet.store.sizes("jobs") if key.startswith(home) and b"whsec" in quiet.store.read(key)]


def test_a_job_is_the_same_with_and_without(quiet: Quiet) -> None:
    answers = ResultCache(quiet.store, quiet.jobs, Accelerators(quiet.store))
    ids = [quiet.post(quiet.request(seed=2) | extra)["id"] for extra in ({}, hook(), hook("https://other.example"))]
    assert len({answers.key(quiet.jobs.get(job), "local") for job in ids}) == 1


def test_a_key_of_idempotency_has_one_job_and_one_webhook(quiet: Quiet, is_problem: Check) -> None:
    header = {"idempotency-key": "w"}
    first, again = (quiet.post(quiet.request(seed=3) | hook(), **header) for _ in range(2))
    assert first["id"] == again["id"]
    assert len(quiet.client.get(first["links"]["webhooks"]).json()["items"]) == 1
    other = quiet.client.post("/v1/jobs", json=quiet.request(seed=3) | hook("https://b.example"), headers=header)
    is_problem(other, 422, "idempotency-key-reused")


def test_a_job_that_is_not_there(quiet: Quiet, is_problem: Check) -> None:
    is_problem(quiet.client.get("/v1/jobs/" + "0" * 32 + "/webhooks"), 404, "not-found")


@pytest.mark.slow
def test_a_service_that_sends_none(tmp_path: Any, is_problem: Check) -> None:
    with quiet_service(tmp_path, webhooks=False) as quiet:
        answer = quiet.client.post("/v1/jobs", json=quiet.request() | hook())
        is_problem(answer, 422, "invalid-request", "webhook")


def test_settings_that_say_nothing(tmp_path: Any) -> None:
    from worker.config.settings import Settings  # noqa: PLC0415

    for wrong in (
        {"webhook_networks": "10.0.0.1/8"},
        {"webhook_networks": "x"},
        {"webhook_delays": "1.2.3"},
        *NO_PORTS,
    ):
        with pytest.raises(ValueError, match="webhook"):
            Settings(data=tmp_path, **wrong)
    made = Settings(data=tmp_path, webhook_networks="10.0.0.0/8,fd00::/8")
    assert [str(network) for network in made.permitted_networks] == ["10.0.0.0/8", "fd00::/8"]
    assert made.delays[:2] == [5.0, 300.0]
