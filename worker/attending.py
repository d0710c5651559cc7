"""A worker's side of the process that attends to its jobs (``worker/attendant.py``).

The attending process has the store and Redis, and keeps them from job to job. It cannot fork the processes of the jobs:
the store's threads do not live through a fork. So the worker, which has no threads, forks these too, hands their lines
to the attending process, and looks after or ends them when that one asks.
"""

import logging
import os
import select
import socket
import time
from collections.abc import Callable

from worker.assignment import ASK, DONE, KILL, Assignment, send_assignment, send_status
from worker.children import start_child
from worker.job_process import JobProcess, start_job_process
from worker.scratch import scratch_directory
from worker.settings import Settings

_log = logging.getLogger(__name__)
_MOST_JOBS = 200  # then another process takes over: what one comes to need more and more of is given back
_BEAT = 2.0  # seconds between two signs of life while a job runs


class Attending:
    """Has jobs run, one after the other.

    Args:
        settings: the settings.
        attend: what the attending process does with its end of the line, until nobody is at the other.
    """

    def __init__(self, settings: Settings, attend: Callable[[socket.socket], None]) -> None:
        self._settings = settings
        self._attend = attend
        self._process: tuple[int, socket.socket] | None = None
        self._jobs = 0

    @property
    def pid(self) -> int:
        """The id of the attending process; 0 if there is none."""
        return 0 if self._process is None else self._process[0]

    def ready(self) -> None:
        """Have an attending process, a new one if there is none or it has attended to many."""
        if self._process is not None and (self._jobs >= _MOST_JOBS or _hung_up(self._process[1])):
            self.close()
        if self._process is None:
            self._process = self._started()
            self._jobs = 0

    def _started(self) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()

        def attend() -> None:
            ours.close()
            self._attend(theirs)

        with theirs:
            try:
                return start_child(attend, group=True), ours
            except OSError:
                ours.close()
                raise

    def run(self, job_id: str, token: str, worker: str, beat: Callable[[], None]) -> int:
        """Have the job run, and wait for it.

        Args:
            job_id: the job.
            token: of this attempt, if it becomes one.
            worker: the worker's name.
            beat: is called every two seconds; that it fails does the job no harm.

        Returns:
            0 once the job is done with, and else the wait status of the attending process, which has ended.

        Raises:
            OSError: there is no room for the job's directory, or for its process; nobody has begun it.
        """
        self.ready()
        self._jobs += 1
        begun = time.monotonic()
        with scratch_directory(self._settings.scratch_dir, f"job-{job_id}") as scratch:
            process = start_job_process(self._settings, scratch)
            try:
                done = self._hand(Assignment(job_id, token, worker, str(scratch), begun), process, beat)
            finally:
                process.close()
        return 0 if done else self.close()

    def _hand(self, assignment: Assignment, process: JobProcess, beat: Callable[[], None]) -> bool:
        """Whether the attending process is done with the job; it has died if not."""
        assert self._process is not None
        line = self._process[1]
        try:
            send_assignment(line, assignment, process)
            while True:
                while not select.select([line], [], [], _BEAT)[0]:
                    _try(beat)
                asked = line.recv(1)
                if asked == ASK:
                    send_status(line, process.poll())
                elif asked == KILL:
                    send_status(line, process.kill())
                else:
                    return asked == DONE
        except (BrokenPipeError, ConnectionResetError):
            return False

    def close(self) -> int:
        """Hang up, upon which the attending process ends; gives its wait status."""
        if self._process is None:
            return 0
        pid, line = self._process
        self._process = None
        line.close()
        return os.waitpid(pid, 0)[1]


def _try(beat: Callable[[], None]) -> None:
    try:
        beat()
    except Exception:  # noqa: BLE001 - whatever is done beside the job, the job goes on
        _log.exception("something beside the job failed")


def _hung_up(line: socket.socket) -> bool:
    """Whether the other side is gone: between two jobs it says nothing."""
    return bool(select.select([line], [], [], 0)[0])
