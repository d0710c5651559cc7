"""Namespaces: a network with nothing in it, and a user whose processes are counted apart."""

import os
from pathlib import Path

from worker.confinement.libc import call
from worker.confinement.outcome import Mechanism

_NEW_USER, _NEW_IPC, _NEW_NETWORK = 0x10000000, 0x08000000, 0x40000000  # linux/sched.h
_SELF = Path("/proc/self")


def enter_namespaces() -> Mechanism:
    """Leave the network and the System V queues of the system; the process stays the same user, by name and number.

    Without privileges that takes a user namespace too, in which the limit of processes counts this process's only. The
    process must have one thread.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        call("unshare", _NEW_USER | _NEW_NETWORK | _NEW_IPC)
    except OSError as first:
        try:
            call("unshare", _NEW_NETWORK | _NEW_IPC)
        except OSError:
            return Mechanism(active=False, detail=str(first))
        return Mechanism(active=True, detail="network, IPC")
    try:
        (_SELF / "setgroups").write_text("deny")
        (_SELF / "uid_map").write_text(f"{user} {user} 1")
        (_SELF / "gid_map").write_text(f"{group} {group} 1")
    except OSError as error:
        return Mechanism(active=True, detail=f"network, IPC, user; the user has no name: {error}")
    return Mechanism(active=True, detail="network, IPC, user")
