"""What attending to a job has to wait for, the store and Redis, in a thread beside the loop that must not wait.

The loop says how far the job is, and hands over one question to the cache at a time; :attr:`Aside.line` can be read
once that is answered. A store that hangs keeps this thread, and not the loop.
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
        cache: what the job may read and write.
        stage: is told how far the job is, and None at every tick.

    Attributes:
        line: is readable once a question has been answered.
    """

    def __init__(self, cache: CacheStore, stage: Callable[[Stage | None], None]) -> None:
        self._cache = cache
        self._stage = stage
        self._changed = threading.Condition()
        self._stages: list[Stage] = []
        self._question: Callable[[], bytes | None] | None = None
        self._answer: bytes | None = None
        self._left = False
        self.line, self._theirs = socket.socketpair()
        run = contextvars.copy_context().run  # it logs as who started it
        self._thread = threading.Thread(target=run, args=(self._work,), name="aside", daemon=True)
        self._thread.start()

    def note(self, stage: Stage) -> None:
        """Have it recorded how far the job is; of many steps of a stage the last one."""
        with self._changed:
            if self._stages and (self._stages[-1].name == stage.name or len(self._stages) >= _MOST_STAGES):
                self._stages.pop()
            self._stages.append(stage)
            self._changed.notify()

    def get(self, key: str) -> None:
        """Ask the cache for an entry."""
        self._ask(lambda: self._cache.get(key))

    def put(self, key: str, entry: bytes) -> None:
        """Have the cache keep an entry."""
        self._ask(lambda: self._cache.put(key, entry))

    def _ask(self, question: Callable[[], bytes | None]) -> None:
        with self._changed:
            self._question = question
            self._changed.notify()

    def answer(self) -> bytes | None:
        """What the cache gave, once :attr:`line` is readable."""
        self.line.recv(1)
        return self._answer

    def close(self) -> None:
        """Record what was noted, and end; where the store hangs the thread is left alone, and does nothing further."""
        with self._changed:
            self._left = True
            self._changed.notify()
        self._thread.join(_LEAVE)
        self._stages.clear()
        self.line.close()

    def _work(self) -> None:
        with self._theirs:
            while not self._left or self._stages:
                with self._changed:
                    if not (self._stages or self._question or self._left):
                        self._changed.wait(_TICK)
                    stages, self._stages = self._stages, []
                    question, self._question = self._question, None
                for stage in [*stages, None]:
                    self._tried(lambda each=stage: self._stage(each))  # type: ignore[misc]
                if question is not None:
                    self._answer = self._tried(question)
                    self._tried(lambda: self._theirs.sendall(b"."))

    def _tried(self, action: Callable[[], bytes | None]) -> bytes | None:
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - neither the cache nor a record decides what becomes of the job
            if not self._left:
                _log.warning("beside the job: %s", error, exc_info=not isinstance(error, OSError))
            return None
