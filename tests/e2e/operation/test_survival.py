"""Jobs while everything dies at random: whatever was accepted ends, once, and stays readable."""

import contextlib
import hashlib
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from examples.single import Conv, conv_model
from tests.helpers import processes
from tests.helpers.cluster import Cluster, running_cluster
from tests.helpers.programs.hand_programs import addition, zipped
from worker.records.job_artifacts import Artifacts
from worker.records.job_store import Jobs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
MODEL = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()


class Chaos:
    """A client that submits, cancels and reads, and a hand that kills; each action is chosen by a seed."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.counts: Counter[str] = Counter()
        self.accepted: list[str] = []
        self.canceled: set[str] = set()
        self.ends: dict[str, bytes] = {}
        self._random = random.Random(seed)
        answers = [
            cluster.client.post("/v1/programs", content=zipped(addition())),
            cluster.client.post("/v1/models", content=MODEL),
        ]
        program, model = (answer.json()["id"] for answer in answers)
        timing = {"program": program, "options": {"engine": "timing"}}  # quick in a process that compiled nothing yet
        self._requests = [timing] * 8 + [{"program": program}, {"model": model, "accelerator": "vta"}]

    def run(self, jobs: int, kills: dict[str, int]) -> None:
        """Submit so many jobs, with so many of each kill spread among them."""
        actions: list[Callable[[], None]] = [self.submit] * jobs + [self.cancel] * (jobs // 12)
        actions += [self.read] * (jobs // 5)
        actions += [getattr(self, f"kill_{what}") for what, count in kills.items() for _ in range(count)]
        self._random.shuffle(actions)
        for action in actions:
            action()
            time.sleep(self._random.uniform(0, 0.1))
        self.cluster.start_what_is_down()

    def submit(self) -> None:
        """Until it is accepted; what is down is started again after a while."""
        while True:
            try:
                answer = self.cluster.client.post(
                    "/v1/jobs", json=self._random.choice(self._requests) | {"fresh": True}
                )
            except httpx2.HTTPError:
                self.counts["submissions without an answer"] += 1
            else:
                if answer.status_code == 202:
                    self.accepted.append(answer.json()["id"])
                    return
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"]
                self.counts["submissions refused with 503"] += 1
            time.sleep(0.1)
            if self._random.random() < 0.2:
                self.cluster.start_what_is_down()

    def cancel(self) -> None:
        if not self.accepted:
            return
        job_id = self._random.choice(self.accepted[-20:])
        try:
            answer = self.cluster.client.post(f"/v1/jobs/{job_id}/cancel")
        except httpx2.HTTPError:
            return
        assert answer.status_code in {200, 409}, answer.text
        if answer.status_code == 200:
            assert answer.json()["state"] == "canceled"
            self.canceled.add(job_id)

    def read(self) -> None:
        """A finished job is readable, and stays as it is, whatever else is down."""
        if not self.accepted:
            return
        job_id = self._random.choice(self.accepted)
        try:
            job = self.cluster.client.get(f"/v1/jobs/{job_id}").json()
            if job["state"] == "succeeded":
                report = self.cluster.client.get(f"/v1/jobs/{job_id}/report")
                assert report.status_code == 200, report.text
                assert report.json()["verified"] == job["result"]["verified"]
                assert job["result"]["verified"] is not False
        except httpx2.HTTPError:
            return
        if job["finished"] is not None:
            self.note_end(job_id)

    def note_end(self, job_id: str) -> None:
        end = self.cluster.store.read(f"jobs/{job_id}/end.json")
        assert self.ends.setdefault(job_id, end) == end

    def kill_worker(self) -> None:
        names = [name for name in self.cluster.worker_names if self.cluster.lives(name)]
        if names:
            self.cluster.kill(self._random.choice(names))
            self.counts["workers killed"] += 1
        if self._random.random() < 0.7:
            self.cluster.start_what_is_down()

    def kill_supervisor(self) -> None:
        self._kill_one_of(self.cluster.supervisors(), "supervisors killed")

    def kill_job(self) -> None:
        self._kill_one_of(self.cluster.doers(), "processes of jobs killed")

    def _kill_one_of(self, pids: list[int], what: str) -> None:
        if pids:
            with contextlib.suppress(ProcessLookupError):  # it was quicker
                processes.kill(self._random.choice(pids))
                self.counts[what] += 1

    def kill_redis(self) -> None:
        if self.cluster.lives("redis"):
            self.cluster.kill("redis")
            self.counts["Redis killed"] += 1

    def kill_and_wipe_redis(self) -> None:
        if self.cluster.lives("redis"):
            self.cluster.wipe_redis()
            self.counts["Redis killed and wiped"] += 1

    def kill_api(self) -> None:
        if self.cluster.lives("api"):
            self.cluster.kill("api")
            self.counts["api killed"] += 1

    def settle(self, seconds: float) -> None:
        """Wait until nothing is open."""
        jobs, deadline = Jobs(self.cluster.store), time.monotonic() + seconds
        while jobs.open_ids():
            assert time.monotonic() < deadline, [jobs.get(job_id) for job_id in jobs.open_ids()]
            self.cluster.start_what_is_down()
            time.sleep(0.2)

    def check(self) -> None:
        """Every accepted job has ended, once, and what it left is whole."""
        store, jobs = self.cluster.store, Jobs(self.cluster.store)
        for job_id in self.accepted:
            job = jobs.get(job_id)
            assert job.ended, job
            self.note_end(job_id)
            self.counts[job.state] += 1
            if job_id in self.canceled:
                assert job.state == "canceled"
            if job.state == "failed":
                assert job.error is not None
                assert job.error.type == "/problems/worker_lost", job
            artifacts = Artifacts(store, job)
            assert bool(artifacts.all()) == (job.state == "succeeded")
            for item in artifacts.all():
                data = b"".join(artifacts.stream(item.name))
                assert (len(data), hashlib.sha256(data).hexdigest()) == (item.bytes, item.sha256)
            self.counts["attempts"] += len(store.sizes(f"jobs/{job_id}/attempts"))
        deaths = ("workers killed", "supervisors killed", "processes of jobs killed")
        assert self.counts["attempts"] <= len(self.accepted) + sum(self.counts[what] for what in deaths)
        for job_id in set(jobs.ids()) - set(self.accepted):  # whose answer got lost, or that were withdrawn
            assert jobs.ended(job_id) or not jobs.recorded(job_id)
        assert len(self.accepted) + self.counts["submissions without an answer"] >= len(jobs.existing(jobs.ids()))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, workers=2, CYCLOPS_LOG_LEVEL="WARNING") as cluster:
        yield cluster


def survive(cluster: Cluster, jobs: int, kills: dict[str, int], seconds: float, seed: int = 7) -> Chaos:
    chaos = Chaos(cluster, seed)
    begin = time.monotonic()
    chaos.run(jobs, kills)
    chaos.settle(seconds)
    chaos.check()
    assert cluster.ready()
    assert scratch_is_empty(cluster)
    cluster.stop()
    assert processes.gone(cluster.all_processes(), 10)
    chaos.counts["accepted"] = len(chaos.accepted)
    told = json.dumps(chaos.counts, sort_keys=True)
    print(f"seed {seed}, {time.monotonic() - begin:.0f} s: {told}")  # noqa: T201 - what it survived
    return chaos


def scratch_is_empty(cluster: Cluster) -> bool:
    """Soon: what killed processes left is swept once it has aged."""
    deadline = time.monotonic() + 30
    while list((cluster.data / "scratch").glob("job-*")):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.mark.slow
def test_a_few_jobs_survive_a_death_of_each_kind(cluster: Cluster) -> None:
    kills = {"worker": 1, "supervisor": 1, "job": 1, "redis": 1, "and_wipe_redis": 1, "api": 1}
    survive(cluster, 20, kills, 60)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_hundreds_of_jobs_survive(cluster: Cluster) -> None:
    kills = {"worker": 10, "supervisor": 25, "job": 25, "redis": 5, "and_wipe_redis": 5, "api": 6}
    chaos = survive(cluster, 400, kills, 240)
    assert chaos.counts["succeeded"] > 200
