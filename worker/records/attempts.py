"""The attempts to run a job: which process began each, and how a dead process ended.

The process that begins attempt ``n`` creates ``jobs/<job>/attempts/<n>.json``; a process that notices its death creates
``jobs/<job>/deaths/<n>.json``. Both are created once, so that two processes never share an attempt, whatever the queue
says.
"""

from datetime import datetime

import pydantic

from worker.records.problem_details import Problem, problem
from worker.storage.identifiers import utc_now
from worker.storage.object_store import Store

MOST_ATTEMPTS = 3
# seconds between a death and the next attempt: what kills processes may be over by then; after the last one none
_PAUSES = (1.0, 4.0)


class Attempt(pydantic.BaseModel):
    """The host and worker that run a job, and the start time. ``token`` identifies the process."""

    started: datetime
    host: str
    worker: str
    token: str


class _Death(pydantic.BaseModel):
    seen: datetime
    reason: str


class Attempts:
    """The attempts of one job."""

    def __init__(self, store: Store, job_id: str) -> None:
        self._store = store
        self._home = f"jobs/{job_id}"

    def begin(self, attempt: Attempt) -> int | None:
        """Records the attempt and returns its number; None if all ``MOST_ATTEMPTS`` have been used."""
        data = attempt.model_dump_json().encode()
        for number in range(1, MOST_ATTEMPTS + 1):
            if self._store.create(f"{self._home}/attempts/{number}.json", data):
                return number
        return None

    def record_death(self, token: str, reason: str) -> float:
        """Records why the attempt of this token died, if it had begun; returns seconds until the job may run again."""
        pause = 0.0
        for number in self._numbers():
            if self._attempt(number).token == token:
                death = _Death(seen=utc_now(), reason=reason)
                self._store.create(f"{self._home}/deaths/{number}.json", death.model_dump_json().encode())
                pause = _PAUSES[number - 1] if number <= len(_PAUSES) else 0.0
        return pause

    def exhausted_problem(self) -> Problem:
        """Returns the problem of a job whose last attempt has died."""
        history = "; ".join(self._describe(number) for number in self._numbers())
        return problem("worker_lost", "The processes that ran the job died, each time.", history)

    def _numbers(self) -> list[int]:
        return sorted(int(key.rsplit("/", 1)[1].removesuffix(".json")) for key in self._keys())

    def _keys(self) -> list[str]:
        return list(self._store.sizes(f"{self._home}/attempts"))

    def _attempt(self, number: int) -> Attempt:
        return Attempt.model_validate_json(self._store.read(f"{self._home}/attempts/{number}.json"))

    def _describe(self, number: int) -> str:
        attempt = self._attempt(number)
        try:
            death = _Death.model_validate_json(self._store.read(f"{self._home}/deaths/{number}.json"))
            reason = death.reason
        except FileNotFoundError:
            reason = "no cause was recorded; its worker is gone"
        return f"attempt {number} on {attempt.host} at {attempt.started:%Y-%m-%d %H:%M:%S} UTC: {reason}"
