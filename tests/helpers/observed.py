"""Sees every connection that a program and its descendants ask for, native code's too, and refuses those elsewhere.

The program is started under a seccomp filter whose calls are put to this process (seccomp_unotify(2)); neither tools
nor rights are needed. As a script, ``observed.py SOCKET COMMAND...`` is what starts it.
"""

import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import os
import platform
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from worker.process.libc import forgo_new_privileges, machine, system_call
from worker.sandbox import syscall_table

_NEW_LISTENER = 8  # of seccomp(2), as the following
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_ASKED = struct.Struct("<QIIiIQ6Q")  # struct seccomp_notif
_ANSWER = struct.Struct("<QqiI")
_INTERNET = (socket.AF_INET, socket.AF_INET6)

_SINCE = (5, 5)  # Linux that has it, and lets calls go on

SUPPORTED = (
    sys.platform == "linux" and machine() is not None and tuple(map(int, platform.release().split(".")[:2])) >= _SINCE
)


@dataclass
class Observed:
    """What was seen; ``wrapper`` goes before the command. Calls are told with the process's name."""

    wrapper: list[str]
    sockets: list[str] = field(default_factory=list)
    """those of the internet that were made, connected or not"""
    elsewhere: list[str] = field(default_factory=list)
    """connections to other machines that were asked for, and refused"""


@contextlib.contextmanager
def observed(folder: Path) -> Iterator[Observed]:
    """Observe what is started with the wrapper, until the context ends; ``folder`` holds a socket."""
    path = folder / "observer"
    seen = Observed([sys.executable, __file__, str(path)])
    woken, wake = os.pipe()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        thread = threading.Thread(target=_watch, args=(door, woken, seen))
        thread.start()
        try:
            yield seen
        finally:
            os.write(wake, b"+")
            thread.join()
            os.close(wake)
            os.close(woken)
            path.unlink()


def _watch(door: socket.socket, woken: int, seen: Observed) -> None:
    poll = select.poll()
    poll.register(door, select.POLLIN)
    poll.register(woken, select.POLLIN)
    listeners: set[int] = set()
    while True:
        for descriptor, event in poll.poll():
            if descriptor == woken:
                for listener in listeners:
                    os.close(listener)
                return
            if descriptor == door.fileno():
                with door.accept()[0] as arrived:
                    (listener,) = socket.recv_fds(arrived, 1, 1)[1]
                listeners.add(listener)
                poll.register(listener, select.POLLIN)
            elif event & select.POLLIN:
                _answer(descriptor, seen)
            else:  # all its processes have ended
                poll.unregister(descriptor)
                listeners.remove(descriptor)
                os.close(descriptor)


def _answer(listener: int, seen: Observed) -> None:
    asked = bytearray(_ASKED.size)
    with contextlib.suppress(FileNotFoundError):  # who asked is gone
        fcntl.ioctl(listener, _RECEIVE, asked)
        number, pid, _, call, _, _, *arguments = _ASKED.unpack(asked)
        refused = _refused(pid, call, arguments, seen)
        answer = _ANSWER.pack(number, 0, -errno.ENETUNREACH if refused else 0, 0 if refused else _CONTINUE)
        fcntl.ioctl(listener, _SEND, bytearray(answer))


def _refused(pid: int, call: int, arguments: list[int], seen: Observed) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        who = f"{Path(f'/proc/{pid}/comm').read_text().strip()} {pid}"
        index = machine()
        assert index is not None
        if call == syscall_table.REFUSED["socket"][index]:
            kind = socket.SocketKind(arguments[1] & 0xF).name
            seen.sockets.append(f"{who}: {socket.AddressFamily(arguments[0]).name} {kind}")
            return False
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(arguments[1])
            address = memory.read(min(arguments[2], 28))
        family = struct.unpack_from("<H", address)[0] if len(address) >= 2 else socket.AF_UNSPEC
        if family in _INTERNET:
            host = ipaddress.ip_address(address[4:8] if family == socket.AF_INET else address[8:24])
            if not host.is_loopback:
                seen.elsewhere.append(f"{who}: {host} port {int.from_bytes(address[2:4])}")
                return True
    return False


def _filter(index: int) -> bytes:
    """Ask about every connect, and every socket of the internet: linux/filter.h."""
    made, connected = syscall_table.REFUSED["socket"][index], syscall_table.REFUSED["connect"][index]
    load, equal, give = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 0),  # the call
        (equal, 4, 0, connected),
        (equal, 0, 4, made),
        (load, 0, 0, 16),  # the first argument
        (equal, 1, 0, socket.AF_INET),
        (equal, 0, 1, socket.AF_INET6),
        (give, 0, 0, _ASK),
        (give, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def _start(path: str, command: list[str]) -> None:
    index = machine()
    assert index is not None
    code = _filter(index)
    text = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(text))
    number = syscall_table.SECCOMP[index]
    assert number is not None
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        forgo_new_privileges()
        listener = system_call(number, 1, _NEW_LISTENER, ctypes.addressof(program))
        socket.send_fds(door, [b"+"], [listener])
    os.close(listener)
    os.execvp(command[0], command)


if __name__ == "__main__":
    _start(sys.argv[1], sys.argv[2:])
