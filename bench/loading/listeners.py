"""Two hundred listeners to the events of jobs: how late they hear, what it costs the api, and who else asks it.

A listener's delay is from the time that an event says it happened to the listener's having it; both clocks are this
machine's. The jobs are programs of one instruction, so that events come one upon the other.
"""

import asyncio
import time
from datetime import datetime

from loading.connection import Connection
from loading.drain import queue_jobs, upload
from loading.figures import MB, heading, row, times, within
from loading.service import Service
from loading.usage import Watched, own_cpu_seconds

_DELAY_MS = 1000.0
_POLL_SECONDS = 0.05


async def _listen(service: Service, job_id: str, delays: list[float], ends: list[float]) -> None:
    """Follow a job to its end."""
    connection = await Connection.to(service.port)
    told = set()
    async for kind, data in connection.events(f"/v1/jobs/{job_id}/events"):
        now = time.time()
        told.add(kind)
        if kind in {"state", "stage"} and data.get("state") != "queued":
            delays.append(now - datetime.fromisoformat(data["time"]).timestamp())
        elif kind == "end":
            ends.append(now - datetime.fromisoformat(data["finished"]).timestamp())
    connection.close()
    if not {"state", "stage", "end"} <= told:
        raise RuntimeError(f"job {job_id}: only {told} was heard")


async def _poll(service: Service, job_id: str, latencies: list[float]) -> None:
    """Look at a job again and again."""
    connection = await Connection.to(service.port)
    while True:
        begin = time.perf_counter()
        answer = await connection.get(f"/v1/jobs/{job_id}")
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {answer.body!r}")
        latencies.append(time.perf_counter() - begin)
        await asyncio.sleep(_POLL_SECONDS)


async def _for(seconds: float, service: Service, job_id: str) -> list[float]:
    latencies: list[float] = []
    polling = asyncio.create_task(_poll(service, job_id, latencies))
    await asyncio.sleep(seconds)
    polling.cancel()
    return latencies


async def listeners(service: Service, count: int, jobs: int) -> None:
    """Print the table."""
    service.settle()
    program = await upload(service)
    (done,) = await queue_jobs(service, program, 1)
    await asyncio.sleep(2)
    before = await _for(3, service, done)
    watched = Watched(service.api)
    rest, cpu = watched.now(), own_cpu_seconds(service.api)
    delays: list[float] = []
    ends: list[float] = []
    during: list[float] = []
    with service.held():
        job_ids = await queue_jobs(service, program, jobs)
        all_ = [asyncio.create_task(_listen(service, job_ids[n % jobs], delays, ends)) for n in range(count)]
        polling = asyncio.create_task(_poll(service, done, during))
        await asyncio.sleep(3)  # all listen
        queued = len(during)
    with watched:
        begin = time.monotonic()
        await asyncio.gather(*all_)
        wall = time.monotonic() - begin
    polling.cancel()
    heading(f"{count} listeners to {jobs} jobs")
    row("", "median ms", "p95", "p99", "most")
    times(f"delay of {len(delays)} events", delays)
    times(f"delay of {len(ends)} ends", ends)
    times("polling before", before)
    times("polling while they wait", during[:queued])
    times("polling while the jobs run", during[queued:])
    row("the jobs took", f"{wall:.1f} s")
    row("processor time of the api", f"{own_cpu_seconds(service.api) - cpu:.2f} s")
    row("memory of the api", f"{rest.rss / MB:.1f} MB", f"{watched.most.rss / MB:.1f} MB")
    within("median delay", 1e3 * sorted(delays)[len(delays) // 2], _DELAY_MS, "ms")
