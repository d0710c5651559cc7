"""What a job logs: on our own log, as events, and as its artifact ``log.txt``; so much of it and no more."""

import logging
from collections.abc import Callable
from pathlib import Path

from worker.job_record import now
from worker.logs import fields
from worker.outputs import remove

_log = logging.getLogger(__name__)
_LAST_WORDS = 4096


class JobLog:
    """The log of one job.

    Attributes:
        last_words: the end of all that it logged or wrote.

    Args:
        job_id: the job.
        most_bytes: the most that is kept.
        told: is told every line that is kept.
    """

    def __init__(self, job_id: str, most_bytes: int, told: Callable[[str], None]) -> None:
        self._job_id = job_id
        self._left = most_bytes
        self._told = told
        self._lines: list[str] = []
        self._unfinished = b""
        self.last_words = ""

    def add(self, level: int, text: str) -> None:
        """Keep what was logged at a level of ``logging``."""
        self._spoken(text)
        for line in text.splitlines():
            self._keep(level, f"{logging.getLevelName(level)} {line}")

    def written(self, data: bytes) -> None:
        """Keep what was written to standard output or error; no data at the end."""
        self._spoken(data.decode(errors="replace"))
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        if (not data and self._unfinished) or len(self._unfinished) > _LAST_WORDS:
            lines, self._unfinished = [*lines, self._unfinished], b""
        for line in lines:
            self._keep(logging.INFO, line.decode(errors="replace"))

    def _spoken(self, text: str) -> None:
        self.last_words = (self.last_words + text)[-_LAST_WORDS:]

    def _keep(self, level: int, line: str) -> None:
        if self._left <= 0:
            return
        stamped = f"{now():%H:%M:%S.%f} {line}"
        self._left -= len(stamped.encode()) + 1
        if self._left <= 0:
            stamped = "and more, which is left out"
        _log.log(level, "job %s: %s", self._job_id, line, extra=fields(process="job"))
        self._lines.append(stamped)
        self._told(stamped)

    def save(self, directory: Path) -> None:
        """Write ``log.txt`` into the directory, if there is anything to write."""
        if self._lines:
            path = directory / "log.txt"
            remove(path)  # a link, perhaps
            path.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
