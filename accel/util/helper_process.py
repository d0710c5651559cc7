"""A process that helps another: it is forked, has a line to who forked it, and dies with the block that wants it.

On a line go frames of bytes, each behind its length, until one of the ends closes.
"""

import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LENGTH = 8  # bytes of a frame's length
_BUFFER = 1 << 22  # bytes of frames that wait


def may_help() -> bool:
    """Returns whether a second process can be forked here, and has a processor to itself."""
    return sys.platform == "linux" and len(os.sched_getaffinity(0)) > 1


@contextmanager
def helper_process(work: Callable[[socket.socket], object]) -> Iterator[socket.socket | None]:
    """Within, ``work`` runs in a forked process, and has the other end of this line; None if there can be no process.

    Call it before this process starts threads: those are not in the forked one, and a lock that one of them holds stays
    locked there. Errors of ``work`` end it without a word.
    """
    if not may_help():
        yield None
        return
    ours, theirs = line_to_helper()
    with warnings.catch_warnings():  # of threads: those of a progress bar hold no lock that is needed there
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            process = os.fork()
        except OSError:
            process = -1
    if process == 0:
        _be_helper(work, theirs, ours)
    theirs.close()
    try:
        yield None if process < 0 else ours
    finally:
        ours.close()
        if process > 0:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)


def _be_helper(work: Callable[[socket.socket], object], line: socket.socket, other: socket.socket) -> None:
    """Do the work in a process that was just forked, which ends here."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for who forked it, whose end ends this
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        other.close()
        with suppress(Exception):
            work(line)
    finally:
        os._exit(0)


def line_to_helper() -> tuple[socket.socket, socket.socket]:
    """Returns the two ends of a line."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    return ours, theirs


def send_frame(line: socket.socket, data: bytes) -> None:
    """Sends a frame.

    Raises:
        OSError: the other end is gone.
    """
    line.sendall(len(data).to_bytes(_LENGTH, "little") + data)


def receive_frame(line: socket.socket) -> bytes | None:
    """Returns the next frame; None if the other end is gone."""
    length = _exactly(line, _LENGTH)
    return None if length is None else _exactly(line, int.from_bytes(length, "little"))


def _exactly(line: socket.socket, count: int) -> bytes | None:
    data, at = bytearray(count), 0
    while at < count:
        try:
            read = line.recv_into(memoryview(data)[at:])
        except OSError:
            return None
        if not read:
            return None
        at += read
    return bytes(data)
