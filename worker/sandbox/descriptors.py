"""Descriptors inherited from the parent: its connections, directories and files are replaced by ``/dev/null``."""

import fcntl
import os
import socket
import stat
from collections.abc import Collection
from pathlib import Path

from worker.sandbox.confinement_status import Mechanism

_OPEN = (Path("/proc/self/fd"), Path("/dev/fd"))


def release_descriptors(keep: Collection[int] | None = None) -> Mechanism:
    """Replaces all open descriptors but ``keep`` by ``/dev/null``.

    If that is not given, standard input, output and error stay, and so do files that are open for reading, and pipes
    and pairs of sockets, which have no address. The numbers stay taken: an object that still thinks it owns one does
    not close what somebody else opened under it.
    """
    folder = next((path for path in _OPEN if path.is_dir()), None)
    if folder is None:
        return Mechanism(active=False, detail="this system does not say what is open")
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        for descriptor in sorted(int(name) for name in os.listdir(folder)):  # noqa: PTH208 - numbers, not paths
            if descriptor != null and (_foreign(descriptor) if keep is None else _open_but(keep, descriptor)):
                os.dup2(null, descriptor, inheritable=False)
    finally:
        os.close(null)
    return Mechanism(active=True, detail="connections, directories and files of the parent are closed")


def _open_but(keep: Collection[int], descriptor: int) -> bool:
    if descriptor in keep:
        return False
    try:
        os.fstat(descriptor)
    except OSError:  # the listing's own
        return False
    return True


def _foreign(descriptor: int) -> bool:
    if descriptor <= 2:
        return False
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:  # the listing's own
        return False
    if stat.S_ISSOCK(mode):
        return _has_address(descriptor)
    if stat.S_ISREG(mode):
        return _writable(descriptor)
    return stat.S_ISDIR(mode) or stat.S_ISBLK(mode)


def _has_address(descriptor: int) -> bool:
    """Returns whether the socket leads to an address, or listens on one."""
    found = socket.socket(fileno=os.dup(descriptor))
    with found:
        if found.family != socket.AF_UNIX:
            return True
        try:
            return bool(found.getsockname() or found.getpeername())
        except OSError:  # not connected
            return True


def _writable(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
