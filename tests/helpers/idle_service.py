"""An api with Redis and no worker, so that jobs stay as they are made, or as a test ends them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from accel.driver.run_options import SimulateOptions
from accel.driver.run_program import run_program
from examples.single import Conv, conv_model
from service.backend import listen
from service.server import serving_in_thread
from tests.helpers.buckets import bucket_server
from tests.helpers.programs.streams import small_program
from tests.helpers.records import RESULT, publish_all
from worker.config.settings import Settings
from worker.identity.api_keys import ApiKeys
from worker.queue.job_queue import JobQueue
from worker.records.accelerator_store import Accelerators
from worker.records.job_store import Jobs
from worker.records.result_cache import ResultCache
from worker.storage.connections import open_store
from worker.storage.object_store import Store
from worker.storage.redis_server import connect, redis_server


@dataclass(frozen=True)
class Quiet:
    """It runs; ``model``: an upload of its own."""

    settings: Settings
    store: Store
    jobs: Jobs
    client: httpx2.Client
    model: str

    def request(self, **options: object) -> dict[str, Any]:
        return {"model": self.model, "accelerator": "vta", "options": options}

    def post(self, request: dict[str, Any], status: int = 202, **headers: str) -> dict[str, Any]:
        answer = self.client.post("/v1/jobs", json=request, headers=headers)
        assert answer.status_code == status, answer.text
        return answer.json()

    def succeed(self, job_id: str, directory: Path) -> None:
        """As a worker does it, with a file."""
        (directory / "report.json").write_text("{}")
        publish_all(self.store, job_id, 1, directory)
        self.jobs.succeed(job_id, 1, RESULT)
        ResultCache(self.store, self.jobs, Accelerators(self.store)).put(self.jobs.get(job_id))

    def run_small_program(self, out: Path) -> str:
        """As a worker does it, of a job of the model; ``out`` has the artifacts then. Returns the job's id."""
        run_program(small_program(), SimulateOptions(), out)
        job_id: str = self.post(self.request(seed=1))["id"]
        publish_all(self.store, job_id, 1, out)
        self.jobs.succeed(job_id, 1, RESULT)
        return job_id


def a_model(seed: int) -> bytes:
    """A small one, another for each seed."""
    return conv_model(Conv(8, 8, 6, 6), seed=seed).SerializeToString()


@contextlib.contextmanager
def quiet_service(data: Path, kind: str = "folder", **settings: Any) -> Iterator[Quiet]:
    """It runs inside the context; ``kind``: of its store, a folder or a bucket."""
    with contextlib.ExitStack() as stack:
        (data / "redis").mkdir(parents=True)
        settings["redis_url"] = stack.enter_context(redis_server(data / "redis"))
        if kind == "bucket":
            variables = stack.enter_context(bucket_server()).environment("quiet")
            settings |= {name.removeprefix("CYCLOPS_").lower(): value for name, value in variables.items()}
        made = Settings(data=data, **settings)
        bound = stack.enter_context(listen("127.0.0.1", 0))
        address = stack.enter_context(serving_in_thread(made, bound))
        store = open_store(made)
        client = stack.enter_context(httpx2.Client(base_url=address, timeout=30))
        if made.auth == "keys":
            client.headers["Authorization"] = f"Bearer {ApiKeys(store).add('quiet', 'quiet')[1]}"
        model = client.post("/v1/models", content=a_model(0)).json()["id"]
        connection = stack.enter_context(contextlib.closing(connect(settings["redis_url"])))
        yield Quiet(made, store, Jobs(store, JobQueue(connection, made.queue).index), client, model)
