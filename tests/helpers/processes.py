"""Looking at and ending processes, through /proc."""

import contextlib
import os
import signal
import time
from pathlib import Path

from worker.runner import job_process, supervisor


def children(pid: int) -> list[int]:
    """The children of a process."""
    return [child for child, parent in _parents() if parent == pid]


def _parents() -> list[tuple[int, int]]:
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, parent = (directory / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            if state != "Z":
                found.append((int(directory.name), int(parent)))
    return found


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def descendants(pid: int) -> list[int]:
    direct = children(pid)
    return direct + [below for child in direct for below in descendants(child)]


def worker_of(service_pid: int) -> int:
    """The worker process of a service."""
    (worker,) = [pid for pid in children(service_pid) if "-m worker.runner" in command(pid)]
    return worker


def named(pid: int, name: str) -> list[int]:
    """The children of a process that are so named."""
    found = []
    for child in children(pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().strip() == name:
                found.append(child)
    return found


def supervisors(worker: int) -> list[int]:
    """The process of a worker that attends to its jobs, if it has been started."""
    return named(worker, supervisor.PROCESS_NAME)


def doers(worker: int) -> list[int]:
    """The process of a worker that does a job, if there is one now."""
    return named(worker, job_process.PROCESS_NAME)


def job_of(service_pid: int, seconds: float = 60, *, but: set[int] | None = None) -> tuple[int, int]:
    """The process that attends to a job and the one that does it, once there are such, and none of ``but``."""
    worker = worker_of(service_pid)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for child in doers(worker):
            if child not in (but or set()):
                return supervisors(worker)[0], child
        time.sleep(0.02)
    raise AssertionError("no job runs")


def frozen(service_pid: int, *, but: set[int] | None = None) -> tuple[int, int]:
    """As :func:`job_of`; the process that does the job is stopped, so that it cannot end before what a test does."""
    supervisor, child = job_of(service_pid, but=but)
    os.kill(child, signal.SIGSTOP)
    return supervisor, child


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def gone(pids: list[int], seconds: float = 60) -> bool:
    """Whether all of them end in time."""
    deadline = time.monotonic() + seconds
    while any(map(lives, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
