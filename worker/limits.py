"""Limits of the process that runs a job."""

import resource
import signal
import sys

from worker.settings import Settings


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
        resource.setrlimit(kind, (bound, bound))
    # writing beyond the limit is then an OSError with a message, instead of a silent death
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
