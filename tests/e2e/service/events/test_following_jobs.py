"""Following jobs of real workers: events, waiting, ETags, and places in the queue."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from examples.single import Conv, conv_model
from tests.e2e.conftest import STREAMS
from tests.helpers.cluster import Cluster
from tests.helpers.events import Told, events_of, follow
from tests.helpers.programs.hand_programs import addition, zipped

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
    pytest.mark.xdist_group("cluster"),
]
LISTENERS = 200


@pytest.fixture(scope="module")
def program(cluster: Cluster) -> dict[str, str]:
    return {"program": cluster.client.post("/v1/programs", content=zipped(addition())).json()["id"]}


@pytest.fixture(scope="module")
def model(cluster: Cluster) -> dict[str, str]:
    data = conv_model(Conv(channels=16, filters=16, height=56, width=56)).SerializeToString()
    return {"model": cluster.client.post("/v1/models", content=data).json()["id"], "accelerator": "vta"}


@contextlib.contextmanager
def worker_stopped(cluster: Cluster) -> Iterator[None]:
    """So that what is submitted waits."""
    os.kill(cluster.pid("worker-0"), signal.SIGSTOP)
    time.sleep(2.5)  # so long may its last command to Redis wait for a message
    try:
        yield
    finally:
        os.kill(cluster.pid("worker-0"), signal.SIGCONT)


def submit(cluster: Cluster, request: dict[str, str], **headers: str) -> str:
    answer = cluster.client.post("/v1/jobs", json=request | {"fresh": True}, headers=headers)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"]


def check_whole(events: list[Told]) -> None:
    """A job of a model from its beginning to its end."""
    told = [event for event in events if event.kind != "position"]
    assert [event.data["state"] for event in told[:2]] == ["queued", "running"]
    assert [event.id for event in told] == ["queued", *(f"1-{number}" for number in range(len(told) - 2)), "end"]
    stages = [event.data for event in told if event.kind == "stage"]
    assert [stage["step"] for stage in stages] == list(range(1, stages[0]["total"] + 1))
    assert stages[-1]["name"] == "report"


@pytest.mark.slow
def test_all_stages_whatever_the_client_does(cluster: Cluster, model: dict[str, str]) -> None:
    location = submit(cluster, model)

    def in_pieces(size: int) -> list[Told]:
        found = follow(cluster.client, location, most=size)
        while found[-1].kind != "end":
            found += follow(cluster.client, location, found[-1].id, most=size)
        return found

    with ThreadPoolExecutor() as pool:
        once, *others = pool.map(in_pieces, [10**6, 1, 2, 3, 5, 7])
    check_whole(once)
    for other in others:
        check_whole(other)
    job = cluster.client.get(location).json()
    assert once[-1].data == job
    assert job["state"] == "succeeded"
    cluster.redis.flushall()
    again = follow(cluster.client, location)
    assert again == [event for event in once if event.kind != "position"]
    middle = [event.id for event in again].index("1-5")
    assert follow(cluster.client, location, "1-5") == again[middle + 1 :]


@pytest.mark.slow
def test_with_curl(cluster: Cluster, program: dict[str, str]) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("no curl")
    url = f"{cluster.client.base_url}".rstrip("/") + f"{submit(cluster, program)}/events"
    told = list(
        events_of(subprocess.run([curl, "-sN", url], capture_output=True, check=True, text=True).stdout.splitlines())
    )
    assert (told[0].id, told[-1].kind) == ("queued", "end")


def test_one_who_has_everything(cluster: Cluster, program: dict[str, str], is_problem: Callable[..., dict]) -> None:
    href = f"{submit(cluster, program, Prefer='wait=0')}/events"
    follow(cluster.client, href.removesuffix("/events"))
    assert cluster.client.get(href, headers={"last-event-id": "end"}).status_code == 204
    is_problem(cluster.client.get(href, headers={"last-event-id": "7"}), 422, "invalid-request", "last-event-id")
    is_problem(cluster.client.get(f"/v1/jobs/{'0' * 32}/events"), 404, "not-found")
    head = cluster.client.head(href)
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", "text/event-stream")


def test_a_canceled_job_ends_its_streams(cluster: Cluster, model: dict[str, str]) -> None:
    location = submit(cluster, model)
    cluster.freeze_doer()
    with ThreadPoolExecutor() as pool:
        streams = [pool.submit(follow, cluster.client, location) for _ in range(5)]
        follow(cluster.client, location, most=2)  # it runs
        assert cluster.client.post(f"{location}/cancel").json()["state"] == "canceled"
        ends = [stream.result()[-1] for stream in streams]
    assert {(end.kind, end.data["state"]) for end in ends} == {("end", "canceled")}


@pytest.mark.slow
def test_redis_dies_during_a_stream(cluster: Cluster, model: dict[str, str]) -> None:
    location = submit(cluster, model)
    with ThreadPoolExecutor() as pool:
        stream = pool.submit(follow, cluster.client, location)
        follow(cluster.client, location, most=4)
        cluster.wipe_redis()
        assert cluster.client.get("/readyz").status_code == 503
        cluster.start_redis()
        check_whole(stream.result())
    assert cluster.ready()


@pytest.mark.slow
def test_redis_stays_away_during_a_stream(cluster: Cluster, model: dict[str, str]) -> None:
    location = submit(cluster, model)
    with ThreadPoolExecutor() as pool:
        stream = pool.submit(follow, cluster.client, location)
        follow(cluster.client, location, most=4)
        cluster.wipe_redis()
        try:
            check_whole(stream.result())
            assert seconds_since_end(cluster, location) < 3
            check_whole(follow(cluster.client, location))
        finally:
            cluster.start_redis()
    assert cluster.ready(20)


def seconds_since_end(cluster: Cluster, location: str) -> float:
    finished = datetime.fromisoformat(cluster.client.get(location).json()["finished"])
    return (datetime.now(UTC) - finished).total_seconds()


@pytest.mark.slow
def test_waiting(cluster: Cluster, program: dict[str, str]) -> None:
    delays, fresh = [], program | {"fresh": True}
    for _ in range(3):
        answer = cluster.client.post("/v1/jobs", json=fresh, headers={"prefer": "respond-async, wait=20"})
        delays.append(datetime.now(UTC) - datetime.fromisoformat(answer.json()["finished"]))
        assert (answer.status_code, answer.headers["preference-applied"]) == (200, "wait=20")
        assert answer.json()["state"] == "succeeded"
        assert answer.headers["location"] == answer.json()["links"]["self"]
        assert "retry-after" not in answer.headers
    assert sorted(delays)[1].total_seconds() < 0.1, delays

    with worker_stopped(cluster):
        begin = time.monotonic()
        answer = cluster.client.post("/v1/jobs", json=fresh, headers={"prefer": "wait=0"})
        assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=0")
        answer = cluster.client.get(answer.headers["location"], headers={"prefer": "wait=1"})
        assert 1 <= time.monotonic() - begin < 2
        assert answer.headers["retry-after"]
    location = answer.json()["links"]["self"]
    answer = cluster.client.get(location, headers={"prefer": "wait=1000"}, timeout=60)
    assert (answer.headers["preference-applied"], answer.json()["state"]) == ("wait=60", "succeeded")
    assert "preference-applied" not in cluster.client.get(location, headers={"prefer": "wait=soon"}).headers


@pytest.mark.slow
def test_those_who_wait_hold_no_threads(cluster: Cluster, program: dict[str, str]) -> None:
    """The api has 40 for its routes."""
    with worker_stopped(cluster):
        location = submit(cluster, program)
        limits = httpx2.Limits(max_connections=None)
        with (
            httpx2.Client(base_url=cluster.client.base_url, limits=limits, timeout=30) as client,
            ThreadPoolExecutor(80) as pool,
        ):
            waiting = [pool.submit(client.get, location, headers={"prefer": "wait=3"}) for _ in range(80)]
            time.sleep(1)
            begin = time.monotonic()
            assert client.get("/v1/jobs").status_code == 200
            assert time.monotonic() - begin < 1
            assert {answer.result().json()["state"] for answer in waiting} == {"queued"}
    assert cluster.client.get(location, headers={"prefer": "wait=60"}, timeout=90).json()["state"] == "succeeded"


@pytest.mark.slow
def test_etags_and_places(cluster: Cluster, program: dict[str, str]) -> None:
    with worker_stopped(cluster):
        locations = [submit(cluster, program) for _ in range(3)]
        first, second, third = (cluster.client.get(location) for location in locations)
        assert [answer.json()["position"] for answer in (first, second, third)] == [0, 1, 2]
        listed = cluster.client.get("/v1/jobs?limit=3")
        assert [item["position"] for item in listed.json()["items"]] == [2, 1, 0]
        for answer in (third, listed):
            assert answer.headers["cache-control"] == "no-cache"
            again = cluster.client.get(answer.url, headers={"if-none-match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert again.headers["etag"] == answer.headers["etag"]
        told = follow(cluster.client, locations[2], most=2)[1]
        assert told == Told("queued-2", "position", {"position": 2})
        cluster.client.post(f"{locations[0]}/cancel")
        now = cluster.client.get(locations[2], headers={"if-none-match": third.headers["etag"]})
        assert (now.status_code, now.json()["position"]) == (200, 1)
        assert follow(cluster.client, locations[2], "queued-2", most=1)[0].data == {"position": 1}
    done = cluster.client.get(locations[2], headers={"prefer": "wait=60"}, timeout=90)
    assert (done.json()["state"], done.json()["position"]) == ("succeeded", None)
    same = cluster.client.get(locations[2], headers={"if-none-match": done.headers["etag"], "prefer": "wait=9"})
    assert (same.status_code, same.headers["preference-applied"]) == (304, "wait=9")


class Crowd:
    """Many listeners, in one thread of the test."""

    def __init__(self, cluster: Cluster, locations: list[str]) -> None:
        self._address = (cluster.client.base_url.host, cluster.client.base_url.port)
        self._locations = locations
        self.connected = threading.Barrier(2)
        self.told: list[list[Told]] = []

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        streams = [await self._connect(location) for location in self._locations]
        for reader, _ in streams:
            first = await reader.readline()
            assert first.startswith(b"HTTP/1.1 200"), first + await reader.read()
        await asyncio.to_thread(self.connected.wait)
        self.told = await asyncio.gather(*(self._follow(*stream) for stream in streams))

    async def _connect(self, location: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*self._address)
        writer.write(f"GET {location}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return reader, writer

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Told]:
        text = (await reader.read()).decode()
        writer.close()
        return list(events_of(line for line in text.split("\r\n") for line in line.split("\n")))


def memory(pid: int) -> int:
    """Bytes that it has to itself."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Private"))


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
def test_many_listeners(cluster: Cluster, program: dict[str, str], is_problem: Callable[..., dict]) -> None:
    """On jobs that wait first, and then run one after the other."""
    pid = cluster.pid("api")
    with worker_stopped(cluster):
        locations = [submit(cluster, program) for _ in range(20)]
        before = memory(pid), processor_seconds(pid)
        crowd = Crowd(cluster, [locations[index % len(locations)] for index in range(LISTENERS)])
        thread = threading.Thread(target=crowd.run)
        thread.start()
        crowd.connected.wait(30)
        listening = memory(pid), processor_seconds(pid)
        others = len(cluster.redis.client_list())
        time.sleep(3)
        idle = processor_seconds(pid)
        extra = [follower(cluster, locations[0]) for _ in range(STREAMS - LISTENERS)]
        for stream in extra:
            stream.__enter__()
        refused = cluster.client.get(f"{locations[0]}/events")
        is_problem(refused, 503, "busy")
        assert refused.headers["retry-after"]
        for stream in extra:
            stream.__exit__(None, None, None)
        deadline = time.monotonic() + 2  # that they have gone is noticed
        while cluster.client.head(f"{locations[0]}/events").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    thread.join(100)
    after = memory(pid), processor_seconds(pid)
    assert len(crowd.told) == LISTENERS
    for told in crowd.told:
        assert (told[0].id, told[-1].kind, told[-1].data["state"]) == ("queued", "end", "succeeded")
    events = sum(map(len, crowd.told))
    kibibytes = [(found[0] - before[0]) >> 10 for found in (listening, after)]
    seconds = [listening[1] - before[1], idle - listening[1], after[1] - before[1]]
    print(  # noqa: T201 - what it costs
        f"{LISTENERS} listeners: {kibibytes[0]} KiB, later {kibibytes[1]} KiB; to connect {seconds[0]:.2f} s of "
        f"processor time, in 3 idle s {seconds[1]:.2f} s, in all {seconds[2]:.2f} s for {events} events; "
        f"{others} connections to Redis"
    )
    assert listening[0] - before[0] < 50 << 20
    assert idle - listening[1] < 1
    assert others < 15


def follower(cluster: Cluster, location: str) -> contextlib.AbstractContextManager[httpx2.Response]:
    return cluster.client.stream("GET", f"{location}/events")


@pytest.mark.slow
def test_the_api_leaves_with_streams_open(cluster: Cluster, program: dict[str, str]) -> None:
    with worker_stopped(cluster):
        location = submit(cluster, program)
        with follower(cluster, location) as answer:
            lines = answer.iter_lines()
            assert next(events_of(lines)).id == "queued"
            process = cluster._processes["api"]
            process.terminate()
            assert [event for event in events_of(lines) if event.kind != "position"] == []
            process.wait(30)
        cluster.start_api()
        assert "timeout graceful shutdown exceeded" not in cluster.log("api")  # the streams ended by themselves
        assert "Traceback" not in cluster.log("api")
    assert cluster.ready()
    assert follow(cluster.client, location, "queued")[-1].data["state"] == "succeeded"
