"""Submissions of a job that was done before: how many a second, how long one takes."""

import asyncio
import os
import time
from typing import Any

from loading.connection import Connection
from loading.figures import at_least, heading, row, times, within
from loading.service import Service
from loading.usage import own_cpu_seconds, pin

from examples.single import Conv, conv_model

_CONNECTIONS = 16
_RATE = 300.0
_SINGLE_MS = 20.0


async def done(connection: Connection, job: dict[str, Any]) -> dict[str, Any]:
    """Have the job done."""
    answer = await connection.post("/v1/jobs", job)
    location = answer.document()["links"]["self"]
    while True:
        record: dict[str, Any] = (await connection.get(location)).document()
        if record["state"] == "succeeded":
            return record
        if record["state"] not in {"queued", "running"}:
            raise RuntimeError(record["error"])
        await asyncio.sleep(0.1)


async def model_of(connection: Connection) -> str:
    """A small model, uploaded; gives its id."""
    model = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
    answer = await connection.ask("POST", "/v1/models", model)
    return str(answer.document()["id"])


async def _client(port: int, job: dict[str, Any], until: float, latencies: list[float], errors: list[int]) -> None:
    connection = await Connection.to(port)
    while time.perf_counter() < until:
        begin = time.perf_counter()
        answer = await connection.post("/v1/jobs", job)
        latencies.append(time.perf_counter() - begin)
        if answer.status != 200 or b'"cached":true' not in answer.body:
            errors.append(answer.status)
    connection.close()


async def _measure(port: int, api: int, seconds: float, clients: int, job: dict[str, Any]) -> tuple[Any, ...]:
    latencies: list[float] = []
    errors: list[int] = []
    begin, cpu = time.perf_counter(), own_cpu_seconds(api)
    await asyncio.gather(*(_client(port, job, begin + seconds, latencies, errors) for _ in range(clients)))
    return latencies, errors, time.perf_counter() - begin, own_cpu_seconds(api) - cpu


async def cached(service: Service, seconds: float, runs: int) -> None:
    """Print the table. The api has a core of its own meanwhile, and the clients another one, if there are two."""
    cores = sorted(os.sched_getaffinity(0))
    pin(service.api, {cores[0]})
    pin(os.getpid(), {cores[-1]})
    try:
        await _cached(service, seconds, runs)
    finally:
        pin(service.api, set(cores))
        pin(os.getpid(), set(cores))


async def _cached(service: Service, seconds: float, runs: int) -> None:
    connection = await Connection.to(service.port)
    job = {"model": await model_of(connection), "accelerator": "vta"}
    await done(connection, job)
    heading("cached jobs, the api on one core")
    row("", "median ms", "p95", "p99", "most")
    rates, costs = [], []
    alone, *_ = await _measure(service.port, service.api, seconds, 1, job)
    times("one client, one request after the other", alone)
    for _ in range(runs):
        latencies, errors, wall, cpu = await _measure(service.port, service.api, seconds, _CONNECTIONS, job)
        times(f"{_CONNECTIONS} clients, {len(latencies) / wall:.0f} a second, {len(errors)} errors", latencies)
        rates.append(len(latencies) / wall)
        costs.append(cpu / len(latencies))
    at_least("submissions a second, median of the runs", sorted(rates)[runs // 2], _RATE, "/s")
    at_least("by the api's processor time", 1 / sorted(costs)[runs // 2], _RATE, "/s")
    within("a single one", 1e3 * sorted(alone)[len(alone) // 2], _SINGLE_MS, "ms")
    connection.close()
