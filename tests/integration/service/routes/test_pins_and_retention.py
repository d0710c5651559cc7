import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.idle_service import Quiet, a_model, quiet_service

Check = Callable[..., dict]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    keep = {"keep_jobs_seconds": 2, "keep_uploads_seconds": 2, "collect_seconds": 1, "reconcile_seconds": 1}
    with quiet_service(tmp_path_factory.mktemp("quiet"), **keep) as made:
        yield made


def gone(quiet: Quiet, path: str, seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while quiet.client.get(path).status_code != 404:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.slow
def test_ended_jobs_and_what_no_job_needs_expire(quiet: Quiet, tmp_path: Path) -> None:
    quiet.client.post("/v1/models", content=a_model(0))
    unused = quiet.client.post("/v1/models", content=a_model(1)).headers["location"]
    ends, pinned, waits = (quiet.post(quiet.request(seed=seed))["links"]["self"] for seed in range(3))
    answer = quiet.client.put(f"{pinned}/pin")
    assert (answer.status_code, answer.json()["pinned"]) == (200, True)
    for path in (ends, pinned):
        quiet.succeed(path.rsplit("/", 1)[-1], tmp_path)
    assert gone(quiet, ends)
    assert gone(quiet, unused)
    time.sleep(2)
    for path in (pinned, waits, f"/v1/models/{quiet.model}", f"{pinned}/report"):
        assert quiet.client.get(path).status_code == 200
    assert quiet.client.get(pinned).json()["pinned"] is True
    assert quiet.client.delete(f"{pinned}/pin").status_code == 204
    assert quiet.client.delete(f"{pinned}/pin").status_code in {204, 404}  # it may have expired by then
    assert gone(quiet, pinned)
    quiet.client.post(f"{waits}/cancel")
    assert gone(quiet, waits)
    assert gone(quiet, f"/v1/models/{quiet.model}")
    deadline = time.monotonic() + 10  # what is there no more is still being removed
    while left := [
        name for name in ("jobs", "models", "uses", "erasing", "answers", "open") if quiet.store.sizes(name)
    ]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_pins_of_what_is_not_there(quiet: Quiet, is_problem: Check) -> None:
    for job in ("0" * 32, "nothing"):
        is_problem(quiet.client.put(f"/v1/jobs/{job}/pin"), 404, "not-found")
        is_problem(quiet.client.delete(f"/v1/jobs/{job}/pin"), 404, "not-found")
