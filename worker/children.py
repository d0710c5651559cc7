"""Forking the worker: its own work happens in children, so that it never touches the store or runs what it compiled.

The store's threads are not there after a fork, and a child that waits for them hangs.
"""

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator

from worker.tied import die_with_parent

_log = logging.getLogger(__name__)


def in_child(work: Callable[[], object]) -> None:
    """Do the work in a forked process, and wait for it."""
    os.waitpid(start_child(work), 0)


def start_child(work: Callable[[], object], *, group: bool = False) -> int:
    """Do the work in a forked process that dies with this one; gives its id. It leaves with 1 if the work raises.

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
    """Let requests to stop wait until the block ends: an exception in TVM's callbacks would leave it half done."""
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
