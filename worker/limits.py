"""Limits of the processes that work on what users upload."""

import resource
import signal
import sys

from worker.settings import Settings

_CPU_MARGIN = 5


def limit_job(settings: Settings) -> None:
    """Limit the process that runs a job, for good."""
    _limit(settings, settings.job_cpu_seconds, settings.job_memory_bytes)


def limit_plan(settings: Settings) -> None:
    """Limit the process that makes a plan, for good."""
    _limit(settings, settings.plan_cpu_seconds, settings.plan_memory_bytes)


def _limit(settings: Settings, cpu_seconds: int, memory_bytes: int) -> None:
    """On macOS the address space cannot be limited, and is not."""
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: settings.job_file_bytes,
        resource.RLIMIT_NOFILE: settings.job_open_files,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":
        limits[resource.RLIMIT_AS] = memory_bytes
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # at the soft limit of processor time comes SIGXCPU, which tells why; at the hard one SIGKILL, which does not
        resource.setrlimit(kind, (bound, bound if kind != resource.RLIMIT_CPU else _above(bound, hard)))
    # writing beyond the limit is then an OSError with a message, instead of a silent death
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _above(bound: int, hard: int) -> int:
    return bound + _CPU_MARGIN if hard == resource.RLIM_INFINITY else min(bound + _CPU_MARGIN, hard)
