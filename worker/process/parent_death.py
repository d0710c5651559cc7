"""Ties a process to its parent: the kernel kills it when the parent ends.

``python tied.py PARENT COMMAND...`` runs the command so; PARENT is the process that starts it. Only the standard
library is imported, to start fast.
"""

import ctypes
import os
import signal
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; does nothing where there is no such call.

    Args:
        parent: the parent's process id: if it has ended already, this process leaves at once.
    """
    if sys.platform != "linux":
        return
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - our own command line
