"""Blocking calls of the store and Redis for the monitor's loop, made in a thread.

The loop passes stages, and one request to the cache at a time; :attr:`StoreThread.line` is readable once the request is
answered. A store that hangs blocks this thread, and not the loop.
"""

import contextvars
import logging
import socket
import threading
from collections.abc import Callable

from accel.util.content_cache import CacheStore
from worker.records.job_record import Stage

_log = logging.getLogger(__name__)
_TICK = 0.1  # seconds between two calls of what records how far the job is
_LEAVE = 1.0  # seconds that the thread is waited for at the end
_MOST_STAGES = 200  # that wait to be recorded; of what comes then the last one is


class StoreThread:
    """The thread.

    Args:
        cache: the cache that the job reads and writes.
        stage: is called with each stage, and with None at every tick.

    Attributes:
        line: is readable once a request has been answered.
    """

    def __init__(self, cache: CacheStore, stage: Callable[[Stage | None], None]) -> None:
        self._cache = cache
        self._stage = stage
        self._changed = threading.Condition()
        self._stages: list[Stage] = []
        self._question: Callable[[], bytes | None] | None = None
        self._answer: bytes | None = None
        self._closed = False
        self.line, self._theirs = socket.socketpair()
        run = contextvars.copy_context().run  # it logs as who started it
        self._thread = threading.Thread(target=run, args=(self._work,), name="store", daemon=True)
        self._thread.start()

    def report_stage(self, stage: Stage) -> None:
        """Queues a stage to be recorded; of many steps of one stage, the last."""
        with self._changed:
            if self._stages and (self._stages[-1].name == stage.name or len(self._stages) >= _MOST_STAGES):
                self._stages.pop()
            self._stages.append(stage)
            self._changed.notify()

    def get(self, key: str) -> None:
        """Requests an entry of the cache."""
        self._ask(lambda: self._cache.get(key))

    def put(self, key: str, entry: bytes) -> None:
        """Requests that the cache stores an entry."""
        self._ask(lambda: self._cache.put(key, entry))

    def _ask(self, question: Callable[[], bytes | None]) -> None:
        with self._changed:
            self._question = question
            self._changed.notify()

    def answer(self) -> bytes | None:
        """Returns the entry, or None, once :attr:`line` is readable."""
        self.line.recv(1)
        return self._answer

    def close(self) -> None:
        """Records the queued stages and ends the thread; a thread that hangs in the store is abandoned."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(_LEAVE)
        self._stages.clear()
        self.line.close()

    def _work(self) -> None:
        with self._theirs:
            while not self._closed or self._stages:
                with self._changed:
                    if not (self._stages or self._question or self._closed):
                        self._changed.wait(_TICK)
                    stages, self._stages = self._stages, []
                    question, self._question = self._question, None
                for stage in [*stages, None]:
                    self._guarded(lambda each=stage: self._stage(each))  # type: ignore[misc]
                if question is not None:
                    self._answer = self._guarded(question)
                    self._guarded(lambda: self._theirs.sendall(b"."))

    def _guarded(self, action: Callable[[], bytes | None]) -> bytes | None:
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - neither the cache nor a record decides what becomes of the job
            if not self._closed:
                _log.warning("beside the job: %s", error, exc_info=not isinstance(error, OSError))
            return None
