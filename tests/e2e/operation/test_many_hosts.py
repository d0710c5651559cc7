"""Hosts of workers that share a bucket and a Redis only: one dies, one joins, one is of an older version."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.helpers import processes
from tests.helpers.buckets import SECRET, BucketServer, bucket_server
from tests.helpers.hosts import PASSWORD, Host, Hosts, hosts
from tests.helpers.tls import certificates
from worker.records.job_record import FORMAT
from worker.records.job_store import Attempts
from worker.storage.object_store import Store
from worker.storage.redis_server import connect

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
SMALL = conv_model(Conv(channels=16, filters=32, height=10, width=10), seed=3).SerializeToString()
LONG = resnet8().SerializeToString()
# as it was before records had the form that they have now
_OLDER = "import worker.records.job_record as r; r.FORMAT -= 1; from worker.config.settings import Settings; "
OLDER_WORKER = _OLDER + "from worker.runner.worker_main import run_worker; run_worker(Settings())"
ENQUEUED_BY_MISTAKE = (
    _OLDER + "import sys; from worker.storage.connections import open_redis; "
    "from worker.queue.job_queue import JobQueue; settings = Settings();"
    "JobQueue(open_redis(settings), settings.queue).submit(sys.argv[1], owner='local')"
)


@pytest.fixture(scope="module")
def bucket() -> Iterator[BucketServer]:
    with bucket_server() as server:
        yield server


@pytest.fixture(scope="module")
def store(bucket: BucketServer) -> Store:
    return bucket.store("hosts")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, bucket: BucketServer) -> Iterator[Hosts]:
    """An api, and one host whose worker is of an older version."""
    made = certificates(tmp_path_factory.mktemp("certificates"))
    with hosts(tmp_path_factory.mktemp("hosts"), bucket, made) as running:
        running.add("older", "-c", OLDER_WORKER)
        answers(running)
        yield running


def answers(there: Hosts) -> None:
    deadline = time.monotonic() + 90
    while True:
        try:
            if there.client.get("/healthz").status_code == 200:
                return
        except Exception:  # noqa: BLE001 - it is not up yet
            assert time.monotonic() < deadline, there.all["api"].log
        time.sleep(0.2)


def upload(there: Hosts, model: bytes) -> str:
    return there.client.post("/v1/models", content=model).raise_for_status().json()["id"]


def submit(there: Hosts, model: str) -> str:
    """The id of a new job."""
    request = {"model": model, "accelerator": "vta", "fresh": True}
    posted = there.client.post("/v1/jobs", json=request)
    assert posted.status_code == 202, posted.text
    return posted.json()["id"]


def wait(there: Hosts, job_id: str, states: tuple[str, ...] = ("succeeded", "failed"), seconds: float = 120) -> dict:
    deadline = time.monotonic() + seconds
    while (job := there.client.get(f"/v1/jobs/{job_id}").json())["state"] not in states:
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
    return job


def host_of(there: Hosts, store: Store, job_id: str, attempt: int = 1) -> Host:
    """Where an attempt was made, by the process of the worker that began it."""
    name = Attempts(store, job_id)._attempt(attempt).worker
    with connect(there.redis_url) as redis:
        pid = int(redis.hget(f"rq:worker:{name}", "pid"))
    (found,) = [host for host in there.all.values() if pid in host.pids()]
    return found


def cached(there: Hosts, job_id: str) -> list[bool]:
    return [one["cached"] for one in there.client.get(f"/v1/jobs/{job_id}/report").json()["functions"]]


def shown(pid: int) -> str:
    """What of a process others may see: variables, command line, open files."""
    folder = Path(f"/proc/{pid}")
    links = []
    for link in (folder / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has been closed meanwhile
            links.append(link.readlink())
    return f"{(folder / 'environ').read_bytes()!r} {(folder / 'cmdline').read_bytes()!r} {links}"


def test_hosts(there: Hosts, store: Store) -> None:
    model = upload(there, SMALL)
    first = submit(there, model)
    _older_worker_leaves_it_alone(there, store, first)

    there.add("a")  # joins when there is work already
    assert wait(there, first)["state"] == "succeeded"
    assert host_of(there, store, first) is there.all["a"]
    assert cached(there, first) == [False]

    there.add("b")
    there.workers(2)
    jobs = [submit(there, model) for _ in range(4)]
    assert {wait(there, job)["state"] for job in jobs} == {"succeeded"}
    places = [host_of(there, store, job) for job in jobs]
    assert {id(place) for place in places} == {id(there.all["a"]), id(there.all["b"])}
    # what `a` had compiled is not compiled on `b` again
    assert {tuple(cached(there, job)) for job in jobs} == {(True,)}

    _a_host_dies(there, store)
    assert Attempts(store, first)._numbers() == [1]


def _older_worker_leaves_it_alone(there: Hosts, store: Store, job_id: str) -> None:
    """Also where somebody puts the job into the older queue."""
    older = there.all["older"]
    deadline = time.monotonic() + 60
    with connect(there.redis_url) as redis:
        while not redis.scard("rq:workers"):
            assert time.monotonic() < deadline, older.log
            time.sleep(0.2)
        older.start("-c", ENQUEUED_BY_MISTAKE, job_id)
        older.started.pop().wait(60)
        time.sleep(6)
        assert not [key for key in redis.keys("rq:queue:*") if redis.llen(key) and not key.endswith(b".%d" % FORMAT)]
    assert there.client.get(f"/v1/jobs/{job_id}").json()["state"] == "queued"
    assert not Attempts(store, job_id)._numbers()
    assert "Traceback" not in older.log


def _a_host_dies(there: Hosts, store: Store) -> None:
    job_id = submit(there, upload(there, LONG))
    wait(there, job_id, ("running",), 60)
    dying = host_of(there, store, job_id)
    _check_secrets(dying)
    dying.die()
    job = wait(there, job_id)
    assert (job["state"], job["attempt"], job["result"]["verified"]) == ("succeeded", 2, True)
    assert host_of(there, store, job_id, 2) is not dying
    for item in there.client.get(f"/v1/jobs/{job_id}/artifacts").json()["artifacts"]:
        assert len(there.client.get(item["href"]).content) == item["bytes"]
    assert not (there.all["api"].directory / "data" / "store").exists()


def _check_secrets(host: Host) -> None:
    """The process that does the job shows none; nobody shows any on a command line."""
    deadline = time.monotonic() + 20
    confined: list[int] = []
    while not confined:
        assert time.monotonic() < deadline
        found = [pid for process in host.started for pid in processes.doers(process.pid)]
        confined = [pid for pid in found if "Seccomp:\t2" in Path(f"/proc/{pid}/status").read_text()]
        time.sleep(0.02)
    for pid in confined:
        text = shown(pid)
        assert PASSWORD not in text
        assert SECRET not in text
        assert "CYCLOPS_" not in text
    for pid in host.pids():
        assert PASSWORD not in processes.command(pid)
        assert SECRET not in processes.command(pid)
