"""The launcher: the worker's periodic check for due webhooks, which forks a dispatcher for them.

It does so while a job runs, too, and never waits for the dispatcher, which dies with the worker. Its
unfinished attempts are then due again for another one.
"""

import importlib
import logging
import os

from worker.config.settings import Settings
from worker.process.children import start_child
from worker.queue.job_queue import JobQueue, open_fail_fast_queue

_log = logging.getLogger(__name__)


class DispatcherLauncher:
    """The dispatcher of one worker, if there is one."""

    def __init__(self, settings: Settings, queue: JobQueue) -> None:
        self._settings = settings
        self._queue = queue
        self._dispatcher = 0

    def step(self) -> None:
        """Forks a dispatcher if one is needed; if the system lacks resources a later step does.

        Raises:
            redis.RedisError: Redis is away.
        """
        if self._dispatcher and os.waitpid(self._dispatcher, os.WNOHANG)[0]:
            self._dispatcher = 0
        if not self._dispatcher and self._settings.webhooks and self._queue.schedule.anything_due():
            try:
                self._dispatcher = start_child(self._run)
            except OSError as error:
                _log.warning("no dispatcher of webhooks can be started now: %s", error)

    def _run(self) -> None:
        # what speaks HTTP is loaded where it is needed, and not by the worker
        dispatcher = importlib.import_module("worker.webhooks.delivery_dispatcher")
        dispatcher.run_dispatcher(self._settings, open_fail_fast_queue(self._settings))
