from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import preset_names
from tests.helpers.idle_service import Quiet

Check = Callable[..., dict]
OTHER = next(name for name in preset_names() if name != "vta")


def key(text: str) -> dict[str, str]:
    return {"idempotency-key": text}


def test_a_submission_that_is_sent_again(quiet: Quiet) -> None:
    first = quiet.client.post("/v1/jobs", json=quiet.request(seed=1), headers=key('"1"'))
    again = quiet.client.post("/v1/jobs", json=quiet.request(seed=1, trace=True), headers=key('"1"'))
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert quiet.post(quiet.request(seed=1))["id"] != first.json()["id"]
    assert quiet.post(quiet.request(seed=1), **key("2"))["id"] != first.json()["id"]


def test_it_is_remembered_without_redis_and_when_the_job_has_ended(quiet: Quiet, tmp_path: Path) -> None:
    first = quiet.post(quiet.request(seed=2), **key("ends"))
    quiet.succeed(first["id"], tmp_path)
    again = quiet.post(quiet.request(seed=2), **key("ends"))
    assert (again["id"], again["state"], again["cached"]) == (first["id"], "succeeded", False)
    cached = quiet.post(quiet.request(seed=2), 200, **key("cached"))
    assert cached == quiet.post(quiet.request(seed=2), 200, **key("cached")) == again | {"cached": True}
    fresh = quiet.post(quiet.request(seed=2) | {"fresh": True}, **key("fresh"))
    assert fresh["id"] != first["id"]
    assert quiet.post(quiet.request(seed=2) | {"fresh": True}, **key("fresh"))["id"] == fresh["id"]


@pytest.mark.parametrize("change", [{"options": {"seed": 4}}, {"fresh": True}, {"accelerator": OTHER}])
def test_a_key_with_another_request(quiet: Quiet, is_problem: Check, change: dict) -> None:
    quiet.post(quiet.request(seed=3), **key("reused"))
    refused = quiet.client.post("/v1/jobs", json=quiet.request(seed=3) | change, headers=key("reused"))
    is_problem(refused, 422, "idempotency-key-reused", "Idempotency-Key")


@pytest.mark.parametrize("text", ["", "a b", "x" * 256, "a\tb", "caf\xe9"])
def test_keys_that_are_none(quiet: Quiet, is_problem: Check, text: str) -> None:
    headers = {"idempotency-key": text.encode("latin-1")}
    answer = quiet.client.post("/v1/jobs", json=quiet.request(), headers=headers)
    is_problem(answer, 422, "invalid-request", "Idempotency-Key")


def test_a_refused_request_leaves_the_key_free(quiet: Quiet, is_problem: Check) -> None:
    refused = quiet.client.post("/v1/jobs", json=quiet.request() | {"model": "0" * 64}, headers=key("free"))
    is_problem(refused, 422, "unknown-model", "model")
    quiet.post(quiet.request(), **key("free"))


def test_many_at_once_have_one_job(quiet: Quiet) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: quiet.post(quiet.request(seed=9), **key("race"))["id"], range(16)))
    assert len(set(found)) == 1
    assert sum(job.options.seed == 9 for job in quiet.jobs.existing(quiet.jobs.ids())) == 1


def test_a_dry_run_makes_nothing_to_be_remembered(quiet: Quiet) -> None:
    answer = quiet.client.post("/v1/jobs?dry_run=true", json=quiet.request(), headers=key("dry"))
    assert answer.status_code == 200, answer.text
    quiet.post(quiet.request(seed=11), **key("dry"))


def test_an_answer_that_was_there(quiet: Quiet, tmp_path: Path) -> None:
    job = quiet.post(quiet.request(seed=21))
    quiet.succeed(job["id"], tmp_path)
    assert quiet.post(quiet.request(seed=21), 200)["id"] == job["id"]
