"""Names of processes, as ``ps`` and ``top`` show them."""

import sys

from worker.confinement.libc import call

_PR_SET_NAME = 15  # linux/prctl.h
_MOST = 15  # bytes


def name_process(name: str) -> None:
    """Name this process, in at most 15 bytes; does nothing where it cannot be done."""
    if sys.platform == "linux":
        call("prctl", _PR_SET_NAME, name.encode()[:_MOST])
