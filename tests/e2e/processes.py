"""Looking at and ending processes, through /proc."""

import contextlib
import os
import signal
import time
from pathlib import Path

from worker.warming import NICENESS


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


def horse_of(service_pid: int, seconds: float = 10) -> int:
    """The process that runs a job, once there is one."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        horses = [pid for pid in children(worker_of(service_pid)) if not compiles_ahead(pid)]
        if horses:
            return horses[0]
        time.sleep(0.02)
    raise AssertionError("no job runs")


def compiles_ahead(pid: int) -> bool:
    """Whether the process is the worker's other child, which has a low priority."""
    with contextlib.suppress(ProcessLookupError):
        return os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + NICENESS
    return True


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
