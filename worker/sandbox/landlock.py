"""Landlock: restricts a process to given files, irrevocably.

The interface is that of linux/landlock.h; a later version of it adds rights that earlier kernels do not know.
"""

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from worker.process.libc import forgo_new_privileges, system_call
from worker.sandbox.confinement_status import Mechanism

# system calls, the same on all machines that we know
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PATH_BENEATH = 1

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE = 1 << 4 | 1 << 5  # directories, files
_MAKE = 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12  # directories, files, pipes, links; no devices, no sockets
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _READ_FILE | _READ_DIR
# nobody is given the right to execute: libraries are read and mapped, which is no execution to Landlock
_WRITE = _READ | _WRITE_FILE | _REMOVE | _MAKE | _REFER | _TRUNCATE
# version -> how many rights of files there are
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK_SINCE, _NETWORK = 4, 1 | 2  # bind, connect
_SCOPES_SINCE, _SCOPES = 6, 1 | 2  # abstract Unix sockets, signals


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def restrict_files(readable: Iterable[Path], writable: Iterable[Path]) -> Mechanism:
    """Restricts this process to files beneath these paths, of which some may not exist; open files stay open."""
    try:
        version = system_call(_CREATE_RULESET, 0, 0, _VERSION)
    except OSError as error:
        return Mechanism(active=False, detail=_absence(error))
    rights = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    ruleset = _Ruleset(rights, _NETWORK if version >= _NETWORK_SINCE else 0, _SCOPES if version >= _SCOPES_SINCE else 0)
    try:
        with _closing(system_call(_CREATE_RULESET, ctypes.addressof(ruleset), ctypes.sizeof(ruleset), 0)) as rules:
            for paths, access in ((readable, _READ), (writable, _WRITE)):
                for path in paths:
                    _allow(rules, path, access & rights)
            forgo_new_privileges()
            system_call(_RESTRICT_SELF, rules, 0)
    except OSError as error:
        return Mechanism(active=False, detail=f"Landlock, version {version}: {error}")
    return Mechanism(active=True, detail=f"Landlock, version {version}")


def _absence(error: OSError) -> str:
    if error.errno == errno.ENOSYS:
        return "this kernel has no Landlock"
    if error.errno == errno.EOPNOTSUPP:
        return "Landlock was switched off when this kernel started"
    return f"Landlock: {error}"


def _allow(rules: int, path: Path, access: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    with _closing(opened):
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            access &= _OF_FILES
        beneath = _Beneath(access, opened)
        system_call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.addressof(beneath), 0)


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
