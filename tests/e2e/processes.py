"""Looking at and ending processes, through /proc."""

import contextlib
import os
import signal
import time
from pathlib import Path


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
    (worker,) = [pid for pid in children(service_pid) if "worker.main" in command(pid)]
    return worker


def job_of(service_pid: int, seconds: float = 10, *, but: set[int] | None = None) -> tuple[int, int]:
    """The process that attends to a job and the one that does it, once there are such, and none of ``but``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for horse in children(worker_of(service_pid)):  # the worker has other children too, which have none
            for child in children(horse):
                if child not in (but or set()):
                    return horse, child
        time.sleep(0.02)
    raise AssertionError("no job runs")


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def gone(pids: list[int], seconds: float = 10) -> bool:
    """Whether all of them end in time."""
    deadline = time.monotonic() + seconds
    while any(map(lives, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
