"""Warm-up of a worker: the simulators of presets, compiled once an installation and loaded by every worker.

What is on the disk is loaded before the first job, in a second. What is not is compiled by a child, one preset after
the other and while no job waits: it may take a minute, in which the worker would take no job and seem dead. The worker
then loads it, and all processes that it forks have it. Of several workers one compiles, and the others load too.
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
class Simulators:
    """What a warm-up does for one accelerator, by its name; nothing that is compiled is run.

    Attributes:
        is_on_disk: returns whether it has been compiled to the disk.
        compile: compiles it to the disk, or waits for another process that does.
        load: loads it from the disk, or compiles it.
    """

    is_on_disk: Callable[[str], bool]
    compile: Callable[[str], None]
    load: Callable[[str], None]


@dataclass(frozen=True)
class _Child:
    name: str
    pid: int
    started: float


class WarmUp:
    """Loads and compiles for one accelerator after the other.

    Args:
        names: the accelerators.
        simulators: does it.

    Attributes:
        warm: the accelerators whose simulators this process has loaded.
    """

    def __init__(self, names: Sequence[str], simulators: Simulators) -> None:
        self.warm: list[str] = []
        self._left = list(names)
        self._simulators = simulators
        self._child: _Child | None = None

    @property
    def pending(self) -> list[str]:
        """The accelerators for which there is something left to do."""
        return [*([] if self._child is None else [self._child.name]), *self._left]

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.pending

    def load(self) -> bool:
        """Loads all that is on the disk, and what an ended child compiled; returns whether something was loaded."""
        begun, before = time.monotonic(), len(self.warm)
        self._reap()
        for name in list(self._left):
            if self._simulators.is_on_disk(name):
                self._left.remove(name)
                self._load(name)
        loaded = self.warm[before:]
        if loaded:
            _log.info("loaded the simulators of %s in %.2f s", ", ".join(loaded), time.monotonic() - begun)
        return bool(loaded)

    def step(self) -> bool:
        """Does :meth:`load`, and starts the next child; returns whether something was loaded.

        Raises:
            OSError: the next child cannot be started; a later step tries again.
        """
        loaded = self.load()
        if self._child is None and self._left:
            name = self._left[0]
            pid = start_child(lambda: self._compile(name))  # where that fails it is the next one's turn again
            self._child = _Child(self._left.pop(0), pid, time.monotonic())
            _log.info("compiling the simulator of %s ahead, in process %d", name, pid)
        return loaded

    def _compile(self, name: str) -> None:
        set_process_name(PROCESS_NAME)
        os.nice(_NICENESS)
        self._simulators.compile(name)

    def _load(self, name: str) -> None:
        with deferred_signals():
            self._simulators.load(name)
        self.warm.append(name)

    def _reap(self) -> None:
        """Loads what the child compiled, if it has ended."""
        if self._child is None:
            return
        pid, status, used = os.wait4(self._child.pid, os.WNOHANG)
        if pid == 0:
            return
        child, self._child = self._child, None
        seconds = time.monotonic() - child.started
        if status != 0:
            _log.warning("compiling ahead for %s: %s", child.name, death_reason(status))
            return
        processor = used.ru_utime + used.ru_stime
        _log.info("compiled the simulator of %s in %.1f s, %.1f of processor time", child.name, seconds, processor)
        if self._simulators.is_on_disk(child.name) or seconds < _QUICK:
            self._load(child.name)
