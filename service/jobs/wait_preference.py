"""``Prefer: wait=N`` (RFC 7240): a response once a job has ended, or after N seconds."""

import asyncio
import contextlib
import re
from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.concurrency import run_in_threadpool

from service.context import JobContext, RequestJobs

_PREFERENCE = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_SECONDS = re.compile(r"[0-9]{1,9}")


def parse_wait(headers: Sequence[str], most: int) -> int | None:
    """Returns the seconds that the client would wait, at most ``most``; None without a valid preference.

    The first of several counts (RFC 7240, section 2).
    """
    for preference in _PREFERENCE.findall(",".join(headers)):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            found = value.strip().strip('"')
            return min(int(found), most) if _SECONDS.fullmatch(found) else None
    return None


class WaitPreference:
    """How long a request waits for the end of a job, if at all."""

    def __init__(self, request: Request, jobs: JobContext, seconds: int | None) -> None:
        self._request = request
        self._jobs = jobs
        self._seconds = seconds

    async def wait_for_end(self, job_id: str, owner: str) -> dict[str, str]:
        """Waits until the job has ended, the time is over, or the client has left; returns headers of the response.

        Return at once if the request has no such preference, or if no slot is available to the owner.
        """
        if self._seconds is None or self._jobs.waiters.available(owner) <= 0:
            return {}
        with self._jobs.waiters.hold(owner):
            await self._wait(job_id, self._seconds)
        return {"Preference-Applied": f"wait={self._seconds}"}

    async def _wait(self, job_id: str, seconds: float) -> None:
        tasks = [asyncio.create_task(self._ended(job_id)), asyncio.create_task(self._disconnected())]
        try:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)

    async def _ended(self, job_id: str) -> None:
        with self._jobs.events.watch(job_id) as feed:
            if await run_in_threadpool(self._jobs.records.ended, job_id):
                return
            while not feed.ended and not self._jobs.events.closing:
                await feed.change.wait()

    async def _disconnected(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass


async def _wait_preference(
    request: Request,
    jobs: RequestJobs,
    prefer: Annotated[  # noqa: ARG001 - for the document; several lines of it are one list
        str | None,
        Header(description="`wait=N`: answer once the job has ended, or after N seconds, 60 unless set otherwise"),
    ] = None,
) -> WaitPreference:
    return WaitPreference(request, jobs, parse_wait(request.headers.getlist("prefer"), jobs.settings.wait_seconds))


PreferWait = Annotated[WaitPreference, Depends(_wait_preference)]
