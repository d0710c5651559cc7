"""The environment of a process that was forked by one with secrets in its own."""

import contextlib
import ctypes
import os
import sys
from pathlib import Path

from worker.environment import harmless

_STAT = Path("/proc/self/stat")
_ENV_START, _ENV_END = 47, 48  # of what follows the name, in proc(5)


def forget_secrets() -> None:
    """Keep of the environment what such a process may see, also where the kernel shows what it began as.

    ``/proc/self/environ`` is the memory in which this process, or the one that forked it, was given its variables; that
    they are unset does not change it. Call it while there is one thread.
    """
    for name in os.environ.keys() - harmless(os.environ).keys():
        del os.environ[name]
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            _blank()


def _blank() -> None:
    """Overwrite the variables there that are gone; nothing points to them any more."""
    fields = _STAT.read_text().rpartition(")")[2].split()
    at, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    for entry in ctypes.string_at(at, end - at).split(b"\0"):
        name, _, _ = entry.partition(b"=")
        if not harmless({os.fsdecode(name): ""}):
            ctypes.memset(at, 0, len(entry))
        at += len(entry) + 1
