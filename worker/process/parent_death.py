"""Parent-death signal: the kernel kills a process when its parent ends.

``python parent_death.py PARENT COMMAND...`` runs the command so; PARENT is the process that starts it. It imports only
the standard library, to start fast.
"""

import ctypes
import os
import signal
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(parent: int) -> None:
    """Makes the kernel kill this process when its parent ends (Linux only; elsewhere it does nothing).

    Args:
        parent: the parent's process id; if the parent has ended already, this process exits at once.
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
