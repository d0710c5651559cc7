"""Examinations of uploads in confined processes: so many at a time, and what went wrong as a problem."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from service.auth.concurrency import FairSemaphore
from service.http.problems import ProblemError
from worker.inspection.inspector import Inspector
from worker.sandbox.confined_tasks import LimitError
from worker.sandbox.confinement_status import Confinement

Found = TypeVar("Found")


class InspectionQueue:
    """Limits how many uploads are examined at one time.

    Args:
        at_once: how many are examined at one time.
        wait_seconds: how long a request waits at most.
    """

    def __init__(self, at_once: int, wait_seconds: float) -> None:
        self._semaphore = FairSemaphore(at_once, wait_seconds, "uploads are being examined")
        self._trying = asyncio.Lock()

    async def run(self, examine: Callable[[], Found], owner: str) -> Found:
        """Runs ``examine`` in a thread once it is the owner's turn; returns what it found.

        Raises:
            ProblemError: the upload cannot be examined within the limits, or it was not its turn in time.
            RefusedError: the upload cannot be used.
        """
        try:
            return await self._semaphore.run(examine, owner)
        except LimitError as error:
            raise ProblemError("inspection-failed", str(error), field="body") from error

    async def confinement(self, inspector: Inspector) -> Confinement | None:
        """Returns what confines the examining processes; None if none can be started now to find it out."""
        async with self._trying:  # a lock of threads would hold one for each request that waits
            try:
                return await run_in_threadpool(lambda: inspector.confinement)
            except LimitError:
                return None
