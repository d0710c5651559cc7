"""Webhooks, from a submission to a receiver over TLS, with real workers, some of which are killed."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import webhook_settings
from tests.helpers import processes
from tests.helpers.cluster import Cluster, running_cluster
from tests.helpers.programs.hand_programs import addition, zipped
from tests.helpers.receiver import SECRET, Receiver, status
from worker.records.job_store import Jobs

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
    pytest.mark.xdist_group("cluster"),
]


def submitted(cluster: Cluster, url: str | None, headers: dict[str, str] | None = None, **request: Any) -> Any:
    program = cluster.client.post("/v1/programs", content=zipped(addition())).json()["id"]
    webhook = {} if url is None else {"webhook": {"url": url, "secret": SECRET}}
    asked = {"program": program, "options": {"engine": "timing"}, "fresh": True} | webhook | request
    answer = cluster.client.post("/v1/jobs", json=asked, headers=headers)
    assert answer.status_code in {200, 202}, answer.text
    return answer.json()


def canceled(cluster: Cluster, url: str) -> Any:
    """A job that ends at once: what has to be compiled for another takes longer than all that is looked at here."""
    job = submitted(cluster, url)
    assert cluster.client.post(f"/v1/jobs/{job['id']}/cancel").json()["state"] == "canceled"
    return job


def answered(cluster: Cluster, seconds: float = 60) -> Any:
    """The answer from the record, once there is one: it is written after the end of the job that is the first."""
    deadline = time.monotonic() + seconds
    while not (answer := submitted(cluster, None, fresh=False))["cached"]:
        assert time.monotonic() < deadline, answer
        while cluster.client.get(f"/v1/jobs/{answer['id']}").json()["state"] in {"queued", "running"}:
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)
    return answer


def told(cluster: Cluster, job_id: str, state: str, seconds: float = 90) -> list[dict[str, Any]]:
    """What the API tells of the job's webhooks, once all of them are so far."""
    deadline = time.monotonic() + seconds
    while True:
        items = cluster.client.get(f"/v1/jobs/{job_id}/webhooks").json()["items"]
        if items and all(item["state"] == state for item in items):
            return items
        assert time.monotonic() < deadline, items
        time.sleep(0.05)


@pytest.mark.slow
def test_the_end_of_a_job_is_told_and_signed(cluster: Cluster, there: Receiver) -> None:
    job = submitted(cluster, there.url("/succeeded?token=1"))
    (request,) = there.wait("/succeeded?token=1", seconds=180)
    assert request.genuine()
    assert not request.genuine("whsec_" + "A" * 44)
    assert request.headers["content-type"] == "application/json"
    (item,) = told(cluster, job["id"], "delivered")
    assert (item["attempts"], item["last_status"], item["last_error"]) == (1, 204, None)
    assert request.headers["webhook-id"] == item["id"] == job["id"]
    record = cluster.client.get(f"/v1/jobs/{job['id']}").json()
    document = request.document
    assert (document["type"], document["timestamp"]) == ("job.ended", record["finished"])
    assert document["data"]["state"] == "succeeded"
    assert document["data"].items() <= record.items()
    assert "owner" not in document["data"]
    assert not cluster.store.sizes("webhooks")


def test_a_job_that_fails(cluster: Cluster, there: Receiver) -> None:
    options = {"engine": "function", "seed": 7}
    job = submitted(cluster, there.url("/failed"), options=options, program=deadlocked(cluster))
    (request,) = there.wait("/failed", seconds=180)
    assert request.genuine()
    assert request.document["data"]["state"] == "failed"
    assert request.document["data"]["error"] == cluster.client.get(f"/v1/jobs/{job['id']}").json()["error"]


def deadlocked(cluster: Cluster) -> str:
    """A program that waits for ever."""
    waiting = [("load_uop", {"x_size": 1, "y_size": 1, "x_stride": 1, "pop_next": 1}), ("finish", {})]
    return cluster.client.post("/v1/programs", content=zipped(addition(listed=waiting))).json()["id"]


def test_a_job_that_is_canceled(cluster: Cluster, there: Receiver) -> None:
    canceled(cluster, there.url("/canceled"))
    (request,) = there.wait("/canceled")
    assert request.genuine()
    assert request.document["data"]["state"] == "canceled"


@pytest.mark.slow
def test_an_answer_from_the_record_is_told_too_and_once_for_each_key(cluster: Cluster, there: Receiver) -> None:
    first = answered(cluster)
    already = len(cluster.client.get(f"/v1/jobs/{first['id']}/webhooks").json()["items"])
    request = {"fresh": False}
    for _ in range(2):
        again = submitted(cluster, there.url("/cached"), {"Idempotency-Key": "k"}, **request)
        assert (again["id"], again["cached"]) == (first["id"], True)
    other = submitted(cluster, there.url("/cached"), **request)
    assert other["id"] == first["id"]
    there.wait("/cached", 2)
    items = told(cluster, first["id"], "delivered")
    again = submitted(cluster, there.url("/cached"), {"Idempotency-Key": "k"}, **request)  # once it is delivered, too
    time.sleep(1)
    assert len(there.at("/cached")) == len(items) - already == 2
    assert {each.headers["webhook-id"] for each in there.at("/cached")} == {item["id"] for item in items[already:]}
    assert all(each.genuine() and each.document["data"]["id"] == first["id"] for each in there.at("/cached"))


