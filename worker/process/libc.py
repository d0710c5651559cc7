"""Calls of the C library and of Linux that Python does not have."""

import ctypes
import os
import platform
from typing import Any

_LIBRARY = ctypes.CDLL(None, use_errno=True)
_NO_NEW_PRIVS = 38  # PR_SET_NO_NEW_PRIVS, linux/prctl.h

# the machines whose numbers we know, in the order of the table in worker/sandbox/syscall_table.py
MACHINES = ("x86_64", "aarch64")


def call(name: str, *arguments: Any) -> int:
    """Calls a function of the C library and returns its result.

    Raises:
        OSError: it failed, or this C library does not have it.
    """
    return _checked(name, _function(name)(*arguments))


def system_call(number: int, *arguments: int) -> int:
    """Makes a system call that has no function, by number, and returns its result. Pointers are integers.

    Raises:
        OSError: it failed.
    """
    function = _function("syscall")
    function.restype = ctypes.c_long
    return _checked(f"system call {number}", function(ctypes.c_long(number), *map(ctypes.c_long, arguments)))


def forgo_new_privileges() -> None:
    """Sets no_new_privs: programs that this process starts gain no privileges. Landlock and seccomp require it.

    Raises:
        OSError: the kernel does not support it.
    """
    call("prctl", _NO_NEW_PRIVS, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def machine() -> int | None:
    """Returns the index of this machine in ``MACHINES``; None for others and for a 32-bit Python."""
    found = platform.machine()
    return MACHINES.index(found) if found in MACHINES and ctypes.sizeof(ctypes.c_void_p) == 8 else None


def _function(name: str) -> Any:
    try:
        return getattr(_LIBRARY, name)
    except AttributeError:
        raise OSError(f"this C library has no {name}") from None


def _checked(name: str, result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
