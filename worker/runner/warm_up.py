"""Compiling the simulator ahead, one accelerator after the other, while jobs run.

Compiling a family for the first time may take a minute, in which the worker would take no job and seem dead. So a child
compiles first: it fills the cache on the disk (``accel/isa/compiled_kernels.py``). Once it has ended the worker
compiles the same, which then is quick, and all processes that it forks have it.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from worker.process.children import death_reason, deferred_signals, set_process_name, start_child

_log = logging.getLogger(__name__)
_QUICK = 10.0  # seconds that a worker may take no job
_NICENESS = 10
PROCESS_NAME = "cyclops-ahead"


@dataclass(frozen=True)
class _Child:
    name: str
    pid: int
    started: float


class WarmUp:
    """Compiles for one accelerator at a time.

    Args:
        names: the accelerators.
        prepare: compiles for one, by its name, and runs nothing.
        is_cached: returns whether a child leaves what it compiles on the disk.
    """

    def __init__(self, names: Sequence[str], prepare: Callable[[str], None], is_cached: Callable[[], bool]) -> None:
        self._left = list(names)
        self._prepare = prepare
        self._is_cached = is_cached
        self._child: _Child | None = None

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self._child is None and not self._left

    def step(self) -> bool:
        """Loads what an ended child compiled, and starts the next child; returns whether something was loaded.

        Raises:
            OSError: the next child cannot be started; a later step tries again.
        """
        taken = False
        if self._child is not None:
            pid, status = os.waitpid(self._child.pid, os.WNOHANG)
            if pid == 0:
                return False
            child, self._child = self._child, None
            taken = self._take_over(child, status)
        if self._left:
            name = self._left[0]
            pid = start_child(lambda: self._compile(name))  # where that fails it is the next one's turn again
            self._child = _Child(self._left.pop(0), pid, time.monotonic())
        return taken

    def _compile(self, name: str) -> None:
        set_process_name(PROCESS_NAME)
        os.nice(_NICENESS)
        self._prepare(name)

    def _take_over(self, child: _Child, status: int) -> bool:
        seconds = time.monotonic() - child.started
        if status != 0:
            _log.warning("compiling ahead for %s: %s", child.name, death_reason(status))
        elif self._is_cached() or seconds < _QUICK:
            with deferred_signals():
                self._prepare(child.name)
            return True
        return False