@pytest.mark.slow
def test_it_is_sent_again_after_failures_with_the_same_id(cluster: Cluster, there: Receiver) -> None:
    def at_last(handler: Any, number: int) -> None:
        if number == 2:
            time.sleep(3)  # longer than an attempt may take
        status(500 if number < 3 else 200)(handler, number)

    there.answers["/at-last"] = at_last
    job = canceled(cluster, there.url("/at-last"))
    requests = there.wait("/at-last", 3)
    (item,) = told(cluster, job["id"], "delivered")
    assert (item["attempts"], item["last_status"]) == (3, 200)
    assert len({each.headers["webhook-id"] for each in requests}) == 1
    assert len({each.body for each in requests}) == 1
    assert all(each.genuine() for each in requests)


@pytest.mark.slow
def test_it_is_given_up(cluster: Cluster, there: Receiver) -> None:
    there.answers |= {"/never": status(503), "/gone": status(410), "/moved": status(307, Location=there.url("/to"))}
    attempts = {"/never": (3, 503), "/gone": (1, 410), "/moved": (3, 307)}
    jobs = {path: canceled(cluster, there.url(path))["id"] for path in attempts}
    for path, (count, code) in attempts.items():
        (item,) = told(cluster, jobs[path], "failed")
        assert (item["attempts"], item["last_status"], item["next_attempt"]) == (count, code, None)
        assert len(there.at(path)) == count
    assert not there.at("/to")
    assert not cluster.store.sizes("webhooks")


@pytest.mark.slow
def test_an_address_that_is_never_sent_to_fails_at_once(tmp_path: Path, there: Receiver) -> None:
    """And what was about it leaves with the worker."""
    days = webhook_settings(there) | {"CYCLOPS_WEBHOOK_NETWORKS": "", "CYCLOPS_WEBHOOK_DELAYS": "100000"}
    with running_cluster(tmp_path, **days) as cluster:
        job = canceled(cluster, "https://localhost/")
        (item,) = told(cluster, job["id"], "failed")
        cluster.stop()
        assert processes.gone(cluster.all_processes(), 10)
    assert (item["attempts"], item["last_error"], item["next_attempt"]) == (1, "address-refused", None)


@pytest.mark.slow
def test_slow_receivers_do_not_delay_others(cluster: Cluster, there: Receiver) -> None:
    there.answers["/slow"] = lambda *_: time.sleep(3)
    slow = canceled(cluster, there.url("/slow"))
    there.wait("/slow")
    canceled(cluster, there.url("/quick"))
    there.wait("/quick")
    told(cluster, slow["id"], "failed")


@pytest.mark.slow
def test_erasing_a_job_erases_what_was_to_be_sent(cluster: Cluster, there: Receiver) -> None:
    there.answers["/erased"] = status(500)
    job = canceled(cluster, there.url("/erased"))
    there.wait("/erased")
    assert cluster.client.delete(f"/v1/jobs/{job['id']}").status_code == 204
    assert not [key for key in cluster.store.sizes("webhooks") if job["id"] in key]
    time.sleep(1.5)
    deadline = time.monotonic() + 60  # an attempt that had begun erases what it wrote, once it has stopped
    while left := [key for key in cluster.store.sizes("jobs") if job["id"] in key]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_the_secret_is_in_no_record_and_no_log(cluster: Cluster, there: Receiver) -> None:
    there.answers["/secret?private=thing"] = status(500)
    job = canceled(cluster, there.url("/secret?private=thing"))
    (item,) = told(cluster, job["id"], "failed")
    core = SECRET.removeprefix("whsec_")
    answers = [cluster.client.get(f"/v1/jobs{path}").text for path in ("", f"/{job['id']}", f"/{job['id']}/webhooks")]
    refused = cluster.client.post("/v1/jobs", json={"webhook": {"url": "http://x", "secret": SECRET + "*"}})
    assert refused.status_code == 422
    kept = [path for path in cluster.data.rglob("*") if path.is_file()]
    assert core not in "".join([*answers, refused.text, json.dumps(item)])
    assert not [path for path in kept if core.encode() in path.read_bytes()]
    for name in ("api", *cluster.worker_names):
        assert core not in cluster.log(name)
        assert "private=thing" not in cluster.log(name)


@pytest.mark.slow
def test_a_worker_that_is_killed_between_the_end_and_the_delivery(cluster: Cluster, there: Receiver) -> None:
    there.answers["/held"] = lambda handler, number: time.sleep(1.5) if number == 1 else status(200)(handler, 2)
    job = canceled(cluster, there.url("/held"))
    there.wait("/held")  # it has ended, and a courier waits for the answer
    cluster.kill(cluster.worker_names[0])
    assert Jobs(cluster.store).ended(job["id"])
    # the record of another has the end, and nothing else was done about it: as after a power cut at that moment
    cut = submitted(cluster, there.url("/cut"))
    Jobs(cluster.store).cancel(cut["id"])
    cluster.start_what_is_down()
    there.wait("/held", 2, seconds=60)
    (item,) = told(cluster, job["id"], "delivered")
    assert {each.headers["webhook-id"] for each in there.at("/held")} == {item["id"]}
    (request,) = there.wait("/cut", seconds=60)
    assert request.document["data"]["state"] == "canceled"


@pytest.mark.slow
def test_a_redis_that_forgets_before_the_end_and_before_an_attempt(cluster: Cluster, there: Receiver) -> None:
    there.answers["/forgotten"] = lambda handler, number: status(500 if number == 1 else 200)(handler, number)
    job = canceled(cluster, there.url("/forgotten"))
    cluster.wipe_redis()
    cluster.start_what_is_down()
    there.wait("/forgotten", seconds=90)
    cluster.wipe_redis()
    cluster.start_what_is_down()
    (item,) = told(cluster, job["id"], "delivered", seconds=90)
    assert {each.headers["webhook-id"] for each in there.at("/forgotten")} == {item["id"]}
