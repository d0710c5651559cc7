"""A thousand small jobs that wait, done by two workers: what the service costs a job.

The jobs are programs of one instruction. The overhead of a job is what a worker needs for it, from the end of the one
before to its own end, less what the job takes without the service: (wall time * workers) / jobs - that of
``loading/alone.py``. In processor time it is that of the workers and all their processes, less that of the job alone.
"""

import asyncio
import io
import itertools
import json
import os
import struct
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from loading.connection import Connection
from loading.figures import heading, row, times, within
from loading.service import ROOT, Service
from loading.usage import cpu_seconds, machine_seconds, tree_cpu_seconds

from worker.records.job_store import Jobs
from worker.storage.object_store import Store

_OVERHEAD_MS = 50.0
_FINISH = struct.pack("<QQ", 3, 0)


def tiny_program() -> bytes:
    """A zip of the parts of a program that only ends."""
    document = {"accelerator": "vta", "dram": [], "expected": [], "initial_tokens": {}}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("program.json", json.dumps(document))
        archive.writestr("instructions.bin", _FINISH)
    return file.getvalue()


async def upload(service: Service) -> str:
    """Upload the program; gives its id."""
    connection = await Connection.to(service.port)
    answer = await connection.ask("POST", "/v1/programs", tiny_program())
    connection.close()
    if answer.status != 201:
        raise RuntimeError(f"{answer.status}: {answer.body!r}")
    return str(answer.document()["id"])


async def queue_jobs(service: Service, program: str, count: int) -> list[str]:
    """Submit jobs that differ; gives their ids."""
    connection = await Connection.to(service.port)
    found = []
    for seed in range(count):
        options = {"engine": "timing", "seed": seed}
        answer = await connection.post("/v1/jobs", {"program": program, "options": options, "fresh": True})
        if answer.status != 202:
            raise RuntimeError(f"{answer.status}: {answer.body!r}")
        found.append(answer.document()["id"])
    connection.close()
    return found


def _stages(port: int) -> dict[str, float]:
    """Seconds of the stages of all jobs so far, by stage."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    found = {}
    for line in lines:
        if line.startswith("cyclops_stage_duration_seconds_sum"):
            name, value = line.rsplit(" ", 1)
            found[name.split('"')[1]] = float(value)
    return found


class _Done(NamedTuple):
    worker: str
    started: datetime
    finished: datetime


def _done(service: Service, job_ids: list[str]) -> list[_Done]:
    store = Store(service.data / "store")
    found = []
    for job in Jobs(store).existing(job_ids):
        attempt = json.loads(store.read(f"jobs/{job.id}/attempts/1.json"))
        if job.state != "succeeded" or job.attempt != 1 or job.started is None or job.finished is None:
            raise RuntimeError(f"job {job.id}: {job.state}, {job.error}")
        found.append(_Done(attempt["worker"], job.started, job.finished))
    return found


def _turns(jobs: list[_Done]) -> list[float]:
    """Seconds between the ends of two jobs that follow each other on a worker."""
    ends = defaultdict(list)
    for job in jobs:
        ends[job.worker].append(job.finished)
    found = []
    for each in ends.values():
        each.sort()
        found += [(after - before).total_seconds() for before, after in itertools.pairwise(each)]
    return found


async def _wait(service: Service, job_ids: list[str]) -> None:
    """Until all have ended; their records are looked at seldom, so as not to be in the way."""
    store = service.data / "store" / "jobs"
    left = list(reversed(job_ids))
    while left:
        if (store / left[-1] / "end.json").exists():
            left.pop()
        else:
            await asyncio.sleep(0.1)


def _alone(service: Service, program: str) -> dict[str, float]:
    """What the job takes without the service."""
    blob = service.data / "store" / "programs" / program / "data"
    command = [sys.executable, str(Path(__file__).with_name("alone.py")), str(blob), "20"]
    answer = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found


async def drain(service: Service, count: int) -> None:
    """Print the table."""
    service.settle()
    program = await upload(service)
    await _wait(service, await queue_jobs(service, program, 8))  # once, so that all is loaded
    workers = service.workers()
    begin = time.monotonic()
    with service.held():
        job_ids = await queue_jobs(service, program, count)
        submitted = time.monotonic() - begin
        stages, cpu, machine = _stages(service.port), _cpu(service, workers), machine_seconds()
        begin = time.monotonic()
    await _wait(service, job_ids)
    wall = time.monotonic() - begin
    machine = machine_seconds() - machine
    used = {name: value - cpu[name] for name, value in _cpu(service, workers).items()}
    spent = {name: value - stages.get(name, 0.0) for name, value in _stages(service.port).items()}
    jobs = _done(service, job_ids)
    alone = _alone(service, program)
    heading(f"{count} waiting jobs, {len(workers)} workers")
    row("submissions a second, one client", f"{count / submitted:.0f}")
    row("wall time of all", f"{wall:.1f} s")
    others = max(0.0, machine - sum(used.values())) / wall
    row("processor cores that others took meanwhile", f"{others:.1f} of {os.cpu_count()}")
    row("", "median ms", "p95", "p99", "most")
    times("from a job's end to the next one's, on a worker", _turns(jobs))
    times(
        "from an attempt's beginning to the job's end", [(job.finished - job.started).total_seconds() for job in jobs]
    )
    row("", "wall ms", "cpu ms")
    for name, value in spent.items():
        if value:
            row(f"a job: stage {name}", f"{1e3 * value / count:.1f}")
    row("a job: in all", f"{1e3 * wall * len(workers) / count:.1f}", f"{1e3 * used['workers'] / count:.1f}")
    row("the same without the service", f"{1e3 * alone['wall']:.1f}", f"{1e3 * alone['cpu']:.1f}")
    row("a job: the api", "", f"{1e3 * used['api'] / count:.1f}")
    within("overhead, wall", 1e3 * (wall * len(workers) / count - alone["wall"]), _OVERHEAD_MS, "ms")
    within("overhead, processor time", 1e3 * (used["workers"] / count - alone["cpu"]), _OVERHEAD_MS, "ms")


def _cpu(service: Service, workers: list[int]) -> dict[str, float]:
    return {"workers": sum(map(tree_cpu_seconds, workers)), "api": cpu_seconds(service.api)}
