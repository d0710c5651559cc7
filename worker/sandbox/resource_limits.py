"""Resource limits of processes that work on uploads."""

import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from worker.config.settings import Settings

_CPU_MARGIN = 5
_PROC = Path("/proc")


@dataclass(frozen=True)
class ResourceLimits:
    """What one process may use. ``tasks`` counts its threads, and its processes where it may start any."""

    cpu_seconds: int
    memory_bytes: int
    file_bytes: int
    open_files: int
    tasks: int


def job_limits(settings: Settings) -> ResourceLimits:
    """Returns the limits of a process that runs a job."""
    return _limits(settings, settings.job_cpu_seconds, settings.job_memory_bytes)


def plan_limits(settings: Settings) -> ResourceLimits:
    """Returns the limits of a process that makes a plan."""
    return _limits(settings, settings.plan_cpu_seconds, settings.plan_memory_bytes)


def inspection_limits(settings: Settings) -> ResourceLimits:
    """Returns the limits of a process that inspects an upload."""
    return _limits(settings, settings.inspection_cpu_seconds, settings.inspection_memory_bytes)


def _limits(settings: Settings, cpu_seconds: int, memory_bytes: int) -> ResourceLimits:
    return ResourceLimits(
        cpu_seconds, memory_bytes, settings.job_file_bytes, settings.job_open_files, tasks=settings.job_tasks
    )


def apply_limits(limits: ResourceLimits, *, counted_alone: bool = False) -> str:
    """Limits this process irrevocably; returns a description of the limits.

    On macOS the address space cannot be limited, and is not.

    Args:
        limits: what it may use.
        counted_alone: whether the system counts this process's tasks apart from all others of its user. If not, those
            that the user has now are added to the limit, which only bounds how many more there can be.
    """
    values = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    described = (
        f"{limits.cpu_seconds} s of processor, files of {limits.file_bytes} bytes, {limits.open_files} files open"
    )
    if sys.platform == "linux":
        values[resource.RLIMIT_AS] = limits.memory_bytes
        values[resource.RLIMIT_NPROC] = limits.tasks + (0 if counted_alone else _tasks_of_user())
        described += f", {limits.memory_bytes} bytes of address space, {limits.tasks} threads"
    for kind, value in values.items():
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # at the soft limit of processor time comes SIGXCPU, which tells why; at the hard one SIGKILL, which does not
        resource.setrlimit(kind, (bound, bound if kind != resource.RLIMIT_CPU else _above(bound, hard)))
    # writing beyond the limit is then an OSError with a message, instead of a silent death
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    return described


def _above(bound: int, hard: int) -> int:
    return bound + _CPU_MARGIN if hard == resource.RLIM_INFINITY else min(bound + _CPU_MARGIN, hard)


def _tasks_of_user() -> int:
    """Returns the threads of all processes of this user; 0 for root, who is not limited."""
    user = os.geteuid()
    return 0 if user == 0 else sum(_tasks(process, user) for process in os.scandir(_PROC) if process.name.isdigit())


def _tasks(process: os.DirEntry[str], user: int) -> int:
    try:
        # a directory has a link for each directory in it, besides two of its own
        return os.stat(f"{process.path}/task").st_nlink - 2 if process.stat().st_uid == user else 0  # noqa: PTH116
    except OSError:  # it has ended
        return 0
