"""Looking into an upload for a request: so many at a time, and what went wrong as a problem."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.concurrency import run_in_threadpool

from service.problems import ProblemError
from worker.confined import LimitError

Found = TypeVar("Found")

_PATIENCE = 30.0  # seconds that an upload, which is here already, waits for its turn


class Inspections:
    """The turns of one process of the api; those who wait take no thread."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._turns = asyncio.Semaphore(at_once)

    async def run(self, look: Callable[[], Found]) -> Found:
        """What ``look`` finds, in a thread.

        Raises:
            ProblemError: it cannot be examined within the limits, or too many wait.
            RefusedError: it cannot be used.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._turns.acquire()
        except TimeoutError:
            detail = f"{self._at_once} uploads are being examined; try again"
            raise ProblemError("busy", detail, headers={"Retry-After": "1"}) from None
        try:
            return await run_in_threadpool(look)
        except LimitError as error:
            raise ProblemError("inspection-failed", str(error), field="body") from error
        finally:
            self._turns.release()
