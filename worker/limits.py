"""Limits of the process that runs a job."""

import resource
import signal
import sys

from worker.settings import Settings

_CPU_MARGIN = 5


def limit_job(settings: Settings) -> None:
    """Limit this process for good. On macOS the address space cannot be limited, and is not."""
    limits = {
        resource.RLIMIT_CPU: settings.job_cpu_seconds,
        resource.RLIMIT_FSIZE: settings.job_file_bytes,
        resource.RLIMIT_NOFILE: settings.job_open_files,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":
        limits[resource.RLIMIT_AS] = settings.job_memory_bytes
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # at the soft limit of processor time comes SIGXCPU, which tells why; at the hard one SIGKILL, which does not
        resource.setrlimit(kind, (bound, bound if kind != resource.RLIMIT_CPU else _above(bound, hard)))
    # writing beyond the limit is then an OSError with a message, instead of a silent death
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _above(bound: int, hard: int) -> int:
    return bound + _CPU_MARGIN if hard == resource.RLIM_INFINITY else min(bound + _CPU_MARGIN, hard)
