"""Ties a process to its parent: the kernel kills it when the parent ends.

``python -m worker.tied COMMAND...`` runs the command so. Only the standard library is imported, to start fast.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; does nothing where there is no such call."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


if __name__ == "__main__":
    die_with_parent()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - our own command line
