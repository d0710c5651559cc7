"""Child processes: forking them, their names, how they ended, and the memory that they share with their parent.

The worker forks its own work, so that it never touches the store or runs what it compiled: the store's threads are not
there after a fork, and a child that waits for them hangs. It has some hundred megabytes, and what a forked process
writes to is copied: the garbage collector passes over what was there before the fork, and memory lies on few large
pages, where the system has them.
"""

import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from worker.process.libc import call
from worker.process.parent_death import die_with_parent

_log = logging.getLogger(__name__)


def run_in_child(work: Callable[[], object]) -> None:
    """Runs ``work`` in a forked process, and waits for its end."""
    os.waitpid(start_child(work), 0)


def start_child(work: Callable[[], object], *, group: bool = False) -> int:
    """Runs ``work`` in a forked process that dies with this one; returns its id. It exits with 1 if ``work`` raises.

    ``group``: it leads a process group of its own.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent(parent)
        if group:
            os.setpgrp()
        work()
        status = 0
    except Exception:  # noqa: BLE001 - logged; this process must not go on as the worker
        _log.exception("in process %d", os.getpid())
    finally:
        os._exit(status)


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Defers SIGTERM and SIGINT until the block ends: an exception in TVM's callbacks would leave it half done."""
    arrived: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in handlers:
        signal.signal(number, lambda caught, _frame: arrived.append(caught))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for caught in arrived:
            signal.raise_signal(caught)


_PR_SET_NAME = 15  # linux/prctl.h
_MOST = 15  # bytes


def set_process_name(name: str) -> None:
    """Sets the name of this process, at most 15 bytes, on Linux; elsewhere it does nothing."""
    if sys.platform == "linux":
        call("prctl", _PR_SET_NAME, name.encode()[:_MOST])


_HINTS: dict[int, str] = {
    signal.SIGKILL: "somebody or the kernel killed it, perhaps for want of memory",
    signal.SIGXCPU: "it used up its processor time",
    signal.SIGSEGV: "native code reached beyond its memory",
    signal.SIGABRT: "native code gave up, perhaps for want of memory",
}


def death_reason(status: int | None) -> str:
    """Returns a sentence on how a process ended, from its wait status."""
    if status is None:
        return "the process vanished"
    if not os.WIFSIGNALED(status):
        return f"the process left with exit status {os.waitstatus_to_exitcode(status)}"
    return signal_reason(os.WTERMSIG(status))


def signal_reason(number: int) -> str:
    """Returns a sentence on a process that a signal ended."""
    name = signal.Signals(number).name
    return f"the process was ended by {name}" + (f": {_HINTS[number]}" if number in _HINTS else "")


_LARGE = 2 << 20  # bytes of a large page
_COLLAPSE = 25  # MADV_COLLAPSE, asm-generic/mman-common.h; since Linux 6.1


def share_with_children() -> None:
    """Has forked processes share all objects that there are now. The process has one thread."""
    gc.collect()
    gc.freeze()


def use_large_pages() -> None:
    """Moves this process's memory from small pages to large ones, where the system allows it.

    Of the worker that takes 0.3 s of processor time, and saves 7 ms of each fork: it is for processes that stay.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    for page in _anonymous():
        madvise(ctypes.c_void_p(page), ctypes.c_size_t(_LARGE), _COLLAPSE)


def _anonymous() -> Iterator[int]:
    """Yields addresses of large pages in anonymous memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, _, device, *_ = line.split()
        if rights == "rw-p" and device == "00:00":
            begin, end = (int(part, 16) for part in place.split("-"))
            yield from range(-(-begin // _LARGE) * _LARGE, end - _LARGE + 1, _LARGE)
