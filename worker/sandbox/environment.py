"""The environment variables of a process that works on uploads: none that could be a secret, not even in ``/proc``."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Mapping
from pathlib import Path

# where programs, modules and caches lie, how text is read, how many threads the libraries start, and that they report
# nothing
_NAMES = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "CC", "CXX", "ORT_DISABLE_TELEMETRY"}
)
_PREFIXES = ("LC_", "LD_", "DYLD_", "PYTHON", "XDG_", "OMP_", "OPENBLAS_", "MKL_", "NUMBA_", "TVM_")


def harmless_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a confined process may see.

    Those are listed that are needed, and not those that are secret: nobody knows what else a machine's owner keeps in
    the environment. Our own settings are not among them; what is needed of them comes with the task.
    """
    return {name: value for name, value in environment.items() if name in _NAMES or name.startswith(_PREFIXES)}


_STAT = Path("/proc/self/stat")
_ENV_START, _ENV_END = 47, 48  # of what follows the name, in proc(5)


def forget_secrets() -> None:
    """Removes all but the harmless variables, also from ``/proc/self/environ``.

    ``/proc/self/environ`` is the memory in which this process, or the one that forked it, was given its variables; that
    they are unset does not change it. Call it while there is one thread.
    """
    for name in os.environ.keys() - harmless_variables(os.environ).keys():
        del os.environ[name]
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            _blank()


def _blank() -> None:
    """Overwrites the removed variables in memory; nothing points to them any more."""
    fields = _STAT.read_text().rpartition(")")[2].split()
    at, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    for entry in ctypes.string_at(at, end - at).split(b"\0"):
        name, _, _ = entry.partition(b"=")
        if not harmless_variables({os.fsdecode(name): ""}):
            ctypes.memset(at, 0, len(entry))
        at += len(entry) + 1
