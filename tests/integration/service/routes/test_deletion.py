import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from accel.catalog.load_accelerator import canonical, load_accelerator
from tests.helpers.idle_service import Quiet, a_model
from tests.helpers.marking import rest_all
from tests.helpers.programs.hand_programs import addition, zipped

Check = Callable[..., dict]
JSON = {"content-type": "application/json"}
UNKNOWN = {
    "models": "unknown-model",
    "tensors": "unknown-tensors",
    "programs": "unknown-program",
    "accelerators": "unknown-accelerator",
}
WANTED = {("submit", 202), ("erase", 204)}
EXPECTED = {"submit": {202, 409, 422}, "erase": {204, 404, 409}, "send": {201, 409}}


def delete(quiet: Quiet, path: str) -> int:
    return quiet.client.delete(path).status_code


def some_tensors(seed: int) -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.random.default_rng(seed).integers(-128, 128, (1, 8, 6, 6), dtype=np.int8))
    return file.getvalue()


def uploads(quiet: Quiet) -> dict[str, str]:
    """One of each kind: their locations, by kind."""
    answers = {
        "models": quiet.client.post("/v1/models", content=a_model(1)),
        "tensors": quiet.client.post("/v1/tensors", content=some_tensors(1)),
        "programs": quiet.client.post("/v1/programs", content=zipped(addition())),
        "accelerators": quiet.client.post("/v1/accelerators", content=canonical(load_accelerator("vta")), headers=JSON),
    }
    assert {answer.status_code for answer in answers.values()} == {201}
    return {kind: answer.headers["location"] for kind, answer in answers.items()}


def test_a_job_that_has_ended(quiet: Quiet, is_problem: Check, tmp_path: Path) -> None:
    job = quiet.post(quiet.request(seed=1))
    here = job["links"]["self"]
    is_problem(quiet.client.delete(here), 409, "conflict", "id")
    assert quiet.client.get(here).status_code == 200
    quiet.succeed(job["id"], tmp_path)
    assert quiet.post(quiet.request(seed=1), 200)["id"] == job["id"]
    answer = quiet.client.delete(here)
    assert (answer.status_code, answer.content) == (204, b"")
    for part in ("", "/report", "/artifacts", "/artifacts/report.json"):
        is_problem(quiet.client.get(here + part), 404, "not-found")
    is_problem(quiet.client.delete(here), 404, "not-found")
    assert quiet.client.get("/v1/jobs?state=succeeded").json()["items"] == []
    assert quiet.post(quiet.request(seed=1), 202)["id"] != job["id"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["models", "tensors", "programs", "accelerators"])
def test_an_upload_that_a_job_needs_stays(quiet: Quiet, is_problem: Check, kind: str) -> None:
    location = uploads(quiet)
    ids = {each: path.rsplit("/", 1)[-1] for each, path in location.items()}
    request = {"model": ids["models"], "accelerator": ids["accelerators"], "options": {"inputs": ids["tensors"]}}
    if kind == "programs":
        request = {"program": ids["programs"]}
    job = quiet.post(request)
    assert job["id"] in is_problem(quiet.client.delete(location[kind]), 409, "in-use", "id")["detail"]
    quiet.client.post(job["links"]["cancel"])
    assert delete(quiet, location[kind]) == 409
    assert delete(quiet, job["links"]["self"]) == 204
    assert delete(quiet, location[kind]) == 204
    is_problem(quiet.client.get(location[kind]), 404, "not-found")
    is_problem(quiet.client.delete(location[kind]), 404, "not-found")
    is_problem(quiet.client.post("/v1/jobs", json=request), 422, UNKNOWN[kind])
    assert quiet.store.sizes(f"{kind}/{ids[kind]}") == {}
    assert uploads(quiet)[kind] == location[kind]
    assert quiet.client.get(location[kind]).status_code == 200


@pytest.mark.parametrize("kind", ["jobs", "models", "tensors", "programs", "accelerators"])
@pytest.mark.parametrize("name", ["0" * 64, "0" * 32, "nothing", "..%2fmodels"])
def test_what_is_not_there(quiet: Quiet, is_problem: Check, kind: str, name: str) -> None:
    is_problem(quiet.client.delete(f"/v1/{kind}/{name}"), 404, "not-found")


def test_presets_stay(quiet: Quiet, is_problem: Check) -> None:
    is_problem(quiet.client.delete("/v1/accelerators/vta"), 409, "conflict", "id")


class Crowd:
    """They submit, erase and send the same model, all at once."""

    def __init__(self, quiet: Quiet) -> None:
        self._quiet, self._model = quiet, a_model(7)
        self._digest = quiet.client.post("/v1/models", content=self._model).json()["id"]
        self._begun = time.monotonic()
        self.seen: set[tuple[str, int]] = set()

    def keep(self, act: str) -> None:
        while not self._enough():
            self.seen.add((act, getattr(self, act)()))

    def _enough(self) -> bool:
        """Three seconds; on a busy machine more, until both have come to pass."""
        seconds = time.monotonic() - self._begun
        return seconds > (3 if self.seen >= WANTED else 90)

    def submit(self) -> int:
        answer = self._quiet.client.post("/v1/jobs", json={"model": self._digest, "accelerator": "vta"})
        if answer.status_code == 202:
            for name in ("info.json", "data"):
                assert self._quiet.store.exists(f"models/{self._digest}/{name}")
            self._quiet.client.post(f"/v1/jobs/{answer.json()['id']}/cancel")
            assert delete(self._quiet, f"/v1/jobs/{answer.json()['id']}") == 204
        return answer.status_code

    def erase(self) -> int:
        return delete(self._quiet, f"/v1/models/{self._digest}")

    def send(self) -> int:
        return self._quiet.client.post("/v1/models", content=self._model).status_code


@pytest.mark.slow
@pytest.mark.parametrize("quiet", rest_all(["folder", "bucket"]), indirect=True)
def test_submissions_and_deletions_at_once(quiet: Quiet) -> None:
    """Whoever was told that a job is accepted finds its model."""
    crowd = Crowd(quiet)
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(crowd.keep, act) for act in ("submit", "submit", "erase", "send")]:
            done.result()
    assert all(status in EXPECTED[act] for act, status in crowd.seen), crowd.seen
    assert crowd.seen >= WANTED
