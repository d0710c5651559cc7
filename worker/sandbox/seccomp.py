"""Seccomp: forbids a process system calls, irrevocably.

The filter is a program of the classic BPF machine, which the kernel runs at every call (linux/seccomp.h,
linux/bpf_common.h). What it refuses fails with EPERM; calls that are newer than our list, and ``clone3``, whose
arguments a filter cannot see, with ENOSYS, as on an older kernel. A call made for another machine's ABI, whose numbers
mean something else, ends the process.
"""

import ctypes
import errno
import functools
import os
import struct
from typing import NamedTuple

from worker.process.libc import forgo_new_privileges, machine, system_call
from worker.sandbox import syscall_table
from worker.sandbox.confinement_status import Mechanism
from worker.sandbox.syscall_table import REFUSED, Numbers

_ARCHITECTURES = (0xC000003E, 0xC00000B7)  # AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64: linux/audit.h
_X32 = 0x40000000  # a bit of x86-64: the same calls with pointers of 32 bits
_SET_FILTER, _ALL_THREADS = 1, 1

_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data; both machines are little-endian

_CLONE_THREAD = 0x10000
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into the terminal

_ALLOW, _REFUSE, _UNKNOWN, _KILL = "return allow", "return refuse", "return unknown", "return kill"
_ACTIONS = {
    _ALLOW: 0x7FFF0000,
    _REFUSE: 0x00050000 | errno.EPERM,
    _UNKNOWN: 0x00050000 | errno.ENOSYS,
    _KILL: 0x80000000,
}


_INSTRUCTION = struct.Struct("<HBBI")  # struct sock_filter
_OPERAND = 4  # its offset there


class _Step(NamedTuple):
    """An instruction; where the comparison holds or not it goes on at a label, or with the next where that is None.

    The value None stands for the number of the process.
    """

    code: int
    value: int | None
    then: str | None = None
    otherwise: str | None = None


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def prepare_filter() -> None:
    """Builds the common part of all filters, best before the fork."""
    index = machine()
    if index is not None:
        _template(index)


def refuse_calls() -> Mechanism:
    """Forbids the calls of ``syscall_table.py``, new processes, and signals to others; threads can still be started."""
    index = machine()
    if index is None:
        return Mechanism(active=False, detail=f"the numbers of the calls of {os.uname().machine} are not known")
    code = program(index, os.getpid())
    text = ctypes.create_string_buffer(code, len(code))
    given = _Filter(len(code) // _INSTRUCTION.size, ctypes.addressof(text))
    number = syscall_table.SECCOMP[index]
    assert number is not None
    try:
        forgo_new_privileges()
        stray = system_call(number, _SET_FILTER, _ALL_THREADS, ctypes.addressof(given))
    except OSError as error:
        return Mechanism(active=False, detail=f"seccomp: {error}")
    if stray:
        return Mechanism(active=False, detail=f"seccomp: thread {stray} has a filter of its own")
    return Mechanism(active=True, detail=f"{len(REFUSED)} calls, new processes, and signals to others are refused")


def program(index: int, process: int) -> bytes:
    """Returns the filter of the process for the machine ``MACHINES[index]``."""
    code, places = _template(index)
    filled = bytearray(code)
    for place in places:
        struct.pack_into("<I", filled, place, process)
    return bytes(filled)


@functools.cache
def _template(index: int) -> tuple[bytes, tuple[int, ...]]:
    """Returns the filter for the machine ``MACHINES[index]``, and the offsets in it of the process id."""
    rules = _rules()
    refused = [(number, _REFUSE) for numbers in REFUSED.values() if (number := numbers[index]) is not None]
    judged = [(number, name) for name, (numbers, _) in rules.items() if (number := numbers[index]) is not None]
    steps = [
        _Step(_LOAD, _ARCHITECTURE),
        _Step(_EQUAL, _ARCHITECTURES[index], None, _KILL),
        _Step(_LOAD, _NUMBER),
        *([_Step(_ANY_BIT, _X32, _REFUSE)] if index == 0 else []),
        _Step(_ABOVE, syscall_table.LAST, _UNKNOWN),
        *(_Step(_EQUAL, number, label) for number, label in refused + judged),
        _Step(_RETURN, _ACTIONS[_ALLOW]),
    ]
    labels: dict[str, int] = {}
    parts = {name: rule for name, (_, rule) in rules.items()}
    for name, part in (parts | {name: [_Step(_RETURN, action)] for name, action in _ACTIONS.items()}).items():
        labels[name] = len(steps)
        steps += part
    code = b"".join(_assembled(at, step, labels) for at, step in enumerate(steps))
    return code, tuple(_INSTRUCTION.size * at + _OPERAND for at, step in enumerate(steps) if step.value is None)


def _rules() -> dict[str, tuple[Numbers, list[_Step]]]:
    """Returns rules of calls that depend on arguments, of which the kernel too reads only the lower halves."""
    first, second = _Step(_LOAD, _ARGUMENTS), _Step(_LOAD, _ARGUMENTS + 8)
    to_itself = [first, _Step(_EQUAL, None, _ALLOW, _REFUSE)]
    return {
        "clone": (syscall_table.CLONE, [first, _Step(_ANY_BIT, _CLONE_THREAD, _ALLOW, _REFUSE)]),
        "clone3": (syscall_table.CLONE3, [_Step(_RETURN, _ACTIONS[_UNKNOWN])]),
        "kill": (syscall_table.KILL, to_itself),
        "tgkill": (syscall_table.TGKILL, to_itself),
        "prctl": (syscall_table.PRCTL, [first, _Step(_EQUAL, _SET_DEATH_SIGNAL, _REFUSE, _ALLOW)]),
        "prlimit": (syscall_table.PRLIMIT, [first, _Step(_EQUAL, 0, _ALLOW), *to_itself[1:]]),
        "ioctl": (
            syscall_table.IOCTL,
            [second, _Step(_EQUAL, _TIOCSTI, _REFUSE), _Step(_EQUAL, _TIOCLINUX, _REFUSE, _ALLOW)],
        ),
    }


def _assembled(at: int, step: _Step, labels: dict[str, int]) -> bytes:
    jumps = [0 if label is None else labels[label] - at - 1 for label in (step.then, step.otherwise)]
    return _INSTRUCTION.pack(step.code, *jumps, step.value or 0)
