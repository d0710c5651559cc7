"""Capabilities: what root may, and what nobody needs who compiles."""

import ctypes

from worker.confinement.libc import call, forgo_new_privileges
from worker.confinement.outcome import Mechanism

_VERSION_3 = 0x20080522  # linux/capability.h: two words of each set


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("process", ctypes.c_int))


def drop_privileges() -> Mechanism:
    """Give up every capability, and all programs that would bring some."""
    try:
        forgo_new_privileges()
        header, none = _Header(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
        call("capset", ctypes.byref(header), ctypes.byref(none))
    except OSError as error:
        return Mechanism(active=False, detail=str(error))
    return Mechanism(active=True, detail="no capabilities, no_new_privs")
