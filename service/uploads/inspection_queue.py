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
    """The turns of looking into uploads, and what confines those who do."""

    def __init__(self, at_once: int, patience: float) -> None:
        self._turns = FairSemaphore(at_once, patience, "uploads are being examined")
        self._trying = asyncio.Lock()

    async def run(self, look: Callable[[], Found], owner: str) -> Found:
        """What ``look`` finds, in a thread, once it is the owner's turn.

        Raises:
            ProblemError: it cannot be examined within the limits, or too many wait.
            RefusedError: it cannot be used.
        """
        try:
            return await self._turns.run(look, owner)
        except LimitError as error:
            raise ProblemError("inspection-failed", str(error), field="body") from error

    async def confinement(self, inspector: Inspector) -> Confinement | None:
        """What confines them here: one is asked, once; None while the machine has no room for it."""
        async with self._trying:  # not in the threads: all who ask meanwhile would take one
            try:
                return await run_in_threadpool(lambda: inspector.confinement)
            except LimitError:
                return None
