"""The worker's part: it looks now and then whether webhooks are due, and forks a courier for them.

It does so while a job runs, too, and never waits for the courier, which dies with the worker. What was under way then
is due again for another one.
"""

import importlib
import logging
import os

from worker.config.settings import Settings
from worker.process.children import start_child
from worker.queue.job_queue import JobQueue, open_impatient_queue

_log = logging.getLogger(__name__)


class DispatcherLauncher:
    """The courier of one worker, if there is one."""

    def __init__(self, settings: Settings, queue: JobQueue) -> None:
        self._settings = settings
        self._queue = queue
        self._courier = 0

    def step(self) -> None:
        """Fork a courier if one is needed; another step does it where there is no process to be had.

        Raises:
            redis.RedisError: Redis is away.
        """
        if self._courier and os.waitpid(self._courier, os.WNOHANG)[0]:
            self._courier = 0
        if not self._courier and self._settings.webhooks and self._queue.agenda.anything_due():
            try:
                self._courier = start_child(self._run)
            except OSError as error:
                _log.warning("no courier of webhooks can be started now: %s", error)

    def _run(self) -> None:
        # what speaks HTTP is loaded where it is needed, and not by the worker
        courier = importlib.import_module("worker.webhooks.delivery_dispatcher")
        courier.run_courier(self._settings, open_impatient_queue(self._settings))
